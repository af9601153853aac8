//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// hasty is a timeout that what follows is longer than, and nothing else.
const hasty = 3 * time.Second

// slow makes a command of a database take longer than hasty where its query speaks of something, as
// it would with large tables.
func slow(t *testing.T, dsn, command, of string) {
	t.Helper()
	runSQL(t, dsn, fmt.Sprintf(`CREATE FUNCTION public.slow() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN IF tg_tag = '%s' AND strpos(current_query(), '%s') > 0 THEN PERFORM pg_sleep(%f); END IF; END $$`, command, of, 1.5*hasty.Seconds()),
		"CREATE EVENT TRIGGER slow ON ddl_command_start EXECUTE FUNCTION public.slow()")
}

func TestTablesMayTakeLongerToMakeThanAnyTimeout(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Shared(t).Database(t)
	slow(t, dsn, "CREATE SEQUENCE", "rota")
	var wg sync.WaitGroup
	for range 3 { // one makes them, the others wait for it
		wg.Go(func() {
			s, err := Open(t.Context(), Config{DSN: dsn, Timeout: hasty})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

func TestPartitionMayTakeLongerToGoThanAnyTimeoutAndNoBeatHangsOnIt(t *testing.T) {
	t.Parallel()
	clock := contract.NewClock()
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, Now: clock.Now, Timeout: hasty}))
	first := c.tables("pack")[0]
	c.settle(c.submit(c.batch(20, 10, true)))
	slow(t, dsn, "DROP TABLE", "step")
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	for slices.Contains(c.tables("pack"), first) || c.pruner.retiring != nil {
		// days without a task go after it, one by one
		ctx, cancel := context.WithTimeout(t.Context(), hasty/10)
		if n, err := c.Prune(ctx, 1000); n != 0 || err != nil && ctx.Err() == nil {
			t.Fatalf("%d tasks were deleted one by one, %v", n, err)
		}
		cancel()
	}
	c.prune()
	c.counts(task.Counts{})
}

func TestStoreThatIsClosedGivesUpWhatTakesLong(t *testing.T) {
	clock := contract.NewClock()
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, Now: clock.Now}))
	first := c.tables("pack")[0]
	c.settle(c.submit(c.batch(20, 10, true)))
	runSQL(t, dsn,
		`CREATE FUNCTION public.stuck() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); END $$`,
		"CREATE EVENT TRIGGER stuck ON ddl_command_start WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION public.stuck()")
	clock.Advance(limits.DefaultRetention + 24*time.Hour)
	pruned := make(chan error, 1)
	go func() {
		_, err := c.Prune(context.Background(), 1000)
		pruned <- err
	}()
	for c.count(
		`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND wait_event = 'PgSleep'`,
	) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-pruned; err == nil || errors.Is(err, store.ErrUnknown) {
		t.Errorf("what was given up: %v", err)
	}
	runSQL(t, dsn, "DROP EVENT TRIGGER stuck")
	again := join(t, open(t, Config{DSN: dsn, Now: clock.Now}))
	if !slices.Contains(again.tables("pack"), first) {
		t.Error("half of it was done")
	}
	again.prune()
	again.counts(task.Counts{})
}
