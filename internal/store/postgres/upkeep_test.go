//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/blob"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// count is what a query that counts answers.
func (c *client) count(text string) (n int64) {
	c.Helper()
	if err := c.glance(c.Context(), ask(text, func(r row) error {
		return r.Scan(&n)
	})); err != nil {
		c.Fatal(err)
	}
	return n
}

func TestEmptyStoreHasNoRowsLeft(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, Linger: -1}))
	for range 3 {
		c.settle(c.submit(c.batch(10, 10, true)))
	}
	clock.Advance(2 * limits.DefaultRetention)
	if got := c.prune(); got != 30 {
		t.Errorf("pruned %d tasks, want 30", got)
	}
	for _, table := range []string{"batch", "pack", "keyed", "mark", "step", "span", "running", "log", "log_size",
		"blob", "large"} {
		if n := c.count("SELECT count(*) FROM rota." + table); n != 0 {
			t.Errorf("table %s has %d rows", table, n)
		}
	}
	if n := len(c.tables("pack")); n > 1+1+ahead+1 {
		// the first one's turn comes when it is a day empty
		t.Errorf("%d partitions stand: %v", n, c.tables("pack"))
	}
}

// Counting reads one row of a queue, and what transactions changed is added up to few rows of the
// history, which go when they are kept no longer.
func TestHistoryIsAddedUpAndForgotten(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	kept := history.Kept{Minutes: time.Hour, Hours: 3 * time.Hour}
	c := join(t, open(t, Config{Now: clock.Now, History: kept}))
	for range 5 {
		c.settle(c.submit(c.batch(10, 10, true)))
		clock.Advance(time.Minute)
	}
	rows := func(what string, stat, changes, minutes, hours int64) {
		t.Helper()
		for query, want := range map[string]int64{
			"SELECT count(*) FROM rota.stat":                             stat,
			"SELECT sum(submitted + done + runs)::bigint FROM rota.stat": 150,
			"SELECT count(*) FROM rota.history_change":                   changes,
			"SELECT count(*) FROM rota.history WHERE minutes = 1":        minutes,
			"SELECT count(*) FROM rota.history WHERE minutes = 60":       hours,
		} {
			if got := c.count(query); got != want {
				t.Errorf("%s: %s: %d, want %d", what, query, got, want)
			}
		}
	}
	rows("before", 10, 10, 0, 0)
	c.prune()
	rows("added up", 1, 0, 5*4, 4) // all, the queue, its stage and the worker
	clock.Advance(2 * time.Hour)
	c.prune()
	rows("two hours later", 1, 0, 0, 4)
	clock.Advance(2 * time.Hour)
	c.prune()
	rows("four hours later", 1, 0, 0, 0)
	c.counts(task.Counts{Done: 50})
}

// A minute costs what was done in it, however many queues there are and however many minutes are
// kept.
func TestAMinuteCostsWhatWasDoneInIt(t *testing.T) {
	story.Whole(t)
	const queues = 40
	clock := contract.NewClock()
	dsn := pgtest.Shared(t).Database(t)
	c := join(t, open(t, Config{DSN: dsn, Now: clock.Now}))
	for minute := range 5 {
		var sub store.Submission
		for q := range queues {
			b := c.batch(3, 3, false)
			b.Queue = fmt.Sprint("q", q)
			sub.NewQueues = append(sub.NewQueues, b.Queue)
			sub.Batches = append(sub.Batches, b)
		}
		must(c.Submit(t.Context(), sub))(t)
		clock.Advance(time.Minute)
		before := c.count("SELECT txid_current()")
		c.prune()
		wrote := c.count(fmt.Sprintf(`SELECT (SELECT count(*) FROM rota.stat
WHERE xmin::text::bigint > %[1]d)
  + (SELECT count(*) FROM rota.history WHERE xmin::text::bigint > %[1]d)`, before))
		// the sum of each queue where there were two rows, and of all, each queue and each first
		// stage the minute of submission, the hour, and the minute of the sample, which knows no
		// stages
		if want := int64(2*(1+2*queues) + 1 + queues + min(minute, 1)*queues); wrote != want {
			t.Errorf("minute %d: %d rows were written, want %d", minute, wrote, want)
		}
	}
	if n := c.count("SELECT count(*) FROM rota.stat"); n != queues {
		t.Errorf("counting reads %d rows, want %d", n, queues)
	}
}

// A process may die between the blob and the row that refers to it.
func TestOrphanBlobsGoAfterADay(t *testing.T) {
	folder, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	for name, blobs := range map[string]Blobs{"table": nil, "folder": folder} {
		t.Run(name, func(t *testing.T) {
			clock := contract.NewClock()
			c := join(t, fresh(t, clock, Config{Blobs: blobs}))
			large := []byte(strings.Repeat("x", store.InlineLimit+1))
			orphan, used := must(c.Keep(t.Context(), large))(t), must(c.Keep(t.Context(), large))(t)
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
		})
	}
}

// unsynced is a folder on a disk that is broken.
type unsynced struct{ Blobs }

func (unsynced) Put(context.Context, string, []byte) error {
	return fmt.Errorf("put: %w", blob.ErrSync)
}

// A later fsync that succeeds says nothing of what the failed one left out.
func TestBlobWhoseFsyncFailedEndsTheStore(t *testing.T) {
	c := contested.fresh(t, Config{Blobs: unsynced{}}, "")
	_, err := c.Keep(t.Context(), []byte(strings.Repeat("x", store.InlineLimit+1)))
	if !errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrBusy) {
		t.Errorf("got %v, want %v", err, store.ErrBroken)
	}
}

// Programs write what they like to their logs; PostgreSQL's texts may have no NUL.
func TestTextsThatPostgreSQLWouldRefuseAreKept(t *testing.T) {
	c := join(t, contested.fresh(t, Config{}, ""))
	sp := c.submit(c.batch(2, 2, true))[0]
	id := task.ID{Batch: sp.Batch}
	const odd = "a\x00b\xff☃"
	line := task.LogLine{Time: time.UnixMicro(7).UTC(), Stream: "out", Text: odd}
	if err := c.AppendLog(t.Context(), id, []task.LogLine{line}); err != nil {
		t.Fatal(err)
	}
	if page := must(c.Store.Log(t.Context(), id, 0, 1))(t); page.Lines[0] != line {
		t.Errorf("got %+v, want %+v", page.Lines[0], line)
	}
	r := report(&sp, 0, 0, 1, task.Outcome{Kind: task.KindFail, Error: odd})
	must(c.Settle(t.Context(), store.Settlement{Reports: []store.Report{r}}))(t)
	must(c.Act(t.Context(),
		[]store.Action{
			{ID: task.ID{Batch: sp.Batch, N: 1}, Kind: task.KindCancelled, By: odd, Error: odd},
		}))(t)
	if got := must(c.Task(t.Context(), id))(t).Steps[0].Error; got != "a\uFFFDb\uFFFD☃" {
		t.Errorf("an error became %q", got)
	}
	must(c.Append(t.Context(), []store.Event{{Key: "k", Text: odd}}))(t)
}

// Lists examine a bounded number of rows: what a filter selects is found all the same, page after
// page.
func TestPagesFindAllBehindMillionsOfOthers(t *testing.T) {
	story.Whole(t)
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
		for after, more := (task.ID{}), true; more; {
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
			after, more = next, next != (task.ID{})
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

// Three nodes do everything at once to the same tasks. No task gets two outcomes, none is lost, and
// no deadlock comes through.
func TestManyNodesAtOnce(t *testing.T) {
	dsn := contested.database(t)
	const nodes, rounds, size = 3, 12, 30
	first := join(t, open(t, Config{DSN: dsn}))
	must(first.ChangeQueue(t.Context(), "q", store.Whole(limits.DefaultQueue("q"))))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var work, chores sync.WaitGroup
	var mu sync.Mutex
	ended := map[task.ID]int{}
	for k := range nodes {
		s := open(t, Config{DSN: dsn})
		name := fmt.Sprint("n", k)
		l := must(s.Acquire(t.Context(), "node/"+name, name, time.Hour, nil))(t)
		c := &client{
			TB: t, Store: s, holder: store.Holder{Node: name, Token: l.Token},
			last: int64(k) * 1000,
		}
		for lane := range 2 {
			work.Go(func() {
				for i := range rounds {
					c.submit(c.batch(size, 1+(i+lane)%size, i%2 == 0))
					c.takeAndSettle(i, func(id task.ID) {
						mu.Lock()
						ended[id]++
						mu.Unlock()
					})
				}
			})
		}
		for _, chore := range []func() error{
			func() error { _, err := s.Free(ctx, c.holder, math.MaxInt64); return err },
			func() error { _, err := s.Prune(ctx, 100); return err },
			func() error { _, err := s.Counts(ctx); return err },
			func() error {
				_, _, err := s.Tasks(
					ctx, store.Filter{State: task.Ready}, task.ID{}, 50,
				)
				return err
			},
			func() error {
				_, err := s.Beat(ctx, []store.Lease{l}, time.Hour, "node/", "chore/")
				return err
			},
		} {
			chores.Go(func() {
				for ctx.Err() == nil {
					if err := chore(); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
	}
	work.Wait()
	cancel()
	chores.Wait()
	const all = nodes * 2 * rounds * size
	got := must(first.Counts(t.Context(), "q"))(t)[0].Counts
	if got.Done != int64(len(ended)) || got.Done+got.Cancelled+got.Ready != all ||
		got.Running != 0 || got.Waiting != 0 {
		t.Errorf("of %d tasks %d were ended here; counts: %+v", all, len(ended), got)
	}
	for id, n := range ended {
		if n != 1 {
			t.Errorf("task %s was ended %d times", id, n)
		}
	}
	if n := first.count(
		"SELECT count(*) FROM rota.outcome WHERE base = -1 AND kind = 1",
	); n != got.Done {
		t.Errorf("%d outcomes say done, the counts %d", n, got.Done)
	}
}

// takeAndSettle takes tasks and ends them; now and then it cancels one instead, gives a span back,
// or reports twice.
func (c *client) takeAndSettle(round int, ended func(task.ID)) {
	got, err := c.Take(c.Context(), store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 45})
	if err != nil {
		c.Error(err)
	}
	var set store.Settlement
	for i, h := range got.Spans {
		switch {
		case (i+round)%7 == 3:
			r := store.Running{
				ID: task.ID{Batch: h.Batch, N: h.Lo}, Seq: h.Seq0, Span: h.ID, Token: h.Token,
				Worker: "w",
			}
			if err := c.Give(c.Context(),
				store.GiveRequest{Holder: c.holder, Spans: []store.Taking{h.Taking()},
					Running: []store.Running{r}}); err != nil {
				c.Error(err)
			}
			if _, err := c.Act(
				c.Context(), []store.Action{{ID: r.ID, Kind: task.KindCancelled}},
			); err != nil {
				c.Error(err)
			}
			continue
		case (i+round)%5 == 2 && len(h.Tasks) > 0:
			if _, err := c.Act(c.Context(),
				[]store.Action{{ID: task.ID{Batch: h.Batch, N: h.Tasks[0].N},
					Kind: task.KindCancelled}}); err != nil {
				c.Error(err)
			}
		}
		for _, l := range h.Tasks {
			if l.Running == nil {
				set.Reports = append(set.Reports, report(&h.Span, l.N, l.Seq, 1, task.Finish(nil)))
			}
		}
		set.Spent = append(set.Spent, h.Taking())
	}
	if round%4 == 1 && len(set.Reports) > 0 {
		set.Reports = append(set.Reports, set.Reports[0])
	}
	answer, err := c.Settle(c.Context(), set)
	if err != nil {
		c.Error(err)
		return
	}
	for i, v := range answer.Verdicts {
		if v == task.Recorded {
			ended(set.Reports[i].ID)
		}
	}
}

// A clock that was far ahead for a while puts no deletion off for as long.
func TestPruneGoesOnAfterTheClockWasAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, Linger: -1}))
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
