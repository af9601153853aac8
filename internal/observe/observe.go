// Package observe keeps the newest answer to a question that may take long, so that whoever needs
// an answer now gets what is known and how old that is.
package observe

import (
	"context"
	"sync"
	"time"
)

// Config of a Value. Ask is needed.
type Config[T any] struct {
	// Ask gets an answer. It must end soon after its context has.
	Ask func(context.Context) (T, error)
	// Fresh is how old an answer may be before the question is asked again. Default 0: it is asked
	// each time.
	Fresh time.Duration
	// Rest lets an answer be fresh also for so many times as long as it took to get, so that asking
	// takes a bounded share of the time. Default 0.
	Rest int
	// Stale says of an answer that something has changed since, so that it is not fresh however
	// young it is. Default: of none.
	Stale func(T) bool
	// Within is how long one question may take before it is given up. Default 5 s.
	Within time.Duration
}

// Value is the newest answer to a question. At most one question is under way at a time. Its
// methods may be called at the same time.
type Value[T any] struct {
	conf Config[T]
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	under chan struct{} // closed when the question under way has ended; nil = none is
	asked time.Time     // when that was asked
	known Known[T]
	took  time.Duration // to get what is known
}

// Known is what is known at a moment.
type Known[T any] struct {
	Value T         // the newest answer; without one the zero value
	At    time.Time // when that was asked for; zero = there was none yet
	Err   error     // what became of the newest question that ended; nil = Value
}

// New makes a value of which nothing is known. Close it.
func New[T any](conf Config[T]) *Value[T] {
	if conf.Within == 0 {
		conf.Within = 5 * time.Second
	}
	v := &Value[T]{conf: conf}
	v.life, v.end = context.WithCancel(context.Background())
	return v
}

// Get asks, unless what is known is fresh, and waits for the answer at most for patience. fresh is
// false when what it returns is what was known before: then the question may still be under way,
// and serves the next caller.
func (v *Value[T]) Get(patience time.Duration) (known Known[T], fresh bool) {
	return v.get(func(time.Duration) time.Duration { return patience })
}

// GetSoon is Get whose patience is that with the question under way, since it was asked: while one
// is not answered only the first callers wait.
func (v *Value[T]) GetSoon(patience time.Duration) (known Known[T], fresh bool) {
	return v.get(func(under time.Duration) time.Duration { return patience - under })
}

// get is Get with a patience that depends on how long the question is under way already.
func (v *Value[T]) get(
	patience func(under time.Duration) time.Duration,
) (known Known[T], fresh bool) {
	v.mu.Lock()
	if v.fresh() {
		defer v.mu.Unlock()
		return v.known, true
	}
	if v.life.Err() != nil {
		defer v.mu.Unlock()
		return v.known, false
	}
	if v.under == nil {
		v.under, v.asked = make(chan struct{}), time.Now()
		v.work.Go(v.ask)
	}
	left := patience(time.Since(v.asked))
	if left <= 0 {
		defer v.mu.Unlock()
		return v.known, false
	}
	under, wait := v.under, time.NewTimer(left)
	v.mu.Unlock()
	defer wait.Stop()
	select {
	case <-under:
		fresh = true
	case <-wait.C:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known, fresh
}

// fresh tells whether what is known need not be asked for.
func (v *Value[T]) fresh() bool {
	return v.known.Err == nil && !v.known.At.IsZero() &&
		time.Since(v.known.At) < max(v.conf.Fresh, time.Duration(v.conf.Rest)*v.took) &&
		(v.conf.Stale == nil || !v.conf.Stale(v.known.Value))
}

// ask asks once.
func (v *Value[T]) ask() {
	ctx, cancel := context.WithTimeout(v.life, v.conf.Within)
	defer cancel()
	asked := time.Now()
	value, err := v.conf.Ask(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known.Err = err; err == nil {
		v.known.Value, v.known.At, v.took = value, asked, time.Since(asked)
	}
	close(v.under)
	v.under = nil
}

// Close gives up the question under way and waits until it has ended. Later calls of Get ask
// nobody.
func (v *Value[T]) Close() {
	v.mu.Lock()
	v.end()
	v.mu.Unlock()
	v.work.Wait()
}
