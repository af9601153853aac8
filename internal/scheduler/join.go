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

// Join makes the node a member, and says under which right it holds what it takes. A predecessor of
// the same name that is certainly dead is replaced at once; else its lease is waited for, a lease
// time at most. One that lives: store.ErrConflict. A store that answers later than a lease lasts is
// asked again until ctx ends: it may have been busy for a moment.
func (s *Scheduler) Join(ctx context.Context) (store.Holder, error) {
	before, slow := false, false
	for {
		h, err := s.TryJoin(ctx, time.Now())
		switch {
		case errors.Is(err, ErrPredecessor):
			if !before {
				s.conf.Log.Warn("waiting until the lease of the last node of this name has ended",
					"name", s.conf.Name,
					"at most", s.conf.TTL.String(), "because", s.unresolved)
			}
			before = true
		case errors.Is(err, lease.ErrExpired), errors.Is(err, context.DeadlineExceeded) &&
			ctx.Err() == nil:
			if !slow {
				s.conf.Log.Warn("the store is too slow to join: trying on", "name", s.conf.Name,
					"error", err)
			}
			slow = true
		default:
			return h, err
		}
		select {
		case <-time.After(s.conf.Beat):
		case <-ctx.Done():
			return h, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// TryJoin is one turn of Join: to be called again after a beat when it answers ErrPredecessor.
func (s *Scheduler) TryJoin(ctx context.Context, now time.Time) (store.Holder, error) {
	l, err := s.become(ctx, now)
	if err != nil {
		return store.Holder{}, fmt.Errorf("join as node %q: %w", s.conf.Name, err)
	}
	s.node = l
	if !s.conf.Alone {
		s.inherit(ctx)
	}
	return store.Holder{Node: s.conf.Name, Token: l.Token()}, nil
}

// become acquires the membership. It ends that of a predecessor which is certainly dead.
func (s *Scheduler) become(ctx context.Context, now time.Time) (*lease.Lease, error) {
	name, value := nodePrefix+s.conf.Name, s.self().value()
	l, err := s.keeper.Acquire(ctx, name, value)
	if !errors.Is(err, lease.ErrTaken) {
		return l, err
	}
	if err := s.keeper.Round(ctx, now); err != nil {
		return nil, err
	}
	row, found := s.row(name)
	if !found {
		return nil, ErrPredecessor
	}
	if s.unresolved = s.doubt(row); s.unresolved != "" {
		return nil, s.predecessor(row)
	}
	if err := s.bury(ctx, row); err != nil {
		return nil, err
	}
	l, err = s.keeper.Acquire(ctx, name, value)
	if errors.Is(err, lease.ErrTaken) { // somebody at another place was quicker
		s.unresolved = "another process has taken the name of the dead one"
		return nil, ErrPredecessor
	}
	return l, err
}

// row is a lease as the last renewal brought it.
func (s *Scheduler) row(name string) (store.Lease, bool) {
	for _, row := range s.drawer.last().Leases {
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
func (s *Scheduler) doubt(row store.Lease) string {
	theirs := memberOf(row).Guard
	place, err := s.conf.Guard.Hold()
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
func (s *Scheduler) bury(ctx context.Context, dead store.Lease) error {
	ended := []store.Lease{}
	for _, row := range s.drawer.last().Leases {
		theirs := strings.HasPrefix(row.Name, claimPrefix) ||
			strings.HasPrefix(row.Name, chorePrefix)
		if row.Name == dead.Name || theirs && row.Holder == dead.Holder && row.Until != 0 {
			ended = append(ended, row)
		}
	}
	if err := s.conf.Leases.EndAll(ctx, ended, false); err != nil { // they come sorted by name
		return fmt.Errorf("end the leases of a dead process: %w", err)
	}
	s.conf.Log.Info(
		"the last process of this node is dead: its guard is free. Not waiting for its lease",
		"name", s.conf.Name, "leases ended", len(ended),
	)
	return nil
}

// inherit frees what starts of this node held whose memberships have ended. What it misses the
// chores find.
func (s *Scheduler) inherit(ctx context.Context) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	freed, err := s.conf.Chores.FreeEnded(ctx)
	switch {
	case err != nil:
		s.conf.Log.Warn("what the last process of this node held is freed later", "error", err)
	case freed > 0:
		s.conf.Log.Info("freed what ended nodes held", "spans", freed)
	}
}

// predecessor looks at the lease that an earlier start of the node has: who renews it lives.
func (s *Scheduler) predecessor(row store.Lease) error {
	if s.before.Name != "" && row.Until > s.before.Until {
		return fmt.Errorf("%s is a node of that name and lives; give this one another name: %w",
			memberOf(row).whereabouts(), store.ErrConflict)
	}
	s.before = row
	return ErrPredecessor
}
