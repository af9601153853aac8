package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// Fault is how one write fails.
type Fault uint8

const (
	None   Fault = iota // not at all
	Before              // nothing is done; the answer is ErrFault
	After               // it is done, and the answer is store.ErrUnknown
)

// ErrFault answers a write that failed before it did anything.
var ErrFault = errors.New("fault")

// Plan says how the n-th write (from 0) of a store fails.
type Plan func(n int) Fault

// Script makes the first writes fail as listed, and no later one.
func Script(faults ...Fault) Plan {
	return func(n int) Fault {
		if n < len(faults) {
			return faults[n]
		}
		return None
	}
}

// Seeded makes about one write in every fail, in both ways alike. The same seed gives the same
// faults.
func Seeded(seed uint64, every int) Plan {
	return func(n int) Fault {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		if r.IntN(every) != 0 {
			return None
		}
		return Before + Fault(r.IntN(2))
	}
}

// Store is a store whose writes fail in both ways: it failed; it worked and said it failed. Reads
// work.
type Store struct {
	contract.Store
	plan Plan

	mu     sync.Mutex
	writes int
}

// New makes the writes of a store fail by plan.
func New(s contract.Store, plan Plan) *Store { return &Store{Store: s, plan: plan} }

// Writes is how many writes were asked for.
func (f *Store) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func (f *Store) next() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	return f.plan(f.writes - 1)
}

// write does one write as the plan wants it.
func write[T any](f *Store, verb string, do func() (T, error)) (T, error) {
	var none T
	switch f.next() {
	case Before:
		return none, fmt.Errorf("%s: %w", verb, ErrFault)
	case After:
		if _, err := do(); err != nil {
			return none, err
		}
		return none, fmt.Errorf("%s: %w", verb, store.ErrUnknown)
	}
	return do()
}

// tell is write for a call that answers nothing but an error.
func tell(f *Store, verb string, do func() error) error {
	_, err := write(f, verb, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// The writes of the contract, each by plan.

func (f *Store) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	return write(f, "submit", func() (store.Submitted, error) { return f.Store.Submit(ctx, s) })
}

func (f *Store) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	return write(f, "take", func() (store.Taken, error) { return f.Store.Take(ctx, r) })
}

func (f *Store) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	return write(f, "take expired", func() (store.Taken, error) {
		return f.Store.TakeExpired(ctx, h, limit)
	})
}

func (f *Store) Signal(ctx context.Context, s store.Signal) (store.Signalled, error) {
	return write(f, "signal", func() (store.Signalled, error) { return f.Store.Signal(ctx, s) })
}

func (f *Store) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	return write(f, "look", func() (store.Looked, error) { return f.Store.Look(ctx, r) })
}

// TakeRunning implements [contract.Spans].
func (f *Store) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	return write(f, "take running", func() (store.Taken, error) {
		return f.Store.TakeRunning(ctx, h, limit)
	})
}

func (f *Store) Give(ctx context.Context, r store.GiveRequest) error {
	return tell(f, "give", func() error { return f.Store.Give(ctx, r) })
}

// GiveRest implements [contract.Spans].
func (f *Store) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	return write(f, "give rest", func() ([]bool, error) { return f.Store.GiveRest(ctx, r) })
}

func (f *Store) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	return write(f, "settle", func() (store.Settled, error) { return f.Store.Settle(ctx, s) })
}

func (f *Store) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	return write(f, "sync", func() (store.Synced, error) { return f.Store.Sync(ctx, r) })
}

// Begin implements [contract.Steps].
func (f *Store) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	return write(f, "begin", func() (store.Begun, error) { return f.Store.Begin(ctx, r) })
}

func (f *Store) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	return write(f, "act", func() ([]store.Acted, error) { return f.Store.Act(ctx, actions) })
}

func (f *Store) Acquire(
	ctx context.Context, name, holder string, ttl time.Duration, value []byte,
) (store.Lease, error) {
	return write(f, "acquire", func() (store.Lease, error) {
		return f.Store.Acquire(ctx, name, holder, ttl, value)
	})
}

func (f *Store) Renew(
	ctx context.Context, leases []store.Lease, ttl time.Duration,
) ([]store.Lease, error) {
	return write(f, "renew", func() ([]store.Lease, error) {
		return f.Store.Renew(ctx, leases, ttl)
	})
}

func (f *Store) End(ctx context.Context, name string, token int64, remove bool) error {
	return tell(f, "end", func() error { return f.Store.End(ctx, name, token, remove) })
}

func (f *Store) AcquireAll(
	ctx context.Context, holder string, wants []store.Lease, ttl time.Duration, judge int64,
) (store.Granted, error) {
	return write(f, "acquire", func() (store.Granted, error) {
		return f.Store.AcquireAll(ctx, holder, wants, ttl, judge)
	})
}

func (f *Store) EndAll(ctx context.Context, leases []store.Lease, remove bool) error {
	return tell(f, "end", func() error { return f.Store.EndAll(ctx, leases, remove) })
}

func (f *Store) Beat(
	ctx context.Context, held []store.Lease, ttl time.Duration, prefixes ...string,
) (store.Beat, error) {
	return write(f, "beat", func() (store.Beat, error) {
		return f.Store.Beat(ctx, held, ttl, prefixes...)
	})
}

func (f *Store) ChangeQueue(
	ctx context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	return write(f, "change queue", func() (store.Changed[task.Queue], error) {
		return f.Store.ChangeQueue(ctx, name, change)
	})
}

func (f *Store) ChangeKey(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
	return write(f, "change key", func() (store.KeyRule, error) {
		return f.Store.ChangeKey(ctx, c)
	})
}

func (f *Store) DeleteQueue(ctx context.Context, name string, force bool) error {
	return tell(f, "delete queue", func() error { return f.Store.DeleteQueue(ctx, name, force) })
}

func (f *Store) Keep(ctx context.Context, v []byte) (store.Value, error) {
	return write(f, "keep", func() (store.Value, error) { return f.Store.Keep(ctx, v) })
}

func (f *Store) AppendLog(ctx context.Context, id task.ID, lines []task.LogLine) error {
	return tell(f, "append log", func() error { return f.Store.AppendLog(ctx, id, lines) })
}

func (f *Store) Append(ctx context.Context, events []store.Event) (appended int, err error) {
	return write(f, "append events", func() (int, error) { return f.Store.Append(ctx, events) })
}

func (f *Store) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (store.Changed[store.Notifier], error) {
	return write(f, "change notifier", func() (store.Changed[store.Notifier], error) {
		return f.Store.ChangeNotifier(ctx, name, change)
	})
}

func (f *Store) DeleteNotifier(ctx context.Context, name string) error {
	return tell(f, "delete notifier", func() error { return f.Store.DeleteNotifier(ctx, name) })
}

func (f *Store) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (ok bool, err error) {
	return write(f, "advance notifier", func() (bool, error) {
		return f.Store.Advance(ctx, name, from, to)
	})
}

func (f *Store) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (store.Changed[store.Hook], error) {
	return write(f, "change hook", func() (store.Changed[store.Hook], error) {
		return f.Store.ChangeHook(ctx, name, change)
	})
}

func (f *Store) DeleteHook(ctx context.Context, name string) error {
	return tell(f, "delete hook", func() error { return f.Store.DeleteHook(ctx, name) })
}

func (f *Store) Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error) {
	return write(f, "free", func() (int, error) { return f.Store.Free(ctx, self, judge) })
}

func (f *Store) FreeEnded(ctx context.Context) (freed int, err error) {
	return write(f, "free ended", func() (int, error) { return f.Store.FreeEnded(ctx) })
}

func (f *Store) Prune(ctx context.Context, limit int) (pruned int, err error) {
	return write(f, "prune", func() (int, error) { return f.Store.Prune(ctx, limit) })
}
