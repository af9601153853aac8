package firing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

var errAway = fmt.Errorf("away: %w", store.ErrOutOfReach)

// door is the store as one node reaches it.
type door struct {
	*model.Model
	house *house

	mu    sync.Mutex
	away  bool
	ended bool
	crash func(verb string) fault.Fault // the node dies at a write that it names; nil = at none
}

func through[A any](d *door, verb string, do func() (A, error)) (a A, err error) {
	d.mu.Lock()
	away, kind := d.away, fault.None
	if d.crash != nil && !away {
		if kind = d.crash(verb); kind != fault.None {
			d.away = true
		}
	}
	d.mu.Unlock()
	if f := d.house.faults(); f != nil && kind == fault.None && !away {
		kind = f(verb)
	}
	switch {
	case away:
		return a, errAway
	case kind == fault.Before:
		return a, fault.ErrFault
	case kind == fault.After:
		if _, err := do(); err != nil {
			return a, err
		}
		return a, store.ErrUnknown
	}
	return do()
}

func (d *door) cut(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away || d.ended
}

func (d *door) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

func (d *door) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// gone tells whether the node reaches nothing, for now or for good.
func (d *door) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away || d.ended
}

// down tells whether the node reaches nothing any more for good: it has crashed.
func (d *door) down() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away && d.crash != nil
}

func (d *door) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return through(d, "beat", func() (store.Beat, error) {
		return d.Model.Beat(ctx, held, ttl, prefixes...)
	})
}

func (d *door) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return through(d, "acquire", func() (store.Granted, error) {
		return d.Model.AcquireAll(ctx, holder, wants, ttl, judge)
	})
}

func (d *door) Free(ctx context.Context, self store.Holder, judge int64) (int, error) {
	return through(d, "free", func() (int, error) { return d.Model.Free(ctx, self, judge) })
}

func (d *door) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return through(d, "take", func() (store.Taken, error) { return d.Model.Take(ctx, r) })
}

func (d *door) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	return through(d, "settle", func() (store.Settled, error) { return d.Model.Settle(ctx, s) })
}

func (d *door) Act(ctx context.Context, list []store.Action) ([]store.Acted, error) {
	return through(d, "act", func() ([]store.Acted, error) { return d.Model.Act(ctx, list) })
}

func (d *door) Append(ctx context.Context, events []store.Event) (int, error) {
	return through(d, "append", func() (int, error) { return d.Model.Append(ctx, events) })
}

func (d *door) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	return through(d, "schedules", func() ([]store.Schedule, error) {
		return d.Model.Schedules(ctx, q)
	})
}

func (d *door) Due(ctx context.Context, q store.DueQuery) ([]store.Schedule, error) {
	return through(d, "due", func() ([]store.Schedule, error) { return d.Model.Due(ctx, q) })
}

func (d *door) OpenFires(ctx context.Context, q store.OpenQuery) ([]store.OpenFire, error) {
	return through(d, "open", func() ([]store.OpenFire, error) { return d.Model.OpenFires(ctx, q) })
}

func (d *door) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	return through(d, "fires", func() ([]store.Fire, error) { return d.Model.Fires(ctx, q) })
}

func (d *door) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	return through(d, "stand", func() ([]store.Stood, error) { return d.Model.Stand(ctx, ids) })
}

func (d *door) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	verb := "fire"
	if len(f.Parts) == 0 {
		verb = "end"
	}
	return through(d, verb, func() (store.Fired, error) { return d.Model.Fire(ctx, f) })
}

func (d *door) ChangeSchedules(
	ctx context.Context, c store.ScheduleChange,
) ([]store.Schedule, error) {
	return through(d, "change", func() ([]store.Schedule, error) {
		return d.Model.ChangeSchedules(ctx, c)
	})
}

func (d *door) DeleteSchedule(ctx context.Context, name string) error {
	_, err := through(d, "delete", func() (bool, error) {
		return true, d.Model.DeleteSchedule(ctx, name)
	})
	return err
}
