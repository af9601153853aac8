package rules

import (
	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Written says what stands where the row of a hand-out is to be.
type Written uint8

// What stands there.
const (
	Nothing Written = iota
	Itself          // the same hand-out: it was to begin before, and nobody heard the answer
	Another         // one under another token
)

// Asked is a hand-out that is to begin.
type Asked struct {
	ID      task.ID
	Span    int64
	Written Written
	Key     *KeyStand // how its key stands; nil = that has no limits
}

// LetBegin says which hand-outs of a queue begin, in their order, and counts those that have no row
// yet at its gate and at those of their keys.
func LetBegin(gate *admission.Gate, rows []Asked, now int64) []store.Beginning {
	list := make([]store.Beginning, len(rows))
	for i, r := range rows {
		switch {
		case r.Written == Another:
			list[i] = store.Void
		case r.Written == Itself: // it counts already
		case gate.Left(1, now) == 0 || r.Key != nil && r.Key.Left(1, now) == 0:
			list[i] = store.HeldBack
		default:
			if list[i] = r.Key.lets(&r); list[i] != store.Begins {
				continue
			}
			gate.Admit(1, now)
			if r.Key != nil {
				r.Key.Admit(1, now)
				r.Key.own(r.ID)
			}
		}
	}
	return list
}

// Began takes in which rows were written of the hand-outs that were to begin. Of the others, which
// count no more, something else has become meanwhile.
func Began(gate *admission.Gate, rows []Asked, list []store.Beginning, written func(i int) bool) {
	for i := range list {
		if list[i] != store.Begins || written(i) {
			continue
		}
		list[i] = store.Void
		if rows[i].Written == Nothing {
			gate.Ended()
			if k := rows[i].Key; k != nil {
				k.Ended()
				k.disown(rows[i].ID)
			}
		}
	}
}
