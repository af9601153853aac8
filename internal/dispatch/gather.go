package dispatch

import (
	"sync"
	"time"
)

// lateFlight is how long a transaction may take before another one does not wait for it.
const lateFlight = 50 * time.Millisecond

// gather turns many small writes into few large ones: one flight at a time, and what arrives
// meanwhile goes into the next. A transaction costs the same however much it holds, so under load a
// flight also waits a moment for company. It makes no promise of order between callers.
type gather[T any] struct {
	// flights is how many may be under way at most. A second one leaves only beside one that has
	// taken longer than patience, as when its transaction waits for a lock of somebody's.
	flights  int
	patience time.Duration
	// company is how long a flight waits for more when the last one was a crowd and this one would
	// be less than it; a crowd of single ones brings less, and is waited for a third of that.
	company time.Duration
	limit   int          // entries' weight per flight, at least one entry
	room    int          // weight that may wait; more is refused
	wait    func()       // returns when a flight may leave; nil = at once
	fly     func([]*T)   // does the work and answers each entry itself
	size    func(*T) int // weight of an entry

	mu      sync.Mutex
	pending []*T
	weight  int           // of pending
	enough  int           // weight at which a flight that waits for company leaves; 0 = none waits
	full    chan struct{} // closed when there is enough
	flying  int
	late    int // of those, the ones that take longer than patience
	closed  bool
	wg      sync.WaitGroup
}

// load is what a flight carries.
type load struct{ weight, callers int }

// A flight of so much weight, of several callers, or of so many callers is a crowd: it tells that
// the next will have company, too. Who calls alone never waits.
const (
	crowdWeight  = 128
	crowdCallers = 8
)

// patience is how long a flight that follows this one waits for company.
func (l load) patience(company time.Duration) time.Duration {
	switch {
	case l.callers > 1 && l.weight >= crowdWeight:
		return company
	case l.callers >= crowdCallers:
		return company / 3
	}
	return 0
}

// add lets e take part in the next flight. It says false, and e takes no part, when too much waits
// already or after close.
func (g *gather[T]) add(e *T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.weight > 0 && g.weight+g.size(e) > g.room {
		return false
	}
	g.pending = append(g.pending, e)
	g.weight += g.size(e)
	if g.enough > 0 && g.weight >= g.enough {
		g.enough = 0
		close(g.full)
	}
	g.start()
	return true
}

// start lets somebody fly what is pending, when nobody does who is in time. g.mu is held.
func (g *gather[T]) start() {
	if len(g.pending) > 0 && g.flying == g.late && g.flying < g.flights {
		g.flying++
		g.wg.Go(g.run)
	}
}

// run flies until nothing is pending, or somebody else does since it was late.
func (g *gather[T]) run() {
	var last load
	for {
		if g.wait != nil {
			g.wait()
		}
		g.mu.Lock()
		g.awaitCompany(last)
		if len(g.pending) == 0 || g.flying > g.late+1 {
			g.flying--
			g.mu.Unlock()
			return
		}
		entries := g.board()
		last = load{g.weigh(entries), len(entries)}
		g.weight -= last.weight
		g.mu.Unlock()
		g.send(entries)
	}
}

// awaitCompany waits, under load, until what is pending is as much as the last flight, or for a
// while. g.mu is held, and let go meanwhile.
func (g *gather[T]) awaitCompany(last load) {
	patience := last.patience(g.company)
	if patience == 0 || g.weight == 0 || g.weight >= last.weight || g.enough > 0 || g.closed {
		return
	}
	g.enough, g.full = last.weight, make(chan struct{})
	full := g.full
	g.mu.Unlock()
	timer := time.NewTimer(patience)
	select {
	case <-full:
	case <-timer.C:
	}
	timer.Stop()
	g.mu.Lock()
	g.enough = 0
}

// board takes what the next flight carries out of the pending. g.mu is held.
func (g *gather[T]) board() []*T {
	weight, n := g.size(g.pending[0]), 1
	for n < len(g.pending) && weight+g.size(g.pending[n]) <= g.limit {
		weight += g.size(g.pending[n])
		n++
	}
	entries := g.pending[:n:n]
	if g.pending = g.pending[n:]; len(g.pending) == 0 {
		g.pending = nil
	}
	return entries
}

func (g *gather[T]) weigh(entries []*T) (weight int) {
	for _, e := range entries {
		weight += g.size(e)
	}
	return weight
}

// send makes one flight. When it is late, another may leave beside it.
func (g *gather[T]) send(entries []*T) {
	if g.flights == 1 {
		g.fly(entries)
		return
	}
	over, late := false, false
	timer := time.AfterFunc(g.patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !over {
			late = true
			g.late++
			g.start()
		}
	})
	defer timer.Stop()
	g.fly(entries)
	g.mu.Lock()
	defer g.mu.Unlock()
	if over = true; late {
		g.late--
	}
}

// close lets nothing more in and returns when nothing is pending and nothing flies.
func (g *gather[T]) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
