package sqlite

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// recount counts the facts of a queue one by one.
func recount(t *rapid.T, s *Store, queue string, now int64) (c task.Counts) {
	err := s.read(t.Context(), func(conn *conn) error {
		var list []rules.Fact
		var batches []int64
		err := conn.each(`SELECT id FROM batch WHERE queue = ?`, func(st *sqlite.Stmt) bool {
			batches = append(batches, st.ColumnInt64(0))
			return true
		}, queue)
		for _, batch := range batches {
			if err == nil {
				err = conn.facts().facts(batch, 0, math.MaxInt32, func(f *rules.Fact) bool {
					list = append(list, *f)
					return true
				})
			}
		}
		for i := range list {
			f := &list[i]
			if err := conn.facts().complete(f); err != nil {
				return err
			}
			if f.Removed() {
				continue
			}
			*map[task.State]*int64{
				task.Waiting: &c.Waiting, task.Ready: &c.Ready, task.Running: &c.Running,
				task.Done: &c.Done, task.Dead: &c.Dead, task.Cancelled: &c.Cancelled,
				task.Expired: &c.Expired,
			}[f.State(now, false)]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Counts come from statistics and spans; whatever happens they are what the tables hold.
func TestCountsAreWhatTheTablesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := contract.NewClock()
		s, err := Open(t.Context(), Config{
			Path: filepath.Join(tempDir(t), "rota.db"), Now: clock.Now,
			History: history.Kept{Minutes: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h := &life{T: t, s: s, clock: clock}
		h.join()
		t.Repeat(map[string]func(*rapid.T){
			"submit": h.submit, "take": h.take, "settle": h.settle, "act": h.act, "give": h.give,
			"die": h.die, "sync": h.sync,
			"settle again": h.settle, "replay": h.replay, "wait": h.wait, "prune": h.prune,
			"delete queue": h.deleteQueue, "": h.check,
		})
	})
}

func tempDir(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "rota")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// life is a store that random things happen to.
type life struct {
	*rapid.T
	s      *Store
	clock  *contract.Clock
	holder store.Holder
	ids    int64
	tasks  []task.ID
	held   []store.HeldSpan
}

func (h *life) must(err error) {
	if err != nil {
		h.Fatal(err)
	}
}

func (h *life) join() {
	l, err := h.s.Acquire(h.Context(), "node/a", "a", 1000*time.Hour, nil)
	h.must(err)
	h.holder = store.Holder{Node: "a", Token: l.Token}
}

var queueNames = []string{"p", "q"}

func (h *life) submit(t *rapid.T) {
	h.ids++
	now := h.clock.Micros()
	b := store.Batch{
		ID: store.BatchID(now, 0) + h.ids, Queue: rapid.SampledFrom(queueNames).Draw(t, "queue"),
		Rank: now, Created: now, Origin: "a",
		Due: now + rapid.SampledFrom([]int64{0, 0, 0, 5_000_000}).Draw(t, "delay"),
	}
	b.Rank = b.Due
	n := rapid.Int32Range(1, 12).Draw(t, "tasks")
	for i := range n {
		k := store.Task{N: i, Stage: "s"}
		if rapid.IntRange(0, 5).Draw(t, "keyed") == 0 {
			k.Key, k.KeyUntil = fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key")), now+60_000_000
		}
		b.Tasks = append(b.Tasks, k)
		h.tasks = append(h.tasks, task.ID{Batch: b.ID, N: i})
	}
	cut := rapid.Int32Range(1, n).Draw(t, "cut")
	hold := rapid.Bool().Draw(t, "hold")
	b.Spans = append(b.Spans, store.NewSpan{Lo: 0, Hi: cut - 1, Hold: hold})
	if cut < n {
		b.Spans = append(b.Spans, store.NewSpan{Lo: cut, Hi: n - 1})
	}
	_, err := h.s.Submit(t.Context(), store.Submission{
		Holder: h.holder, NewQueues: []string{b.Queue}, Batches: []store.Batch{b},
	})
	h.must(err)
}

func (h *life) take(t *rapid.T) {
	_, err := h.s.Take(t.Context(), store.TakeRequest{
		Holder: h.holder, Queue: rapid.SampledFrom(queueNames).Draw(t, "queue"),
		Limit: rapid.IntRange(1, 8).Draw(t, "limit"),
	})
	h.must(err)
}

// reload reads what is held, as RECON does.
func (h *life) reload() bool {
	var err error
	h.held, err = h.s.Held(h.Context(), h.holder, nil)
	h.must(err)
	return len(h.held) > 0
}

func (h *life) settle(t *rapid.T) {
	if !h.reload() {
		t.Skip("nothing is held")
	}
	sp := rapid.SampledFrom(h.held).Draw(t, "span")
	var set store.Settlement
	left := len(sp.Tasks)
	for _, l := range sp.Tasks {
		o := rapid.SampledFrom([]task.Outcome{
			{Kind: task.KindDone}, {Kind: task.KindDone}, {Kind: task.KindFail},
			{Kind: task.KindNext, Stage: "t"}, {Kind: task.KindRetry},
			{Kind: task.KindRetry, Delay: time.Hour},
			{Kind: task.KindSnooze, Delay: 3 * time.Second}, {Kind: task.KindLost}, {},
		}).Draw(t, "outcome")
		if o.Kind == 0 {
			continue
		}
		r := report(&sp.Span, l.N, l.Seq, h.clock.Micros(), o)
		if d := progress.Decide(r.ID, l.Standing, o, progress.Limits{MaxAttempts: 3}); d.Moved {
			r.Step.Base, r.Step.Due = l.Seq+1, h.clock.Micros()+d.Delay.Microseconds()
			r.Move = &store.Move{Rank: r.Step.Due, Due: r.Step.Due}
		} else if d.Delay > 0 {
			r.Step.Due = h.clock.Micros() + d.Delay.Microseconds()
		}
		if r.Step.Base != sp.Seq0 {
			left--
		}
		set.Reports = append(set.Reports, r)
		if rapid.IntRange(0, 4).Draw(t, "twice") == 0 {
			set.Reports = append(set.Reports, r)
		}
	}
	if left == 0 {
		set.Spent = append(set.Spent, sp.Taking())
	}
	_, err := h.s.Settle(t.Context(), set)
	h.must(err)
}

func (h *life) sync(t *rapid.T) {
	if !h.reload() {
		t.Skip("nothing is held")
	}
	_, err := h.s.Sync(t.Context(), store.SyncRequest{
		Holder: h.holder, Insert: h.running(rapid.SampledFrom(h.held).Draw(t, "span")),
	})
	h.must(err)
}

func (h *life) running(sp store.HeldSpan) (list []store.Running) {
	for _, l := range sp.Tasks {
		list = append(list, store.Running{
			ID: task.ID{Batch: sp.Batch, N: l.N}, Seq: l.Seq, Span: sp.ID, Token: sp.Token,
			Worker: "w",
		})
	}
	return list
}

func (h *life) give(t *rapid.T) {
	if !h.reload() {
		t.Skip("nothing is held")
	}
	sp := rapid.SampledFrom(h.held).Draw(t, "span")
	g := store.GiveRequest{Holder: h.holder, Spans: []store.Taking{sp.Taking()}}
	if rapid.Bool().Draw(t, "running") {
		g.Running = h.running(sp)
	}
	h.must(h.s.Give(t.Context(), g))
}

func (h *life) die(t *rapid.T) {
	h.must(h.s.End(t.Context(), "node/a", h.holder.Token, rapid.Bool().Draw(t, "remove")))
	h.join()
	_, err := h.s.Free(t.Context(), h.holder, math.MaxInt64)
	h.must(err)
}

func (h *life) act(t *rapid.T) {
	if len(h.tasks) == 0 {
		t.Skip("no tasks")
	}
	now := h.clock.Micros()
	_, err := h.s.Act(t.Context(), []store.Action{{
		ID: rapid.SampledFrom(h.tasks).Draw(t, "task"),
		Kind: rapid.SampledFrom([]task.Kind{task.KindCancelled, task.KindMoved, task.KindReplayed,
			task.KindRemoved}).Draw(t, "kind"),
		Rank: now, Due: now + rapid.SampledFrom([]int64{0, 60_000_000}).Draw(t, "due"),
	}})
	h.must(err)
}

func (h *life) replay(t *rapid.T) {
	dead, _, err := h.s.Tasks(t.Context(), store.Filter{State: task.Dead}, task.ID{}, 10)
	h.must(err)
	if len(dead) == 0 {
		t.Skip("nothing is dead")
	}
	now := h.clock.Micros()
	_, err = h.s.Act(t.Context(),
		[]store.Action{
			{ID: rapid.SampledFrom(dead).Draw(t, "task").ID, Kind: task.KindReplayed, Rank: now,
				Due: now},
		})
	h.must(err)
}

func (h *life) wait(t *rapid.T) {
	h.clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second,
		10 * time.Second, 2 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "for"))
}

func (h *life) prune(t *rapid.T) {
	_, err := h.s.Prune(t.Context(), rapid.IntRange(1, 20).Draw(t, "limit"))
	h.must(err)
}

func (h *life) deleteQueue(t *rapid.T) {
	// a conflict is no error here
	_ = h.s.DeleteQueue(t.Context(), rapid.SampledFrom(queueNames).Draw(t, "queue"),
		rapid.IntRange(0, 3).Draw(t, "force") == 0)
}

func (h *life) check(t *rapid.T) {
	got, err := h.s.Counts(t.Context(), queueNames...)
	h.must(err)
	for i, name := range queueNames {
		if want := recount(t, h.s, name, h.clock.Micros()); got[i].Counts != want {
			t.Fatalf("queue %s: counted %+v, the tables hold %+v", name, got[i].Counts, want)
		}
	}
}
