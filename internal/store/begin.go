package store

import (
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/admission"
)

// BeginRequest asks whether hand-outs of queues that have limits may begin. Nobody has seen them
// yet, and nobody may before the answer says so.
type BeginRequest struct {
	Holder Holder
	Rows   []Begin // of each queue in the order in which they are to begin
}

// Begin is a hand-out that is to begin.
type Begin struct {
	Queue string
	Key   string // the task's group key; "" = none, or its holder does not know it
	Running
	Unique bool // Loaded.Unique
}

// ByQueue says where the rows of each queue stand, in order, and names the queues in order.
func (r *BeginRequest) ByQueue() (queues []string, rows map[string][]int) {
	rows = map[string][]int{}
	for i := range r.Rows {
		rows[r.Rows[i].Queue] = append(rows[r.Rows[i].Queue], i)
	}
	return slices.Sorted(maps.Keys(rows)), rows
}

// Begun answers a BeginRequest.
type Begun struct {
	Now       int64
	LeaseGone bool        // then nothing begins, and there are no Rows
	Rows      []Beginning // of the rows, in order
	Gates     []Gate      // of those of the queues that have limits, by name, as they stand now
	Keys      []KeyGate   // of the rows' keys in queues that limit each key; by queue, then key
}

// Beginning is what becomes of a hand-out that is to begin.
type Beginning uint8

// What becomes of hand-outs.
const (
	Begins   Beginning = iota // its row stands
	HeldBack                  // a limit of its queue, or of its key, holds it back
	// Behind: its key goes in order, and a task in another span comes first.
	Behind
	// Void: the hand-out is none, because its span is no longer the holder's, an outcome stands
	// already, or its row could not be written just now. Where the task stands only a look can
	// tell.
	Void
)

// Gate is how a queue that has limits stands beside them.
type Gate struct {
	Queue string
	admission.Gate
	// FullKeys is how many of its keys run as many tasks as each may, counted up to 1,000; only
	// Gates says so.
	FullKeys int
	// PausedKeys is how many of them are paused, counted up to 1,000; only Gates says so.
	PausedKeys int
}
