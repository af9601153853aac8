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
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func newScene() *scene {
	clock := contract.NewClock()
	return &scene{Store: model.New(clock.Now), clock: clock, ctx: context.Background()}
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
			o := rapid.SampledFrom([]caller.Handout{older, newer}).Draw(t, "hand-out")
			out := rapid.SampledFrom([]task.Outcome{task.Finish(1), task.Finish(2), task.Fail(nil),
				{Kind: task.KindLost}}).Draw(t, "outcome")
			v := s.settle(o.Report(s.clock, out))[0]
			switch {
			case v == task.Recorded:
				recorded++
			case v == task.Repeated && recorded == 0:
				t.Fatalf("repeated, but nothing stands")
			}
			if right := map[bool]caller.Handout{true: older,
				false: newer}[newer.Running != nil]; v == task.Recorded &&
				o.Span.Token != right.Span.Token {
				t.Fatalf("token %d was accepted, the right one is %d", o.Span.Token,
					right.Span.Token)
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
		kinds := rapid.SampledFrom([]fault.Fault{fault.None, fault.Before, fault.After})
		faults := rapid.SliceOfN(kinds, 0, 40).Draw(t, "faults")
		s := newScene()
		s.Store = fault.New(s.Store, fault.Script(faults...))
		if got := s.faultStory(); !slices.Equal(got, want) {
			t.Fatalf("what is left:\n%s\nwithout faults:\n%s", strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	})
}

func TestFaultsComeInTwos(t *testing.T) {
	for _, c := range []struct {
		fault fault.Fault
		err   error
		ready int64
	}{{fault.None, nil, 1}, {fault.Before, fault.ErrFault, 0}, {fault.After, store.ErrUnknown, 1}} {
		s := newScene()
		_, err := s.ChangeQueue(s.ctx, "q", store.Whole(limits.DefaultQueue("q")))
		s.ok(err)
		f := fault.New(s.Store, fault.Script(c.fault))
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
	a, b := fault.Seeded(7, 3), fault.Seeded(7, 3)
	var seen [3]int
	for n := range 300 {
		if a(n) != b(n) {
			t.Fatalf("write %d fails as %d and as %d", n, a(n), b(n))
		}
		seen[a(n)]++
	}
	if seen[fault.Before] < 20 || seen[fault.After] < 20 || seen[fault.None] < 100 {
		t.Errorf("of 300 writes none, before, after fail: %v", seen)
	}
}
