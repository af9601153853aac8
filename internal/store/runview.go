package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/rotahq/rota/task"
)

// MaxRunFires is how many fires of a run are shown at most.
const MaxRunFires = 500

// RunView is a run: a fire, and all that followed it.
type RunView struct {
	Root  FireKey
	Whole bool // these are all; else the first MaxRunFires, by schedule
	Fires []RunFire
}

// RunFire is a fire of a run, and how its task stands.
type RunFire struct {
	Fire
	// of the tree: which of the run's fires it comes under, an index; -1 = it is at the top. One
	// with several parents comes under the one that was due, or written, last
	Under    int
	Queue    string     // of its schedule
	State    task.State // of its task; "" = it has none, or that is kept no longer
	Began    time.Time  // when its first hand-out began; zero = it has had none, or nobody knows
	Finished time.Time  // when the task became final
	Worker   string
	Error    string // of its last step
}

// Tree says under which of its fires each of a run's comes. They are sorted by their due times, and
// those of one by the order in which they were written: a parent stands before what follows it.
func (v *RunView) Tree() {
	slices.SortStableFunc(v.Fires, func(a, b RunFire) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Time, b.Time),
			cmp.Compare(a.Schedule, b.Schedule))
	})
	at := make(map[FireKey]int, len(v.Fires))
	for i := range v.Fires {
		at[FireKey{v.Fires[i].Schedule, v.Fires[i].At}] = i
	}
	for i := range v.Fires {
		f := &v.Fires[i]
		f.Under = -1
		for _, k := range f.Parents {
			p, here := at[k]
			// sorted as they are, the greater index is the later one
			if here && p < i && p > f.Under {
				f.Under = p
			}
		}
	}
}
