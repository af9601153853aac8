package firing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// RunOf shows the run to which the fire of a schedule at a time belongs: the fire with which it
// began, and all that followed, as far as it is kept. Times are written in milliseconds and by
// people in seconds: within which of them the time lies is what counts. store.ErrNotFound.
func (vs *views) RunOf(ctx context.Context, name string, at int64) (store.RunView, error) {
	fire, err := vs.fireAt(ctx, name, at)
	if err != nil {
		return store.RunView{}, err
	}
	v := store.RunView{Root: fire.Run}
	list, err := vs.store.RunFires(ctx, v.Root, store.MaxRunFires+1)
	if err != nil {
		return store.RunView{}, err
	}
	v.Whole = len(list) <= store.MaxRunFires
	list = list[:min(len(list), store.MaxRunFires)]
	fires := make([]*store.Fire, len(list))
	names := make([]string, len(list))
	for i := range list {
		fires[i], names[i] = &list[i], list[i].Schedule
	}
	if err := vs.learn(ctx, fires); err != nil {
		return store.RunView{}, err
	}
	schedules, err := vs.reads.ancestors(ctx, names, nil)
	if err != nil {
		return store.RunView{}, err
	}
	for i := range list {
		one := store.RunFire{Fire: list[i]}
		if s := schedules[one.Schedule]; s != nil {
			one.Queue = s.Queue
		}
		if err := vs.lookUp(ctx, &one); err != nil {
			return store.RunView{}, err
		}
		v.Fires = append(v.Fires, one)
	}
	v.Tree()
	return v, nil
}

// fireAt is the fire of a schedule at a time, or the newest in its millisecond or second.
func (vs *views) fireAt(ctx context.Context, name string, at int64) (*store.Fire, error) {
	if _, err := vs.reads.one(ctx, name); err != nil {
		return nil, err
	}
	within := int64(1)
	switch {
	case at%1_000_000 == 0:
		within = 1_000_000
	case at%1000 == 0:
		within = 1000
	}
	list, err := vs.store.Fires(ctx, store.FireQuery{
		Schedule: name, From: at, To: at + within, Newest: true, Limit: rowsPage,
	})
	if err != nil {
		return nil, err
	}
	var found *store.Fire
	for i := range list {
		if row := &list[i]; row.At >= at && (found == nil || row.At == at) {
			found = row
		}
	}
	if found == nil {
		return nil, fmt.Errorf("schedule %q at %s: %w", name,
			time.UnixMicro(at).UTC().Format(time.RFC3339Nano), store.ErrNotFound)
	}
	return found, nil
}

// lookUp fills in how the task of a fire stands.
func (vs *views) lookUp(ctx context.Context, one *store.RunFire) error {
	if one.Task == (task.ID{}) {
		return nil
	}
	v, err := vs.conf.Tasks.Task(ctx, one.Task, 0)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the task %s: %w", one.Task, err)
	}
	one.State, one.Worker, one.Began = v.State, v.Worker, v.Started
	for i := range v.Steps {
		step := &v.Steps[i]
		if step.Started.IsZero() {
			continue
		}
		if one.Began.IsZero() || step.Started.Before(one.Began) {
			one.Began = step.Started
		}
	}
	if n := len(v.Steps); n > 0 && v.State.Final() {
		one.Finished, one.Error = v.Steps[n-1].Finished, v.Steps[n-1].Error
	}
	return nil
}
