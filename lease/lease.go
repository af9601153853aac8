package lease

import (
	"context"
	"time"
)

// Lease is one name in the hands of a keeper: held, lapsed or over. See the package comment for its
// states.
type Lease struct {
	keeper *Keeper
	name   string
	token  int64

	// Guarded by the keeper's lock.
	ctx      context.Context // of the present holding, or of the last one
	cancel   context.CancelCauseFunc
	deadline time.Time // when it ends unless it is renewed before
	value    []byte    // what Set said; nil = what Acquire said
	over     error     // ErrLost or ErrReleased; nil = held or lapsed
	ended    bool      // the store knows that it was released
}

// Name is the name that is held.
func (l *Lease) Name() string { return l.name }

// Token is the right by which it is held: greater than that of any holder before, and good until
// the store gives another one. Write with it, and let the write check it.
func (l *Lease) Token() int64 { return l.token }

// Context is that of the present holding, and ends with it: ErrExpired, ErrLost or ErrReleased is
// its cause. A lease that lapsed and was renewed after all has a new one.
func (l *Lease) Context() context.Context {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.ctx
}

// Err says whether the name is held at this moment (nil), by the clock: also when the goroutine
// that ends contexts has not come to run yet, as after a pause of the whole process. Otherwise
// ErrExpired, ErrLost or ErrReleased.
func (l *Lease) Err() error {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	switch {
	case l.over != nil:
		return l.over
	case l.lapsed() || !time.Now().Before(l.deadline):
		return ErrExpired
	}
	return nil
}

// Until is when the present holding, or the last one, ends unless it is renewed before.
func (l *Lease) Until() time.Time {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.deadline
}

// Set changes what the holder says of itself; the next round tells the store. nil leaves what
// stands there. The value must not be changed afterwards.
func (l *Lease) Set(value []byte) {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.value = value
}

// Release ends the lease: see Keeper.Release.
func (l *Lease) Release(ctx context.Context) error { return l.keeper.Release(ctx, l) }

// lapsed tells whether no holding is under way. The lock is held, here and below.
func (l *Lease) lapsed() bool { return l.ctx.Err() != nil }

// extend makes the holding last to a deadline, and begins a new one when the last has ended and now
// is before it.
func (l *Lease) extend(deadline, now time.Time) {
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
	switch {
	case l.ctx != nil && !l.lapsed() && !now.Before(l.deadline):
		l.cancel(ErrExpired)
	case (l.ctx == nil || l.lapsed()) && now.Before(l.deadline):
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
	}
}

// end makes it over.
func (l *Lease) end(cause error) {
	l.over = cause
	l.cancel(cause) // a lapsed one keeps its first cause
}

// grantsOf is how the store is asked for leases.
func grantsOf(list []*Lease) []Grant {
	grants := make([]Grant, len(list))
	for i, l := range list {
		grants[i] = Grant{Name: l.name, Token: l.token, Value: l.value}
	}
	return grants
}
