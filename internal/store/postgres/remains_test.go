//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// What a task has in other tables stays as long as the task may be replayed: until its partition
// goes, and for good when the task has come back by then.
func TestReplayedTaskOfARetiringPartitionHasItsContext(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	large := []byte(`"` + strings.Repeat("x", store.InlineLimit) + `"`)
	begin := func(t *testing.T) (*client, task.ID) {
		c := join(t, open(t, Config{Now: clock.Now}))
		b := c.batch(2, 2, true)
		for i := range b.Tasks {
			v, err := c.Keep(t.Context(), large)
			if err != nil {
				t.Fatal(err)
			}
			b.Tasks[i].Context = v
		}
		spans := c.submit(b)
		if err := c.AppendLog(t.Context(), task.ID{Batch: b.ID}, []task.LogLine{
			{Time: clock.Now(), Stream: "out", Text: "of the first run"},
		}); err != nil {
			t.Fatal(err)
		}
		c.settle(spans)
		clock.Advance(limits.DefaultDeadKept + 48*time.Hour)
		return c, task.ID{Batch: b.ID}
	}
	replay := func(c *client, id task.ID) {
		c.Helper()
		got, err := c.Act(c.Context(), []store.Action{{
			ID: id, Kind: task.KindReplayed, Rank: clock.Micros(), Due: clock.Micros(),
		}})
		if err != nil || !got[0].Changed {
			c.Fatalf("replay: %+v, %v", got, err)
		}
	}
	whole := func(c *client, id task.ID) {
		c.Helper()
		v, err := c.Task(c.Context(), id)
		if err != nil || v.State != task.Ready {
			c.Fatalf("the replayed task: %+v, %v", v, err)
		}
		if string(v.Context) != string(large) {
			c.Errorf("its context has %d bytes, want %d", len(v.Context), len(large))
		}
		page, err := c.Store.Log(c.Context(), id, 0, 10)
		if err != nil || len(page.Lines) != 1 {
			c.Errorf("its log: %+v, %v", page, err)
		}
	}
	t.Run("a reader keeps the partition", func(t *testing.T) {
		c, id := begin(t)
		reader := must(pgx.Connect(t.Context(), c.conf.DSN))(t)
		defer reader.Close(context.WithoutCancel(t.Context()))
		must(reader.Exec(t.Context(), "BEGIN; SELECT FROM rota.step"))(t)
		keep, err := c.retention(t.Context())
		if err == nil {
			err = c.retire(t.Context(), &keep, clock.Micros(), map[string]int64{})
		}
		if err != nil {
			t.Fatal(err)
		}
		replay(c, id)
		whole(c, id)
		must(reader.Exec(t.Context(), "COMMIT"))(t)
		clock.Advance(retireAgain)
		c.prune()
		whole(c, id)
		for _, of := range []string{"blob", "log_size"} {
			if n := c.count("SELECT count(*) FROM rota." + of); n != 1 {
				t.Errorf("%d rows of %s, want that of the replayed task", n, of)
			}
		}
	})
	t.Run("the node died before it came to the rest", func(t *testing.T) {
		c, id := begin(t)
		runSQL(t, c.conf.DSN, "CREATE FUNCTION rota.die() RETURNS trigger LANGUAGE plpgsql AS"+
			" $$ BEGIN RAISE 'it died'; END $$",
			"CREATE TRIGGER die BEFORE DELETE ON rota.blob EXECUTE FUNCTION rota.die()")
		if _, err := c.Prune(t.Context(), 1000); err == nil {
			t.Fatal("nothing failed")
		}
		if _, err := c.Task(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("the task is there: %v", err)
		}
		runSQL(t, c.conf.DSN, "DROP TRIGGER die ON rota.blob")
		clock.Advance(retireAgain)
		c.prune()
		for _, of := range []string{"blob", "log", "log_size", "batch_remains"} {
			if n := c.count("SELECT count(*) FROM rota." + of); n != 0 {
				t.Errorf("%d rows of %s are left", n, of)
			}
		}
	})
}

// A piece of what tasks have in other tables costs what it answers, however much comes after it.
func TestAPieceOfRemainsReadsNoMoreThanItself(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{}))
	runSQL(t, c.conf.DSN, `INSERT INTO rota.log_size SELECT i, 0, 1, 0, 0, 0, 0, 0
FROM generate_series(1, 5000) i`, `INSERT INTO rota.blob (batch, n, name) SELECT i, 0, i::text
FROM generate_series(1, 5000) i`, "ANALYZE")
	conn := must(pgx.Connect(t.Context(), c.conf.DSN))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var answer []byte
	const most = 10
	if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+beside,
		int64(0), int32(0), int64(1<<40), most).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	if read := plans[0].Plan.read(); read > 2*most+2 {
		t.Errorf("a piece of %d reads %v rows:\n%s", most, read, answer)
	}
}
