package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// Peers asks other nodes whether they serve.
type Peers interface {
	// Probe asks a node at an address. An error means: not reached, not healthy, or another node
	// answers there.
	Probe(ctx context.Context, name, address string) error
}

// Guard lets a process find out that another one is dead. It is a lock that a process keeps until
// its death, and that nobody else takes away.
type Guard interface {
	// Hold makes this process have the lock, if it has it not yet, and says at which place: of all
	// processes at a place one has it at a time. Processes at different places know nothing of each
	// other. An error says why it has not got the lock. It waits for nobody.
	Hold() (place string, err error)
}

// Config of a scheduler. Leases, Chores, Name and, unless Alone, Start are needed.
type Config struct {
	Leases Leases
	Chores Chores
	// Peers makes the mutual checks. Default: none are made.
	Peers Peers

	// Along are the beginnings of names of leases that others than the scheduler want to see: each
	// beat reads them along with its own.
	Along []string
	// Heard is told what each beat brought from the store, and when it was asked and answered. It
	// must not wait. Default: nobody is.
	Heard func(asked, answered time.Time, beat store.Beat)

	// Renewed is told of each renewal of this node's membership. It must not wait. Default: nobody
	// is.
	Renewed func(Renewal)

	// Passing are the beginnings of names of leases that nobody needs any more once they have
	// ended: the chores remove those rows.
	Passing []string

	// Name of the node.
	Name string
	// Start tells this start of the node from all others: a word that no two processes ever share.
	Start string
	// Alone: the store admits one process at a time, so that whatever stands in it is of the dead.
	Alone bool
	// Guard shows that an earlier start of the node is dead, so that its lease need not be waited
	// for. All starts of a node, and nobody else, have the same. Default: there is none, and each
	// lease is waited for.
	Guard Guard
	// Address at which other nodes reach this one; they don't check a node without.
	Address string

	// TTL of leases. Default 10 s.
	TTL time.Duration
	// Beat is the time between rounds. Default 1 s, at most a third of TTL.
	Beat time.Duration
	// StopGrace is how long a stopping node waits for those who look after its keys. Default 30 s.
	StopGrace time.Duration
	// Prune is how many rows one call deletes at most, of those that follow each other while much
	// is to be deleted. Default 5,000.
	Prune int

	// Weight is how many keys the node takes beside the others. Default 1.
	Weight int
	// Tolerance is how many nodes may die at once with every key still ownable. Default 1.
	Tolerance int
	// Alarm is raised when the node owns more keys than this. Default 0: never.
	Alarm int
	// Limits of what the node claims and gives back in one beat. Rebalance is what a new cluster
	// begins with.
	Limits balance.Limits
	// Chosen: somebody chose Limits.Rebalance, and is told when the cluster has another.
	Chosen bool
	// Busy says how busy the node is. Default: not at all.
	Busy func() balance.Busyness

	// Holds counts the tasks that the node holds: while there are any it is not drained. Default:
	// none.
	Holds func() int
	// Tell writes down what people want to know, once for the whole cluster: when it returns nil it
	// stands for good, and an event whose key stands already changes nothing. Default: nobody is
	// told.
	Tell func(context.Context, ...Event) error
	// Log is where the node tells what it does. Default: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Leases == nil || c.Chores == nil {
		wrong = append(wrong, errors.New("no Leases or no Chores"))
	}
	if c.Name == "" {
		wrong = append(wrong, errors.New("no Name"))
	}
	if c.Start == "" && !c.Alone {
		wrong = append(wrong, errors.New("no Start, and not Alone"))
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = time.Second
	}
	if c.StopGrace == 0 {
		c.StopGrace = 30 * time.Second
	}
	if c.Prune == 0 {
		c.Prune = 5000
	}
	c.Weight, c.Tolerance = max(c.Weight, 1), max(c.Tolerance, 1)
	if c.Guard == nil {
		c.Guard = unguarded{}
	}
	if c.Busy == nil {
		c.Busy = func() balance.Busyness { return balance.Busyness{} }
	}
	if c.Holds == nil {
		c.Holds = func() int { return 0 }
	}
	if c.Tell == nil {
		c.Tell = func(context.Context, ...Event) error { return nil }
	}
	if c.Heard == nil {
		c.Heard = func(time.Time, time.Time, store.Beat) {}
	}
	if c.Renewed == nil {
		c.Renewed = func(Renewal) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(wrong...)
}
