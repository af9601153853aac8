package rota

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

var (
	_ api.Schedules = (*firing.Firer)(nil)
	_ api.Fires     = (*firing.Firer)(nil)
	_ api.Almanac   = (*firing.Firer)(nil)
)

// handled measures what came of a due time.
func (n *Node) handled(f *store.Fire) {
	late := time.Duration(f.Time-f.Through) * time.Microsecond
	n.meter.Fired(string(f.Outcome), f.Count, late, f.Outcome == task.FireFired)
}

// openSchedules makes the firer. It fires nothing by itself before Run.
func (n *Node) openSchedules() (err error) {
	n.firer, err = firing.New(firing.Config{
		Store: timedFires{n.store, n.meter}, Handled: n.handled,
		Tasks: n.tasks, Clock: n.clock, Node: n.conf.Name, Now: n.storeTime,
		Beat: n.conf.Beat, Alone: n.alone(), Log: n.log,
		Owners: func() map[string]string {
			return n.rounds.Cluster().Owned
		}, EventsAdded: n.sender.Look,
	})
	if err != nil {
		return err
	}
	look := func(ctx context.Context, c scheduler.Claim) { n.firer.Look(ctx, c.Key) }
	return n.rounds.Claim(scheduler.Kind{Name: firing.Kind, Keys: n.firer.Keys, Look: look})
}
