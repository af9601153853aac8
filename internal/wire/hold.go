package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

var (
	holdFields    = []string{"worker", "queues", "limit", "wait", "ahead", "incarnation"}
	answerFields  = []string{"tasks", "poll_interval"}
	handoutFields = []string{
		"id", "queue", "stage", "context", "attempt", "token", "deadline", "ready", "context_by",
		"in_scope", "meta", "signal", "children", "timed_out", "parent", "after",
	}
)

// AppendHold appends the body of POST /v1/tasks/hold.
func AppendHold(b []byte, h task.HoldRequest) []byte {
	b = append(b, `{"worker":`...)
	b = appendString(b, h.Worker)
	b = append(b, `,"queues":`...)
	b = appendStrings(b, h.Queues)
	b = appendCount(b, `,"limit":`, min(h.Limit, limits.MaxHold)) // some servers refuse more
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
			h.Queues = d.strs(limits.MaxQueues)
		case "incarnation":
			h.Incarnation = d.str("")
		case "limit":
			if h.Limit = min(d.integer(), limits.MaxHold); h.Limit < 0 {
				d.failValue(at, "must not be negative; 0 = the queue's hold_limit")
			}
		case "wait":
			if h.Wait = d.duration(); h.Wait < 0 || h.Wait > limits.MaxWait {
				d.failValue(at, "must be 0s to %v", limits.MaxWait)
			}
		case "ahead":
			if h.Ahead = d.integer(); h.Ahead < 0 || h.Ahead > limits.MaxHold {
				d.failValue(at, "must be 0 to %d", limits.MaxHold)
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

// CutHandouts is AppendHandouts without the contexts of more than long bytes: they belong at the
// cuts.
func CutHandouts(b []byte, a task.HoldAnswer, long int) ([]byte, []Cut) {
	var cuts []Cut
	// where the last deadline and the last ready stand: hand-outs of one moment have one
	from, to, readyFrom, readyTo := 0, 0, 0, 0
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
		b = appendStringMap(b, `,"meta":`, t.Meta) // before the token: salvage takes the last one
		b, cuts = appendWoken(b, cuts, t, long)    // and this
		b, cuts = appendWaited(b, cuts, t.After, long)
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
		if i > 0 && t.Ready == a.Tasks[i-1].Ready {
			b = append(b, b[readyFrom:readyTo]...)
		} else {
			readyFrom = len(b)
			b = appendMoment(b, `,"ready":`, t.Ready)
			readyTo = len(b)
		}
		if t.Parent != (task.ID{}) {
			b = append(b, `,"parent":`...)
			b = appendID(b, t.Parent)
		}
		if t.ContextBy != "" {
			b = append(b, `,"context_by":`...)
			b = appendString(b, t.ContextBy)
		}
		if t.InScope {
			b = append(b, `,"in_scope":true`...)
		}
		b = append(b, '}')
	}
	b = append(b, `],"poll_interval":`...)
	b = appendDuration(b, a.PollInterval)
	return append(b, '}'), cuts
}

// ParseHandouts reads the answer to POST /v1/tasks/hold. Contexts are parts of b; tokens are
// copies. A hand-out that can't be read costs the others nothing: it has a Fault, and no more than
// what its report needs.
func ParseHandouts(b []byte) (task.HoldAnswer, error) {
	d := decoder{b: b, lenient: true}
	sound := utf8.Valid(b)
	var answer task.HoldAnswer
	for o := d.object(answerFields); o.next(); {
		switch o.name {
		case "tasks":
			var before task.Handout
			for a := d.array(limits.MaxHold); a.next(); {
				start := d.i
				before = d.handout(&before)
				if d.fault == "" && !sound && !utf8.Valid(b[start:d.i]) {
					d.failAt(start, "not valid UTF-8")
				}
				if d.fault != "" {
					before = d.salvage(start)
				}
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
		case "ready":
			t.Ready = d.time()
		case "context_by":
			t.ContextBy = d.str(before.ContextBy)
		case "in_scope":
			t.InScope = d.boolean()
		case "meta":
			t.Meta = d.meta()
		case "signal":
			t.Signal = d.signal()
		case "timed_out":
			t.TimedOut = d.boolean()
		case "children":
			t.Children = d.counted()
		case "parent":
			t.Parent = d.id()
		case "after":
			t.After = d.priors()
		}
	}
	o.need("id")
	o.need("token")
	return t
}

// salvage takes the id and the token out of a hand-out that begins at start and can't be read, and
// goes on behind it. Where it ends is found by what AppendHandouts writes between two of them, and
// behind the last; if it is not found, the fault stands.
func (d *decoder) salvage(start int) (t task.Handout) {
	for end := start; ; {
		next := len(d.b)
		for _, mark := range [...]string{`},{"id":"`, `}],"poll_interval":"`} {
			if i := bytes.Index(d.b[end:], []byte(mark)); i >= 0 {
				next = min(next, end+i+1)
			}
		}
		if next == len(d.b) {
			return task.Handout{}
		}
		end = next
		id, idFound := between(d.b[start:end], bytes.Index, `{"id":"`)
		token, tokenFound := between(d.b[start:end], bytes.LastIndex, `,"token":"`)
		parsed, err := task.ParseID(id)
		if !idFound || !tokenFound || err != nil {
			continue // it is longer than that: what looked like its end stood in it
		}
		t = task.Handout{
			ID: parsed, Token: token, Fault: fmt.Sprintf("the hand-out can't be read: %s", d.fault),
		}
		d.fault, d.at, d.value, d.i = "", 0, false, end
		return t
	}
}

// between is the text behind a mark, up to the next quote.
func between(b []byte, find func(b, mark []byte) int, mark string) (text string, found bool) {
	i := find(b, []byte(mark))
	if i < 0 {
		return "", false
	}
	b = b[i+len(mark):]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return "", false
	}
	return string(b[:end]), true
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
