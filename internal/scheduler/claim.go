package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// Causes of the context of whoever looks after a key, besides lease.ErrLost and lease.ErrExpired.
var (
	// to a node that has fewer, or because this one is draining or was asked to
	ErrGiveBack = errors.New("key is to be given back")
	ErrNoKey    = errors.New("key is gone") // there is none of that name any more
	ErrStopping = errors.New("node is stopping")
)

// quiet is how long a key that moved by choice does not move by choice again.
const quiet = time.Minute

// Kind is a kind of keys of which each must have exactly one node that looks after it.
type Kind struct {
	// Name of the kind, without a slash.
	Name string
	// Keys lists all that there are. It is asked once a beat. An error changes nothing.
	Keys func(context.Context) ([]string, error)
	// Look looks after a key until ctx ends, then finishes what it is at under Claim.Held, and
	// returns: only then may another node have the key. When it returns by itself the key is given
	// back.
	Look func(ctx context.Context, c Claim)
}

// Claim is a key in the hands of this node.
type Claim struct {
	Kind, Key string
	Token     int64 // greater than that of any owner before; writes carry it

	lease store.Lease
	held  context.Context
}

// Lease is the claim as it stands in the store: its name, its holder and its token, by which writes
// can tell whether it is still good.
func (c Claim) Lease() store.Lease { return c.lease }

// Held is the context for what has begun: it outlives that of Look, and ends with lease.ErrLost or
// lease.ErrExpired before anybody else can have the key.
func (c Claim) Held() context.Context { return c.held }

// claims decide with each round which keys this node tries for, and which it gives back.
type claims struct {
	*core
	shares    *shares
	holdings  *holdings
	probes    *probes
	decisions *decisions

	// Owned by the round.
	alarmed bool
	alarms  int // that were told, and their ends
}

// claim decides by what is seen, then acquires and asks to give back. Everything is looked at again
// with each beat, so that whatever went wrong with the last one is mended by the next.
func (c *claims) claim(ctx context.Context, v *view) error {
	c.holdings.confirm(v)
	err := c.shares.snapshot(ctx, v)
	cause := ErrGiveBack
	switch m := v.find(c.conf.Name); {
	case c.leaving():
		cause = ErrStopping
	case m != nil && m.State != Working:
		cause = errDrained
	}
	var names, unpinned []string
	for _, snapshot := range v.snapshots[:v.own] {
		plan := balance.Claims(snapshot)
		names = append(names, plan.Claim...)
		unpinned = append(unpinned, plan.Unpinned...)
		v.refused = append(v.refused, plan.Refused...)
		for _, name := range plan.Release {
			c.holdings.ask(name, cause)
		}
	}
	for _, row := range v.asked {
		c.holdings.ask(strings.TrimPrefix(row.Name, givePrefix), errAsked)
	}
	v.budget = v.fault()
	c.probes.unreached(v)
	err = errors.Join(err, c.alarm(ctx), c.holdings.unpin(ctx, v, unpinned),
		c.decisions.settleSettings(ctx, v))
	c.mu.Lock()
	c.seen = v
	c.judges = v.calm &&
		(v.alone(c.conf.Name) || v.chore.Holder == holderOf(c.conf.Name, c.conf.Start) ||
			v.chore.Until <= v.now)
	names = c.holdings.follow(v, names)
	c.mu.Unlock()
	return errors.Join(err, c.holdings.acquire(ctx, v, names))
}

// alarm tells, once, when this node owns more keys than its threshold, and when it does no more.
func (c *claims) alarm(ctx context.Context) error {
	owned := c.holdings.count()
	above := c.conf.Alarm > 0 && owned > c.conf.Alarm
	if above == c.alarmed {
		return nil
	}
	e := Event{Kind: AlarmOver, Node: c.conf.Name, Detail: fmt.Sprintf("it owns %d keys", owned)}
	if above {
		e.Kind, e.Detail = AlarmRaised, fmt.Sprintf("%s, more than %d", e.Detail, c.conf.Alarm)
	}
	e.Key = fmt.Sprintf("%s/%s/%d/%d", e.Kind, e.Node, c.node.Token(), c.alarms+1)
	if err := c.conf.Tell(ctx, e); err != nil {
		return fmt.Errorf("tell of the alarm: %w", err)
	}
	c.alarmed = above
	c.alarms++
	return nil
}
