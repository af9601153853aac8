package wire

import (
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

var (
	awaitFields  = []string{"signal", "key", "children", "timeout", "else"}
	signalFields = []string{"name", "payload", "by", "at"}
)

// appendAwait appends what a report waits for; nil leaves it out.
func appendAwait(b []byte, a *task.Await) []byte {
	if a == nil {
		return b
	}
	if a.Children != "" {
		b = appendString(append(b, `,"await":{"children":`...), string(a.Children))
		b = appendText(b, `,"signal":`, a.Signal)
	} else {
		b = appendString(append(b, `,"await":{"signal":`...), a.Signal)
	}
	b = appendText(b, `,"key":`, a.Key)
	b = appendSpell(b, `,"timeout":`, a.Timeout)
	b = appendText(b, `,"else":`, a.Else)
	return append(b, '}')
}

// await reads what a report waits for, and whether it was a text; invalid says what is wrong with
// this report alone.
func (d *decoder) await() (a *task.Await, text bool, invalid string) {
	a = &task.Await{}
	if d.peek() == '"' {
		if d.str("") != "children" {
			invalid = `await: must be "children", or an object with a signal or children`
		}
		a.Children = task.AllChildren
		return a, true, invalid
	}
	for o := d.object(awaitFields); o.next(); {
		switch o.name {
		case "signal":
			a.Signal = d.str("")
		case "key":
			a.Key = d.str("")
		case "children":
			if a.Children = task.ChildrenEnd(d.str("")); a.Children == "" {
				invalid = "await.children: must be all or first_dead"
			}
		case "timeout":
			var err error
			if a.Timeout, err = view.ParseDuration(
				string(d.text(`a duration in quotes, like "1m30s"`)),
			); err != nil {
				invalid = `await.timeout: must be a duration like "1m30s"`
			}
		case "else":
			a.Else = d.str("")
		}
	}
	return a, false, invalid
}

// appendWoken appends what ended the wait before a hand-out's stage.
func appendWoken(b []byte, cuts []Cut, t *task.Handout, long int) ([]byte, []Cut) {
	if s := t.Signal; s != nil {
		b = append(b, `,"signal":{"name":`...)
		b = appendString(b, s.Name)
		if len(s.Payload) > 0 {
			b, cuts = AppendRaw(append(b, `,"payload":`...), cuts, s.Payload, long)
		}
		b = appendText(b, `,"by":`, s.By)
		b = appendMoment(b, `,"at":`, s.At)
		b = append(b, '}')
	}
	b = appendChildren(b, t.Children)
	if t.TimedOut {
		b = append(b, `,"timed_out":true`...)
	}
	return b, cuts
}

func (d *decoder) signal() *task.Signal {
	s := &task.Signal{}
	for o := d.object(signalFields); o.next(); {
		switch o.name {
		case "name":
			s.Name = d.str("")
		case "payload":
			s.Payload = d.opaque()
		case "by":
			s.By = d.str("")
		case "at":
			s.At = d.time()
		}
	}
	return s
}
