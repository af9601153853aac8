//go:build unix

package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestConnectionThatIsNotToBeHadChangedNothing(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	c := join(t, open(t, Config{DSN: server.Database(t), NoNotify: true}))
	c.submit(c.batch(1, 1, false))
	server.Stop(t)
	c.pool.Reset()
	b := c.batch(1, 1, false)
	if _, err := c.Submit(
		t.Context(), store.Submission{Batches: []store.Batch{b}},
	); !errors.Is(err, store.ErrOutOfReach) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.Queues(t.Context()); !errors.Is(err, store.ErrOutOfReach) {
		t.Errorf("read: %v", err)
	}
	if _, err := Open(t.Context(), Config{DSN: c.conf.DSN}); !errors.Is(err, store.ErrOutOfReach) {
		t.Errorf("open: %v", err)
	}
	server.Restart(t)
	c.submit(b)
	c.counts(task.Counts{Ready: 2})
}

// A role that may have fewer connections than the node's pool: the calls share those that there
// are.
func TestFewConnectionsAreSharedAndNoneIsSaidAsSuch(t *testing.T) {
	cluster := pgtest.Shared(t)
	dsn := cluster.Database(t)
	runSQL(t, dsn, "CREATE ROLE few LOGIN CONNECTION LIMIT 3",
		"CREATE SCHEMA rota AUTHORIZATION few")
	t.Cleanup(func() { runSQL(t, dsn, "DROP OWNED BY few", "DROP ROLE few") })
	few := strings.Replace(dsn, pgtest.User+"@", "few@", 1)
	c := join(t, open(t, Config{DSN: few, NoNotify: true}))
	var group sync.WaitGroup
	for range 16 {
		b := c.batch(1, 1, false)
		group.Go(func() {
			if _, err := c.Submit(
				t.Context(), store.Submission{Batches: []store.Batch{b}},
			); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	c.counts(task.Counts{Ready: 16})
	c.pool.Reset()
	for held := 0; held < 3; { // those that the pool gave up may still be ending
		if conn, err := pgx.Connect(t.Context(), few); err == nil {
			defer conn.Close(t.Context())
			held++
		} else if !crowded(err) {
			t.Fatal(err)
		}
	}
	if err := c.Check(t.Context()); !errors.Is(err, store.ErrOutOfReach) ||
		!strings.Contains(err.Error(), "max_connections") {
		t.Errorf("without any: %v", err)
	}
}

// Whoever waited for a second connection with one in hand would wait for ever once all do.
func TestWriteNeedsOneConnection(t *testing.T) {
	c := join(t,
		open(t, Config{
			DSN: pgtest.Shared(t).Database(t), NoNotify: true, Connections: 4,
			Timeout: 2 * time.Second,
		}))
	for range 3 {
		conn, err := c.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b := c.batch(3, 1, true) // its spans are the store's first, so a block of ids must be reserved
	if _, err := c.Submit(
		ctx, store.Submission{Holder: c.holder, Batches: []store.Batch{b}},
	); err != nil {
		t.Fatal(err)
	}
	c.counts(task.Counts{Ready: 3})
}
