package frame

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// AppendHold appends the body of Hold.
func AppendHold(b []byte, h task.HoldRequest) []byte {
	b = appendText(b, h.Worker)
	b = appendTexts(b, h.Queues)
	b = binary.AppendVarint(b, int64(min(h.Limit, limits.MaxHold)))
	b = appendSpell(b, h.Wait)
	b = binary.AppendVarint(b, int64(h.Ahead))
	return appendText(b, h.Incarnation)
}

// ParseHold reads the body of Hold.
func ParseHold(b []byte) (task.HoldRequest, error) {
	d := decoder{b: b}
	h := task.HoldRequest{Worker: d.str("worker", ""), Queues: d.strs("queues", limits.MaxQueues)}
	limit := d.signed("limit")
	if h.Limit = int(min(limit, limits.MaxHold)); h.Limit < 0 {
		d.failValue("limit", "must not be negative; 0 = the queue's hold_limit")
	}
	if h.Wait = d.spell("wait"); h.Wait < 0 || h.Wait > limits.MaxWait {
		d.failValue("wait", "must be 0s to %v", limits.MaxWait)
	}
	ahead := d.signed("ahead")
	if h.Ahead = int(ahead); ahead < 0 || ahead > limits.MaxHold {
		d.failValue("ahead", "must be 0 to %d", limits.MaxHold)
	}
	h.Incarnation = d.str("incarnation", "")
	if err := d.end(); err != nil {
		return task.HoldRequest{}, err
	}
	return h, nil
}

// The fields of a hand-out that follow its flags, in this order, the token behind them. What is
// left out is as in the hand-out before; its id is the one behind that one's. The attempt is 1, and
// nobody wrote the context.
const (
	outID = 1 << iota
	outQueue
	outStage
	outContext
	outAttempt
	outDeadline
	outContextBy
	outInScope // no field: it is so
	outMeta
	outSignal
	outTimedOut // no field: it is so
	outParent
	outChildren
	outAfter
	outReady
	outAll = 1<<iota - 1
)

// Handouts is the answer to Hold.
type Handouts struct {
	task.HoldAnswer
	// Now is the server's time, in milliseconds: deadlines are by its clock.
	Now time.Time
}

// CutHandouts appends the answer to Hold without the contexts of more than long bytes: they belong
// at the cuts.
func CutHandouts(b []byte, a Handouts, long int) ([]byte, []wire.Cut) {
	var cuts []wire.Cut
	b = appendMoment(b, a.Now)
	b = appendSpell(b, a.PollInterval)
	b = appendNumber(b, len(a.Tasks))
	before := &task.Handout{}
	for i := range a.Tasks {
		t := &a.Tasks[i]
		f := bit(outID, t.ID != after(before.ID)) | bit(outQueue, t.Queue != before.Queue) |
			bit(outStage, t.Stage != before.Stage) | bit(outContext, len(t.Context) > 0) |
			bit(outAttempt, t.Attempt != 1) |
			bit(outDeadline, !t.Deadline.Equal(before.Deadline)) |
			bit(outContextBy, t.ContextBy != "") | bit(outInScope, t.InScope) |
			bit(outMeta, len(t.Meta) > 0) | bit(outSignal, t.Signal != nil) |
			bit(outTimedOut, t.TimedOut) | bit(outParent, t.Parent != task.ID{}) |
			bit(outChildren, t.Children != nil) | bit(outAfter, len(t.After) > 0) |
			bit(outReady, !t.Ready.Equal(before.Ready))
		b = binary.AppendUvarint(b, f)
		if f&outID != 0 {
			b = appendID(b, t.ID)
		}
		if f&outQueue != 0 {
			b = appendText(b, t.Queue)
		}
		if f&outStage != 0 {
			b = appendText(b, t.Stage)
		}
		if f&outContext != 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(t.Context)), cuts, t.Context, long)
		}
		if f&outAttempt != 0 {
			b = binary.AppendVarint(b, int64(t.Attempt))
		}
		if f&outDeadline != 0 {
			b = appendMomentOrNone(b, t.Deadline)
		}
		if f&outContextBy != 0 {
			b = appendText(b, t.ContextBy)
		}
		b = appendMeta(b, t.Meta)
		if f&outSignal != 0 {
			b, cuts = appendSignal(b, cuts, t.Signal, long)
		}
		if f&outParent != 0 {
			b = appendID(b, t.Parent)
		}
		if f&outChildren != 0 {
			b = appendCounts(b, t.Children)
		}
		if f&outAfter != 0 {
			b, cuts = appendPriors(b, cuts, t.After, long)
		}
		if f&outReady != 0 {
			b = appendMomentOrNone(b, t.Ready)
		}
		b = appendToken(b, before.Token, t.Token)
		before = t
	}
	return b, cuts
}

// appendMomentOrNone writes a time; 0 = none.
func appendMomentOrNone(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return appendMoment(b, t)
}

// momentOrNone reads a time; 0 = none.
func (d *decoder) momentOrNone(field string) (t time.Time) {
	if ms := d.signed(field); ms != 0 {
		t = time.UnixMilli(ms).UTC()
	}
	return t
}

// ParseHandouts reads the answer to Hold. Contexts are parts of b. A hand-out whose context can't
// be read costs the others nothing: it has a Fault, and no more than what its report needs.
func ParseHandouts(b []byte) (Handouts, error) {
	d := decoder{b: b}
	a := Handouts{Now: d.moment("now")}
	a.PollInterval = d.spell("poll_interval")
	n := d.count("tasks", limits.MaxHold)
	a.Tasks = make([]task.Handout, n)
	before := &task.Handout{}
	d.list = "tasks"
	for d.n = 0; d.n < n && d.fault == nil; d.n++ {
		t := &a.Tasks[d.n]
		d.handout(before, t)
		before = t
	}
	for i := range a.Tasks {
		if t := &a.Tasks[i]; t.Fault != "" {
			*t = task.Handout{ID: t.ID, Token: t.Token, Fault: t.Fault}
		}
	}
	if err := d.end(); err != nil {
		return Handouts{}, err
	}
	if n == 0 {
		a.Tasks = nil
	}
	return a, nil
}

func (d *decoder) handout(before, t *task.Handout) {
	f := d.flags(outAll)
	t.ID, t.Queue, t.Stage = after(before.ID), before.Queue, before.Stage
	t.Deadline, t.Ready = before.Deadline, before.Ready
	if f&outID != 0 {
		t.ID = d.id("id")
	}
	if f&outQueue != 0 {
		t.Queue = d.str("queue", "")
	}
	if f&outStage != 0 {
		t.Stage = d.str("stage", "")
	}
	if f&outContext != 0 {
		v := d.raw("context")
		if problem := wire.CheckValue(v); problem != "" {
			t.Fault = fmt.Sprintf("the hand-out can't be read: context: %s", problem)
		} else if string(v) != "null" {
			t.Context = v
		}
	}
	t.Attempt = 1
	if f&outAttempt != 0 {
		t.Attempt = int(d.signed("attempt"))
	}
	if f&outDeadline != 0 {
		t.Deadline = d.momentOrNone("deadline")
	}
	if f&outContextBy != 0 {
		t.ContextBy = d.str("context_by", before.ContextBy)
	}
	t.InScope = f&outInScope != 0
	if f&outMeta != 0 {
		t.Meta = d.meta()
	}
	if f&outSignal != 0 {
		d.signal(t)
	}
	t.TimedOut = f&outTimedOut != 0
	if f&outParent != 0 {
		t.Parent = d.id("parent")
	}
	if f&outChildren != 0 {
		t.Children = d.counts()
	}
	if f&outAfter != 0 {
		d.priors(t)
	}
	if f&outReady != 0 {
		t.Ready = d.momentOrNone("ready")
	}
	t.Token = d.token(before.Token)
}
