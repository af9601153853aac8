package rules

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// FirstLimit is the first limit of the tasks of a batch, which is due at a time; 0 = none has one.
func FirstLimit(due int64, tasks []store.Task) (first int64) {
	for i := range tasks {
		if at := tasks[i].Expires(due); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// Limited is a task of a batch that has a limit and is not begun.
type Limited struct {
	N, Base int32
	Expires int64
}

// Expired says, of the tasks of a batch with a limit and of its free spans, which spans have some
// whose time is over, and when to look at the batch again: at the next limit; when that is over,
// which is so as long as somebody holds the task, at once; 0 = never. So what tells when to look is
// no later than anything that is to be found, whatever becomes of holders meanwhile.
func Expired(
	now int64, list []Limited, free []store.Span,
) (over []store.Span, next int64) {
	slices.SortFunc(free, func(a, b store.Span) int {
		return cmp.Or(cmp.Compare(a.Seq0, b.Seq0), cmp.Compare(a.Lo, b.Lo))
	})
	found := make([]bool, len(free))
	for _, l := range list {
		if next == 0 || l.Expires < next {
			next = l.Expires
		}
		if l.Expires > now {
			continue
		}
		at, exact := slices.BinarySearchFunc(free, l, func(sp store.Span, l Limited) int {
			return cmp.Or(cmp.Compare(sp.Seq0, l.Base), cmp.Compare(sp.Lo, l.N))
		})
		if !exact {
			at--
		}
		if at >= 0 && free[at].Seq0 == l.Base && l.N <= free[at].Hi {
			found[at] = true
		}
	}
	for i, is := range found {
		if is {
			over = append(over, free[i])
		}
	}
	return over, next
}

// KeptAsDead tells whether a task that ended by a step of this kind is kept as dead ones are.
func KeptAsDead(k task.Kind) bool {
	s := k.Leaves()
	return (s == task.Dead || s == task.Expired) && k != task.KindRemoved
}
