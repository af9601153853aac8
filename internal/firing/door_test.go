package firing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/storetest"
	"github.com/rotahq/rota/task"
)

var errAway = fmt.Errorf("away: %w", rows.ErrOutOfReach)

// door is the store as one node reaches it.
type door struct {
	*storetest.Model
	house *house

	mu    sync.Mutex
	away  bool
	ended bool
	crash func(verb string) storetest.Fault // the node dies at a write that it names; nil = at none
}

func through[A any](d *door, verb string, do func() (A, error)) (a A, err error) {
	d.mu.Lock()
	away, fault := d.away, storetest.None
	if d.crash != nil && !away {
		if fault = d.crash(verb); fault != storetest.None {
			d.away = true
		}
	}
	d.mu.Unlock()
	if f := d.house.faults(); f != nil && fault == storetest.None && !away {
		fault = f(verb)
	}
	switch {
	case away:
		return a, errAway
	case fault == storetest.Before:
		return a, storetest.ErrFault
	case fault == storetest.After:
		if _, err := do(); err != nil {
			return a, err
		}
		return a, rows.ErrUnknown
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

func (d *door) Beat(ctx context.Context, held []rows.Lease, ttl time.Duration, prefixes ...string) (rows.Beat, error) {
	return through(d, "beat", func() (rows.Beat, error) { return d.Model.Beat(ctx, held, ttl, prefixes...) })
}

func (d *door) AcquireAll(ctx context.Context, holder string, wants []rows.Lease, ttl time.Duration, judge int64) (rows.Granted, error) {
	return through(d, "acquire", func() (rows.Granted, error) { return d.Model.AcquireAll(ctx, holder, wants, ttl, judge) })
}

func (d *door) Free(ctx context.Context, self rows.Holder, judge int64) (int, error) {
	return through(d, "free", func() (int, error) { return d.Model.Free(ctx, self, judge) })
}

func (d *door) Take(ctx context.Context, r rows.TakeRequest) (rows.Taken, error) {
	return through(d, "take", func() (rows.Taken, error) { return d.Model.Take(ctx, r) })
}

func (d *door) Settle(ctx context.Context, s rows.Settlement) (rows.Settled, error) {
	return through(d, "settle", func() (rows.Settled, error) { return d.Model.Settle(ctx, s) })
}

func (d *door) Act(ctx context.Context, list []rows.Action) ([]rows.Acted, error) {
	return through(d, "act", func() ([]rows.Acted, error) { return d.Model.Act(ctx, list) })
}

func (d *door) Append(ctx context.Context, events []rows.Event) (int, error) {
	return through(d, "append", func() (int, error) { return d.Model.Append(ctx, events) })
}

func (d *door) Schedules(ctx context.Context, q rows.ScheduleQuery) ([]rows.Schedule, error) {
	return through(d, "schedules", func() ([]rows.Schedule, error) { return d.Model.Schedules(ctx, q) })
}

func (d *door) Due(ctx context.Context, q rows.DueQuery) ([]rows.Schedule, error) {
	return through(d, "due", func() ([]rows.Schedule, error) { return d.Model.Due(ctx, q) })
}

func (d *door) OpenFires(ctx context.Context, q rows.OpenQuery) ([]rows.OpenFire, error) {
	return through(d, "open", func() ([]rows.OpenFire, error) { return d.Model.OpenFires(ctx, q) })
}

func (d *door) Fires(ctx context.Context, q rows.FireQuery) ([]rows.Fire, error) {
	return through(d, "fires", func() ([]rows.Fire, error) { return d.Model.Fires(ctx, q) })
}

func (d *door) Stand(ctx context.Context, ids []task.ID) ([]rows.Stood, error) {
	return through(d, "stand", func() ([]rows.Stood, error) { return d.Model.Stand(ctx, ids) })
}

func (d *door) Fire(ctx context.Context, f rows.Firing) (rows.Fired, error) {
	verb := "fire"
	if len(f.Parts) == 0 {
		verb = "end"
	}
	return through(d, verb, func() (rows.Fired, error) { return d.Model.Fire(ctx, f) })
}

func (d *door) ChangeSchedules(ctx context.Context, c rows.ScheduleChange) ([]rows.Schedule, error) {
	return through(d, "change", func() ([]rows.Schedule, error) { return d.Model.ChangeSchedules(ctx, c) })
}

func (d *door) DeleteSchedule(ctx context.Context, name string) error {
	_, err := through(d, "delete", func() (bool, error) { return true, d.Model.DeleteSchedule(ctx, name) })
	return err
}
