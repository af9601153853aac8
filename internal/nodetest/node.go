package nodetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/tick"
)

// Secret is that of every cluster in a test.
func Secret() seal.Secret { return seal.Secret{Key: [32]byte{47, 11}} }

// Node is one life of a node: what the module's root ties together.
type Node[Own any] struct {
	T      *testing.T
	Name   string
	Start  string // tells this life from all others
	Door   *fault.Door
	Log    *slog.Logger
	Rounds *scheduler.Scheduler
	Holder store.Holder // what it holds, it holds by this right
	Clock  *tick.Clock
	Tasks  *dispatch.Dispatcher
	Own    Own // what a package adds

	ctx   context.Context // ends with the node
	stop  context.CancelFunc
	loops sync.WaitGroup
	own   []func(context.Context) error
}

// Loop is for Config: what the node does besides, from when it is tied together until it ends.
func (n *Node[Own]) Loop(run func(context.Context) error) { n.own = append(n.own, run) }

// Go does something at the node. The context ends when the node does, and who kills it waits.
func (n *Node[Own]) Go(do func(context.Context)) { n.loops.Go(func() { do(n.ctx) }) }

// Kill lets the node reach nothing any more, nor anybody it; see [House.Kill], which waits.
func (n *Node[Own]) Kill() {
	n.Door.Kill()
	n.stop()
	n.Tasks.Stop()
}

// Dead tells whether it was killed, or ousted by others.
func (n *Node[Own]) Dead() bool { return n.Door.Dead() }

// tie ties the parts of a node together, as the module's root does, and begins its loops.
func (n *Node[Own]) tie(conf *Config[Own]) (err error) {
	rounds := scheduler.Config{
		Leases: n.Door, Chores: n.Door, Name: n.Name, Start: n.Start, Alone: conf.Alone, TTL: Lease,
		Beat: Beat, Along: dispatch.Words(), Passing: []string{dispatch.AlivePrefix}, Log: n.Log,
		Heard: n.hear,
	}
	if conf.Scheduler != nil {
		if err := conf.Scheduler(n, &rounds); err != nil {
			return err
		}
	}
	if n.Rounds, err = scheduler.New(rounds); err != nil {
		return err
	}
	if n.Holder, err = n.Rounds.Join(n.ctx); err != nil {
		return err
	}
	n.Clock = tick.New(tick.Config{})
	tasks := dispatch.Config{
		Store: n.Door, Holder: n.Holder, Clock: n.Clock, Secret: Secret(),
		Working: n.Rounds.Working, Log: n.Log,
	}
	if conf.Dispatcher != nil {
		if err := conf.Dispatcher(n, &tasks); err != nil {
			return err
		}
	}
	if n.Tasks, err = dispatch.New(n.ctx, tasks); err != nil {
		return err
	}
	if conf.Tie != nil {
		if err := conf.Tie(n); err != nil {
			return err
		}
	}
	for _, loop := range append([]func(context.Context) error{n.Clock.Run, n.Tasks.Run}, n.own...) {
		n.loops.Go(func() { loop(n.ctx) })
	}
	n.loops.Go(func() {
		if err := n.Rounds.Run(n.ctx); err != nil { // it was ousted: the process ends
			n.Kill()
		}
	})
	return nil
}

// hear hands on what a beat brought.
func (n *Node[Own]) hear(asked, answered time.Time, got store.Beat) {
	if n.Tasks != nil { // it has joined
		n.Tasks.HearStore(asked, answered, got)
	}
}
