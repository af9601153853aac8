package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func newScene() *scene {
	clock := NewClock()
	return &scene{Store: NewModel(clock.Now), clock: clock, ctx: context.Background()}
}

func TestTakesOfAnyLimitsPartitionASpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		h := s.join("a")
		b := s.batch("q", rapid.IntRange(1, 40).Draw(t, "width"))
		gaps := rapid.SliceOfDistinct(rapid.IntRange(0, len(b.Tasks)-1), func(n int) int {
			return n
		}).Draw(t, "gaps")
		var want []int32
		b.Tasks = slices.DeleteFunc(b.Tasks, func(t store.Task) bool {
			return slices.Contains(gaps, int(t.N))
		})
		for _, t := range b.Tasks {
			want = append(want, t.N)
		}
		s.submit(store.Holder{}, b)
		var got []int32
		for left := int(b.Spans[0].Hi) + 1; left > 0; {
			limit := rapid.IntRange(1, 15).Draw(t, "limit")
			spans := s.take(h, limit)
			if len(spans) != 1 {
				t.Fatalf("take %d of the %d left: got %+v", limit, left, spans)
			}
			width := int(spans[0].Hi-spans[0].Lo) + 1
			if width != min(limit, left) {
				t.Fatalf("take %d of the %d left: got %d", limit, left, width)
			}
			left -= width
			for _, l := range spans[0].Tasks {
				got = append(got, l.N)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("takes in order gave %v, want %v", got, want)
		}
	})
}

func TestAnyOrderOfReportsLeavesOneOutcomeAtASeq(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		a, b := s.join("a"), s.join("b")
		s.put(1)
		older := s.takeOne(a)
		if rapid.Bool().Draw(t, "written down") {
			s.sync(a, older)
		}
		s.die(a, b)
		newer := s.takeOne(b)
		recorded := 0
		for range rapid.IntRange(1, 12).Draw(t, "reports") {
			o := rapid.SampledFrom([]handout{older, newer}).Draw(t, "hand-out")
			out := rapid.SampledFrom([]task.Outcome{task.Finish(1), task.Finish(2), task.Fail(nil),
				{Kind: task.KindLost}}).Draw(t, "outcome")
			v := s.settle(o.report(s.clock, out))[0]
			switch {
			case v == task.Recorded:
				recorded++
			case v == task.Repeated && recorded == 0:
				t.Fatalf("repeated, but nothing stands")
			}
			if right := map[bool]handout{true: older,
				false: newer}[newer.Running != nil]; v == task.Recorded &&
				o.span.Token != right.span.Token {
				t.Fatalf("token %d was accepted, the right one is %d", o.span.Token,
					right.span.Token)
			}
		}
		if recorded > 1 {
			t.Fatalf("%d outcomes were accepted at one seq", recorded)
		}
	})
}

func TestAnyFaultsLeaveTheSameStory(t *testing.T) {
	want := newScene().faultStory()
	rapid.Check(t, func(t *rapid.T) {
		faults := rapid.SliceOfN(rapid.SampledFrom([]Fault{None, Before, After}), 0, 40).Draw(t,
			"faults")
		s := newScene()
		s.Store = NewFaulty(s.Store, Script(faults...))
		if got := s.faultStory(); !slices.Equal(got, want) {
			t.Fatalf("what is left:\n%s\nwithout faults:\n%s", strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	})
}

func TestFaultsComeInTwos(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		err   error
		ready int64
	}{{None, nil, 1}, {Before, ErrFault, 0}, {After, store.ErrUnknown, 1}} {
		s := newScene()
		_, err := s.ChangeQueue(s.ctx, "q", store.Whole(limits.DefaultQueue("q")))
		s.ok(err)
		f := NewFaulty(s.Store, Script(c.fault))
		_, err = f.Submit(s.ctx, store.Submission{Batches: []store.Batch{s.batch("q", 1)}})
		s.wantErr(fmt.Sprintf("submit with fault %d", c.fault), err, c.err)
		if got := s.counts().Ready; got != c.ready {
			t.Errorf("fault %d left %d tasks, want %d", c.fault, got, c.ready)
		}
		if f.Writes() != 1 {
			t.Errorf("%d writes were counted of 1", f.Writes())
		}
	}
}

func TestSeededFaultsAreTheSameEveryTimeAndOfEveryKind(t *testing.T) {
	a, b := Seeded(7, 3), Seeded(7, 3)
	var seen [3]int
	for n := range 300 {
		if a(n) != b(n) {
			t.Fatalf("write %d fails as %d and as %d", n, a(n), b(n))
		}
		seen[a(n)]++
	}
	if seen[Before] < 20 || seen[After] < 20 || seen[None] < 100 {
		t.Errorf("of 300 writes none, before, after fail: %v", seen)
	}
}

func TestWalksGoEverywhere(t *testing.T) {
	all := ""
	for seed := uint64(1); seed <= walks; seed++ {
		clock := NewClock()
		lines := Trace(seed, walkSteps, NewModel(clock.Now), clock)
		all += strings.Join(lines, "\n") + "\n"
		if seed == 1 {
			clock := NewClock()
			if again := Trace(
				seed, walkSteps, NewModel(clock.Now), clock,
			); !slices.Equal(again, lines) {
				t.Error("the same seed walked another way")
			}
		}
	}
	for _, sight := range []string{
		"recorded", "repeated", "stale", "unknown", "wrong state", "spent s", "gone true",
		"next due", "deaths 1", "token 3", " running w 1 ",
		"seq0 3", "attempt 3", "waiting", "ready", "running", "done", "dead", "cancelled", "gone ",
		"removed", `was "dead"`, `was "running"`, "force true -> ok",
		"changed true was \"dead\"", "from elsewhere", "paused true", "false moved", "settled [1",
		"line ", "free by a -> 2",
		"-> [0 1", "limit until 0, 0 left", "rate until ",
		" child of ", "add to ", "report 1 ", "children {Total:2 ", "cancelled [1",
		"look at end of ", " after ", "if ended: done", "if done: dead", " done left ",
		"paused for good", "has 2 a turn", "key_paused until", " holds its key for ", ", paused; ",
		" run, weighs ",
	} {
		if !strings.Contains(all, sight) {
			t.Errorf("no walk comes by %q", sight)
		}
	}
}
