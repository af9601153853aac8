package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// faultClaims is what holds when writes fail and are repeated with the same ids.
func faultClaims() []claim {
	return []claim{
		{"WritesThatFailBeforeAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.Before), (*scene).faultStory)
		}},
		{"WritesThatFailAfterTheCommitAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.After), (*scene).faultStory)
		}},
		{"WritesThatFailOftenAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(fault.Seeded(1, 2), (*scene).faultStory)
		}},
		{"JobWritesThatFailBeforeAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.Before), (*scene).jobFaultStory)
		}},
		{"JobWritesThatFailAfterTheCommitAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.After), (*scene).jobFaultStory)
		}},
		{"JobWritesThatFailOftenAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(fault.Seeded(2, 2), (*scene).jobFaultStory)
		}},
		{"ConfigurationsThatFailBeforeAreChangedAgain", func(s *scene) {
			s.showRepeated(everyOther(fault.Before), (*scene).confFaultStory)
		}},
		{"ConfigurationsThatFailAfterTheCommitAreChangedAgain", func(s *scene) {
			s.showRepeated(everyOther(fault.After), (*scene).confFaultStory)
		}},
		{"ConfigurationsThatFailOftenAreChangedAgain", func(s *scene) {
			s.showRepeated(fault.Seeded(4, 2), (*scene).confFaultStory)
		}},
		{"ScheduleWritesThatFailBeforeAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.Before), (*scene).scheduleFaultStory)
		}},
		{"ScheduleWritesThatFailAfterTheCommitAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(everyOther(fault.After), (*scene).scheduleFaultStory)
		}},
		{"ScheduleWritesThatFailOftenAreRepeatedWithoutATrace", func(s *scene) {
			s.showRepeated(fault.Seeded(3, 2), (*scene).scheduleFaultStory)
		}},
	}
}

// everyOther makes every write fail once before its repetition works.
func everyOther(f fault.Fault) fault.Plan {
	return func(n int) fault.Fault {
		if n%2 == 0 {
			return f
		}
		return fault.None
	}
}

// showRepeated plays a story on this store with faults and on the model without, and compares what
// is left.
func (s *scene) showRepeated(plan fault.Plan, story func(*scene) []string) {
	clock := contract.NewClock()
	flawless := &scene{Store: s.model(clock.Now), clock: clock, ctx: s.ctx}
	want := story(flawless)
	faulty := fault.New(s.Store, plan)
	s.Store = faulty
	got := story(s)
	if len(got) != len(want) {
		s.fail("%d lines are left, want %d", len(got), len(want))
	}
	for i := range want {
		s.want(fmt.Sprintf("line %d of what is left", i+1), got[i], want[i])
	}
}

// patience is how often a write is repeated before the scene ends.
const patience = 50

// again repeats a write until it says that it worked.
func again[T any](s *scene, do func() (T, error)) T {
	for range patience {
		v, err := do()
		if err == nil {
			return v
		}
		if !errors.Is(err, fault.ErrFault) && !errors.Is(err, store.ErrUnknown) {
			s.fail("%v", err)
		}
	}
	s.fail("a write failed %d times", patience)
	panic("unreachable")
}

func (s *scene) againTell(do func() error) {
	again(s, func() (struct{}, error) { return struct{}{}, do() })
}

// takeSurely takes up to n tasks of queue q. What an unknown answer left held is found by Held, as
// the rule RECON has it.
func (s *scene) takeSurely(h store.Holder, n int) []store.HeldSpan {
	for range patience {
		got, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: n})
		switch {
		case err == nil:
			return got.Spans
		case errors.Is(err, store.ErrUnknown):
			held, err := s.Held(s.ctx, h, nil)
			s.ok(err)
			return held
		case !errors.Is(err, fault.ErrFault):
			s.fail("%v", err)
		}
	}
	s.fail("a take failed %d times", patience)
	panic("unreachable")
}

// faultStory leads tasks through every write and answers what is left of them. It repeats what
// fails.
func (s *scene) faultStory() (lines []string) {
	l := again(s, func() (store.Lease, error) {
		return s.Acquire(s.ctx, store.MembershipOf("a"), "a", caller.LeaseTime, nil)
	})
	h := store.Holder{Node: "a", Token: l.Token}
	large := again(s, func() (store.Value, error) {
		return s.Keep(s.ctx, []byte(caller.JSON(10_000)))
	})
	b, twin := s.batch("q", 6), s.batch("q", 1)
	b.Tasks[1].Context = large
	for _, t := range []*store.Task{&b.Tasks[5], &twin.Tasks[0]} {
		t.Key, t.KeyUntil = "k", b.Due+1e9
	}
	sub := store.Submission{Holder: h, NewQueues: []string{"q"}, Batches: []store.Batch{b, twin}}
	got := again(s, func() (store.Submitted, error) { return s.Submit(s.ctx, sub) })
	lines = append(lines, fmt.Sprint("existing ", got.Existing))
	spans := s.takeSurely(h, 6)
	var outs []caller.Handout
	for _, t := range spans[0].Tasks {
		outs = append(outs, caller.Handout{Span: spans[0].Span, Loaded: t})
	}
	sync := store.SyncRequest{
		Holder: h, Insert: []store.Running{outs[4].Row(s.clock), outs[5].Row(s.clock)},
	}
	again(s, func() (store.Synced, error) { return s.Sync(s.ctx, sync) })
	next := task.Next("second", nil)
	next.Context = []byte(`"next"`)
	settle := store.Settlement{Reports: []store.Report{
		outs[0].Report(s.clock, next), outs[1].Report(s.clock, task.Finish(1)),
		outs[2].Report(s.clock, task.Fail(nil)),
		outs[3].Report(s.clock, task.Snooze(time.Hour)), outs[4].Report(s.clock, task.Retry(nil)),
	}}
	verdicts := again(s, func() (store.Settled, error) { return s.Settle(s.ctx, settle) }).Verdicts
	if slices.Contains(verdicts, task.Stale) || slices.Contains(verdicts, task.Unknown) {
		s.fail("verdicts: got %v", verdicts)
	}
	s.againTell(func() error {
		return s.Give(s.ctx, store.GiveRequest{
			Holder: h, Spans: []store.Taking{spans[0].Taking()},
			Running: []store.Running{outs[5].Row(s.clock)},
		})
	})
	now := s.clock.Micros()
	for i, a := range []store.Action{
		{ID: outs[2].ID(), Kind: task.KindReplayed, Rank: now, Due: now},
		{ID: outs[3].ID(), Kind: task.KindCancelled},
		{ID: outs[1].ID(), Kind: task.KindRemoved},
		{ID: outs[4].ID(), Kind: task.KindMoved, Rank: now, Due: now},
	} {
		a.Mark = int64(i + 1)
		if acted := again(s, func() ([]store.Acted, error) {
			return s.Act(s.ctx, []store.Action{a})
		}); !acted[0].Changed {
			s.fail("%s: got %+v", a.Kind, acted)
		}
	}
	s.againTell(func() error { return s.End(s.ctx, store.MembershipOf("a"), l.Token, true) })
	again(s, func() (int, error) { return s.FreeEnded(s.ctx) })
	again(s, func() (int, error) { return s.Free(s.ctx, store.Holder{Node: "b"}, math.MaxInt64) })
	return append(lines, s.left()...)
}

// left is all that can be seen of the tasks of queue q, oldest first.
func (s *scene) left() (lines []string) {
	for _, id := range s.list(store.Filter{Queue: "q"}) {
		v := s.view(id)
		st := s.stand(id)
		lines = append(lines,
			fmt.Sprintf("%v %s %q attempt %d context %.20q result %s steps %+v seq0 %d token %d deaths %d",
				id, v.State, v.Stage, v.Attempt, v.Context, v.Result, v.Steps, st.Owner.Seq0,
				st.Owner.Token, st.Owner.Deaths))
	}
	return append(lines, fmt.Sprintf("%+v", s.counts()))
}
