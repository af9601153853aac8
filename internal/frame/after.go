package frame

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// appendAfter appends what a submission says of others in its call.
func appendAfter(b []byte, s *task.Submission) []byte {
	if s.Ref != "" {
		b = appendText(b, s.Ref)
	}
	if len(s.After) > 0 {
		b = appendTexts(b, s.After)
	}
	if s.If != "" {
		b = appendText(b, string(s.If))
	}
	return b
}

// after reads the names of tasks that another one waits for. All of a body together are bounded, so
// that what is made of it is.
func (d *decoder) after() []string {
	list := d.strs("after", limits.MaxAfter)
	if d.waits += len(list); d.waits > limits.MaxAllAfter {
		d.failValue("after", "the tasks of one call wait for more than %d others in all",
			limits.MaxAllAfter)
	}
	return list
}

// The fields of a task that was waited for, behind its flags, its id and its state.
const (
	priRef = 1 << iota
	priIf
	priContext
	priResult
	priLeftOut // no field: it is so
	priAll     = 1<<iota - 1
)

// appendPriors appends what a hand-out's task has waited for, all but values of more than long
// bytes, which belong at the cuts.
func appendPriors(
	b []byte, cuts []wire.Cut, list []task.Prior, long int,
) ([]byte, []wire.Cut) {
	b = appendNumber(b, len(list))
	for i := range list {
		p := &list[i]
		f := bit(priRef, p.Ref != "") | bit(priIf, p.If != "") |
			bit(priContext, len(p.Context) > 0) | bit(priResult, len(p.Result) > 0) |
			bit(priLeftOut, p.LeftOut)
		b = appendText(appendID(binary.AppendUvarint(b, f), p.ID), string(p.State))
		if f&priRef != 0 {
			b = appendText(b, p.Ref)
		}
		if f&priIf != 0 {
			b = appendText(b, string(p.If))
		}
		if f&priContext != 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(p.Context)), cuts, p.Context, long)
		}
		if f&priResult != 0 {
			b, cuts = wire.AppendRaw(appendNumber(b, len(p.Result)), cuts, p.Result, long)
		}
	}
	return b, cuts
}

// priors reads what a hand-out's task has waited for. A value that can't be read makes the hand-out
// one with a Fault.
func (d *decoder) priors(t *task.Handout) {
	n := d.count("after", limits.MaxAfter)
	for i := 0; i < n && d.fault == nil; i++ {
		f := d.flags(priAll)
		p := task.Prior{
			ID: d.id("after"), State: task.State(d.str("after", string(task.Done))),
			LeftOut: f&priLeftOut != 0,
		}
		if f&priRef != 0 {
			p.Ref = d.str("after", "")
		}
		if f&priIf != 0 {
			p.If = task.Condition(d.str("after", string(task.IfDone)))
		}
		if f&priContext != 0 {
			p.Context = d.priorValue(t, i, "context")
		}
		if f&priResult != 0 {
			p.Result = d.priorValue(t, i, "result")
		}
		t.After = append(t.After, p)
	}
}

func (d *decoder) priorValue(t *task.Handout, i int, field string) json.RawMessage {
	v := d.raw("after")
	if problem := wire.CheckValue(v); problem != "" {
		t.Fault = fmt.Sprintf("the hand-out can't be read: after[%d].%s: %s", i, field, problem)
		return nil
	}
	if string(v) == "null" {
		return nil
	}
	return v
}
