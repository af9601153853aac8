//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// swap puts a database in the place of another one, under its name, and ends the sessions of both.
func swap(t *testing.T, cluster *pgtest.Cluster, dsn, other string) (back func()) {
	t.Helper()
	name := func(dsn string) string {
		return dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	}
	rename := func(from, to string) {
		t.Helper()
		cluster.Exec(t, fmt.Sprintf("ALTER DATABASE %s WITH ALLOW_CONNECTIONS false", from),
			fmt.Sprintf(
				"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '%s'",
				from,
			),
			fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", from, to),
			fmt.Sprintf("ALTER DATABASE %s WITH ALLOW_CONNECTIONS true", to))
	}
	here, there := name(dsn), name(other)
	rename(here, here+"_away")
	rename(there, here)
	return func() {
		t.Helper()
		rename(here, there)
		rename(here+"_away", here)
	}
}

func TestAnotherStoreUnderTheSameNameIsNeverWorkedOn(t *testing.T) {
	story.Whole(t)
	cluster := pgtest.Shared(t)
	for name, prepare := range map[string]func(dsn string){
		"another store": func(dsn string) { open(t, Config{DSN: dsn, NoNotify: true}).Close() },
		"an empty one":  func(string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dsn, other := cluster.Database(t), cluster.Database(t)
			prepare(other)
			c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
			c.submit(c.batch(1, 1, false))
			broken := name == "another store"
			back := swap(t, cluster, dsn, other)
			c.pool.Reset()
			b := c.batch(1, 1, false)
			if _, err := c.Submit(
				t.Context(), store.Submission{Batches: []store.Batch{b}},
			); err == nil || errors.Is(err, store.ErrBroken) != broken {
				t.Errorf("submit: %v", err)
			}
			if err := c.Check(t.Context()); err == nil ||
				errors.Is(err, store.ErrBroken) != broken {
				t.Errorf("check: %v", err)
			}
			s, err := Open(t.Context(), Config{DSN: dsn, NoNotify: true, Before: c.Store})
			if err == nil {
				s.Close()
			}
			if err == nil || errors.Is(err, store.ErrBroken) != broken {
				t.Errorf("opened again: %v", err)
			}
			back()
			c.counts(task.Counts{Ready: 1})
			open(t, Config{DSN: dsn, NoNotify: true, Before: c.Store})
			if !broken {
				conn, err := pgx.Connect(t.Context(), other)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(t.Context())
				var made bool
				if err := conn.QueryRow(t.Context(),
					"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'rota')").Scan(&made); err != nil || made {
					t.Errorf("tables were made in it: %v, %v", made, err)
				}
			}
		})
	}
}

func TestAnotherClusterIsNotJoinedAgain(t *testing.T) {
	story.Whole(t)
	one, two := pgtest.Start(t, pgtest.Config{}), pgtest.Shared(t)
	before := open(t, Config{DSN: one.Database(t), NoNotify: true})
	_, err := Open(t.Context(), Config{DSN: two.Database(t), NoNotify: true, Before: before})
	if !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	story.Whole(t)
	one, two := pgtest.Start(t, pgtest.Config{}), pgtest.Shared(t)
	one.Exec(t, "CREATE DATABASE x")
	two.Exec(t, "CREATE DATABASE x")
	t.Cleanup(func() { two.Exec(t, "DROP DATABASE x WITH (FORCE)") })
	dsn := fmt.Sprintf("postgres://%s@%s,%s/x?sslmode=disable", pgtest.User, one.Addr(), two.Addr())
	s := open(t, Config{DSN: dsn, NoNotify: true})
	one.Stop(t)
	err := s.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "belongs to another cluster") {
		t.Errorf("got %v", err)
	}
}

// A DSN may name several hosts. After a failover the old primary must not get a word in.
func TestFormerPrimaryIsRefused(t *testing.T) {
	story.Whole(t)
	primary := pgtest.Start(t, pgtest.Config{Durable: true})
	primary.Exec(t, "CREATE DATABASE x")
	standby := primary.Standby(t)
	dsn := fmt.Sprintf("postgres://%s@%s,%s/x?sslmode=disable", pgtest.User, primary.Addr(),
		standby.Addr())
	c := join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	c.submit(c.batch(1, 1, false))
	wantDurability(t, c.Store, DurabilityAsync)
	awaitReplay(t, primary, standby)
	primary.Kill9(t)
	standby.Promote(t)
	eventually(t, func() error { return c.Check(t.Context()) })
	primary.Restart(t)
	c.pool.Reset()
	if err := c.Check(t.Context()); err != nil { // its host comes first
		t.Error(err)
	}
	c.submit(c.batch(1, 1, false))
	c.counts(task.Counts{Ready: 2})
	if c.server.line() != 2 {
		t.Errorf("timeline %d, want 2", c.server.line())
	}
	standby.Stop(t)
	err := c.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "former primary") {
		t.Errorf("with the former primary alone: %v", err)
	}
}

// awaitReplay waits until a standby has all that its primary has.
func awaitReplay(t *testing.T, primary, standby *pgtest.Cluster) {
	t.Helper()
	lsn := func(c *pgtest.Cluster, f string) (n int64) {
		conn, err := pgx.Connect(t.Context(), c.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(),
			"SELECT ("+f+"() - '0/0'::pg_lsn)::bigint").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := lsn(primary, "pg_current_wal_lsn")
	eventually(t, func() error {
		if got := lsn(standby, "pg_last_wal_replay_lsn"); got < want {
			return fmt.Errorf("the standby has %d of %d bytes", got, want)
		}
		return nil
	})
}
