package store

import (
	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/task"
)

// ByKey makes a take go by group keys: see contract.Spans.
type ByKey struct {
	Fair  bool     // keys take turns; else rank decides, as far as keys have room
	After *string  // goes on behind this key; nil = with the first
	Skip  []string // keys of which the holder has enough
	// Whole: if all that is ready is no more tasks than that, it is taken as it is, with
	// HeldSpan.Keys.
	Whole int
	// First: if it is more, the first so many of its tasks are taken as they are; 0 = it is sorted,
	// and taken by keys.
	First int
}

// KeyGate is how a group key of a queue stands beside the limits of each key.
type KeyGate struct {
	Queue, Key string
	admission.Gate
	// Owner is the task that the key has to wait for: where keys go in order, the one that has
	// begun and is not over, or is dead and stops the key. Zero = there is none.
	Owner task.ID
	// Stopped: Owner is dead, and OnDead of the queue says stop.
	Stopped bool
}

// InOrder tells whether the tasks of the key go one after the other.
func (k *KeyGate) InOrder() bool { return k.Limits.Running == 1 }
