package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A pack may have tasks with hundreds of steps, more than are read together. What is read of many
// tasks is what is read of each.
func TestManyTasksAreReadAsEachIs(t *testing.T) {
	for _, busy := range [][]int32{nil, {0}, {63}, {5, 40}, {20, 21, 22}} {
		c := join(t, open(t, Config{}))
		sp := c.submit(c.batch(100, 100, true))[0]
		for _, n := range busy {
			var set store.Settlement
			for seq := range int32(stepsAtOnce) {
				r := report(&sp, n, seq, int64(seq), task.Snooze(time.Second))
				set.Reports = append(set.Reports, r)
			}
			if _, err := c.Settle(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
		var set store.Settlement
		for n := int32(10); n < 90; n++ { // of the busy ones these are stale, or their last
			seq := int32(0)
			for _, b := range busy {
				if b == n {
					seq = stepsAtOnce
				}
			}
			set.Reports = append(set.Reports, report(&sp, n, seq, int64(n), task.Finish(int(n%3))))
		}
		got, err := c.Settle(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got.Verdicts {
			if v != task.Recorded {
				t.Fatalf("busy %v: report %d is %s", busy, i, v)
			}
		}
		err = c.read(t.Context(), func(conn *conn) error {
			var seen int32
			err := conn.facts().facts(sp.Batch, 3, 97, func(f *rules.Fact) bool {
				one, found, err := conn.facts().fact(f.ID)
				one.Owner, one.Running = store.Span{}, nil
				if diff := cmp.Diff(one, *f); diff != "" || !found || err != nil {
					t.Errorf("busy %v: task %d: %v %v\n%s", busy, f.ID.N, found, err, diff)
				}
				seen++
				return true
			})
			if seen != 95 {
				t.Errorf("busy %v: %d tasks", busy, seen)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A body that can't be read is damage: the process must stop, as when SQLite finds some.
func TestDamagedBodyBreaksTheStore(t *testing.T) {
	for _, change := range []string{
		"UPDATE pack SET body = substr(body, 1, length(body) - 1)",
		"UPDATE pack SET has = has | (1 << 40)",
		"UPDATE mark SET body = x'00'",
	} {
		path := filepath.Join(t.TempDir(), "rota.db")
		s, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		c := join(t, s)
		c.settle(c.submit(c.batch(10, 10, true)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := dial(path, sqlite.OpenReadWrite, []string{change})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(t.Context(), Config{Path: path}); err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Tasks(t.Context(), store.Filter{}, task.ID{}, 10)
		if !errors.Is(err, store.ErrBroken) {
			t.Errorf("%s: a list answers %v", change, err)
		}
		if _, err := s.Queues(t.Context()); !errors.Is(err, store.ErrBroken) {
			t.Errorf("%s: the next call answers %v", change, err)
		}
		s.Close()
	}
}
