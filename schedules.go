package rota

import (
	"context"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/scheduler"
)

var (
	_ api.Schedules = (*firing.Firer)(nil)
	_ api.Fires     = (*firing.Firer)(nil)
	_ api.Almanac   = (*firing.Firer)(nil)
)

// openSchedules makes the firer. It fires nothing by itself before Run.
func (n *Node) openSchedules() (err error) {
	n.firer, err = firing.New(firing.Config{
		Store: n.store, Tasks: n.tasks, Clock: n.clock, Node: n.conf.Name, Now: n.storeTime,
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
