package rules

import (
	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
)

// Written says what stands where the row of a hand-out is to be.
type Written uint8

// What stands there.
const (
	Nothing Written = iota
	Itself          // the same hand-out: it was to begin before, and nobody heard the answer
	Another         // one under another token
)

// LetBegin says which hand-outs of a queue begin, in their order, and counts those that have no row
// yet at its gate.
func LetBegin(gate *admission.Gate, rows []Written, now int64) []store.Beginning {
	list, fresh := make([]store.Beginning, len(rows)), 0
	for _, w := range rows {
		if w == Nothing {
			fresh++
		}
	}
	admitted := gate.Admit(fresh, now)
	for i, w := range rows {
		switch {
		case w == Another:
			list[i] = store.Void
		case w == Nothing && admitted == 0:
			list[i] = store.HeldBack
		case w == Nothing:
			admitted--
		}
	}
	return list
}

// Began takes in which rows were written of the hand-outs that were to begin. Of the others, which
// count no more, something else has become meanwhile.
func Began(gate *admission.Gate, rows []Written, list []store.Beginning, written func(i int) bool) {
	for i := range list {
		if list[i] == store.Begins && !written(i) {
			list[i] = store.Void
			if rows[i] == Nothing && gate.Limits.Running > 0 {
				gate.Running--
			}
		}
	}
}
