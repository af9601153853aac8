package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/rotahq/rota/lease"
)

// core is what all parts of a scheduler have in common: the leases of this node, and what its last
// round saw. The parts hold it by pointer; it knows none of them.
type core struct {
	conf   Config
	drawer *drawer // the store, as the keeper sees it
	keeper *lease.Keeper
	node   *lease.Lease // this node's membership; set by TryJoin

	// mu guards what is below, the keys of holdings with all that is in their posts, and since when
	// keys are unowned (shares). It is never held while the store works.
	mu     sync.Mutex
	seen   *view // what the last round saw; not changed any more
	leave  bool  // takes nothing new, for good
	judges bool  // it did the chores last, or nobody has
}

// bounded is the time that a part of a round may take: what hangs must not keep the next renewal
// from being made.
func (c *core) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.conf.TTL/3)
}

// leaving tells whether this node is stopping.
func (c *core) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leave
}

// State is this node's, as all read it from the rows; "" before it has looked.
func (c *core) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		return ""
	}
	if m := c.seen.find(c.conf.Name); m != nil {
		return m.State
	}
	return Offline
}

// Working tells whether this node may take new work: it is neither draining nor unreachable for the
// others, and not stopping.
func (c *core) Working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave || c.seen == nil {
		return !c.leave
	}
	m := c.seen.find(c.conf.Name)
	return m == nil || m.State == Working
}

// Judges tells whether this node is to do now what one does for all beside its beat: it did the
// chores last, or nobody has lately. Several may be told so for a moment, and at any time one is,
// unless nobody is calm: a node judges nobody before it has heard the store for a whole lease.
func (c *core) Judges() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judges && c.keeper.Calm(time.Now())
}
