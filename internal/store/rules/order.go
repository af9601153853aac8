package rules

import (
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Where the tasks of a key go in order (task.KeyLimits.InOrder), the store keeps which of them was
// let begin last. That one owns the key until it is over, which follows from how it stands; no
// outcome writes anything.

// KeyStand is how a key stands for a take, or for hand-outs that are to begin.
type KeyStand struct {
	store.KeyGate
	// Next is the span whose task is to begin next, if the key goes in order and nobody owns it;
	// 0 = any. For a take it is the one that may be taken, also for the owner's sake; 0 = none.
	Next int64
	// begun: the owner is one of those that are to begin, and was not before.
	begun bool
}

// OwnerRow is the task of a key that began last, as it stands now; zero = there was none.
type OwnerRow struct {
	ID   task.ID
	Base int32     // of its newest step; 0 = it has none, store.Final = it is over
	Kind task.Kind // of that step
}

// SetOwner says who owns the key, where that goes in order: the task that began last, unless it is
// over.
func (k *KeyStand) SetOwner(o OwnerRow, onDead task.OnDead) {
	over := o.Base == store.Final
	dead := over && o.Kind != task.KindRemoved && o.Kind.Leaves() == task.Dead
	k.Stopped = dead && onDead == task.OnDeadStop
	if k.InOrder() && o.ID != (task.ID{}) && (!over || k.Stopped) {
		k.Owner = o.ID
	} else {
		k.Stopped = false
	}
}

// lets says whether a hand-out may begin for which its key has room; the key may be nil.
func (k *KeyStand) lets(r *Asked) store.Beginning {
	switch {
	case k == nil || !k.InOrder():
	case k.Stopped, k.Owner != (task.ID{}) && k.Owner != r.ID:
		return store.HeldBack
	case k.Owner == (task.ID{}) && k.Next != 0 && k.Next != r.Span:
		return store.Behind
	}
	return store.Begins
}

// own makes a task the one that the key waits for.
func (k *KeyStand) own(id task.ID) {
	if k.InOrder() && k.Owner != id {
		k.Owner, k.begun = id, true
	}
}

// Begun tells whether a task owns the key as it begins now, and did not before.
func (k *KeyStand) Begun(id task.ID) bool { return k.begun && k.Owner == id }

// disown takes back that a task owns the key, as it did not begin.
func (k *KeyStand) disown(id task.ID) {
	if k.begun && k.Owner == id {
		k.Owner, k.begun = task.ID{}, false
	}
}
