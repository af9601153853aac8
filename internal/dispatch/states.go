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
func (vs *views) States(ctx context.Context, ids []task.ID) ([]task.View, error) {
	stood, err := vs.store.Stand(ctx, ids)
	if err != nil {
		vs.note(err)
		return nil, fmt.Errorf("read how tasks stand: %w", err)
	}
	vs.mu.Lock()
	defer vs.release()
	now := vs.mem.clock.read(time.Now())
	list := make([]task.View, len(ids))
	for i := range stood {
		list[i].ID = ids[i]
		if s := &stood[i]; s.Found && s.Kind != task.KindRemoved {
			list[i].Queue, list[i].State = s.Queue, stateOf(s, now)
			vs.mem.complete(&list[i])
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
