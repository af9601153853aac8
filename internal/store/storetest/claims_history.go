package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// historyClaims is what holds for History.
func historyClaims() []claim {
	return []claim{
		{"HistorySaysWhatHappenedInEachMinute", func(s *scene) { s.showHistory() }},
		{"HistoryCountsARepeatedOrStaleReportOnce", func(s *scene) {
			h := s.join("a")
			s.put(2)
			o := s.takeOne(h)
			r := s.ran(o, time.Second, task.Finish(nil))
			s.recorded(r)
			late := s.ran(o, time.Second, task.Fail(nil))
			s.want("verdicts", s.settle(r, late), []task.Status{task.Repeated, task.Stale})
			r2 := s.ran(s.takeOne(h), time.Second, task.Finish(nil))
			s.want("the same one twice in a gather", s.settle(r2, r2, r),
				[]task.Status{task.Recorded, task.Repeated, task.Repeated})
			s.wantHistory("all", history.Series{},
				"11:59 started 2, wait 2: 0s..0s",
				"12:00 submitted 2, done 2, run 2: 1s..1s, waited 2: 0s..0s")
		}},
		{"HistoryCountsAHandOutWhoseBeginNobodyKnows", func(s *scene) {
			h := s.join("a")
			s.put(1)
			s.clock.Advance(time.Second)
			r := s.takeOne(h).Report(s.clock, task.Finish(nil))
			r.Step.Started = 0
			s.recorded(r)
			s.wantHistory("of the worker", history.Series{Worker: "w"}, "12:00 started 1, done 1")
		}},
		{"HistoryTellsOutcomesApart", func(s *scene) {
			h := s.join("a")
			s.put(3)
			for _, kind := range []task.Kind{task.KindSnooze, task.KindTimeout, task.KindRelease} {
				o := s.takeOne(h)
				r := s.ran(o, 0, task.Outcome{Kind: kind})
				r.Step.Base = o.Span.Seq0 // it is not over
				s.recorded(r)
			}
			s.prune()
			s.wantHistory("of the queue", history.Series{Queue: "q"},
				"12:00 submitted 3, started 3, retried 2, snoozed 1, released 1, timed out 1, "+
					"wait 3: 0s..0s, run 2: 0s..0s")
		}},
		{"HistoryCountsWhoIsWoken", func(s *scene) {
			h := s.join("a")
			id := s.blocked(h, s.paid(0, ""))
			s.want("a signal", s.signals(id, "paid", "1", "{}"), "delivered wakes q")
			for range 2 {
				s.wantHistory("of the queue", history.Series{Queue: "q"},
					"12:00 submitted 1, entered 1, started 1, passed 1, woken 1, "+
						"wait 1: 0s..0s, run 1: 0s..0s")
				s.wantHistory("of the stage", history.Series{Queue: "q", Stage: "second"},
					"12:00 entered 1, woken 1")
				s.prune()
			}
		}},
		{"HistoryKeepsWhatIsDeletedAndReplayed", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			s.recorded(o.Report(s.clock, task.Fail(nil)))
			s.clock.Advance(time.Minute)
			s.changed(task.KindReplayed, o.ID())
			s.changed(task.KindCancelled, o.ID())
			s.changed(task.KindRemoved, o.ID())
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.clock.Advance(time.Minute)
			s.prune()
			s.wantHistory("of the queue", history.Series{Queue: "q"},
				"12:00 submitted 1, started 1, dead 1, wait 1: 0s..0s, run 1: 0s..0s",
				"12:01 cancelled 1")
		}},
		{"HistoryByTheHourOutlivesThatByTheMinute", func(s *scene) {
			s.put(3)
			s.clock.Advance(history.KeptMinutes + 2*time.Hour)
			s.put(1)
			for range 2 { // the second finds what the first one added up
				s.prune()
				s.clock.Advance(time.Minute)
			}
			at := s.clock.Now()
			day := s.history(history.Series{}, at.Add(-30*time.Hour), at, 30*time.Minute)
			s.want("by the half hour", caller.TellHistory(day, false),
				[]string{"14:00 submitted 1"})
			day = s.history(history.Series{}, at.Add(-30*time.Hour), at, time.Hour)
			s.want("by the hour", caller.TellHistory(day, false),
				[]string{"12:00 submitted 3", "14:00 submitted 1"})
			s.clock.Advance(history.KeptHours + 2*time.Hour)
			s.prune()
			at = s.clock.Now()
			all := s.history(history.Series{}, at.Add(-history.KeptHours-40*time.Hour), at,
				24*time.Hour)
			s.want("by the day, after three months", caller.TellHistory(all, false), []string(nil))
		}},
		{"HistorySaysHowManyTasksThereWere", func(s *scene) {
			h := s.join("a")
			s.put(4)
			o := s.takeOne(h)
			s.sync(h, o)
			s.submit(store.Holder{}, s.batch("r", 2))
			s.clock.Advance(time.Minute)
			s.prune()
			s.clock.Advance(time.Minute)
			for _, x := range []struct {
				series history.Series
				want   string
			}{
				{history.Series{}, "12:01 ready 5 running 1"},
				{history.Series{Queue: "q"}, "12:01 ready 3 running 1"},
				{history.Series{Queue: "r"}, "12:01 ready 2 running 0"},
			} {
				got := caller.TellHistory(s.lastHour(x.series), true)
				if !slices.Contains(got, x.want) {
					s.fail("%+v: got %q, want %q in it", x.series, got, x.want)
				}
			}
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			for range 2 {
				s.clock.Advance(time.Minute)
				s.prune()
			}
			got := caller.TellHistory(s.lastHour(history.Series{Queue: "q"}), true)
			if last := got[len(got)-1]; last != "12:04 ready 3 running 0" {
				s.fail("two minutes later: %q", got)
			}
		}},
	}
}

// ran is the report of a hand-out that took so long.
func (s *scene) ran(o caller.Handout, took time.Duration, out task.Outcome) store.Report {
	r := o.Report(s.clock, out)
	r.Step.Started -= took.Microseconds()
	return r
}

// history is what a series did, by what the clock says now.
func (s *scene) history(
	of history.Series, from, to time.Time, step time.Duration,
) []history.Period {
	q, err := history.NewQuestion(of, from, to, step, history.Kept{}.Complete(), to)
	if !errors.Is(err, history.ErrMinutes) && !errors.Is(err, history.ErrKept) {
		s.ok(err) // the store is asked all the same
	}
	list, err := s.History(s.ctx, q)
	s.ok(err)
	return list
}

// lastHour is what a series did in the last hour, minute by minute.
func (s *scene) lastHour(of history.Series) []history.Period {
	now := s.clock.Now().Add(time.Second)
	list := s.history(of, now.Add(-time.Hour), now, time.Minute)
	if len(list) != 61 {
		s.fail("%d periods from one minute to the same an hour later, want 61", len(list))
	}
	return list
}

// wantHistory ends the scene when the last hour of a series was another one.
func (s *scene) wantHistory(what string, of history.Series, want ...string) {
	s.want(fmt.Sprintf("%s (%+v)", what, of), caller.TellHistory(s.lastHour(of), false), want)
}

// showHistory plays some minutes, and asks before, between and after the calls of Prune, which may
// keep what happened in another form.
func (s *scene) showHistory() {
	l, err := s.Acquire(s.ctx, store.MembershipOf("a"), "a", time.Hour, nil)
	s.ok(err)
	h := store.Holder{Node: "a", Token: l.Token}
	s.put(5)
	s.clock.Advance(time.Minute + 2*time.Second)
	outs := map[task.ID]caller.Handout{}
	for range 4 {
		o := s.takeOne(h)
		outs[o.ID()] = o
	}
	var ids []task.ID
	for id := range outs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, task.ID.Compare)
	lost := s.ran(outs[ids[2]], 30*time.Second, task.Outcome{Kind: task.KindLost, Error: "silent"})
	other := s.ran(outs[ids[3]], 0, task.Release())
	other.Step.Worker = "x"
	s.recorded(s.ran(outs[ids[0]], 10*time.Second, task.Next("pack", nil)),
		s.ran(outs[ids[1]], 20*time.Second, task.Retry(nil)), lost, other)
	s.askHistory("at once", 2)
	s.prune()
	s.askHistory("after the first Prune", 2)

	s.clock.Advance(time.Minute)
	s.recorded(s.ran(s.heldBy(h, ids[0]), time.Second, task.Finish(nil)),
		s.ran(s.heldBy(h, ids[1]), 2*time.Second, task.Fail(nil)))
	s.clock.Advance(time.Minute)
	s.submit(store.Holder{}, s.batch("r", 1))
	s.changed(task.KindCancelled, s.heldBy(h, ids[3]).ID())
	s.askHistory("before the second Prune", 4)
	s.prune()
	s.askHistory("after the second Prune", 4)
	s.clock.Advance(time.Minute)
	s.prune()
	s.askHistory("after the third Prune", 4)
}

// askHistory asks what the first minutes were.
func (s *scene) askHistory(when string, minutes int) {
	for _, x := range []struct {
		of   history.Series
		want []string
	}{
		{history.Series{}, []string{
			"12:00 submitted 5, started 3, wait 3: 43s..51s",
			"12:01 entered 1, started 1, passed 1, retried 2, lost 1, released 1, " +
				"wait 1: 1m2s..1m2s, run 2: 10s..20s, waited 4: 43s..1m2s",
			"12:02 started 2, done 1, dead 1, wait 2: 58s..2m0s, run 2: 1s..2s",
			"12:03 submitted 1, cancelled 1",
		}},
		{history.Series{Queue: "q"}, []string{
			"12:00 submitted 5, started 3, wait 3: 43s..51s",
			"12:01 entered 1, started 1, passed 1, retried 2, lost 1, released 1, " +
				"wait 1: 1m2s..1m2s, run 2: 10s..20s, waited 4: 43s..1m2s",
			"12:02 started 2, done 1, dead 1, wait 2: 58s..2m0s, run 2: 1s..2s",
			"12:03 cancelled 1",
		}},
		{history.Series{Queue: "q", Stage: "first"}, []string{
			"12:00 submitted 5, started 3, wait 3: 43s..51s",
			"12:01 started 1, passed 1, retried 2, lost 1, released 1, " +
				"wait 1: 1m2s..1m2s, run 2: 10s..20s, waited 4: 43s..1m2s",
			"12:02 started 1, dead 1, wait 1: 58s..58s, run 1: 2s..2s",
			"12:03 cancelled 1",
		}},
		{history.Series{Queue: "q", Stage: "pack"}, []string{
			"12:01 entered 1",
			"12:02 started 1, done 1, wait 1: 2m0s..2m0s, run 1: 1s..1s",
		}},
		{history.Series{Queue: "r"}, []string{"12:03 submitted 1"}},
		{history.Series{Worker: "w"}, []string{
			"12:00 started 3, wait 3: 43s..51s",
			"12:01 passed 1, retried 2, lost 1, run 2: 10s..20s, waited 3: 43s..51s",
			"12:02 started 2, done 1, dead 1, wait 2: 58s..2m0s, run 2: 1s..2s",
		}},
		{history.Series{Worker: "x"}, []string{"12:01 started 1, released 1, wait 1: 1m2s..1m2s"}},
		{history.Series{Worker: "y"}, nil},
		{history.Series{Queue: "q", Stage: "w"}, nil},
		{history.Series{Queue: "x"}, nil},
	} {
		want := slices.DeleteFunc(slices.Clone(x.want), func(line string) bool {
			return line[:5] >= fmt.Sprintf("12:%02d", minutes)
		})
		if len(want) == 0 {
			want = nil
		}
		s.wantHistory(when, x.of, want...)
	}
}

// heldBy is a task that a node holds, as its newest step left it.
func (s *scene) heldBy(h store.Holder, id task.ID) caller.Handout {
	spans, err := s.Held(s.ctx, h, nil)
	s.ok(err)
	for _, sp := range spans {
		for _, l := range sp.Tasks {
			if o := (caller.Handout{Span: sp.Span, Loaded: l}); o.ID() == id {
				return o
			}
		}
	}
	s.fail("%v is not held by %v", id, h)
	return caller.Handout{}
}
