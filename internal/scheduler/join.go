package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/lease"
)

// ErrPredecessor answers TryJoin while an earlier start of the node is not known to be dead.
var ErrPredecessor = errors.New("an earlier start of the node is not known to be dead")

// errNoGuard: see Config.Guard.
var errNoGuard = errors.New("this process has no guard")

// unguarded is a process without a guard.
type unguarded struct{}

func (unguarded) Hold() (string, error) { return "", errNoGuard }

// joining makes this node a member, when nobody of its name lives any more. It is over
// before Run begins.
type joining struct {
	*core
	renewals *renewals

	before     store.Lease // of an earlier start of the node, as TryJoin saw it last
	unresolved string      // why that start is not known to be dead
}

// Join makes the node a member, and says under which right it holds what it takes. A predecessor of
// the same name that is certainly dead is replaced at once; else its lease is waited for, a lease
// time at most. One that lives: store.ErrConflict. A store that answers later than a lease lasts is
// asked again until ctx ends: it may have been busy for a moment.
func (j *joining) Join(ctx context.Context) (store.Holder, error) {
	before, slow := false, false
	for {
		h, err := j.TryJoin(ctx, time.Now())
		switch {
		case errors.Is(err, ErrPredecessor):
			if !before {
				j.conf.Log.Warn("waiting until the lease of the last node of this name has ended",
					"name", j.conf.Name,
					"at most", j.conf.TTL.String(), "because", j.unresolved)
			}
			before = true
		case errors.Is(err, lease.ErrExpired), errors.Is(err, context.DeadlineExceeded) &&
			ctx.Err() == nil:
			if !slow {
				j.conf.Log.Warn("the store is too slow to join: trying on", "name", j.conf.Name,
					"error", err)
			}
			slow = true
		default:
			return h, err
		}
		select {
		case <-time.After(j.conf.Beat):
		case <-ctx.Done():
			return h, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// TryJoin is one turn of Join: to be called again after a beat when it answers ErrPredecessor.
func (j *joining) TryJoin(ctx context.Context, now time.Time) (store.Holder, error) {
	l, err := j.become(ctx, now)
	if err != nil {
		return store.Holder{}, fmt.Errorf("join as node %q: %w", j.conf.Name, err)
	}
	j.node = l
	if !j.conf.Alone {
		j.inherit(ctx)
	}
	return store.Holder{Node: j.conf.Name, Token: l.Token()}, nil
}

// become acquires the membership. It ends that of a predecessor which is certainly dead.
func (j *joining) become(ctx context.Context, now time.Time) (*lease.Lease, error) {
	name, value := nodePrefix+j.conf.Name, j.renewals.self().value()
	l, err := j.keeper.Acquire(ctx, name, value)
	if !errors.Is(err, lease.ErrTaken) {
		return l, err
	}
	if err := j.keeper.Round(ctx, now); err != nil {
		return nil, err
	}
	row, found := j.row(name)
	if !found {
		return nil, ErrPredecessor
	}
	if j.unresolved = j.doubt(row); j.unresolved != "" {
		return nil, j.predecessor(row)
	}
	if err := j.bury(ctx, row); err != nil {
		return nil, err
	}
	l, err = j.keeper.Acquire(ctx, name, value)
	if errors.Is(err, lease.ErrTaken) { // somebody at another place was quicker
		j.unresolved = "another process has taken the name of the dead one"
		return nil, ErrPredecessor
	}
	return l, err
}

// row is a lease as the last renewal brought it.
func (j *joining) row(name string) (store.Lease, bool) {
	for _, row := range j.drawer.last().Leases {
		if row.Name == name {
			return row, true
		}
	}
	return store.Lease{}, false
}

// doubt says why the start of the node that has a membership may be alive; "" = it is certainly
// dead. Whoever wrote the row had the guard at its place before, and has it until its death. So who
// has the guard now, at the same place, comes after that death. A row that was read before yet
// another process came and went is no danger: its token is not good any more.
func (j *joining) doubt(row store.Lease) string {
	theirs := memberOf(row).Guard
	place, err := j.conf.Guard.Hold()
	switch {
	case err != nil:
		return err.Error()
	case theirs == "":
		return "it had no guard"
	case theirs != place:
		return "it ran on another machine, before a restart of this one, or in another network namespace"
	}
	return ""
}

// bury ends the membership of a dead start and the leases of keys and chores that it had, if they
// stand as they were read: their tokens grow, so nothing that it wrote and that is still on its way
// counts any more.
func (j *joining) bury(ctx context.Context, dead store.Lease) error {
	ended := []store.Lease{}
	for _, row := range j.drawer.last().Leases {
		theirs := strings.HasPrefix(row.Name, claimPrefix) ||
			strings.HasPrefix(row.Name, chorePrefix)
		if row.Name == dead.Name || theirs && row.Holder == dead.Holder && row.Until != 0 {
			ended = append(ended, row)
		}
	}
	if err := j.conf.Leases.EndAll(ctx, ended, false); err != nil { // they come sorted by name
		return fmt.Errorf("end the leases of a dead process: %w", err)
	}
	j.conf.Log.Info(
		"the last process of this node is dead: its guard is free. Not waiting for its lease",
		"name", j.conf.Name, "leases ended", len(ended),
	)
	return nil
}

// inherit frees what starts of this node held whose memberships have ended. What it misses the
// chores find.
func (j *joining) inherit(ctx context.Context) {
	ctx, cancel := j.bounded(ctx)
	defer cancel()
	freed, err := j.conf.Chores.FreeEnded(ctx)
	switch {
	case err != nil:
		j.conf.Log.Warn("what the last process of this node held is freed later", "error", err)
	case freed > 0:
		j.conf.Log.Info("freed what ended nodes held", "spans", freed)
	}
}

// predecessor looks at the lease that an earlier start of the node has: who renews it lives.
func (j *joining) predecessor(row store.Lease) error {
	if j.before.Name != "" && row.Until > j.before.Until {
		return fmt.Errorf("%s is a node of that name and lives; give this one another name: %w",
			memberOf(row).whereabouts(), store.ErrConflict)
	}
	j.before = row
	return ErrPredecessor
}
