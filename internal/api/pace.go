package api

import (
	"sync"
	"time"

	"github.com/rotahq/rota/task"
)

// Under more submissions than the engine can take a node would answer each of them, late: everybody
// waits, and nobody learns that there is too much. So one that would probably wait too long is
// refused at once. Workers' calls are never refused for this: they make room.

const (
	// longestWait is how long a submission that is let in should take.
	longestWait = time.Second
	// swift is a weight that the engine takes in a fraction of that on any disk: two of its
	// transactions. Less says nothing about how much it could take.
	swift = 8192
	// firstRate is what is expected of the engine, in weight per second, before it has shown what
	// it takes.
	firstRate = 20_000
	// newest is the share of the newest observation in the rate.
	newest = 0.3
)

// pace reckons how long a submission would take, from how long others took. Its methods are pure:
// time is an argument.
type pace struct {
	under int64     // weight of the submissions under way
	rate  float64   // weight per second that the engine takes when it has enough of it
	moved time.Time // when one was last answered, or the first came
}

// admits tells whether a submission of weight n would probably be answered in time. One that is
// alone always may try.
func (p *pace) admits(n int64, now time.Time) bool {
	ahead := p.under + n
	switch {
	case p.under == 0:
		return true
	case now.Sub(p.moved) > longestWait:
		return false // nothing moves
	}
	return ahead <= swift || float64(ahead) <= p.rate*longestWait.Seconds()
}

// begin lets a submission in and says how much is to be done until it is answered, itself included.
func (p *pace) begin(n int64, now time.Time) (ahead int64) {
	if p.under == 0 {
		p.moved = now
	}
	p.under += n
	return p.under
}

// end takes it out. What was ahead of it was done in the time that it took (Little 1961).
func (p *pace) end(n, ahead int64, took time.Duration, now time.Time) {
	p.under -= n
	p.moved = now
	if ahead >= swift/2 {
		seen := float64(ahead) / max(took, time.Millisecond).Seconds()
		p.rate += newest * (seen - p.rate)
	}
}

// gate is a pace for callers at the same time.
type gate struct {
	mu sync.Mutex
	pace
}

// pass runs f, which submits a weight, or refuses to.
func (g *gate) pass(weight int64, f func() error) error {
	began := time.Now()
	g.mu.Lock()
	if !g.admits(weight, began) {
		g.mu.Unlock()
		return busy("more tasks are submitted than can be stored in time")
	}
	ahead := g.begin(weight, began)
	g.mu.Unlock()
	defer func() {
		now := time.Now()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.end(weight, ahead, now.Sub(began), now)
	}()
	return f()
}

// look is how things stand.
func (g *gate) look() pace {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pace
}

// burden is what tasks weigh at the gate: one each, and one for each KiB of their contexts.
func burden(tasks []task.Submission) int64 {
	n := 0
	for i := range tasks {
		n += len(tasks[i].Context) + len(tasks[i].After)<<10
	}
	return int64(len(tasks) + n>>10)
}
