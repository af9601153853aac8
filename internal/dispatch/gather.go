package dispatch

import (
	"sync"
	"time"
)

// gather turns many small writes into few large ones: so many flights at a time, and what arrives
// meanwhile goes into the next. It makes no promise of order between callers.
type gather[T any] struct {
	flights int // at a time
	// that a flight waits for more when the last one was a crowd and this one would be less than it
	company time.Duration
	limit   int          // entries' weight per flight, at least one entry
	room    int          // weight that may wait; more is refused
	wait    func()       // returns when a flight may leave; nil = at once
	fly     func([]*T)   // does the work and answers each entry itself
	size    func(*T) int // weight of an entry

	mu      sync.Mutex
	pending []*T
	weight  int // of pending
	flying  int
	closed  bool
	wg      sync.WaitGroup
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
	if g.flying < g.flights {
		g.flying++
		g.wg.Go(g.run)
	}
	return true
}

// crowd is the weight from which on a flight tells that the next will have company, too.
const crowd = 128

// run flies until nothing is pending.
func (g *gather[T]) run() {
	last := 0 // weight of the last flight
	for {
		if g.wait != nil {
			g.wait()
		}
		g.mu.Lock()
		if last >= crowd && g.weight > 0 && g.weight < last && !g.closed {
			g.mu.Unlock()
			time.Sleep(g.company)
			g.mu.Lock()
		}
		if len(g.pending) == 0 {
			g.flying--
			g.mu.Unlock()
			return
		}
		weight, n := g.size(g.pending[0]), 1
		for n < len(g.pending) && weight+g.size(g.pending[n]) <= g.limit {
			weight += g.size(g.pending[n])
			n++
		}
		load := g.pending[:n:n]
		if g.pending = g.pending[n:]; len(g.pending) == 0 {
			g.pending = nil
		}
		g.weight -= weight
		g.mu.Unlock()
		last = weight
		g.fly(load)
	}
}

// close lets nothing more in and returns when nothing is pending and nothing flies.
func (g *gather[T]) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
