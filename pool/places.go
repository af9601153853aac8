package pool

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/balance"
)

// places decides who goes where and who waits. It knows the runners by their numbers only.
type places struct {
	conf  Config
	all   []*place
	began time.Time // callers' turns are counted from here

	mu      sync.Mutex
	closed  bool
	running int           // functions on all places
	idle    chan struct{} // closed when closed and nothing runs any more

	// by order, those that are not open at +Inf; not kept for TwoChoices
	ranking  balance.Ranking[*place]
	room     int                      // places that are open
	able     int                      // places that are neither stuck nor ejected
	suspects int                      // places with too many faults in a row
	turns    uint64                   // picks of all time
	luck     *rand.Rand               // for TwoChoices
	waiting  balance.Ranking[*waiter] // by turn; those at +Inf are aside: too few places are able
	aside    bool                     // there may be such
}

// waiter is a caller that waits for places.
type waiter struct {
	load   float64
	turn   float64
	places []*place      // as many as it waits for; filled when it is served
	served bool          // otherwise the pool was closed
	ready  chan struct{} // closed when either has happened
}

func newPlaces(c Config) *places {
	p := &places{
		conf: c, began: time.Now(), idle: make(chan struct{}), luck: rand.New(rand.NewPCG(0, 0)),
	}
	for i := range c.Runners {
		at := &place{number: i, weight: 1}
		if c.Weights != nil {
			at.weight = c.Weights[i]
		}
		at.slots, at.capacity = c.slots(at.weight), c.capacity(at.weight)
		at.ranked = p.ranking.Add(at, 0)
		p.all = append(p.all, at)
		p.rank(at)
	}
	return p
}

// take fills the list with distinct places for functions of this load: at once when there is room
// on as many, otherwise after a wait.
//
// Who finds no room lets others run before it joins those who wait: functions shorter than that
// then never make anybody wait, and a row of waiting callers, each of which costs two switches of
// goroutines, does not keep itself up.
func (p *places) take(ctx context.Context, load float64, list []*place) error {
	for patient := false; ; patient = true {
		ended := ctx.Err() != nil // before the lock: a context may be anybody's code, or nil
		p.lock()
		if err := p.refuse(len(list), load); err != nil || ended {
			p.mu.Unlock()
			return cmp.Or(err, context.Cause(ctx))
		}
		if !p.queued() && p.hasRoom(len(list), load) {
			p.pick(load, list)
			p.mu.Unlock()
			return nil
		}
		if patient {
			return p.wait(ctx, load, list)
		}
		p.mu.Unlock()
		runtime.Gosched()
	}
}

// lock takes the lock. What it guards takes tens of nanoseconds, so whoever finds it taken asks
// again after a while, and after twice as long each time (Anderson, The Performance of Spin Lock
// Alternatives, 1990): the processor that has the lock and its memory goes through several calls in
// that time. sync.Mutex alone puts its caller to sleep at once when other goroutines are ready to
// run; one that sleeps while it has a place keeps that from others.
func (p *places) lock() {
	for pause := 64; pause < 16384; pause *= 2 {
		if p.mu.TryLock() {
			return
		}
		for range pause { // nothing
		}
	}
	p.mu.Lock()
}

// refuse names what speaks against a call from the start.
func (p *places) refuse(k int, load float64) error {
	switch {
	case !(0 <= load && load <= MaxLoad): // NaN is neither
		return fmt.Errorf("run with load %v: %w", load, ErrLoad)
	case p.closed:
		return ErrClosed
	case len(p.all) == 0:
		return ErrEmpty
	case p.conf.Capacity > 0 && !p.everFits(k, load):
		return fmt.Errorf("run with load %v on %d of %d runners, too few of which are so large: %w",
			load, k, len(p.all), ErrLoad)
	}
	return nil
}

// everFits says whether k places have the capacity for the load while nothing else runs there.
func (p *places) everFits(k int, load float64) bool {
	for _, at := range p.all {
		if load <= at.capacity {
			k--
		}
		if k == 0 {
			return true
		}
	}
	return false
}

// queued says whether somebody waits whom a newcomer must not pass.
func (p *places) queued() bool {
	first := p.waiting.Min()
	return first != nil && !math.IsInf(first.Load(), 1)
}

// willFit says whether k places have the capacity for the load that are neither stuck nor ejected,
// when all that runs there has returned.
func (p *places) willFit(k int, load float64) bool {
	if p.able == len(p.all) || p.conf.Capacity == 0 {
		return k <= p.able
	}
	for _, at := range p.all {
		if at.able && load <= at.capacity {
			k--
		}
	}
	return k <= 0
}

// hasRoom says whether k places have room now.
func (p *places) hasRoom(k int, load float64) bool {
	switch {
	case p.conf.Capacity == 0 || p.room < k:
		return p.room >= k
	case k == 1:
		return p.choose(load) != nil
	}
	for _, at := range p.all {
		if at.has(load) {
			k--
		}
	}
	return k <= 0
}

// choose finds the place for a function of this load; nil when none has room.
func (p *places) choose(load float64) *place {
	if p.room == 0 {
		return nil
	}
	if p.conf.Choice == TwoChoices {
		if at := p.draw(load); at != nil {
			return at
		}
	} else if at := p.ranking.Min().Value; at.has(load) {
		return at
	}
	var best *place
	for _, at := range p.all {
		if at.has(load) && (best == nil || at.before(best, p.conf.Choice)) {
			best = at
		}
	}
	return best
}

// draw is the better of two places by luck; nil when neither has room.
func (p *places) draw(load float64) *place {
	n := len(p.all)
	i := p.luck.IntN(n)
	a, b := p.all[i], p.all[i]
	if n > 1 {
		b = p.all[(i+1+p.luck.IntN(n-1))%n]
	}
	switch {
	case a.has(load) && (!b.has(load) || a.before(b, p.conf.Choice)):
		return a
	case b.has(load):
		return b
	}
	return nil
}

// pick fills the list with places; there is room on as many.
func (p *places) pick(load float64, list []*place) {
	for i := range list {
		at := p.choose(load)
		list[i], at.claimed = at, len(list) > 1
		p.enter(at, load)
	}
	if len(list) == 1 {
		return
	}
	for _, at := range list {
		at.claimed = false
		p.rank(at)
	}
}

// enter counts a function in.
func (p *places) enter(at *place, load float64) {
	p.running++
	p.turns++
	at.picks++
	at.turn = p.turns
	at.running++
	at.load += load
	at.given += load / at.weight
	switch {
	case p.conf.Choice == TwoChoices:
	case p.ranking.Min() == at.ranked:
		p.ranking.Pick(load / at.weight)
	default:
		// the first in the ranking has no room for this load; this one's turn passes all the same
		p.ranking.Remove(at.ranked)
		at.ranked = p.ranking.Add(at, math.Inf(1))
	}
	p.rank(at)
}

// rank puts the place where it belongs among the others, after whatever changed it.
func (p *places) rank(at *place) {
	takes := p.takes(at)
	if able := takes > 0; able != at.able {
		at.able = able
		if able {
			p.able++
			p.recall()
		} else {
			p.able--
		}
	}
	if open := !at.claimed && at.running < takes; open != at.open {
		at.open = open
		if open {
			p.room++
		} else {
			p.room--
		}
	}
	if p.conf.Choice == TwoChoices {
		return
	}
	order := math.Inf(1)
	if at.open {
		order = at.order(p.conf.Choice)
	}
	p.ranking.Set(at.ranked, order)
}

// wait is called with the lock held and gives it back. Whoever is first in the order of turns holds
// up the others until there is room for it, so that who needs much is not passed by for ever. It
// does not while that depends on a runner that is stuck or ejected: nobody knows how long that
// lasts.
func (p *places) wait(ctx context.Context, load float64, list []*place) error {
	if limit := p.conf.MaxWaiting; limit < 0 || limit > 0 && p.waiting.Len() >= limit {
		p.mu.Unlock()
		return ErrBusy
	}
	w := &waiter{
		load: load, turn: p.turnOf(load), places: make([]*place, len(list)),
		ready: make(chan struct{}),
	}
	turn := p.waiting.Add(w, w.turn)
	p.serve() // this one may be first now, and need less than who was
	p.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		p.lock()
		if p.waiting.Remove(turn) {
			p.serve()
		}
		p.mu.Unlock()
		if w.served {
			for _, at := range w.places { // this very moment
				p.give(&stay{at: at, load: load}, nil, true)
			}
		}
		return context.Cause(ctx)
	}
	if !w.served {
		return ErrClosed
	}
	copy(list, w.places)
	return nil
}

// turnOf is when a caller that comes now counts as having come, in seconds.
func (p *places) turnOf(load float64) float64 {
	if p.conf.HeadStart == 0 {
		return 0 // equals are served in the order of their coming
	}
	return time.Since(p.began).Seconds() - p.conf.HeadStart.Seconds()*load
}

// serve gives places to those who wait, as far as there is room.
func (p *places) serve() {
	for p.queued() {
		first := p.waiting.Min()
		w := first.Value
		switch k := len(w.places); {
		case p.hasRoom(k, w.load):
		case p.willFit(k, w.load):
			return
		default:
			p.waiting.Set(first, math.Inf(1))
			p.aside = true
			continue
		}
		p.waiting.Remove(first)
		p.pick(w.load, w.places)
		w.served = true
		close(w.ready)
	}
}

// recall gives those aside their turns again.
func (p *places) recall() {
	if !p.aside {
		return
	}
	p.aside = false
	for _, m := range slices.Collect(p.waiting.All()) {
		p.waiting.Set(m, m.Value.turn)
	}
}

// stay is one function on its place.
type stay struct {
	at   *place
	load float64
	left bool // its caller has gone
	over bool // it has returned
}

// leave says that the caller has gone: the place is given nothing more until the function has
// returned.
func (p *places) leave(s *stay) {
	p.lock()
	defer p.mu.Unlock()
	if !s.over {
		s.left = true
		s.at.left++
		p.rank(s.at)
		p.serve() // what this place was awaited for must not hold up the others
	}
}

// give takes back what a function held. fault speaks against the runner; without one, unknown
// leaves open what the function's end says of it. A load of nothing is set, not computed, so that
// rounding never adds up.
func (p *places) give(s *stay, fault error, unknown bool) {
	at := s.at
	p.lock()
	s.over = true
	if s.left {
		at.left--
	}
	if at.running--; at.running == 0 {
		at.load = 0
	} else {
		at.load -= s.load
	}
	switch {
	case fault != nil:
		p.blame(at, s.load, fault)
	case at.faults > 0 && !unknown:
		p.trust(at)
	}
	p.rank(at)
	if p.waiting.Len() > 0 {
		p.serve()
	}
	if p.running--; p.running == 0 && p.closed {
		close(p.idle)
	}
	p.mu.Unlock()
}

// close lets nothing more start and waits for what runs. It says whether it was the first.
func (p *places) close() (first bool) {
	p.lock()
	first = !p.closed
	if first {
		p.closed = true
		for p.waiting.Len() > 0 {
			w := p.waiting.Min()
			p.waiting.Remove(w)
			close(w.Value.ready)
		}
		if p.running == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	<-p.idle
	p.lock()
	for _, at := range p.all {
		if at.timer != nil {
			at.timer.Stop()
			p.acquit(at)
			p.rank(at)
		}
	}
	p.mu.Unlock()
	return first
}
