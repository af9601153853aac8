package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// prune prunes until nothing is left to prune.
func (c *client) prune() (pruned int) {
	c.Helper()
	for {
		n, err := c.Prune(c.Context(), 1000)
		if err != nil {
			c.Fatal(err)
		}
		if pruned += n; n == 0 {
			return pruned
		}
	}
}

// A span may live on when some of its tasks are long gone. Its token is still good, and must not
// raise them from the dead.
func TestLateReportOfPrunedTaskIsUnknown(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	sp := c.submit(c.batch(2, 2, true))[0]
	early := store.Settlement{
		Reports: []store.Report{report(&sp, 0, 0, clock.Micros(), task.Finish(nil))},
	}
	if got, err := c.Settle(t.Context(), early); err != nil || got.Verdicts[0] != task.Recorded {
		t.Fatalf("got %v, %v", got, err)
	}
	clock.Advance(2 * limits.DefaultRetention)
	if got := c.prune(); got != 1 {
		t.Errorf("pruned %d, want the one that is done", got)
	}
	if got, err := c.Settle(t.Context(), early); err != nil || got.Verdicts[0] != task.Unknown {
		t.Errorf("report of a pruned task: got %v, %v, want %s", got.Verdicts, err, task.Unknown)
	}
	late := store.Settlement{
		Reports: []store.Report{report(&sp, 1, 0, clock.Micros(), task.Finish(nil))},
	}
	if got, err := c.Settle(t.Context(), late); err != nil || got.Verdicts[0] != task.Recorded {
		t.Errorf("report of its neighbour: got %v, %v, want %s", got.Verdicts, err, task.Recorded)
	}
}

func TestEmptyBatchesGo(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	for i := range 3 {
		b := c.batch(10, 10, true)
		b.Tasks[i].Key = fmt.Sprint("key ", i)
		c.settle(c.submit(b))
	}
	clock.Advance(2 * limits.DefaultRetention)
	c.prune()
	for _, table := range []string{
		"batch", "pack", "keyed", "mark", "step", "span", "running", "log", "blob",
	} {
		err := c.read(t.Context(), func(conn *conn) error {
			left, err := conn.has("SELECT 1 FROM " + table)
			if left {
				t.Errorf("table %s is not empty", table)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Counting reads one row of a queue, and what transactions changed is added up to few rows of the
// history, which go when they are kept no longer.
func TestHistoryIsAddedUpAndForgotten(t *testing.T) {
	clock := contract.NewClock()
	kept := history.Kept{Minutes: time.Hour, Hours: 3 * time.Hour}
	c := join(t, open(t, Config{Now: clock.Now, History: kept}))
	for range 5 {
		c.settle(c.submit(c.batch(10, 10, true)))
		clock.Advance(time.Minute)
	}
	rows := func(what string, changes, minutes, hours int) {
		t.Helper()
		for query, want := range map[string]int{
			"SELECT count(*) FROM stat":                        1,
			"SELECT count(*) FROM history_change":              changes,
			"SELECT count(*) FROM history WHERE minutes = 1":   minutes,
			"SELECT count(*) FROM history WHERE minutes = 60":  hours,
			"SELECT sum(submitted) FROM stat WHERE minute = 0": 50,
		} {
			if got := c.count(query); got != want {
				t.Errorf("%s: %s: %d, want %d", what, query, got, want)
			}
		}
	}
	rows("before", 10, 0, 0)
	c.prune()
	rows("added up", 0, 5*4, 4) // all, the queue, its stage and the worker
	clock.Advance(2 * time.Hour)
	c.prune()
	rows("two hours later", 0, 0, 4)
	clock.Advance(2 * time.Hour)
	c.prune()
	rows("four hours later", 0, 0, 0)
	got, err := c.Counts(t.Context(), "q")
	if err != nil || got[0].Counts != (task.Counts{Done: 50}) {
		t.Errorf("got %+v, %v, want 50 done", got, err)
	}
}

// Stages are named by callers, who may invent any number of them: the history of a queue keeps some
// of them, and all in the sum of the queue.
func TestHistoryKeepsSomeStagesOfAQueue(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	b := c.batch(3*history.MostStages, 3*history.MostStages, true)
	for i := range b.Tasks {
		b.Tasks[i].Stage = fmt.Sprint("stage ", i)
	}
	c.submit(b)
	c.prune()
	const stages = "SELECT count(*) FROM history WHERE minutes = 1 AND stage > ''"
	if got := c.count(stages); got != history.MostStages {
		t.Errorf("%d stages are kept, want %d", got, history.MostStages)
	}
	now := clock.Now()
	q, err := history.NewQuestion(history.Series{Queue: "q"}, now, now.Add(time.Minute),
		time.Minute, history.Kept{}.Complete(), now)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.History(t.Context(), q)
	if err != nil || len(list) != 1 || list[0].Submitted != 3*history.MostStages {
		t.Errorf("the queue: %v, %v", list, err)
	}
}

// A process may die between the blob and the row that refers to it.
func TestOrphanBlobsGoAfterADay(t *testing.T) {
	clock := contract.NewClock()
	folder, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	c := join(t, open(t, Config{Now: clock.Now, Blobs: folder}))
	large := []byte(strings.Repeat("x", store.InlineLimit+1))
	keep := func() store.Value {
		t.Helper()
		v, err := c.Keep(t.Context(), large)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	orphan, used := keep(), keep()
	b := c.batch(1, 1, false)
	b.Tasks[0].Context = used
	c.submit(b)
	there := func(v store.Value) bool {
		_, err := c.Value(t.Context(), v)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	clock.Advance(time.Hour)
	c.prune()
	if !there(orphan) {
		t.Error("a blob was removed within the hour: its row may be on the way")
	}
	clock.Advance(48 * time.Hour)
	c.prune()
	if there(orphan) {
		t.Error("the orphan is still there")
	}
	if !there(used) {
		t.Error("a blob that a task refers to was removed")
	}
}

// A clock may be set ahead by days after a blob was written and before its row comes, as when a
// machine that knew no time hears it.
func TestBlobWaitsForItsRowWhateverTheClockSays(t *testing.T) {
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	passed := time.Duration(0)
	c.passed = func() time.Duration { return passed }
	keep := func() store.Value {
		t.Helper()
		v, err := c.Keep(t.Context(), []byte(strings.Repeat("x", store.InlineLimit+1)))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	b := c.batch(1, 1, false)
	b.Tasks[0].Context = keep()
	orphan := keep()
	clock.Advance(72 * time.Hour)
	c.prune()
	c.submit(b)
	if _, err := c.Value(t.Context(), b.Tasks[0].Context); err != nil {
		t.Errorf("the context of an acknowledged task: %v", err)
	}
	passed = blobGrace
	clock.Advance(time.Hour)
	c.prune()
	if _, err := c.Value(t.Context(), orphan); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the orphan, a day later: %v", err)
	}
}

func TestLogSaysWhatItDropped(t *testing.T) {
	c := join(t, open(t, Config{}))
	b := c.batch(1, 1, false)
	c.submit(b)
	id := task.ID{Batch: b.ID}
	const width, lines = 1024, 3000
	for i := 0; i < lines; i += 50 {
		piece := make([]task.LogLine, 50)
		for k := range piece {
			piece[k] = task.LogLine{
				Time: time.UnixMicro(int64(i)), Stream: "out",
				Text: fmt.Sprintf("%0*d", width-3, i+k),
			}
		}
		if err := c.AppendLog(t.Context(), id, piece); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for from := int64(0); ; {
		page, err := c.Store.Log(t.Context(), id, from, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Lines) == 0 {
			break
		}
		for _, l := range page.Lines {
			got = append(got, strings.TrimLeft(l.Text, "0"))
		}
		from = page.Next
	}
	const half = logHalf / width
	if len(got) != 2*half+1 {
		t.Fatalf("got %d lines, want %d and one for those that were dropped", len(got), 2*half)
	}
	want := fmt.Sprintf("… %d lines (%d bytes) were dropped here …", lines-2*half,
		(lines-2*half)*width)
	if got[half] != want {
		t.Errorf("in the middle: got %q, want %q", got[half], want)
	}
	if first, last := got[half-1], got[len(got)-1]; first != fmt.Sprint(half-1) ||
		last != fmt.Sprint(lines-1) {
		t.Errorf("got lines up to %s and up to %s, want %d and %d", first, last, half-1, lines-1)
	}
}

// Lists examine a bounded number of rows: what a filter selects is found all the same, page after
// page.
func TestPagesFindAllBehindMillionsOfOthers(t *testing.T) {
	const many = 500
	c := join(t, open(t, Config{}))
	c.examined = many / 5
	c.submit(c.batch(3, 3, false))
	for range 3 {
		c.settle(c.submit(c.batch(many, many, true)))
	}
	c.submit(c.batch(3, 3, false))
	for _, f := range []store.Filter{{State: task.Ready}, {State: task.Ready, Queue: "q"},
		{Stage: "first", Worker: "nobody"}, {State: task.Done, Worker: "worker-1"}} {
		var found, pages int
		var after task.ID
		for {
			page, next, err := c.Tasks(t.Context(), f, after, 40)
			if err != nil {
				t.Fatal(err)
			}
			found += len(page)
			pages++
			for _, v := range page {
				if after != (task.ID{}) && v.ID.Compare(after) >= 0 {
					t.Fatalf("%+v: %v comes after %v", f, v.ID, after)
				}
			}
			if next == (task.ID{}) {
				break
			}
			after = next
		}
		want := map[task.State]int{task.Ready: 6, task.Done: 3 * many}[f.State]
		if found != want {
			t.Errorf("%+v: found %d in %d pages, want %d", f, found, pages, want)
		}
		if f.Worker == "nobody" && pages < 2 {
			t.Errorf("%+v: one page examined everything", f)
		}
	}
}

// Everything at once, for the race detector; and what was submitted is what was done.
func TestManyCallersAtOnce(t *testing.T) {
	s := open(t, Config{})
	c := join(t, s)
	var wg sync.WaitGroup
	const callers, rounds, size = 8, 10, 20
	batches := make(chan store.Batch, callers*rounds)
	for range callers * rounds {
		batches <- c.batch(size, 5, true)
	}
	for range callers {
		wg.Go(func() {
			for range rounds {
				c.settle(c.submit(<-batches))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, look := range []func() error{
		func() error { _, err := s.Counts(ctx); return err },
		func() error { _, _, err := s.Tasks(ctx, store.Filter{}, task.ID{}, 50); return err },
		func() error { _, err := s.Held(ctx, c.holder, nil); return err },
		func() error { _, err := s.Prune(ctx, 100); return err },
		func() error { return s.Check(ctx) },
	} {
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := look(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	readers.Wait()
	got, err := s.Counts(t.Context(), "q")
	if want := (task.Counts{Done: callers * rounds * size}); err != nil || got[0].Counts != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A walk that found nothing in a stretch rested as if it had come to the end: what stood in front
// kept what stood behind.
func TestManyReadyTasksInFrontDoNotStopRetention(t *testing.T) {
	const front, done = 2*pruneExamined + 5000, 1000
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	for range front / 5000 { // of each one is done, so that all of it is looked at
		sp := c.submit(c.batch(5000, 5000, true))[0]
		one := store.Settlement{
			Reports: []store.Report{report(&sp, 0, 0, clock.Micros(), task.Finish(nil))},
		}
		if _, err := c.Settle(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(c.submit(c.batch(done, done, true)))
	clock.Advance(2 * limits.DefaultRetention)
	calls, found := 0, 0
	for more := true; more; more = c.Retention().Behind {
		n, err := c.Prune(t.Context(), 5000)
		if err != nil {
			t.Fatal(err)
		}
		found += n
		if calls++; calls == 1 && (n > front/5000 || !c.Retention().Behind) {
			t.Errorf("after the first stretch %d were deleted, and the store says %+v", n,
				c.Retention())
		}
	}
	if found != done+front/5000 || calls > front/pruneExamined+3 {
		t.Errorf("%d of %d were deleted in %d calls", found, done, calls)
	}
	if lag := c.Retention().Lag; lag < limits.DefaultRetention-time.Minute ||
		lag > limits.DefaultRetention {
		t.Errorf("lag %v, of tasks that should have gone a day ago", lag)
	}
}

// Idempotency keys outlive their tasks: a busy queue has millions. Nobody waits for the writer
// while all of them are deleted with it.
func TestKeysGoWithTheirQueueAPieceAtATime(t *testing.T) {
	const keys = 3*piece + 1
	var s *Store
	most := 0
	s = open(t, Config{crash: func(step string) {
		if step == "committed" && s != nil {
			most = max(most, s.writer.changed)
		}
	}})
	if _, err := s.ChangeQueue(
		t.Context(), "q", store.Whole(limits.DefaultQueue("q")),
	); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), func(t *tx) error {
		for _, query := range [...]string{
			`INSERT INTO task_key (queue, key, batch, n, until) SELECT 'q', i, 1, i, 9e15 FROM k`,
			`INSERT INTO bucket (queue, key, level, at, full_at) SELECT 'q', i, 0, 0, 9e15 FROM k`,
		} {
			if _, err := t.exec(`WITH k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k
WHERE i < ?) `+query, keys); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	most = 0
	if err := s.DeleteQueue(t.Context(), "q", false); err != nil {
		t.Fatal(err)
	}
	if most == 0 || most > 2*piece {
		t.Errorf("one transaction deleted %d rows, want about %d", most, piece)
	}
	for _, table := range []string{"task_key", "bucket"} {
		if err := s.read(t.Context(), func(c *conn) error {
			n, err := c.number("SELECT count(*) FROM " + table)
			if err == nil && n != 0 {
				t.Errorf("%d rows of %s are left", n, table)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A clock that was far ahead for a while puts no deletion off for as long.
func TestPruneGoesOnAfterTheClockWasAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	clock.Advance(year)
	c.prune()
	clock.Advance(-year)
	c.settle(c.submit(c.batch(10, 10, true)))
	orphan, err := c.Keep(t.Context(), make([]byte, 5000))
	if err != nil {
		t.Fatal(err)
	}
	if c.prune() != 0 {
		t.Error("something was deleted that retention keeps")
	}
	clock.Advance(2 * limits.DefaultRetention)
	if got := c.prune(); got != 10 {
		t.Errorf("%d tasks were deleted, want all 10", got)
	}
	if _, err := c.Value(t.Context(), orphan); err == nil {
		t.Error("a large value that nothing refers to is still there")
	}
}
