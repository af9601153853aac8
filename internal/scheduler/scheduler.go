// Package scheduler is the room of a node's membership and chores: what a node does once per beat for itself and for all.
//
// Membership is a lease on the node's own name, "node/NAME": Join gets it, every round renews it, Leave ends it. Everything
// that the node holds in the store carries the lease's token, so a node that starts again never mistakes its
// predecessor's spans for its own, and whatever a dead node held is free one lease time and one beat after its last renewal.
//
// Chores are level-triggered: a round frees what the dead held, prunes what retention no longer keeps, and asks whether the
// store can still be trusted; what one round missed the next one does.
//
// An idle round writes one row: the renewal.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rotahq/rota/internal/rows"
)

// Members keeps the nodes' leases. internal/storetest/contract.go says what each call promises.
type Members interface {
	Acquire(ctx context.Context, name, holder string, ttl time.Duration, value []byte) (rows.Lease, error)
	Renew(ctx context.Context, leases []rows.Lease, ttl time.Duration) ([]rows.Lease, error)
	End(ctx context.Context, name string, token int64, remove bool) error
}

// Chores is what one node does for all.
type Chores interface {
	Free(ctx context.Context, self rows.Holder) (freed int, err error)
	Prune(ctx context.Context, limit int) (pruned int, err error)
	Check(ctx context.Context) error
}

// Config of a scheduler. Members, Chores and Lease are needed.
type Config struct {
	Members Members
	Chores  Chores
	Lease   rows.Lease    // from Join
	TTL     time.Duration // of the lease; default 10 s
	Beat    time.Duration // between rounds; default 1 s, at most a third of TTL
	Prune   int           // rows deleted per round at most; default 5,000
	Log     *slog.Logger
}

// Scheduler does one node's rounds.
type Scheduler struct {
	conf Config
	full bool // the store had no room at the last round
}

// Join gets the membership of a node: a lease on its name. value is what it says of itself. rows.ErrConflict: another
// process is the node of this name.
func Join(ctx context.Context, m Members, node string, ttl time.Duration, value []byte) (rows.Lease, error) {
	lease, err := m.Acquire(ctx, "node/"+node, node, ttl, value)
	if err != nil {
		return rows.Lease{}, fmt.Errorf("join as node %q: %w", node, err)
	}
	return lease, nil
}

// New makes a scheduler for a node that has joined.
func New(conf Config) (*Scheduler, error) {
	var wrong []error
	if conf.Members == nil || conf.Chores == nil {
		wrong = append(wrong, errors.New("no Members or no Chores"))
	}
	if conf.Lease.Token == 0 {
		wrong = append(wrong, errors.New("no Lease: join first"))
	}
	if conf.TTL == 0 {
		conf.TTL = 10 * time.Second
	}
	if conf.Beat == 0 {
		conf.Beat = time.Second
	}
	if conf.Prune == 0 {
		conf.Prune = 5000
	}
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	if conf.Beat < 0 || conf.TTL < 3*conf.Beat {
		wrong = append(wrong, fmt.Errorf("a lease of %v is too short for a beat of %v: at least three beats", conf.TTL, conf.Beat))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("configure scheduler: %w", err)
	}
	return &Scheduler{conf: conf}, nil
}

// Run does a round every beat until ctx ends or the store can't be trusted any more.
func (s *Scheduler) Run(ctx context.Context) error {
	beat := time.NewTicker(s.conf.Beat)
	defer beat.Stop()
	for {
		err := s.Round(ctx)
		switch {
		case errors.Is(err, rows.ErrBroken):
			return err
		case err != nil && ctx.Err() == nil:
			s.conf.Log.Error("scheduler round", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

// Round renews the membership, then does the chores. A membership that is gone is rows.ErrBroken: this process holds nothing any
// more, and must not go on answering as if it did.
func (s *Scheduler) Round(ctx context.Context) error {
	kept, err := s.conf.Members.Renew(ctx, []rows.Lease{s.conf.Lease}, s.conf.TTL)
	if err != nil {
		return fmt.Errorf("renew %q: %w", s.conf.Lease.Name, err)
	}
	if len(kept) == 0 {
		return fmt.Errorf("renew %q: another process took this node's name, or ended its lease: %w", s.conf.Lease.Name, rows.ErrBroken)
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	freed, err := s.conf.Chores.Free(ctx, rows.Holder{Node: s.conf.Lease.Holder, Token: s.conf.Lease.Token})
	if err != nil {
		return fmt.Errorf("free what the dead held: %w", err)
	}
	if freed > 0 {
		s.conf.Log.Info("freed what dead nodes held", "spans", freed)
	}
	if _, err := s.conf.Chores.Prune(ctx, s.conf.Prune); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return nil
}

// check says so, once, when the store has no room, and when it has again.
func (s *Scheduler) check(ctx context.Context) error {
	err := s.conf.Chores.Check(ctx)
	full := errors.Is(err, rows.ErrFull)
	switch {
	case full && !s.full:
		s.conf.Log.Error("the disk is nearly full: submissions are refused, what runs goes on", "error", err)
	case !full && s.full && err == nil:
		s.conf.Log.Info("the disk has room again: submissions are accepted")
	}
	s.full = full
	if err != nil && !full {
		return fmt.Errorf("check store: %w", err)
	}
	return nil
}

// Leave ends the membership: what this node still holds is free at once for others.
func (s *Scheduler) Leave(ctx context.Context) error {
	if err := s.conf.Members.End(ctx, s.conf.Lease.Name, s.conf.Lease.Token, false); err != nil {
		return fmt.Errorf("leave as %q: %w", s.conf.Lease.Name, err)
	}
	return nil
}
