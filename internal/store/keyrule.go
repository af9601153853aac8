package store

import (
	"errors"
	"time"
)

// KeyRule is what people and handlers have said of one group key of a queue. It has a row as long
// as it says something: Queue.KeyRules tells whether there are any.
type KeyRule struct {
	Queue, Key string
	// Paused is until when nothing of the key begins, by the store's clock; 0 = it is not paused,
	// Never = until it is resumed.
	Paused int64
	// Weight is how many tasks a turn of the key has, where keys take turns; 0 = nothing is said,
	// which is 1.
	Weight int
}

// Stands tells whether the rule stays until somebody takes it back.
func (r *KeyRule) Stands() bool { return r.Paused == Never || r.Weight > 0 }

// Turn is how many tasks a turn of the key has.
func (r *KeyRule) Turn() int { return max(r.Weight, 1) }

// KeyChange changes the rule of a key: what is given.
type KeyChange struct {
	Queue, Key string
	Pause      time.Duration // so long from now on, or Forever; 0 = no pause is set
	// Hold is as Pause, but ends none that lasts longer: handlers say so.
	Hold   time.Duration
	Resume bool // the pause is over
	Weight *int // 0 = nothing is said any more
}

// Forever is a pause that only a resumption ends.
const Forever time.Duration = 1<<63 - 1

// MaxKeyRules is how many keys of a queue may have rules that stand.
const MaxKeyRules = 10_000

// ErrKeyRules refuses a rule that stands, of a queue that has MaxKeyRules of them.
var ErrKeyRules = errors.New("too many keys of the queue are paused for good or have a weight")

// KeyUse is how much work a group key of a queue has.
type KeyUse struct {
	KeyRule
	Ready   int64 // tasks that are due and do not run, by what is committed
	Running int64 // running rows
}

// KeysExamined is how many spans, tasks and running rows Keys looks at.
const KeysExamined = 20_000

// KeyUses answers Keys.
type KeyUses struct {
	Now  int64
	Keys []KeyUse // most work first, then by key
	// Cut: more was to be looked at than is, so numbers may be too small, and keys be left out.
	Cut bool
}
