package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// beginClaims is what holds for queues that have limits.
func beginClaims() []claim {
	const second = int64(1e6)
	return []claim{
		{"AsManyBeginAsTheLimitSays", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limit(3, task.Rate{}, 0)
			s.put(8)
			of, other := s.takeThose(a, 4), s.takeThose(b, 4)
			s.want("first", s.begin(a, of[:2]...), []store.Beginning{0, 0})
			s.want("of another node", s.begin(b, other...), []store.Beginning{
				store.Begins, store.HeldBack, store.HeldBack, store.HeldBack,
			})
			s.want("the next", s.begin(a, of[2]), []store.Beginning{store.HeldBack})
			for i, o := range append(slices.Clone(of), other...) {
				want := task.Ready
				if i < 2 || i == 4 {
					want = task.Running
				}
				s.wantState(o.ID(), want)
			}
			s.recorded(other[0].Report(s.clock, task.Finish(nil)))
			s.want("when one has ended", s.begin(a, of[2:]...),
				[]store.Beginning{store.Begins, store.HeldBack})
		}},
		{"EachOutcomeMakesRoom", func(s *scene) {
			a := s.join("a")
			s.limit(1, task.Rate{}, 0)
			s.put(9)
			outs := s.takeThose(a, 9)
			for i, out := range []task.Outcome{
				task.Finish(nil), task.Fail(errors.New("no")), {Kind: task.KindRetry},
				{Kind: task.KindNext, Stage: "two"}, task.Release(), {Kind: task.KindLost},
				{Kind: task.KindTimeout},
			} {
				s.want("begin", s.begin(a, outs[i]), []store.Beginning{store.Begins})
				s.want("the next", s.begin(a, outs[8]), []store.Beginning{store.HeldBack})
				s.recorded(outs[i].Report(s.clock, out))
			}
			s.want("begin", s.begin(a, outs[7]), []store.Beginning{store.Begins})
			s.changed(task.KindCancelled, outs[7].ID())
			s.want("after a cancellation", s.begin(a, outs[8]), []store.Beginning{store.Begins})
		}},
		{"WhatTheDeadAndTheUnheardHaveCounts", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limit(2, task.Rate{}, 0)
			s.put(4)
			of, other := s.takeThose(a, 2), s.takeThose(b, 2)
			s.begin(a, of...)
			s.die(a, b)
			s.want("the dead node's", s.begin(b, other...),
				[]store.Beginning{store.HeldBack, store.HeldBack})
			s.want("its own", s.beginGone(a, of...), true)
			again := s.takeThose(b, 2)
			s.want("as they are read", []bool{again[0].Running != nil, again[1].Running != nil},
				[]bool{true, true})
			s.want("taken over", s.begin(b, other[0]), []store.Beginning{store.HeldBack})
			s.recorded(of[0].Report(s.clock, task.Finish(nil)))
			s.want("when one is reported", s.begin(b, other...),
				[]store.Beginning{store.Begins, store.HeldBack})
			s.recorded(of[1].Report(s.clock, task.Outcome{Kind: task.KindLost}))
			s.want("when the other is lost", s.begin(b, other[1]),
				[]store.Beginning{store.Begins})
		}},
		{"WhatRunsAndNobodyHoldsIsTakenThoughNothingMayBegin", showTakeRunning},
		{"WhatRanBeforeThereWasALimitCounts", func(s *scene) {
			a := s.join("a")
			s.put(4)
			outs := s.takeThose(a, 4)
			s.sync(a, outs[:3]...)
			s.limit(3, task.Rate{}, 0)
			s.want("gates", s.gates(), []string{"q 3 limit 0"})
			s.want("one more", s.begin(a, outs[3]), []store.Beginning{store.HeldBack})
			s.limit(4, task.Rate{}, 0)
			s.want("a higher limit", s.begin(a, outs[3]), []store.Beginning{store.Begins})
			s.limit(2, task.Rate{}, 0)
			s.put(1)
			last := s.takeThose(a, 1)[0]
			for i := range 3 {
				s.want("a lower one", s.begin(a, last), []store.Beginning{store.HeldBack})
				s.recorded(outs[i].Report(s.clock, task.Finish(nil)))
			}
			s.want("when enough have ended", s.begin(a, last), []store.Beginning{store.Begins})
		}},
		{"AHandOutBeginsOnce", func(s *scene) {
			a := s.join("a")
			s.limit(2, task.Rate{Count: 2, Per: time.Second}, 0)
			s.clock.Advance(time.Second)
			s.put(3)
			outs := s.takeThose(a, 3)
			for range 3 {
				s.want("the same again", s.begin(a, outs[0]), []store.Beginning{store.Begins})
			}
			r := s.asked(a, outs[0])
			r.Rows[0].Worker, r.Rows[0].Incarnation = "other", "later"
			r.Rows[0].Started += second
			r.Rows[0].Until += second
			got, err := s.Begin(s.ctx, r)
			s.ok(err)
			s.want("at another worker", got.Rows, []store.Beginning{store.Begins})
			s.want("its row", *s.stand(outs[0].ID()).Running, r.Rows[0].Running)
			s.want("the others", s.begin(a, outs[1:]...),
				[]store.Beginning{store.Begins, store.HeldBack})
		}},
		{"WhatIsNoHandOutDoesNotBegin", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limit(3, task.Rate{}, 0)
			s.put(5)
			var outs []caller.Handout // each in a span of its own
			for range 5 {
				outs = append(outs, s.takeOne(a))
			}
			s.recorded(outs[0].Report(s.clock, task.Finish(nil)))
			s.changed(task.KindCancelled, outs[1].ID())
			s.ok(s.Give(s.ctx, store.GiveRequest{
				Holder: a, Spans: []store.Taking{outs[2].Span.Taking()},
			}))
			taken := s.takeOne(b)
			s.want("is the third", taken.ID(), outs[2].ID())
			s.want("settled, cancelled, given back", s.begin(a, outs[:3]...),
				[]store.Beginning{store.Void, store.Void, store.Void})
			s.want("of whom it is not", s.begin(b, outs[3]), []store.Beginning{store.Void})
			s.want("they take no place", s.begin(a, outs[3:]...), []store.Beginning{0, 0})
			s.want("gates", s.gates(), []string{"q 2  0"})
			s.want("under another token", s.begin(b, taken), []store.Beginning{store.Begins})
			s.want("its late one", s.begin(a, outs[2]), []store.Beginning{store.Void})
			s.want("the row", s.stand(taken.ID()).Running.Token, taken.Span.Token)
		}},
		{"ARateHoldsOverAllNodes", showRate},
		{"ARateThatChangesBeginsEmpty", func(s *scene) {
			a := s.join("a")
			s.limit(0, task.Rate{Count: 10, Per: time.Second}, 0)
			s.clock.Advance(4 * time.Second)
			s.put(40)
			outs := s.takeThose(a, 40)
			s.want("at rest", begins(s.begin(a, outs[:5]...)), 5)
			s.limit(100, task.Rate{Count: 10, Per: time.Second}, 0)
			s.want("another limit alone", begins(s.begin(a, outs[5:20]...)), 5)
			s.clock.Advance(4 * time.Second)
			s.limit(100, task.Rate{Count: 10, Per: time.Second}, 7)
			s.want("another burst", begins(s.begin(a, outs[10:20]...)), 0)
			s.clock.Advance(500 * time.Millisecond)
			s.want("half a second later", begins(s.begin(a, outs[10:20]...)), 5)
			s.limit(0, task.Rate{}, 0)
			s.want("no limit", begins(s.begin(a, outs[10:30]...)), 20)
			s.limit(0, task.Rate{Count: 10, Per: time.Second}, 0)
			s.want("the same anew", begins(s.begin(a, outs[30:]...)), 0)
		}},
		{"GatesShowQueuesWithLimitsOnly", showGates},
		{"ANewQueueOfADeletedOnesNameBeginsAnew", func(s *scene) {
			a := s.join("a")
			s.limit(1, task.Rate{Count: 1, Per: time.Second}, 5)
			s.put(1)
			s.clock.Advance(time.Second)
			s.begin(a, s.takeThose(a, 1)...)
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.want("gates", s.gates(), []string(nil))
			s.limit(1, task.Rate{Count: 1, Per: time.Second}, 5)
			s.put(1)
			out := s.takeThose(a, 1)
			s.want("at once", s.begin(a, out...), []store.Beginning{store.HeldBack})
			s.clock.Advance(time.Second)
			s.want("a second later", s.begin(a, out...), []store.Beginning{store.Begins})
		}},
		{"OfManyAtOnceNeverMoreThanTheLimitRun", showAtOnce},
		{"AChangedLimitHoldsWhenTheChangeIsAnswered", showChangedLimit},
	}
}

// limit gives queue q limits.
func (s *scene) limit(running int, rate task.Rate, burst int) {
	_, err := s.ChangeQueue(s.ctx, "q", func(q *task.Queue, _ bool) error {
		q.MaxRunning, q.Rate, q.Burst = running, rate, burst
		return nil
	})
	s.ok(err)
}

// asked asks whether hand-outs of queue q may begin.
func (s *scene) asked(h store.Holder, outs ...caller.Handout) store.BeginRequest {
	r := store.BeginRequest{Holder: h}
	for _, o := range outs {
		r.Rows = append(r.Rows, store.Begin{
			Queue: o.Span.Queue, Key: o.Span.Key, Running: o.Row(s.clock), Unique: o.Unique,
		})
	}
	return r
}

// begin lets hand-outs begin, and says what becomes of each.
func (s *scene) begin(h store.Holder, outs ...caller.Handout) []store.Beginning {
	got, err := s.Begin(s.ctx, s.asked(h, outs...))
	s.ok(err)
	if got.LeaseGone || len(got.Rows) != len(outs) || got.Now != s.clock.Micros() {
		s.fail("begin %d hand-outs: got %+v", len(outs), got)
	}
	return got.Rows
}

// beginGone tells whether a node's lease is gone, as it is told that wants hand-outs to begin.
func (s *scene) beginGone(h store.Holder, outs ...caller.Handout) bool {
	got, err := s.Begin(s.ctx, s.asked(h, outs...))
	s.ok(err)
	return got.LeaseGone && len(got.Rows) == 0
}

// begins is how many begin.
func begins(list []store.Beginning) (n int) {
	for _, is := range list {
		if is == store.Begins {
			n++
		}
	}
	return n
}

// gates are the gates of some queues, or of all: name, what runs, what holds them back and for how
// many microseconds.
func (s *scene) gates(queues ...string) (list []string) {
	now, got, err := s.Gates(s.ctx, queues...)
	s.ok(err)
	s.want("the time of gates", now, s.clock.Micros())
	for _, g := range got {
		held, wait := g.Held(now), int64(0)
		if held.Until != 0 {
			wait = held.Until - now
		}
		list = append(list, gateText(g.Queue, g.Running, held.Why, wait))
	}
	return list
}

func gateText(queue string, running int, why admission.Why, wait int64) string {
	return fmt.Sprintf("%s %d %s %d", queue, running, why, wait)
}

func showRate(s *scene) {
	a, b := s.join("a"), s.join("b")
	s.limit(0, task.Rate{Count: 4, Per: time.Second}, 6)
	s.put(60)
	of, other := s.takeThose(a, 30), s.takeThose(b, 30)
	s.want("at first", begins(s.begin(a, of[:9]...)), 0)
	s.clock.Advance(4 * time.Second)
	s.want("after a rest", begins(s.begin(a, of[:4]...)), 4)
	s.want("of another node", s.begin(b, other[:4]...), []store.Beginning{
		store.Begins, store.Begins, store.HeldBack, store.HeldBack,
	})
	s.clock.Advance(249 * time.Millisecond)
	s.want("too early", begins(s.begin(a, of[4:8]...)), 0)
	s.clock.Advance(time.Millisecond)
	s.want("in time", s.begin(a, of[4:8]...), []store.Beginning{
		store.Begins, store.HeldBack, store.HeldBack, store.HeldBack,
	})
	s.recorded(of[4].Report(s.clock, task.Finish(nil)))
	s.want("an end makes no room", begins(s.begin(a, of[5:8]...)), 0)
	s.clock.Advance(time.Second)
	s.want("later", begins(s.begin(b, other[2:20]...)), 4)
}

func showGates(s *scene) {
	const quarter = int64(250_000)
	s.want("none", s.gates(), []string(nil))
	a := s.join("a")
	s.put(3)
	s.limit(2, task.Rate{Count: 4, Per: time.Second}, 0)
	free := s.batch("free", 2)
	s.submit(store.Holder{}, free)
	_, err := s.ChangeQueue(s.ctx, "b", func(q *task.Queue, _ bool) error {
		q.MaxRunning = 7
		return nil
	})
	s.ok(err)
	s.want("all", s.gates(), []string{
		gateText("b", 0, "", 0), gateText("q", 0, admission.TooFast, quarter),
	})
	s.want("one", s.gates("b", "free", "nothing"), []string{gateText("b", 0, "", 0)})
	s.clock.Advance(time.Second)
	outs := s.takeThose(a, 3)
	s.begin(a, outs...)
	s.want("full", s.gates("q"), []string{gateText("q", 2, admission.Limit, 0)})
	s.recorded(outs[0].Report(s.clock, task.Finish(nil)))
	s.want("one has ended", s.gates("q"), []string{gateText("q", 1, "", 0)})
	s.limit(0, task.Rate{}, 0)
	s.want("no limits", s.gates(), []string{gateText("b", 0, "", 0)})
}

// showAtOnce lets nodes begin and end hand-outs at the same time. What each counts, it counts late
// and stops counting early, so that more than the limit can't be seen where no more run.
func showAtOnce(s *scene) {
	const nodes, each, most = 4, 30, 3
	s.limit(most, task.Rate{}, 0)
	s.put(nodes * each)
	var outs [nodes][]caller.Handout
	var holders [nodes]store.Holder
	for i := range nodes {
		holders[i] = s.join(string(rune('a' + i)))
		outs[i] = s.takeThose(holders[i], each)
	}
	var running, over, ended atomic.Int32
	var group sync.WaitGroup
	for i := range nodes {
		group.Go(func() {
			left := outs[i]
			for try := 0; len(left) > 0 && try < 10_000; try++ {
				got, err := s.Begin(s.ctx, s.asked(holders[i], left[:min(2, len(left))]...))
				if err != nil {
					return
				}
				n := begins(got.Rows)
				if running.Add(int32(n)) > most {
					over.Add(1)
				}
				for _, o := range left[:n] {
					running.Add(-1)
					r := store.Settlement{
						Reports: []store.Report{o.Report(s.clock, task.Finish(nil))},
					}
					if _, err := s.Settle(s.ctx, r); err != nil {
						return
					}
					ended.Add(1)
				}
				left = left[n:]
			}
		})
	}
	group.Wait()
	s.want("more than the limit", over.Load(), int32(0))
	s.want("ended", ended.Load(), int32(nodes*each))
	s.want("gates", s.gates(), []string{gateText("q", 0, "", 0)})
}

// showChangedLimit lowers a limit while tasks begin: what runs when the change is answered, and a
// moment later, is what ran by then.
func showChangedLimit(s *scene) {
	a := s.join("a")
	s.limit(3, task.Rate{}, 0)
	s.put(3)
	few := s.takeThose(a, 3)
	s.begin(a, few[:2]...)
	s.limit(2, task.Rate{}, 0)
	s.want("the next", s.begin(a, few[2]), []store.Beginning{store.HeldBack})
	s.recorded(finishAll(s, few)...)

	s.limit(50, task.Rate{}, 0)
	s.put(50)
	outs := s.takeThose(a, 50)
	var group sync.WaitGroup
	var begun atomic.Int32
	for _, part := range [][]caller.Handout{outs[:25], outs[25:]} {
		group.Go(func() {
			for _, o := range part {
				got, err := s.Begin(s.ctx, s.asked(a, o))
				if err == nil {
					begun.Add(int32(begins(got.Rows)))
				}
			}
		})
	}
	s.limit(1, task.Rate{}, 0)
	_, got, err := s.Gates(s.ctx, "q")
	s.ok(err)
	before := len(s.list(store.Filter{State: task.Running}))
	group.Wait()
	after := len(s.list(store.Filter{State: task.Running}))
	if len(got) != 1 || after > max(before, 1) || int(begun.Load()) != after {
		s.fail("%d ran when the limit of 1 was answered, then %d, of which %d were to begin: %+v",
			before, after, begun.Load(), got)
	}
}

// takeRunning takes what runs and nobody holds, and says which tasks that are.
func (s *scene) takeRunning(h store.Holder, limit int) (ids []task.ID, more bool) {
	got, err := s.TakeRunning(s.ctx, h, limit)
	s.ok(err)
	s.want("the lease is gone", got.LeaseGone, false)
	for _, sp := range got.Spans {
		s.want("its holder", sp.Holder, h)
		for _, l := range sp.Tasks {
			if l.Running != nil {
				ids = append(ids, task.ID{Batch: sp.Batch, N: l.N})
			}
		}
	}
	return ids, got.More
}

func showTakeRunning(s *scene) {
	a, b := s.join("a"), s.join("b")
	s.put(4)
	outs := s.takeThose(a, 4)
	s.sync(a, outs[:2]...)
	s.die(a, b)
	none := func(what string) {
		ids, more := s.takeRunning(b, 100)
		s.want(what, []any{len(ids), more}, []any{0, false})
	}
	none("of a queue without limits")
	s.limit(2, task.Rate{}, 0)
	got, err := s.TakeRunning(s.ctx, a, 100)
	s.ok(err)
	s.want("by who is dead", []any{got.LeaseGone, len(got.Spans)}, []any{true, 0})
	ids, more := s.takeRunning(b, 0)
	s.want("none wanted", []any{len(ids), more}, []any{0, true})
	ids, more = s.takeRunning(b, 100)
	s.want("what runs", ids, []task.ID{outs[0].ID(), outs[1].ID()})
	s.want("more", more, false)
	none("of whoever lives")

	// One of the tasks that run moves, and runs again; then its old span runs no more.
	r := outs[0].Report(s.clock, task.Outcome{Kind: task.KindRetry, Delay: time.Hour})
	s.recorded(r)
	s.recorded(outs[1].Report(s.clock, task.Finish(nil)))
	held, err := s.Held(s.ctx, b, nil)
	s.ok(err)
	s.ok(s.Give(s.ctx, store.GiveRequest{
		Holder: b, Spans: []store.Taking{held[0].Taking()},
	}))
	none("of what has ended")
	s.changed(task.KindMoved, outs[0].ID())
	c := s.join("c")
	var moved caller.Handout
	for _, o := range s.takeThose(c, 10) {
		if o.ID() == outs[0].ID() {
			moved = o
		}
	}
	s.want("begins", s.begin(c, moved), []store.Beginning{store.Begins})
	none("while its holder lives")
	s.die(c, b)
	ids, _ = s.takeRunning(b, 100)
	s.want("what has moved", ids, []task.ID{moved.ID()})
	held, err = s.Held(s.ctx, b, nil)
	s.ok(err)
	s.want("and nothing else", []any{len(held), len(held[0].Tasks)}, []any{1, 1})
}
