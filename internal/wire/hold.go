package wire

import (
	"math"
	"strconv"

	"github.com/rotahq/rota/task"
)

var (
	holdFields    = []string{"worker", "queues", "limit", "wait", "ahead", "incarnation"}
	answerFields  = []string{"tasks", "poll_interval"}
	handoutFields = []string{"id", "queue", "stage", "context", "attempt", "token", "deadline"}
)

// AppendHold appends the body of POST /v1/tasks/hold.
func AppendHold(b []byte, h task.HoldRequest) []byte {
	b = append(b, `{"worker":`...)
	b = appendString(b, h.Worker)
	b = append(b, `,"queues":`...)
	b = appendStrings(b, h.Queues)
	b = appendCount(b, `,"limit":`, h.Limit)
	b = appendSpell(b, `,"wait":`, h.Wait)
	b = appendCount(b, `,"ahead":`, h.Ahead)
	if h.Incarnation != "" {
		b = append(b, `,"incarnation":`...)
		b = appendString(b, h.Incarnation)
	}
	return append(b, '}')
}

// ParseHold reads the body of POST /v1/tasks/hold.
func ParseHold(b []byte) (task.HoldRequest, error) {
	var d decoder
	d.begin(b)
	var h task.HoldRequest
	o := d.object(holdFields)
	for o.next() {
		d.peek()
		at := d.i
		switch o.name {
		case "worker":
			h.Worker = d.str("")
		case "queues":
			h.Queues = d.strs(task.MaxQueues)
		case "incarnation":
			h.Incarnation = d.str("")
		case "limit":
			if h.Limit = d.integer(); h.Limit < 0 || h.Limit > task.MaxHold {
				d.failValue(at, "must be 0 to %d; 0 = the queue's hold_limit", task.MaxHold)
			}
		case "wait":
			if h.Wait = d.duration(); h.Wait < 0 || h.Wait > task.MaxWait {
				d.failValue(at, "must be 0s to %v", task.MaxWait)
			}
		case "ahead":
			if h.Ahead = d.integer(); h.Ahead < 0 || h.Ahead > task.MaxHold {
				d.failValue(at, "must be 0 to %d", task.MaxHold)
			}
		}
	}
	o.need("worker")
	o.need("queues")
	if err := d.end("body"); err != nil {
		return task.HoldRequest{}, err
	}
	return h, nil
}

// Cut is a place in a text where a long value belongs that is not copied into it.
type Cut struct {
	At    int
	Value []byte
}

// AppendRaw appends a value as it is; one of more than long bytes is only noted among the cuts.
func AppendRaw(b []byte, cuts []Cut, v []byte, long int) ([]byte, []Cut) {
	if len(v) > long {
		return b, append(cuts, Cut{len(b), v})
	}
	return append(b, v...), cuts
}

// AppendHandouts appends the answer to POST /v1/tasks/hold.
func AppendHandouts(b []byte, a task.HoldAnswer) []byte {
	b, _ = CutHandouts(b, a, math.MaxInt)
	return b
}

// CutHandouts is AppendHandouts without the contexts of more than long bytes: they belong at the cuts.
func CutHandouts(b []byte, a task.HoldAnswer, long int) ([]byte, []Cut) {
	var cuts []Cut
	from, to := 0, 0 // where the last deadline stands: hand-outs of one moment have one
	b = append(b, `{"tasks":[`...)
	for i := range a.Tasks {
		t := &a.Tasks[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendID(b, t.ID)
		b = append(b, `,"queue":`...)
		b = appendString(b, t.Queue)
		b = append(b, `,"stage":`...)
		b = appendString(b, t.Stage)
		b = append(b, `,"context":`...)
		if len(t.Context) == 0 { // workers look the field up without asking whether it is there
			b = append(b, `null`...)
		}
		b, cuts = AppendRaw(b, cuts, t.Context, long)
		b = append(b, `,"attempt":`...)
		b = strconv.AppendInt(b, int64(t.Attempt), 10)
		b = append(b, `,"token":`...)
		b = appendString(b, t.Token)
		if i > 0 && t.Deadline == a.Tasks[i-1].Deadline {
			b = append(b, b[from:to]...)
		} else {
			from = len(b)
			b = appendMoment(b, `,"deadline":`, t.Deadline)
			to = len(b)
		}
		b = append(b, '}')
	}
	b = append(b, `],"poll_interval":`...)
	b = appendDuration(b, a.PollInterval)
	return append(b, '}'), cuts
}

// ParseHandouts reads the answer to POST /v1/tasks/hold. Contexts are parts of b; tokens are copies.
func ParseHandouts(b []byte) (task.HoldAnswer, error) {
	d := decoder{lenient: true}
	d.begin(b)
	var answer task.HoldAnswer
	for o := d.object(answerFields); o.next(); {
		switch o.name {
		case "tasks":
			var before task.Handout
			for a := d.array(task.MaxHold); a.next(); {
				before = d.handout(&before)
				answer.Tasks = add(answer.Tasks, &a, before)
			}
		case "poll_interval":
			answer.PollInterval = d.duration()
		}
	}
	if err := d.end("body"); err != nil {
		return task.HoldAnswer{}, err
	}
	return answer, nil
}

func (d *decoder) handout(before *task.Handout) (t task.Handout) {
	o := d.object(handoutFields)
	for o.next() {
		switch o.name {
		case "id":
			t.ID = d.id()
		case "queue":
			t.Queue = d.str(before.Queue)
		case "stage":
			t.Stage = d.str(before.Stage)
		case "context":
			t.Context = d.opaque()
		case "attempt":
			t.Attempt = d.integer()
		case "token":
			t.Token = d.str("")
		case "deadline":
			t.Deadline = d.time()
		}
	}
	o.need("id")
	o.need("token")
	return t
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func (d *decoder) strs(limit int) (list []string) {
	for a := d.array(limit); a.next(); {
		list = append(list, d.str(""))
	}
	return list
}
