package frame

import (
	"fmt"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// appendAwait appends what a report waits for.
func appendAwait(b []byte, a *task.Await) []byte {
	b = appendText(appendText(b, a.Signal), a.Key)
	return appendText(appendSpell(b, a.Timeout), a.Else)
}

func (d *decoder) await() *task.Await {
	return &task.Await{
		Signal: d.str("await.signal", ""), Key: d.str("await.key", ""),
		Timeout: d.spell("await.timeout"), Else: d.str("await.else", ""),
	}
}

// appendSignal appends the signal that ended a wait, all but a payload of more than long bytes,
// which belongs at the cut.
func appendSignal(b []byte, cuts []wire.Cut, s *task.Signal, long int) ([]byte, []wire.Cut) {
	b = appendText(appendText(b, s.Name), s.By)
	b = appendMomentOrNone(b, s.At)
	return wire.AppendRaw(appendNumber(b, len(s.Payload)), cuts, s.Payload, long)
}

// signal reads the signal that ended a wait. A payload that can't be read makes the hand-out one
// with a Fault.
func (d *decoder) signal(t *task.Handout) {
	s := &task.Signal{Name: d.str("signal.name", ""), By: d.str("signal.by", "")}
	s.At = d.momentOrNone("signal.at")
	v := d.raw("signal.payload")
	if len(v) == 0 {
		v = nil
	} else if problem := wire.CheckValue(v); problem != "" {
		t.Fault = fmt.Sprintf("the hand-out can't be read: signal.payload: %s", problem)
	} else if string(v) != "null" {
		s.Payload = v
	}
	t.Signal = s
}
