package api

import (
	"context"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// runIn names a fire, whose run is shown.
type runIn struct {
	SchedulePath
	Caller
	At instant `path:"at" doc:"its due time" example:"2026-12-01T02:30:00Z"`
}

func (c *fireCalls) run(ctx context.Context, in *runIn) (*struct{ Body view.ScheduleRun }, error) {
	run, err := c.fires.RunOf(ctx, in.Name, in.At.micros())
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.ScheduleRun }{runOf(&run, in.who.scope)}, nil
}

// runOf is the run as it is shown. Fires of schedules whose queues are not in the scope of the
// caller's token are left out, with what follows them.
func runOf(v *store.RunView, scope *scope) view.ScheduleRun {
	out := view.ScheduleRun{
		Schedule: v.Root.Schedule, At: timeAt(v.Root.At), Whole: v.Whole, Tree: []view.RunFire{},
	}
	under := map[int][]int{}
	for i := range v.Fires {
		if scope.queue(v.Fires[i].Queue) {
			under[v.Fires[i].Under] = append(under[v.Fires[i].Under], i)
		}
	}
	var below func(at int) []view.RunFire
	below = func(at int) []view.RunFire {
		list := make([]view.RunFire, 0, len(under[at]))
		for _, i := range under[at] {
			out.Fires++
			item := runFireOf(&v.Fires[i])
			item.Children = below(i)
			list = append(list, item)
		}
		return list
	}
	out.Tree = below(-1)
	return out
}

func runFireOf(f *store.RunFire) view.RunFire {
	return view.RunFire{
		Schedule: f.Schedule, At: timeAt(f.At), Origin: f.Origin, Outcome: f.Outcome,
		Reason: f.Reason, After: fireKeysOf(f.Parents), Task: view.TaskID{ID: f.Task},
		State: f.State, Ended: f.End(), Fired: timeAt(f.Time),
		Began: view.Time{Time: f.Began}, Finished: view.Time{Time: f.Finished}, Worker: f.Worker,
		Error: f.Error,
	}
}
