package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/tick"
)

const (
	leaseTime = 10 * time.Second
	beat      = time.Second
	clockBeat = 100 * time.Millisecond
)

// node is a machine that runs one node after the other.
type node struct {
	world *world
	*machine
	process atomic.Pointer[process] // the present life, or the last one
	// the life before, when the present one was started beside it; nil = it is over
	stopped *process
	guard   guard
	down    bool // stays down
}

// guard is the lock of a node's processes on its machine: who has it has it until its death.
type guard struct {
	mu sync.Mutex
	of *process
}

// guardDoor is a process's side of it. The kernel answers, so it is no message on the bus.
type guardDoor struct {
	node *node
	from *process
}

// Hold implements scheduler.Guard.
func (d guardDoor) Hold() (string, error) {
	g := &d.node.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of != nil && g.of != d.from && !g.of.dead() && !d.node.world.bug.guess {
		return "", fmt.Errorf("%v has the guard", g.of)
	}
	g.of = d.from
	return d.node.name, nil
}

// start begins a new life. Only the world calls it.
func (n *node) start() {
	p := n.world.birth(n.machine, n.process.Load())
	p.leave = make(chan struct{})
	n.process.Store(p)
	n.world.living.Go(func() {
		err := n.live(p, p.leave)
		n.world.bus.wake(p, 0, fmt.Sprintf("ends: %v", err), func() { n.end(p) })
	})
}

// kill ends the present life; after a while the next one begins. Only the world calls it.
func (n *node) kill() { n.end(n.process.Load()) }

// end ends a life. When it was the present one, another goes on or begins. Only the world calls it.
func (n *node) end(p *process) {
	p.kill()
	before := n.stopped
	switch {
	case p == before:
		n.stopped = nil
		return
	case before != nil && !before.dead(): // whom it has found alive
		n.stopped = nil
		n.process.Store(before)
		return
	}
	n.world.later(300*time.Millisecond, 8*time.Second, func() {
		if !n.down && n.process.Load().dead() {
			n.start()
		}
	})
}

// live is one life of a node: what the module's root does, with the beats on the bus.
func (n *node) live(p *process, leave <-chan struct{}) error {
	db := &storeDoor{Store: n.world.seen, world: n.world, from: p}
	rounds, err := scheduler.New(scheduler.Config{
		Leases: db, Chores: db, Name: n.name, Start: p.String(), TTL: leaseTime, Beat: beat,
		Along: dispatch.Words(), Passing: []string{dispatch.AlivePrefix},
		Heard: func(asked, answered time.Time, beat store.Beat) {
			if n := p.serves.Load(); n != nil {
				n.HearStore(asked, answered, beat)
			}
		},
		Guard: guardDoor{n, p}, Peers: peerDoor{n.world, p}, Address: n.name,
		Tell: func(_ context.Context, list ...scheduler.Event) error {
			for _, e := range list {
				n.world.bus.wake(p, 0, quiet+e.Kind+" "+e.Node, func() {
					n.world.sometimes("told of: " + e.Kind)
				})
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	alive, stop := context.WithCancelCause(p.ctx)
	defer stop(nil)
	var looks sync.WaitGroup
	if err := rounds.Claim(n.world.kind(p, alive, &looks)); err != nil {
		return err
	}
	holder, err := rounds.TryJoin(p.ctx, time.Now())
	for errors.Is(err, scheduler.ErrPredecessor) && n.world.bus.sleep(p, "join", beat) {
		holder, err = rounds.TryJoin(p.ctx, time.Now())
	}
	if err != nil {
		return err
	}
	clock := tick.New(tick.Config{})
	clock.Beat(time.Now())
	conf := dispatch.Config{
		Store: db, Holder: holder, Clock: clock, Secret: n.world.secret(n.name),
		Working: rounds.Working, Judges: rounds.Judges, Look: beat, Flights: 2,
	}
	conf.Changed = func() {}
	if n.world.hints {
		conf.Changed = func() { n.world.tellChanged(p) }
		conf.Announce = func(queues map[string]int) { n.world.announce(p, queues) }
		conf.Ended = func(queues []string) { n.world.tellEnded(p, queues) }
	}
	tasks, err := dispatch.New(p.ctx, conf)
	if err != nil {
		return err
	}
	p.serves.Store(&peer{tasks, rounds, time.Now()})

	var loops sync.WaitGroup
	every := func(d time.Duration, loop string, do func()) {
		loops.Go(func() {
			for alive.Err() == nil && n.world.bus.sleep(p, loop, d) {
				do()
			}
		})
	}
	every(clockBeat, "clock", func() { clock.Beat(time.Now()) })
	// what a round could not do, the next one does
	every(beat, "dispatch", func() { tasks.Round(alive, time.Now()) })
	every(beat, "judge", func() {
		tasks.Judge(alive)
		if n.world.limits() {
			tasks.Expire(alive)
		}
	})
	every(beat, "schedule", func() {
		if err := rounds.Round(alive, time.Now()); errors.Is(err, store.ErrBroken) {
			n.world.bus.wake(p, 0, err.Error(), func() {
				n.world.ledger.broken(store.Lease{Name: "node/" + n.name, Token: holder.Token})
			})
			stop(err)
		}
	})
	every(beat, "chores", func() { rounds.Chores(alive) }) // beside the rounds, as Run has it
	select {
	case <-alive.Done():
		err = context.Cause(alive)
	case <-leave:
		tasks.Stop()
	}
	closing := tasks.Close(p.ctx)
	stop(nil)
	loops.Wait()
	looks.Wait()
	if err == nil {
		err = closing
		rounds.Leave(p.ctx) // if not, its lease runs out
	}
	return err
}
