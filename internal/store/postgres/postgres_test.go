//go:build unix

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/storetest"
)

var _ contract.Store = (*Store)(nil)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// open opens a store, in a database of its own unless conf names one, and closes it at the end of
// the test. To make the tables and to drop them takes a second: who counts no rows of PostgreSQL's
// own, and no partitions, does with a database that is emptied.
func open(t testing.TB, conf Config) *Store {
	t.Helper()
	if conf.DSN == "" {
		conf.DSN = pgtest.Shared(t).Database(t)
	}
	s, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// used is the database of those many tests that need no other: it is emptied before each, which
// takes a tenth of the time that a new one would.
var used emptied

// emptied is a database that many tests use one after the other, and so are its connections: each
// test has a store of its own, which borrows them. They would take longer to make, and to plan
// every statement anew, than most of the tests take.
type emptied struct {
	name   string // "" = used
	dsn    string // "" = it is not made yet
	lender *Store // whose the connections are; nil = they are not made yet, or a test closed them
	empty  string // the statement that empties the tables
}

// emptiable are the tables that are to be empty, and heads makes the rest as they were made.
// Partitions and the greatest tokens stay.
const (
	emptiable = `SELECT relname::text FROM pg_class WHERE relnamespace = 'rota'::regnamespace
AND relkind IN ('r', 'p') AND NOT relispartition
AND relname NOT IN ('version', 'store', 'event_head', 'job_head', 'schedule_head')`
	heads = `events AS (UPDATE rota.event_head SET last = $1, time = $1),
jobs AS (UPDATE rota.job_head SET ids = $1, past = $1, seats = $1)
UPDATE rota.schedule_head SET ids = $1, past = $1, count = $1`
)

// deletion is the statement that empties the tables, given a zero. It is one, and always the same,
// so that each connection plans it once (without an argument it would not be prepared); and it
// defines nothing, which would make every connection plan everything anew.
func deletion(t *testing.T, s *Store) string {
	t.Helper()
	rows, _ := s.pool.Query(t.Context(), emptiable) // its error is that of the rows
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	text := "WITH "
	for _, name := range tables {
		text += fmt.Sprintf("of_%[1]s AS (DELETE FROM rota.%[1]s), ", name)
	}
	return text + heads
}

// fresh is a store as the suite wants it: empty, on the suite's clock, and tasks go to the moment.
// Its partitions are wide, so that the leaps of many clocks through one database leave few of them.
func fresh(t *testing.T, clock *contract.Clock, conf Config) *Store {
	t.Helper()
	return used.fresh(t, onSuitesClock(clock, conf), "")
}

// onSuitesClock is a configuration on the suite's clock.
func onSuitesClock(clock *contract.Clock, conf Config) Config {
	conf.Now, conf.Linger, conf.Partition = clock.Now, -1, 2000*time.Hour
	return conf
}

// fresh is an empty store. The settings are added to the DSN.
func (e *emptied) fresh(t *testing.T, conf Config, settings string) *Store {
	t.Helper()
	if e.dsn == "" {
		name := cmp.Or(e.name, "used")
		cluster := pgtest.Shared(t)
		cluster.Exec(t, "CREATE DATABASE "+name)
		e.dsn = cluster.DSN(name)
	}
	conf.DSN = e.dsn + unhurried + settings
	if e.lender == nil {
		lender, err := Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		e.lender, e.empty = lender, deletion(t, lender)
	}
	s := e.borrow(t, conf)
	e.exec(t, e.empty, 0)
	if settings != "" {
		e.exec(t, believedEmpty)
	}
	return s
}

// database is the DSN of the database, emptied, for stores with connections of their own.
func (e *emptied) database(t *testing.T) string {
	t.Helper()
	e.fresh(t, Config{NoNotify: true}, "")
	return e.dsn
}

// borrow opens a store whose connections are the lender's, and ends it at the end of the test.
func (e *emptied) borrow(t *testing.T, conf Config) *Store {
	t.Helper()
	if _, err := conf.complete(); err != nil {
		t.Fatal(err)
	}
	d, of := newDatabase(conf), e.lender.database
	d.pool, d.identity, d.peers, d.secret = of.pool, of.identity, of.peers, of.secret
	d.server.inherit(&of.server)
	s := assemble(d)
	if err := s.coverNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !conf.NoNotify {
		s.notices = newNotices(d)
	}
	t.Cleanup(func() {
		if !s.end() { // the test has closed it, and with it the connections
			e.lender.end()
			e.lender = nil
		}
	})
	return s
}

// exec runs a statement by a connection of the lender.
func (e *emptied) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := e.lender.pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// unhurried lets a server wait for tests that get no core for seconds: that is no store's fault.
const unhurried = "&idle_in_transaction_session_timeout=2min"

// believedEmpty is what an ANALYZE tells the planner that looks just after everything was deleted:
// one page without a row. Then it takes the table for the outer side of a loop, and what should
// find few of its rows for the inner side, which is asked again for each. It is told of those
// tables only of which it does not believe that, or all plans would be made anew for each claim.
const believedEmpty = `UPDATE pg_class SET reltuples = 0, relpages = 1
WHERE relnamespace = 'rota'::regnamespace AND relkind = 'r' AND (reltuples, relpages) <> (0, 1)`

// The tests that follow run beside each other, after all others: each has a database of its own.

// Here also lone outcomes stand in marks, in the next test few do.
func TestKeepsTheContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, clock *contract.Clock) contract.Store {
		return fresh(t, clock, Config{marksFrom: 1})
	}
	storetest.RunShort(t, model.Reference, open)
}

// Databases that only speak PostgreSQL's protocol may lack something.
func TestKeepsTheContractWithoutWhatDatabasesMayLack(t *testing.T) {
	if testing.Short() {
		t.Skip("other statements, not other goroutines: short runs, which look for races, need not")
	}
	t.Parallel()
	e := emptied{name: "lacking"}
	open := func(t *testing.T, clock *contract.Clock) contract.Store {
		return e.fresh(t, onSuitesClock(clock, Config{NoSkipLocked: true, NoNotify: true}), "")
	}
	storetest.RunStatements(t, model.Reference, open)
}

// Who asks for at most so many rows gets no more, and each row is changed once, whatever joins the
// planner prefers: what it knows of the tables changes by the minute, and a pooler's sessions have
// its administrator's settings.
func TestKeepsTheContractWhateverThePlannerPrefers(t *testing.T) {
	if testing.Short() {
		t.Skip("plans are the database's: the whole suite looks at them, short runs need not")
	}
	t.Parallel()
	const (
		noIndexes = "&enable_indexscan=off&enable_indexonlyscan=off&enable_bitmapscan=off&enable_seqscan=on"
		// what a loop looks at again is asked for again
		unsaved = "&enable_material=off&enable_memoize=off"
	)
	for name, settings := range map[string]string{
		"nested_loops": "&enable_hashjoin=off&enable_mergejoin=off&enable_seqscan=on" +
			unsaved,
		"hash_joins":       "&enable_hashjoin=on&enable_mergejoin=off&enable_nestloop=off&enable_seqscan=on",
		"merge_joins":      "&enable_hashjoin=off&enable_mergejoin=on&enable_nestloop=off&enable_seqscan=on",
		"sequential_scans": "&enable_hashjoin=off&enable_mergejoin=off" + noIndexes + unsaved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := emptied{name: name}
			open := func(t *testing.T, clock *contract.Clock) contract.Store {
				return e.fresh(t, onSuitesClock(clock, Config{marksFrom: 1}), settings)
			}
			storetest.RunStatements(t, model.Reference, open)
		})
	}
}

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

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
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
