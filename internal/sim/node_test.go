package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/scheduler"
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
	leave   chan struct{}           // closed: this life is to end in order
	down    bool                    // stays down
}

// start begins a new life. Only the world calls it.
func (n *node) start() {
	p, leave := n.world.birth(n.machine, n.process.Load()), make(chan struct{})
	n.process.Store(p)
	n.leave = leave
	n.world.living.Go(func() {
		err := n.live(p, leave)
		n.world.bus.wake(p, 0, fmt.Sprintf("ends: %v", err), func() { n.kill() })
	})
}

// kill ends the present life; after a while the next one begins. Only the world calls it.
func (n *node) kill() {
	n.process.Load().kill()
	n.world.later(300*time.Millisecond, 8*time.Second, func() {
		if !n.down && n.process.Load().dead() {
			n.start()
		}
	})
}

// live is one life of a node: what the module's root does, with the beats on the bus.
func (n *node) live(p *process, leave <-chan struct{}) error {
	store := &storeDoor{Store: n.world.seen, world: n.world, from: p}
	rounds, err := scheduler.New(scheduler.Config{
		Leases: store, Chores: store, Name: n.name, Start: p.String(), TTL: leaseTime, Beat: beat, Along: dispatch.Words(), Passing: []string{dispatch.AlivePrefix},
		Heard: func(asked, answered time.Time, beat rows.Beat) {
			if n := p.serves.Load(); n != nil {
				n.HearStore(asked, answered, beat)
			}
		},
		Peers: peerDoor{n.world, p}, Address: n.name, Tell: func(_ context.Context, list ...scheduler.Event) error {
			for _, e := range list {
				n.world.bus.wake(p, 0, quiet+e.Kind+" "+e.Node, func() { n.world.sometimes("told of: " + e.Kind) })
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
	conf := dispatch.Config{Store: store, Holder: holder, Clock: clock, Secret: n.world.secret(n.name), Working: rounds.Working, Flights: 2}
	if !n.world.hints {
		conf.Look = beat
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
	every(beat, "dispatch", func() { tasks.Round(alive, time.Now()) }) // what a round could not do, the next one does
	every(beat, "schedule", func() {
		if err := rounds.Round(alive, time.Now()); errors.Is(err, rows.ErrBroken) {
			n.world.bus.wake(p, 0, err.Error(), func() { n.world.ledger.broken(rows.Lease{Name: "node/" + n.name, Token: holder.Token}) })
			stop(err)
		}
	})
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
