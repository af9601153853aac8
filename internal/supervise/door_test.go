package supervise_test

import (
	"context"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// door is the store as one node reaches it.
type door struct {
	*model.Model
	mu    sync.Mutex
	away  bool
	fault func(verb string) fault.Fault // nil = none
	crash *crash                        // nil = it does not
	// of jobs, that changed or might have changed something
	writes int
}

// crash is the end of a node at one of its writes.
type crash struct {
	node string
	nth  int
	kind fault.Fault
}

func through[A any](d *door, verb string, do func() (A, error)) (a A, err error) {
	d.mu.Lock()
	away, kind := d.away, fault.None
	if d.fault != nil {
		kind = d.fault(verb)
	}
	if write := verb == "seat" || verb == "observe" || verb == "assign"; write && !away {
		if d.crash != nil && d.writes == d.crash.nth {
			kind, d.away = d.crash.kind, true
		}
		d.writes++
	}
	d.mu.Unlock()
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
	d.away = away
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

func (d *door) Board(ctx context.Context, known int64) (store.Board, error) {
	return through(d, "cache", func() (store.Board, error) { return d.Model.Board(ctx, known) })
}

func (d *door) Changes(ctx context.Context, group string, after int64) (store.Changes, error) {
	return through(d, "changes", func() (store.Changes, error) {
		return d.Model.Changes(ctx, group, after)
	})
}

func (d *door) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	return through(d, "seat", func() (store.Seated, error) { return d.Model.Seat(ctx, r) })
}

func (d *door) Observe(ctx context.Context, o store.Observed) (store.Observing, error) {
	return through(d, "observe", func() (store.Observing, error) { return d.Model.Observe(ctx, o) })
}

func (d *door) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	return through(d, "assign", func() (store.Assigned, error) { return d.Model.Assign(ctx, a) })
}

func (d *door) ChangeJobs(ctx context.Context, c store.JobChange) (store.JobsChanged, error) {
	return through(d, "jobs", func() (store.JobsChanged, error) {
		return d.Model.ChangeJobs(ctx, c)
	})
}

func (d *door) NoteSource(
	ctx context.Context, group string, claim store.Lease, read store.SourceRead,
) error {
	_, err := through(d, "note", func() (bool, error) {
		return true, d.Model.NoteSource(ctx, group, claim, read)
	})
	return err
}
