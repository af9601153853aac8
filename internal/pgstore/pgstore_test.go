//go:build unix

package pgstore

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/storetest"
)

var _ storetest.Store = (*Store)(nil)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// open opens a store, in a database of its own unless conf names one, and closes it at the end of the test.
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

// used is the database of those many tests that need no other: it is emptied before each, which takes a tenth of the time that a new
// one would.
var used struct {
	sync.Once
	dsn string
}

// empty leaves the tables as they were made. Partitions and the greatest tokens stay.
const empty = `DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND relname NOT IN ('version', 'store', 'event_head', 'job_head', 'schedule_head') LOOP
    EXECUTE 'DELETE FROM rota.' || name;
  END LOOP;
  UPDATE rota.event_head SET last = 0, time = 0;
  UPDATE rota.job_head SET ids = 0, past = 0, seats = 0;
  UPDATE rota.schedule_head SET ids = 0, past = 0, count = 0;
END $$`

// fresh is a store as the suite wants it: empty, on the suite's clock, and tasks go to the moment. Its partitions are wide, so that
// the leaps of many clocks through one database leave few of them.
func fresh(t *testing.T, clock *storetest.Clock, conf Config) *Store {
	t.Helper()
	used.Do(func() {
		cluster := pgtest.Shared(t)
		cluster.Exec(t, "CREATE DATABASE used")
		used.dsn = cluster.DSN("used")
	})
	conf.DSN, conf.Now, conf.Linger, conf.Partition = used.dsn, clock.Now, -1, 2000*time.Hour
	s := open(t, conf)
	runSQL(t, used.dsn, empty)
	return s
}

func TestKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) storetest.Store { return fresh(t, clock, Config{}) })
}

// Databases that only speak PostgreSQL's protocol may lack something.
func TestKeepsTheContractWithoutWhatDatabasesMayLack(t *testing.T) {
	storetest.RunShort(t, func(t *testing.T, clock *storetest.Clock) storetest.Store {
		return fresh(t, clock, Config{NoSkipLocked: true, NoNotify: true, NoCopy: true})
	})
}
