//go:build unix

package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// It worked, and said that it failed: every write is repeated with the same ids, and gives the
// answer that was lost.
func TestLostAnswerOfACommitIsUnknownAndTheRepetitionAnswersAsTheFirstTime(t *testing.T) {
	p, dsn := through(t, pgtest.Shared(t).Database(t))
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	deaf := func(do func() error) {
		t.Helper()
		p.deaf.Store(true)
		if err := do(); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want %v", err, store.ErrUnknown)
		}
		p.deaf.Store(false)
		p.cut()
	}
	plain, keyed := c.batch(3, 1, true), c.batch(1, 1, true)
	keyed.Tasks[0].Key, keyed.Tasks[0].KeyUntil = "k", keyed.Due+time.Hour.Microseconds()
	for _, b := range []store.Batch{plain, keyed} {
		c.settle(c.submit(c.batch(1, 1, true))) // a connection is open, and knows the statements
		sub := store.Submission{Holder: c.holder, Batches: []store.Batch{b}}
		if b.Tasks[0].Key == "" { // a keyed one is deaf at its first trip, before the commit
			deaf(func() error { _, err := c.Submit(t.Context(), sub); return err })
		}
		got, err := c.Submit(t.Context(), sub)
		if err != nil || len(got.Spans) != len(b.Spans) || got.Spans[0].Holder != c.holder ||
			len(got.Existing) != 0 {
			t.Fatalf("repeated submission: %+v, %v", got, err)
		}
		again, err := c.Submit(t.Context(), sub)
		if err != nil || again.Spans[0] != got.Spans[0] {
			t.Errorf("repeated once more: %+v, %v, want %+v", again, err, got)
		}
	}
	c.counts(task.Counts{Ready: 4, Done: 2})
	settlement := func() store.Settlement {
		sp := c.submit(c.batch(2, 2, true))[0]
		set := store.Settlement{
			Reports: []store.Report{
				report(&sp, 0, 0, 1, task.Finish(nil)),
				report(&sp, 1, 0, 1, task.Snooze(time.Hour)),
			},
		}
		set.Reports[1].Step.Base, set.Reports[1].Move = 1, &store.Move{Rank: sp.Rank, Due: sp.Due}
		return set
	}
	must(c.Settle(t.Context(), settlement()))(t)
	set := settlement()
	deaf(func() error { _, err := c.Settle(t.Context(), set); return err })
	if got, err := c.Settle(t.Context(), set); err != nil || got.Verdicts[0] != task.Repeated ||
		got.Verdicts[1] != task.Repeated {
		t.Errorf("repeated settlement: %+v, %v", got, err)
	}
	c.counts(task.Counts{Ready: 6, Done: 4})
	take := store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 1}
	c.submit(c.batch(2, 1, false))
	must(c.Take(t.Context(), take))(t)
	deaf(func() error {
		_, err := c.Take(t.Context(), take)
		return err
	})
	held := must(c.Held(t.Context(), c.holder, nil))(t)
	if want := 3 + 1 + 2 + 2; len(held) != want {
		// two submissions, two that are spent and nobody said so, and both takes
		t.Errorf("%d spans are held, want %d: %+v", len(held), want, held)
	}
}

func TestLostConnectionIsNoOutageForLong(t *testing.T) {
	p, dsn := through(t, pgtest.Shared(t).Database(t))
	c := join(t, open(t, Config{DSN: dsn}))
	for range 3 {
		p.cut()
		b := c.batch(1, 1, false)
		_, err := c.Submit(t.Context(), store.Submission{Batches: []store.Batch{b}})
		if err != nil { // the repetition finds a connection, and what was done
			_, err = c.Submit(t.Context(), store.Submission{Batches: []store.Batch{b}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.counts(task.Counts{Ready: 3})
}

// A server that stands still answers nothing, and its kernel acknowledges everything.
func TestServerThatStandsStillIsNotWaitedForLongerThanTheTimeout(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	c := join(t, open(t, Config{DSN: server.Database(t), NoNotify: true}))
	c.submit(c.batch(1, 1, false))
	server.Pause(t)
	// what comes before and after takes as long as it takes
	b, patient := c.batch(1, 1, false), c.conf.Timeout
	c.conf.Timeout = 500 * time.Millisecond
	_, err := c.Submit(t.Context(), store.Submission{Batches: []store.Batch{b}})
	c.conf.Timeout = patient
	server.Resume(t)
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrUnknown)
	}
	c.submit(b)
	c.counts(task.Counts{Ready: 2})
}

// A renewal on a connection that hangs would else keep the node from renewing on another one, until
// its lease is gone.
func TestRenewalThatHangsEndsWithItsContext(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	c := join(t,
		open(t, Config{DSN: server.Database(t), NoNotify: true, Timeout: 10 * time.Minute}))
	held := []store.Lease{must(c.Acquire(t.Context(), "node/a", "a", time.Hour, nil))(t)}
	server.Pause(t)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := c.Beat(ctx, held, time.Hour)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it hangs on")
	}
	server.Resume(t)
	if got, err := c.Beat(t.Context(), held, time.Hour); err != nil || len(got.Kept) != 1 {
		t.Errorf("asked again: %+v, %v", got, err)
	}
}

// PostgreSQL reports the commit as a success, with a warning. The standby does not have it.
func TestCancelledWaitForAStandbyIsUnknown(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{Durable: true})
	dsn := server.Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	wantDurability(t, c.Store, DurabilityLocal)
	c.submit(c.batch(1, 1, false))
	server.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
		"SELECT pg_reload_conf()")
	answered := make(chan error, 1)
	b := c.batch(1, 1, false)
	go func() {
		for { // until the setting has reached the connection
			_, err := c.Submit(t.Context(), store.Submission{Batches: []store.Batch{b}})
			if err != nil {
				answered <- err
				return
			}
			b = c.batch(1, 1, false)
		}
	}()
	const cancelWaiting = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND datname <> 'postgres'`
	tooLong := time.After(30 * time.Second)
	for waiting := true; waiting; {
		select {
		case <-tooLong:
			t.Fatal("every cancelled wait was taken for a success")
		case err := <-answered:
			if waiting = false; !errors.Is(err, store.ErrUnknown) {
				t.Errorf("got %v, want %v", err, store.ErrUnknown)
			}
		case <-time.After(20 * time.Millisecond):
			server.Exec(t, cancelWaiting)
		}
	}
	wantDurability(t, c.Store, DurabilitySync)
	server.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	c.submit(b)
}

func wantDurability(t *testing.T, s *Store, want string) {
	t.Helper()
	if got, err := s.Durability(t.Context()); err != nil || got != want {
		t.Errorf("durability: got %q, %v, want %q", got, err, want)
	}
}

func TestReadOnlyServerIsLeftForTheNextConnection(t *testing.T) {
	cluster := pgtest.Shared(t)
	dsn := cluster.Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	cluster.Exec(t, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	c.pool.Reset()
	if err := c.Check(t.Context()); err == nil || errors.Is(err, store.ErrBroken) {
		t.Errorf("check of a read-only server: %v", err)
	}
	b := c.batch(1, 1, false)
	if _, err := c.Submit(
		t.Context(), store.Submission{Batches: []store.Batch{b}},
	); err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("submission to a read-only server: %v", err)
	}
	cluster.Exec(t, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	c.submit(b) // the connections that can't write are gone
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// The server says 53100 when its disk is full; here a trigger says it.
func TestFullDiskRefusesAndRecoversWithoutARestart(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	sp := c.submit(c.batch(1, 1, true))
	runSQL(t, dsn,
		`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; END'`,
		`CREATE TRIGGER full_disk BEFORE INSERT ON rota.span FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	b := c.batch(1, 1, true)
	if _, err := c.Submit(
		t.Context(), store.Submission{Holder: c.holder, Batches: []store.Batch{b}},
	); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("submission: got %v, want %v", err, store.ErrFull)
	}
	if err := c.Check(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("check: got %v, want %v", err, store.ErrFull)
	}
	c.settle(sp) // what runs can end
	runSQL(t, dsn, "DROP TRIGGER full_disk ON rota.span")
	c.submit(b)
	c.counts(task.Counts{Ready: 1, Done: 1})
}
