package wire

import (
	"math"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

var priorFields = []string{"state", "id", "ref", "if", "context", "result", "left_out"}

// appendAfter appends what a submission says of others in its call.
func appendAfter(b []byte, s *task.Submission) []byte {
	b = appendText(b, `,"ref":`, s.Ref)
	if len(s.After) > 0 {
		b = appendStrings(append(b, `,"after":`...), s.After)
	}
	return appendText(b, `,"if":`, string(s.If))
}

// after reads the names of tasks that another one waits for. All of a body together are bounded, so
// that what is made of it is.
func (d *decoder) after() (list []string) {
	for a := d.array(limits.MaxAfter); a.next(); {
		if d.waits++; d.waits > limits.MaxAllAfter {
			d.failValue(a.start, "the tasks of one call wait for more than %d others in all",
				limits.MaxAllAfter)
		}
		list = append(list, d.str(""))
	}
	return list
}

// appendWaited appends what a hand-out's task has waited for; none leaves it out.
func appendWaited(b []byte, cuts []Cut, list []task.Prior, long int) ([]byte, []Cut) {
	if len(list) == 0 {
		return b, cuts
	}
	return appendPriors(append(b, `,"after":`...), cuts, list, long)
}

// appendPriors appends a list of tasks that another one has waited for. Their ids do not come
// first: salvage finds the end of a hand-out by the id of the next.
func appendPriors(b []byte, cuts []Cut, list []task.Prior, long int) ([]byte, []Cut) {
	b = append(b, '[')
	for i := range list {
		p := &list[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"state":`...), string(p.State))
		b = appendID(append(b, `,"id":`...), p.ID)
		b = appendText(b, `,"ref":`, p.Ref)
		b = appendText(b, `,"if":`, string(p.If))
		if len(p.Context) > 0 {
			b, cuts = AppendRaw(append(b, `,"context":`...), cuts, p.Context, long)
		}
		if len(p.Result) > 0 {
			b, cuts = AppendRaw(append(b, `,"result":`...), cuts, p.Result, long)
		}
		if p.LeftOut {
			b = append(b, `,"left_out":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']'), cuts
}

func (d *decoder) priors() (list []task.Prior) {
	for a := d.array(limits.MaxAfter); a.next(); {
		list = append(list, d.prior())
	}
	return list
}

func (d *decoder) prior() (p task.Prior) {
	o := d.object(priorFields)
	for o.next() {
		switch o.name {
		case "state":
			p.State = task.State(d.str(string(task.Done)))
		case "id":
			p.ID = d.id()
		case "ref":
			p.Ref = d.str("")
		case "if":
			p.If = task.Condition(d.str(string(task.IfDone)))
		case "context":
			p.Context = d.opaque()
		case "result":
			p.Result = d.opaque()
		case "left_out":
			p.LeftOut = d.boolean()
		}
	}
	o.need("id")
	return p
}

// AppendPriors appends a list of tasks that another one has waited for, as it stands in a hand-out.
func AppendPriors(b []byte, list []task.Prior) []byte {
	b, _ = appendPriors(b, nil, list, math.MaxInt)
	return b
}
