package rules

import (
	"cmp"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Fits tells whether a task that ended in a state has ended as one that waits for it asked.
func Fits(d *store.Dependency, ended task.State) bool { return d.Ended || ended == task.Done }

// Unfit is the action that cancels a task since another one did not end as it should.
func Unfit(who task.ID, d *store.Dependency, ended task.State) store.Action {
	name := cmp.Or(d.Ref, d.On.String())
	return store.Action{
		ID: who, Kind: task.KindCancelled, Error: fmt.Sprintf("after %s: %s", name, ended),
	}
}

// WaitForOthers is the row of a task that waits for others until a step stands at seq.
func WaitForOthers(id task.ID, seq int32, now int64) Wait {
	return Wait{ID: id, Seq: seq, Address: store.Address{}.String(), Since: now}
}

// OfOthers tells whether the task waits for other tasks.
func (w *Wait) OfOthers() bool { return w.address() == store.Address{} }

// PriorView is a task that another one waits for, or has, as people see it; state "" = it is open.
func PriorView(d *store.Dependency, state task.State) task.Prior {
	p := task.Prior{ID: d.On, Ref: d.Ref, If: task.IfDone, State: state}
	if d.Ended {
		p.If = task.IfEnded
	}
	return p
}

// EndState is how a task ended, for those that wait for it: "" = it has not. One that is gone, or
// was removed, is as good as cancelled.
func EndState(f *Fact, found bool) task.State {
	switch {
	case !found || f.Removed():
		return task.Cancelled
	case f.Base != store.Final:
		return ""
	}
	return f.Kind.Leaves()
}

// PriorRoom gives out store.PriorLimit: it takes room for a context and a result of some size
// together, and says whether there was enough.
func PriorRoom(left *int, size int) bool {
	if size > *left {
		return false
	}
	*left -= size
	return true
}
