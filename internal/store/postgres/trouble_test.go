//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// runSQL runs statements in a database as its superuser.
func runSQL(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

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

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
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

// A DSN may name several hosts. After a failover the old primary must not get a word in.
func TestFormerPrimaryIsRefused(t *testing.T) {
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

// eventually tries until it works: other processes are at work.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
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

func TestNodesThatStartAtOnceMakeTheTablesOnce(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	var wg sync.WaitGroup
	var stores [6]*Store
	for i := range stores {
		wg.Go(func() {
			s, err := Open(t.Context(), Config{DSN: dsn})
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	wg.Wait()
	for _, s := range stores {
		if s == nil {
			continue
		}
		if s.Secret() != stores[0].Secret() {
			t.Error("two of them have two secrets")
		}
		if key := s.PeerKey(); len(key) != 32 || !bytes.Equal(key, stores[0].PeerKey()) {
			t.Errorf("the nodes know each other by %x and %x", key, stores[0].PeerKey())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	cluster := pgtest.Shared(t)
	for _, test := range []struct {
		name    string
		prepare []string
		user    string
		conf    Config
		want    []string
	}{
		{"newer tables", nil, "", Config{}, nil}, // made by the first Open
		{"nothing at all", nil, "", Config{
			Schema: "No", Connections: 1, History: history.Kept{Minutes: -1}, Partition: 1,
			Timeout: -1,
		},
			[]string{"schema:", "connections:", "history:", "partition:", "timeout:"}},
		{"no right to make a schema", []string{"CREATE ROLE poor LOGIN"}, "poor", Config{},
			[]string{`CREATE SCHEMA rota AUTHORIZATION "poor";`}},
		{"no right in the schema", []string{"CREATE SCHEMA rota"}, "poor", Config{},
			[]string{`GRANT USAGE, CREATE ON SCHEMA rota TO "poor";`}},
		{"the tables are another's",
			[]string{"GRANT ALL ON SCHEMA rota TO poor", "CREATE TABLE rota.store ()"}, "poor",
			Config{}, []string{`GRANT "rota" TO "poor";`}},
		{"commits that do not wait",
			[]string{"DROP SCHEMA rota CASCADE", "ALTER ROLE poor SET synchronous_commit = off",
				"CREATE SCHEMA rota AUTHORIZATION poor"}, "poor", Config{},
			[]string{"synchronous_commit is off"}},
		{"transactions that fail for others' sake, behind a pooler",
			[]string{"DROP SCHEMA rota CASCADE", "CREATE SCHEMA rota AUTHORIZATION poor",
				"ALTER ROLE poor SET synchronous_commit = on",
				"ALTER ROLE poor SET default_transaction_isolation = serializable"}, "poor", Config{
				Pooler: true,
			},
			[]string{"default_transaction_isolation = 'read committed'"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.want == nil {
				dsn := cluster.Database(t)
				open(t, Config{DSN: dsn})
				runSQL(t, dsn,
					"INSERT INTO rota.version (version_id, is_applied) VALUES (99, true)")
				_, err := Open(t.Context(), Config{DSN: dsn})
				if err == nil || !strings.Contains(err.Error(), "use a newer rota") {
					t.Errorf("got %v", err)
				}
				return
			}
			dsn := cluster.DSN("postgres")
			runSQL(t, dsn, test.prepare...)
			if test.user != "" {
				dsn = strings.Replace(dsn, pgtest.User+"@", test.user+"@", 1)
			}
			test.conf.DSN = dsn
			_, err := Open(t.Context(), test.conf)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
	runSQL(t, cluster.DSN("postgres"), "DROP SCHEMA rota CASCADE", "DROP ROLE poor")
	for dsn, want := range map[string]string{
		"": "must name a database", "postgres://x:secret@h:port/d": "dsn:",
		"postgres://rota@127.0.0.1:1/x?sslmode=disable": "127.0.0.1:1",
	} {
		_, err := Open(t.Context(), Config{DSN: dsn})
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want %s", dsn, err, want)
		}
	}
}

func TestStoreInASchemaOfAnotherNameStandsBesideTheFirst(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	one, two := join(t, open(t, Config{DSN: dsn})),
		join(t, open(t, Config{DSN: dsn, Schema: "other"}))
	one.submit(one.batch(1, 1, false))
	two.settle(two.submit(two.batch(2, 1, true)))
	one.counts(task.Counts{Ready: 1})
	two.counts(task.Counts{Done: 2})
}

func TestServerThatDoesNotSyncPromisesNothing(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{Durable: true})
	c := open(t, Config{DSN: server.Database(t)})
	wantDurability(t, c, DurabilityLocal)
	server.Exec(t, "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
	for full := "on"; full == "on"; {
		if err := c.glance(t.Context(), ask("SHOW full_page_writes", func(r row) error {
			return r.Scan(&full)
		})); err != nil {
			t.Fatal(err)
		}
	}
	wantDurability(t, c, DurabilityNone)
}

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
	one, two := pgtest.Start(t, pgtest.Config{}), pgtest.Shared(t)
	before := open(t, Config{DSN: one.Database(t), NoNotify: true})
	_, err := Open(t.Context(), Config{DSN: two.Database(t), NoNotify: true, Before: before})
	if !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("got %v", err)
	}
}
