//go:build unix

package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A commit whose wait for the standby was cancelled stands on one disk. Whoever repeats it, or
// finds what it left, is not told that it stands before it does on two: then a failover would lose
// what was acknowledged.
func TestWhatNoStandbyHasIsNeverConfirmed(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	c := join(t, open(t, Config{DSN: server.Database(t), NoNotify: true}))
	span := c.submit(c.batch(1, 1, true))[0]
	for _, name := range []string{"g", "gone"} {
		must(c.ChangeGroup(t.Context(), name, store.Whole(limits.DefaultGroup(name))))(t)
	}
	// cancelled is how a write is answered while every wait for a standby is cancelled.
	cancelled := func(write func() error) error {
		answered := make(chan error, 1)
		go func() { answered <- write() }()
		for {
			select {
			case err := <-answered:
				return err
			case <-time.After(20 * time.Millisecond):
				server.Exec(t,
					"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname <> 'postgres'")
			}
		}
	}
	submit := func(b store.Batch) func() error {
		return func() error {
			_, err := c.Submit(t.Context(), store.Submission{
				Holder: c.holder, Batches: []store.Batch{b},
			})
			return err
		}
	}
	server.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
		"SELECT pg_reload_conf()")
	for cancelled(submit(c.batch(1, 1, false))) == nil { // until the setting has arrived everywhere
	}
	keyed, another := c.batch(1, 1, false), c.batch(1, 1, false)
	for _, b := range []store.Batch{keyed, another} {
		b.Tasks[0].Key, b.Tasks[0].KeyUntil = "k", time.Now().Add(time.Hour).UnixMicro()
	}
	known := must(c.Board(t.Context(), 0))(t).Seats.Version
	remove := func() error { return c.DeleteGroup(t.Context(), "gone", false) }
	if err := cancelled(remove); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the deletion of a group: got %v, want %v", err, store.ErrUnknown)
	}
	for _, w := range []struct {
		name string
		do   func() error
	}{
		{"a submission", submit(c.batch(1, 1, true))},
		{"a submission with a key", submit(keyed)},
		{"another one with that key", submit(another)},
		{"a report", func() error {
			done := store.Settlement{
				Reports: []store.Report{report(&span, 0, 0, 1, task.Finish(nil))},
				Spent:   []store.Taking{span.Taking()},
			}
			_, err := c.Settle(t.Context(), done)
			return err
		}},
		{"how a task stands that was reported", func() error {
			_, err := c.Stand(t.Context(), []task.ID{{Batch: span.Batch}})
			return err
		}},
		{"which workers there are", func() error {
			_, err := c.Board(t.Context(), -1)
			return err
		}},
		{"what is new of a group", func() error {
			_, err := c.Changes(t.Context(), "g", 0)
			return err
		}},
		{"that a group is gone", func() error {
			_, err := c.Changes(t.Context(), "gone", 1)
			return err
		}},
		{"that a group is on the board no more", func() error {
			_, err := c.Board(t.Context(), known)
			return err
		}},
		{"that a group is gone, to who deletes it", remove},
		{"jobs", func() error {
			_, err := c.ChangeJobs(t.Context(),
				store.JobChange{Group: "g", Whole: true, Put: []task.Job{{Name: "x"}}})
			return err
		}},
		{"an event", func() error {
			_, err := c.Append(t.Context(), []store.Event{{Key: "k", Kind: "x", Text: "y"}})
			return err
		}},
		{"that a worker is forgotten", func() error { return c.DeleteSeat(t.Context(), "w") }},
		{"that a queue is gone", func() error { return c.DeleteQueue(t.Context(), "old", false) }},
		{"that a hook is gone", func() error { return c.DeleteHook(t.Context(), "old") }},
		{"that a notifier is gone", func() error { return c.DeleteNotifier(t.Context(), "old") }},
		{"that a schedule is gone", func() error { return c.DeleteSchedule(t.Context(), "old") }},
		{"that a calendar is gone", func() error { return c.DeleteCalendar(t.Context(), "old") }},
	} {
		for _, turn := range []string{"at first", "again"} {
			if err := cancelled(w.do); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s, %s: got %v, want %v", w.name, turn, err, store.ErrUnknown)
			}
		}
	}
	server.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
}
