package dispatch

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What a submission may say and what a store takes are the same.
var _ [0]struct{} = [limits.MaxAfter - store.MaxAfter]struct{}{}

// work is a task of queue q that waits for others, with its name for its stage and ref.
func work(ref string, after ...string) task.Submission {
	return task.Submission{Queue: "q", Stage: ref, Ref: ref, After: after}
}

// diamond submits four tasks, of which two wait for the first, and the last for those.
func (h *house) diamond() []task.ID {
	return h.submit(work("join", "left", "right"), work("left", "fork"), work("right", "fork"),
		work("fork"))
}

func TestADiamondRunsFromItsTip(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.diamond()
		h.counts(task.Counts{Blocked: 3, Ready: 1})
		for i, id := range ids {
			if waits := i < 3; store.MayDepend(id.Batch) != waits || store.MayBeChildren(id.Batch) {
				t.Errorf("task %d: %v", i, id)
			}
		}
		want := []task.Prior{
			{ID: ids[1], Ref: "left", If: task.IfDone}, {ID: ids[2], Ref: "right", If: task.IfDone},
		}
		v := h.view(ids[0])
		if diff := cmp.Diff(want, v.After); diff != "" || !v.Awaits.Others {
			t.Errorf("%+v %s", v.Awaits, diff)
		}
		fork := h.one("w")
		if fork.ID != ids[3] || fork.After != nil || len(h.hold("w", 10)) != 0 {
			t.Fatalf("first comes %+v", fork)
		}
		h.report("w", fork, task.Finish("forked"), task.Recorded)
		began := time.Now()
		for range 2 {
			x := h.one("w")
			want := []task.Prior{{
				ID: ids[3], Ref: "fork", If: task.IfDone, State: task.Done,
				Result: json.RawMessage(`"forked"`),
			}}
			if diff := cmp.Diff(want, x.After); diff != "" || x.Signal != nil || x.TimedOut {
				t.Errorf("%+v %s", x, diff)
			}
			h.report("w", x, task.Finish(x.Stage), task.Recorded)
		}
		join := h.one("w")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v, as if somebody had waited for a beat", took)
		}
		for try := 1; try <= 2; try++ {
			if len(join.After) != 2 || string(join.After[0].Result) != `"left"` ||
				string(join.After[1].Result) != `"right"` || join.Attempt != try {
				t.Errorf("attempt %d: %+v", try, join)
			}
			if try == 1 {
				h.report("w", join, task.RetryAfter(10*time.Second, errHiccup), task.Recorded)
				join = h.one("w")
			}
		}
		h.report("w", join, task.Finish(nil), task.Recorded)
		h.counts(task.Counts{Done: 4})
	})
}

func TestWhoWaitsForATaskThatDiesIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		undo := work("undo", "left", "right", "join")
		undo.If = task.IfEnded
		ids := h.submit(work("join", "left", "right"), work("left", "fork"), work("right", "fork"),
			work("fork"), undo)
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		for range 2 {
			x, o := h.one("w"), task.Finish(nil)
			if x.Stage == "left" {
				o = task.Fail(errHiccup)
			}
			h.report("w", x, o, task.Recorded)
		}
		began := time.Now()
		x := h.one("w")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v, as if somebody had waited for a beat", took)
		}
		v := h.view(ids[0])
		if last := v.Steps[len(v.Steps)-1]; v.State != task.Cancelled ||
			last.Error != "after left: dead" {
			t.Errorf("%+v", v)
		}
		var ends []task.State
		for _, p := range x.After {
			ends = append(ends, p.State)
		}
		want := []task.State{task.Dead, task.Done, task.Cancelled}
		if x.ID != ids[4] || !slices.Equal(ends, want) {
			t.Errorf("%+v, want %v", x, want)
		}
	})
}

// One call, whatever it says, is all there or nothing of it.
func TestWhatStandsNowhereIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		old := h.submit(task.Submission{Queue: "q"})[0]
		gone := h.submit(task.Submission{Queue: "q"})[0]
		if err := h.d.Act(h.ctx, task.KindRemoved, "me", gone); err != nil {
			t.Fatal(err)
		}
		never := task.ID{Batch: old.Batch + 1<<20, N: 3}
		for name, want := range map[string]string{
			gone.String():  "body.tasks[1].after[1]: there is no task " + gone.String(),
			never.String(): "body.tasks[1].after[1]: there is no task " + never.String(),
			"b":            `body.tasks[1].after[1]: "b" is this task itself`,
			"c": `body.tasks[1].after[1]: "c" is neither the ref of a task in this call nor the ` +
				"id of one",
		} {
			_, err := h.d.Submit(h.ctx, []task.Submission{work("a"), work("b", old.String(), name)})
			if invalid, ok := errors.AsType[*task.InvalidError](err); !ok || invalid.TooLarge ||
				!strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		h.counts(task.Counts{Ready: 1})
	})
}

// What stood before is waited for as what comes along: at once where it is over already.
func TestTasksWaitForThoseThatStand(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		old := h.submit(task.Submission{Queue: "q"}, task.Submission{Queue: "q"})
		x := h.one("w")
		h.report("w", x, task.Finish(1), task.Recorded)
		began := time.Now()
		h.submit(work("one", x.ID.String()))
		two := h.submit(work("two", old[0].String(), old[1].String()))[0]
		h.state(two, task.Blocked)
		list := h.hold("w", 2)
		for len(list) < 2 {
			list = append(list, h.one("w"))
		}
		if time.Since(began) > 100*time.Millisecond {
			t.Errorf("it began after %v", time.Since(began))
		}
		for _, x := range list {
			if x.Stage == "one" && (len(x.After) != 1 || string(x.After[0].Result) != "1" ||
				x.After[0].Ref != "") {
				t.Errorf("%+v", x)
			}
			h.report("w", x, task.Finish(2), task.Recorded)
		}
		if x := h.one("w"); x.ID != two || len(x.After) != 2 {
			t.Errorf("%+v", x)
		}
	})
}

// A ref names the task that has the key.
func TestARefOfAKeyThatIsKnownIsTheTaskThatHasIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		first := h.submit(task.Submission{Queue: "q", Key: "k"})[0]
		h.report("w", h.one("w"), task.Finish("first"), task.Recorded)
		a := work("a")
		a.Key = "k"
		got, err := h.d.Submit(h.ctx, []task.Submission{a, work("b", "a")})
		if err != nil || got[0].ID != first || !got[0].Existing || got[1].Existing {
			t.Fatalf("%v: %+v", err, got)
		}
		b := h.one("w")
		if len(b.After) != 1 || b.After[0].ID != first || b.After[0].Ref != "a" ||
			string(b.After[0].Result) != `"first"` {
			t.Errorf("%+v", b)
		}
	})
}

func TestChildrenWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		x := h.parent(nil)
		got := h.told("w", x, join(task.AllChildren, work("b", "a"), work("a")))
		if got.Status != task.Recorded || !store.MayDepend(got.Spawned[0].Batch) ||
			!store.MayBeChildren(got.Spawned[0].Batch) || store.MayDepend(got.Spawned[1].Batch) {
			t.Fatalf("%+v", got)
		}
		if again := h.told("w", x, join(task.AllChildren, work("b"), work("a"))); again.Status !=
			task.Stale {
			t.Errorf("without the wait it is another report: %+v", again)
		}
		for _, want := range []string{"a", "b", "join"} {
			y := h.one("w")
			if y.Stage != want || (y.Parent == x.ID) != (want != "join") {
				t.Errorf("%+v, want %s", y, want)
			}
			if want == "join" {
				x = y
				break
			}
			h.report("w", y, task.Finish(nil), task.Recorded)
		}
		added := h.add(x, work("d", "c", got.Spawned[0].String()), work("c"))
		h.state(added[0].ID, task.Blocked)
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		if y := h.one("w"); y.ID != added[0].ID || len(y.After) != 2 || y.Parent != x.ID {
			t.Errorf("%+v", y)
		}
	})
}

// A child that waits for who may wait for it would never begin.
func TestNoChildWaitsForWhoIsAboveIt(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		top := h.parent(nil)
		h.report("w", top, join(task.AllChildren, work("mid")), task.Recorded)
		mid := h.one("w")
		for _, up := range []task.ID{top.ID, mid.ID} {
			_, err := h.d.AddChildren(h.ctx, "w", mid.ID, mid.Token,
				[]task.Submission{work("low", up.String())})
			want := "body.tasks[0].after[0]: task " + up.String() + " is above this one"
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			got := h.told("w", mid, task.Next("more", nil).Spawning(work("low", up.String())))
			if got.Status != task.Invalid ||
				!strings.HasPrefix(got.Detail, strings.TrimPrefix("spawn"+want[10:], "")) {
				t.Errorf("%+v, want %s", got, want)
			}
		}
		if c := h.view(mid.ID).Children; c != nil {
			t.Errorf("it has children: %+v", c)
		}
	})
}

// The values that others left come with a task as far as there is room for them.
func TestLargeValuesOfOthersAreLeftOutBeyondTheRoom(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		large := []byte(`"` + strings.Repeat("x", limits.MaxPriors/2) + `"`)
		refs := []string{"a", "b", "c"}
		list := []task.Submission{work("end", refs...)}
		for _, ref := range refs {
			list = append(list, work(ref))
		}
		list[1].Context = large
		list[2].Context = large
		h.submit(list...)
		for range refs {
			x := h.one("w")
			h.report("w", x, task.Finish(x.Stage), task.Recorded)
		}
		x := h.one("w")
		for i, p := range x.After {
			all := string(p.Result) == `"`+refs[i]+`"` && len(p.Context) == len(list[i+1].Context)
			if p.LeftOut == all || p.LeftOut != (i == 1) || p.LeftOut && p.Result != nil {
				t.Errorf("%s: %d bytes, %s, left out: %v", refs[i], len(p.Context), p.Result,
					p.LeftOut)
			}
		}
	})
}

// In a transaction of the caller's nobody looks before it commits: a beat finds what is over then.
func TestTasksOfATransactionWaitForOthers(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		old := h.submit(task.Submission{Queue: "q"})[0]
		h.report("w", h.one("w"), task.Finish(1), task.Recorded)
		got, err := h.d.SubmitInside(h.ctx, []task.Submission{
			work("b", "a", old.String()), work("a"), work("c", old.String()),
		}, h.store.Submit)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for range 3 {
			x := h.one("w")
			seen[x.Stage] = len(x.After)
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		if diff := cmp.Diff(map[string]int{"a": 0, "b": 2, "c": 1}, seen); diff != "" {
			t.Error(diff)
		}
		h.state(got[0].ID, task.Done)
	})
}

// What others left counts as contexts do: where an answer has no room for it the task waits.
func TestWhatOthersLeftIsGivenOutWhereThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		large := []byte(`"` + strings.Repeat("x", 100_000) + `"`)
		a := work("a")
		a.Context = large
		id := h.submit(a, work("b", "a"))[1]
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
		left := int64(limits.MaxPriors) - 1
		hold := func() []task.Handout {
			got, err := h.d.Hold(h.ctx, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Second,
				Room: func(n int64) bool {
					if n > left {
						return false
					}
					left -= n
					return true
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return got.Tasks
		}
		if got := hold(); len(got) > 0 {
			t.Errorf("without room came %+v", got[0].ID)
		}
		h.state(id, task.Ready)
		left++
		if got := hold(); len(got) != 1 || left != int64(limits.MaxPriors-len(large)) {
			t.Errorf("%d tasks, and room for %d", len(got), left)
		}
	})
}

// What waits is in nobody's memory, and no share of it is offered to anybody.
func TestWhatWaitsForOthersIsHeldByNobody(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		old := h.submit(task.Submission{Queue: "other"})[0]
		got := h.waits("w", 5)
		synctest.Wait()
		h.d.mu.Lock()
		s := &submitting{
			tasks: []task.Submission{work("a"), work("b", "a")}, contexts: make([]store.Value, 2),
			others: [][]limits.Other{nil, {{Place: 0}}},
		}
		sub, _ := h.d.mem.planSubmission([]*submitting{s}, time.Now(), true)
		h.d.release()
		if a, b := sub.Batches[0].Spans, sub.Batches[1].Spans; !a[0].Hold || b[0].Hold {
			t.Errorf("held are %+v, and %+v", a, b)
		}
		for range 3 {
			h.submit(work("", old.String()))
		}
		time.Sleep(time.Second)
		h.empty()
		h.d.mu.Lock()
		if q := h.d.mem.queues["q"]; q.wakeAt != 0 || q.backlog {
			t.Errorf("it looks for them at %d", q.wakeAt)
		}
		h.d.release()
		if err := h.d.Act(h.ctx, task.KindCancelled, "me", old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		h.counts(task.Counts{Cancelled: 3})
		h.submit(task.Submission{Queue: "q"})
		if list := <-got; len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}
