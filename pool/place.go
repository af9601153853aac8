package pool

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/balance"
)

// place is a runner and what the pool knows of it. All but the runner is guarded by the pool's lock.
type place struct {
	runner   Runner
	ranked   *balance.Member[*place]
	running  int                     // functions given to it that have not returned
	load     float64                 // theirs
	failures int                     // in a row
	penalty  float64                 // loads of failed functions that still count
	punished *balance.Member[*place] // nil without a penalty
}

// waiter is a caller that waits for k places.
type waiter struct {
	k      int
	load   float64
	ready  chan struct{} // closed when the wait is over, except by the caller's own context
	places []*place      // then: those it was given; none when the pool was closed
}

// take gives the caller the place of least load.
func (p *Pool) take(ctx context.Context, load float64) (*place, error) {
	p.mu.Lock()
	if err := p.refuse(ctx, 1, load); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	if p.waiting.Len() == 0 && p.room > 0 {
		p.forgive()
		at := p.ranking.Pick(load).Value
		p.enter(at, load)
		p.mu.Unlock()
		return at, nil
	}
	places, err := p.wait(ctx, 1, load)
	if err != nil {
		return nil, err
	}
	return places[0], nil
}

// takeEach gives the caller the k places of least load.
func (p *Pool) takeEach(ctx context.Context, k int, load float64) ([]*place, error) {
	p.mu.Lock()
	if err := p.refuse(ctx, k, load); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	if p.waiting.Len() == 0 && p.room >= k {
		defer p.mu.Unlock()
		return p.pick(k, load), nil
	}
	return p.wait(ctx, k, load)
}

// refuse names what speaks against a call from the start.
func (p *Pool) refuse(ctx context.Context, k int, load float64) error {
	switch {
	case !(0 <= load && load <= MaxLoad): // NaN is neither
		return fmt.Errorf("run with load %v: %w", load, ErrLoad)
	case p.closed:
		return ErrClosed
	case len(p.places) == 0:
		return ErrEmpty
	case k < 1 || k > len(p.places):
		return fmt.Errorf("run on %d of %d runners: %w", k, len(p.places), ErrRange)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// wait is called with the lock held and gives it back. First come first served: a caller that waits for many
// places also holds up those behind it.
func (p *Pool) wait(ctx context.Context, k int, load float64) ([]*place, error) {
	if limit := p.conf.MaxWaiting; limit > 0 && p.waiting.Len() >= limit {
		p.mu.Unlock()
		return nil, ErrBusy
	}
	w := &waiter{k: k, load: load, ready: make(chan struct{})}
	turn := p.waiting.PushBack(w)
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		p.mu.Lock()
		p.waiting.Remove(turn) // nothing to remove when w was served this very moment
		if w.places != nil {
			p.mu.Unlock()
			return w.places, nil
		}
		p.serve()
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	if w.places == nil {
		return nil, ErrClosed
	}
	return w.places, nil
}

// serve gives places to those who wait, as far as there is room.
func (p *Pool) serve() {
	for e := p.waiting.Front(); e != nil; e = p.waiting.Front() {
		w := e.Value.(*waiter)
		if p.room < w.k {
			return
		}
		p.waiting.Remove(e)
		w.places = p.pick(w.k, w.load)
		close(w.ready)
	}
}

// pick enters k places; there is room in as many.
func (p *Pool) pick(k int, load float64) []*place {
	p.forgive()
	places := make([]*place, 0, k)
	for _, m := range p.ranking.PickN(make([]*balance.Member[*place], 0, k), k, load) {
		p.enter(m.Value, load)
		places = append(places, m.Value)
	}
	return places
}

// enter counts a function in where the ranking has counted its load in.
func (p *Pool) enter(at *place, load float64) {
	p.running.Add(1)
	at.load += load
	if at.running++; at.running == p.conf.Capacity {
		p.room--
		p.rank(at)
	}
}

// give takes back what a function held. A load of nothing is set, not computed, so that rounding never adds up.
func (p *Pool) give(at *place, load float64, succeeded, ended bool) {
	p.mu.Lock()
	if at.running == p.conf.Capacity {
		p.room++
	}
	if at.running--; at.running == 0 {
		at.load = 0
	} else {
		at.load -= load
	}
	switch {
	case succeeded:
		at.failures = 0
		p.pardon(at)
	case !ended:
		p.punish(at, load)
	}
	p.rank(at)
	p.serve()
	p.mu.Unlock()
	p.running.Done()
}

// rank puts the place where it belongs among the others.
func (p *Pool) rank(at *place) {
	order := at.load + at.penalty
	if at.running > 0 && at.running == p.conf.Capacity {
		order = math.Inf(1)
	}
	p.ranking.Set(at.ranked, order)
}

// punish lets a failed function's load go on counting: to be free again at once because one has failed must
// not attract work.
func (p *Pool) punish(at *place, load float64) {
	if p.conf.Penalty < 0 || load == 0 {
		return
	}
	end := time.Since(p.began).Seconds() + p.conf.Penalty.Seconds()*float64(int(1)<<min(at.failures, 6))
	at.failures++
	at.penalty += load
	if at.punished == nil {
		at.punished = p.punished.Add(at, end)
	} else {
		p.punished.Set(at.punished, end)
	}
}

// pardon ends a penalty.
func (p *Pool) pardon(at *place) {
	if at.punished != nil {
		p.punished.Remove(at.punished)
		at.punished, at.penalty = nil, 0
	}
}

// forgive ends the penalties whose time is over. The clock is read only when there are any.
func (p *Pool) forgive() {
	if p.punished.Len() == 0 {
		return
	}
	now := time.Since(p.began).Seconds()
	for m := p.punished.Min(); m != nil && m.Load() <= now; m = p.punished.Min() {
		p.pardon(m.Value)
		p.rank(m.Value)
	}
}
