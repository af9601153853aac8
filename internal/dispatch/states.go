package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// States says of tasks in which queue each is and how it stands, and no more: of one that there is
// not, or that was removed, no queue and no state. They are in the order of ids.
func (d *Dispatcher) States(ctx context.Context, ids []task.ID) ([]task.View, error) {
	stood, err := d.store.Stand(ctx, ids)
	if err != nil {
		d.note(err)
		return nil, fmt.Errorf("read how tasks stand: %w", err)
	}
	d.mu.Lock()
	defer d.release()
	now := d.mem.clock.read(time.Now())
	list := make([]task.View, len(ids))
	for i := range stood {
		list[i].ID = ids[i]
		if s := &stood[i]; s.Found && s.Kind != task.KindRemoved {
			list[i].Queue, list[i].State = s.Queue, stateOf(s, now)
			d.mem.complete(&list[i])
		}
	}
	return list, nil
}

// stateOf is how a task stands, but for who runs it in some node's memory only.
func stateOf(s *store.Stood, now int64) task.State {
	switch {
	case s.Final:
		return s.Kind.Leaves()
	case s.Running != nil:
		return task.Running
	case s.Owner.Parked():
		return task.Blocked
	case max(s.Owner.Due, s.Due) > now:
		return task.Waiting
	}
	return task.Ready
}
