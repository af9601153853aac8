//go:build unix

package postgres

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

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

// The connection by which a node keeps others from the tables is lost while it makes them, as a
// pooler that ends idle ones does it: another node begins with the same step. Both end well.
func TestNodesThatMigrateBesideOneAnotherEndWell(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	defer conn.Close(t.Context())
	do := func(text string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	count := func(text string) (n int) {
		if err := conn.QueryRow(t.Context(), text).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	// whoever makes the table of batches waits
	do(`CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN
  IF current_query() LIKE '%rota.batch%' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
END $$`)
	do("CREATE EVENT TRIGGER wait ON ddl_command_start EXECUTE FUNCTION wait()")
	do("SELECT pg_advisory_lock(1)")
	const here = " FROM pg_stat_activity WHERE datname = current_database()"
	const stuck = "SELECT count(*)" + here + " AND wait_event_type = 'Lock'"
	var wg sync.WaitGroup
	begin := func() {
		wg.Go(func() {
			s, err := Open(t.Context(), Config{DSN: dsn, NoNotify: true})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wait := func(n int) {
		eventually(t, func() error {
			if got := count(stuck); got != n {
				return fmt.Errorf("%d wait", got)
			}
			return nil
		})
	}
	begin()
	wait(1)
	do("SELECT pg_terminate_backend(pid)" + here + " AND state = 'idle in transaction'")
	begin()
	wait(2)
	do("SELECT pg_advisory_unlock(1)")
	wg.Wait()
	if n := count(`SELECT count(*) - count(DISTINCT version_id) FROM rota.version`); n != 0 {
		t.Errorf("%d steps were made twice", n)
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	story.Whole(t)
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
	story.Whole(t)
	dsn := pgtest.Shared(t).Database(t)
	one, two := join(t, open(t, Config{DSN: dsn})),
		join(t, open(t, Config{DSN: dsn, Schema: "other"}))
	one.submit(one.batch(1, 1, false))
	two.settle(two.submit(two.batch(2, 1, true)))
	one.counts(task.Counts{Ready: 1})
	two.counts(task.Counts{Done: 2})
}

func TestServerThatDoesNotSyncPromisesNothing(t *testing.T) {
	story.Whole(t)
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
