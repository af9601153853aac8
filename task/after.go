package task

import "encoding/json"

// Condition says how tasks have to end that another one waits for (Submission.After).
type Condition string

const (
	IfDone  Condition = "done"  // each of them is done; the first that ends otherwise cancels it
	IfEnded Condition = "ended" // each of them is over, in whatever state
)

// Prior is a task that had to end before another one could begin, or has to.
type Prior struct {
	ID ID
	// what the submission called it; "" = it was named by its id
	Ref string
	If  Condition
	// State in which it ended; "" = it has not, as far as the one that waits has been told. A
	// deleted task counts as cancelled.
	State State
	// What it left, in a Handout: the context that it had at its end, and its result. LeftOut says
	// that they are not here, as all of them together are too large, or the task is deleted: ask
	// for the task by its id.
	Context, Result json.RawMessage
	LeftOut         bool
}

// Prior is the one of After whose Ref is that; the zero Prior when there is none.
func (h *Handout) Prior(ref string) Prior {
	for i := range h.After {
		if h.After[i].Ref == ref {
			return h.After[i]
		}
	}
	return Prior{}
}
