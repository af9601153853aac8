package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// keyClaims is what holds for queues that go by the group keys of their tasks.
func keyClaims() []claim {
	one := task.KeyLimits{MaxRunning: 1}
	slow := task.KeyLimits{Rate: task.Rate{Count: 1, Per: time.Second}}
	const begins, held = store.Begins, store.HeldBack
	return []claim{
		{"OfEachKeyAsManyBeginAsItsLimitSays", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.limitKeys(0, one)
			s.putKeys("x", "x", "y", "", "")
			outs := s.byKey(a, 9, false, nil)
			s.want("first", s.begin(a, outs...),
				[]store.Beginning{begins, held, begins, begins, begins})
			s.putKeys("x", "y", "z")
			other := s.byKey(b, 9, false, nil)
			s.want("of another node those are taken that have room", keysOfOuts(other), "z")
			s.want("and they begin", s.begin(b, other...), []store.Beginning{begins})
			s.recorded(outs[0].Report(s.clock, task.Finish(nil)))
			s.want("when one has ended", s.begin(a, outs[1]), []store.Beginning{begins})
			s.limitKeys(0, task.KeyLimits{MaxRunning: 2}) // nobody owns a key
			s.putKeys("v", "v", "v")
			outs = s.byKey(a, 9, false, nil)
			s.want("what is left is taken, too", keysOfOuts(outs), "x y v v v")
			s.want("two of a key", s.begin(a, outs...),
				[]store.Beginning{begins, begins, begins, begins, held})
			s.putKeys("v", "w")
			s.want("taken elsewhere", keysOfOuts(s.byKey(b, 9, false, nil)), "w")
		}},
		{"WhatRanBeforeItsQueueLimitedKeysCountsForItsKey", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			two := task.KeyLimits{MaxRunning: 2}
			s.putKeys("x", "x", "x", "y", "y", "")
			sp := s.take(a, 9)[0]
			var outs []caller.Handout
			for i := range sp.Tasks {
				outs = append(outs, caller.Taken(&sp, i))
			}
			s.sync(a, outs[0], outs[1], outs[3], outs[5])
			s.limitKeys(0, two)
			s.want("keys that are full", s.fullKeys(), 1)
			s.sync(a, outs[4]) // since then another row, which nobody let begin
			s.want("and then", s.fullKeys(), 2)
			s.putKeys("x", "y", "z", "")
			s.want("of another node those are taken that have room",
				keysOfOuts(s.byKey(b, 9, false, nil)), "z ")
			outs[2].Span.Key = "x" // as its holder knows
			s.want("the next one of the key", s.begin(a, outs[2]), []store.Beginning{held})
			s.recorded(outs[1].Report(s.clock, task.Finish(nil)))
			s.want("when one has ended", s.begin(a, outs[2]), []store.Beginning{begins})
			s.want("keys that are full again", s.fullKeys(), 2)
			s.limitKeys(0, task.KeyLimits{})
			s.limitKeys(0, two)
			s.want("limited again", s.fullKeys(), 2)
		}},
		{"TheQueueAndTheKeyMustHaveRoom", func(s *scene) {
			a := s.join("a")
			s.limitKeys(2, one)
			s.putKeys("x", "x", "y", "z")
			outs := s.byKey(a, 9, false, nil)
			s.want("who is held back takes no place", s.begin(a, outs...),
				[]store.Beginning{begins, held, begins, held})
			s.recorded(outs[2].Report(s.clock, task.Finish(nil)))
			s.want("the key has none", s.begin(a, outs[1], outs[3]),
				[]store.Beginning{held, begins})
		}},
		{"ARateOfEachKeyHoldsAndBeginsEmpty", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, slow)
			s.clock.Advance(time.Second)
			s.putKeys("x", "x", "y")
			outs := s.byKey(a, 9, false, nil)
			s.want("at first", s.begin(a, outs...), []store.Beginning{begins, held, begins})
			s.clock.Advance(time.Second - time.Microsecond)
			s.want("too early", s.begin(a, outs[1]), []store.Beginning{held})
			s.clock.Advance(time.Microsecond)
			s.limitKeys(7, slow)
			s.want("a change of other limits leaves it", s.begin(a, outs[1]),
				[]store.Beginning{begins})
			s.putKeys("x", "z")
			faster := slow
			faster.Rate.Count = 2
			s.clock.Advance(3 * time.Second)
			s.limitKeys(7, faster)
			next := s.byKeyOnce(a, store.ByKey{}, 9)
			s.want("a rate that changes begins empty", len(next.Spans), 0)
			s.want("look when it lets one begin", next.NextDue-s.clock.Micros(), int64(500_000))
		}},
		{"ATakeByKeysMakesSpansOfOneKey", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 9})
			s.putKeys("x", "x", "y", "x", "")
			got := s.byKeyOnce(a, store.ByKey{}, 9)
			var told []string
			for _, sp := range got.Spans {
				told = append(told, fmt.Sprintf("%d..%d %q %d", sp.Lo, sp.Hi, sp.Key,
					len(sp.Tasks)))
			}
			s.want("spans", strings.Join(told, ", "),
				`0..1 "x" 2, 2..2 "y" 1, 3..3 "x" 1, 4..4 "" 1`)
		}},
		{"AKeyWithoutRoomKeepsNoOtherOneWaiting", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, one)
			for range 30 {
				s.putKeys("x")
			}
			s.putKeys("y")
			first := s.byKey(a, 1, false, nil)
			s.want("first", s.begin(a, first...), []store.Beginning{begins})
			s.want("by rank", keysOfOuts(s.byKey(a, 2, false, nil)), "y")
			s.putKeys("z")
			s.want("in turn", keysOfOuts(s.byKey(a, 2, true, nil)), "z")
			s.putKeys("w")
			got := s.byKeyOnce(a, store.ByKey{Skip: []string{"w"}}, 2)
			s.want("nor those to skip", len(got.Spans), 0)
			s.want("no more", got.More, false)
		}},
		{"KeysTakeTurns", func(s *scene) {
			a := s.join("a")
			for range 8 {
				s.putKeys("x")
			}
			s.putKeys("y")
			s.putKeys("z")
			s.want("one of each", keysOfOuts(s.byKey(a, 3, true, nil)), "x y z")
			s.want("behind a key", keysOfOuts(s.byKey(a, 1, true, new("w"))), "x")
			got := s.byKeyOnce(a, store.ByKey{Fair: true, After: new("x")}, 1)
			s.want("to the end", []any{len(got.Spans), got.After, got.More},
				[]any{0, (*string)(nil), true})
			got = s.byKeyOnce(a, store.ByKey{Fair: true}, 4)
			s.want("of one as many as are wanted", []any{len(got.Spans), got.More}, []any{4, true})
			got = s.byKeyOnce(a, store.ByKey{Fair: true}, 9)
			s.want("the rest", []any{len(got.Spans), got.More}, []any{2, false})
		}},
		{"WhatHasAKeyIsFoundByRankToo", func(s *scene) {
			a := s.join("a")
			s.putKeys("x", "y", "x")
			s.byKey(a, 1, true, nil)
			s.submit(store.Holder{}, s.batch("q", 1))
			ready, err := s.Ready(s.ctx, []string{"q"})
			s.ok(err)
			s.want("ready", len(ready), 1)
			s.want("by rank", len(s.takeThose(a, 2)), 2)
			s.want("the last", len(s.takeThose(a, 2)), 1)
		}},
		{"WhatFitsIsTakenAsItIs", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 2})
			s.putKeys("x", "y", "x", "")
			got := s.byKeyOnce(a, store.ByKey{Whole: 3}, 1)
			s.want("more than fits is sorted", toldKeys(got), `0..0 "x"`)
			s.want("more is left", got.Left, true)
			s.putKeys("w")
			got = s.byKeyOnce(a, store.ByKey{Whole: 9, Skip: []string{"x"}}, 1)
			s.want("with what is sorted", toldKeys(got),
				`1..1 "y", 2..2 "x", 3..3 "", 0..0 not sorted ["w"]`)
			s.want("nothing is left", []any{got.Left, got.More}, []any{false, false})
			s.putKeys("y", "y", "y")
			got = s.byKeyOnce(a, store.ByKey{Whole: 3, First: 1, After: new("a")}, 9)
			s.want("what fits", toldKeys(got), `0..2 not sorted ["y" "y" "y"]`)
			s.want("no more", []any{got.More, got.After}, []any{false, (*string)(nil)})
			outs := outsOf(&got)
			s.want("keys count all the same", s.begin(a, outs...),
				[]store.Beginning{begins, begins, held})
		}},
		{"TheFirstAreTakenAsTheyAre", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 9})
			s.putKeys("x", "y")
			s.byKeyOnce(a, store.ByKey{}, 1)
			s.putKeys("z", "x", "w")
			s.putKeys("v")
			got := s.byKeyOnce(a, store.ByKey{Whole: 2, First: 3, After: new("a")}, 9)
			s.want("by rank", toldKeys(got), `1..1 "y", 0..1 not sorted ["z" "x"]`)
			s.want("more is left", []any{got.Left, got.More}, []any{true, true})
			s.want("a lap goes on behind the same key", *got.After, "a")
			got = s.byKeyOnce(a, store.ByKey{First: 9, After: new("a")}, 1)
			s.want("the rest", toldKeys(got), `2..2 not sorted ["w"], 0..0 not sorted ["v"]`)
			s.want("nothing is left", []any{got.Left, got.More, got.After},
				[]any{false, false, (*string)(nil)})
		}},
		{"WhatIsTakenAsItIsSaysTheKeysOfItsTasks", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 9})
			s.putKeys("x", "y", "z", "w")
			b := s.batch("q", 1)
			b.Tasks[0].GroupKey = "x"
			s.submit(store.Holder{}, b)
			s.edited(a, task.ID{Batch: b.ID}, store.Edit{GroupKey: new("v")})
			got := s.byKeyOnce(a, store.ByKey{Whole: 9}, 1)
			s.want("edited ones, too", toldKeys(got),
				`0..3 not sorted ["x" "y" "z" "w"], 0..0 not sorted ["v"]`)
			outs := outsOf(&got)
			s.begin(a, outs...)
			s.recorded(outs[1].Report(s.clock, task.Finish(nil)))
			s.recorded(outs[2].Report(s.clock, task.Retry(errors.New("later"))))
			s.ok(s.Give(s.ctx, store.GiveRequest{
				Holder: a, Spans: []store.Taking{outs[0].Span.Taking()},
			}))
			got = s.byKeyOnce(a, store.ByKey{Whole: 9}, 1)
			s.want("of those that are left", toldKeys(got), `0..3 not sorted ["x" "z" "w"]`)
		}},
		{"WhatDiedWithANodeIsSorted", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 2})
			s.putKeys("x", "y")
			s.byKeyOnce(a, store.ByKey{Whole: 9}, 9)
			s.clock.Advance(2 * caller.LeaseTime)
			b := s.join("b")
			_, err := s.Free(s.ctx, b, math.MaxInt64)
			s.ok(err)
			got := s.byKeyOnce(b, store.ByKey{Whole: 9, First: 1}, 9)
			s.want("spans", toldKeys(got), `0..0 "x", 1..1 "y"`)
		}},
		{"AnEditedKeyCounts", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, one)
			s.putKeys("x", "x")
			s.want("first", s.begin(a, s.byKey(a, 1, false, nil)[:1]...), []store.Beginning{begins})
			b := s.batch("q", 1)
			b.Tasks[0].GroupKey = "x"
			s.submit(store.Holder{}, b)
			s.want("none", len(s.byKey(a, 2, false, nil)), 0)
			s.edited(a, task.ID{Batch: b.ID}, store.Edit{GroupKey: new("y")})
			s.want("under its new key", keysOfOuts(s.byKey(a, 2, false, nil)), "y")
		}},
		{"GatesOfKeysAreShown", func(s *scene) {
			a := s.join("a")
			s.want("none", s.keyGates("x"), "")
			both := task.KeyLimits{MaxRunning: 2, Rate: task.Rate{Count: 9, Per: time.Second}}
			s.limitKeys(0, both)
			s.clock.Advance(time.Second)
			s.putKeys("x", "x", "y")
			s.begin(a, s.byKey(a, 9, false, nil)...)
			s.want("keys", s.keyGates("y", "x", "n", ""), "n 0, x 2 limit, y 1")
			_, gates, err := s.Gates(s.ctx)
			s.ok(err)
			s.want("full keys", gates[0].FullKeys, 1)
			_, err = s.ChangeQueue(s.ctx, "q", func(q *task.Queue, _ bool) error {
				q.PerKey = task.KeyLimits{}
				return nil
			})
			s.ok(err)
			s.want("no limits", s.keyGates("x"), "")
		}},
	}
}

// limitKeys limits queue q, and each of its keys.
func (s *scene) limitKeys(running int, perKey task.KeyLimits) {
	_, err := s.ChangeQueue(s.ctx, "q", func(q *task.Queue, _ bool) error {
		q.MaxRunning, q.PerKey = running, perKey
		return nil
	})
	s.ok(err)
}

// fullKeys is how many keys of queue q run as many tasks as each may.
func (s *scene) fullKeys() int {
	_, gates, err := s.Gates(s.ctx, "q")
	s.ok(err)
	return gates[0].FullKeys
}

// putKeys submits a batch with a task for each key.
func (s *scene) putKeys(keys ...string) {
	b := s.batch("q", len(keys))
	for i, key := range keys {
		b.Tasks[i].GroupKey = key
	}
	s.submit(store.Holder{}, b)
}

// byKeyOnce takes from queue q by keys.
func (s *scene) byKeyOnce(h store.Holder, keys store.ByKey, limit int) store.Taken {
	got, err := s.Take(s.ctx, store.TakeRequest{Holder: h, Queue: "q", Limit: limit, Keys: &keys})
	s.ok(err)
	s.want("the lease is gone", got.LeaseGone, false)
	return got
}

// toldKeys tells which spans a take by keys took, and of which keys.
func toldKeys(got store.Taken) string {
	var told []string
	for _, sp := range got.Spans {
		text := fmt.Sprintf("%d..%d %q", sp.Lo, sp.Hi, sp.Key)
		if !sp.Sorted {
			text = fmt.Sprintf("%d..%d not sorted %q", sp.Lo, sp.Hi, sp.Keys)
		}
		told = append(told, text)
	}
	return strings.Join(told, ", ")
}

// outsOf lists the tasks that were taken.
func outsOf(got *store.Taken) (outs []caller.Handout) {
	for _, sp := range got.Spans {
		for i := range sp.Tasks {
			outs = append(outs, caller.Taken(&sp, i))
		}
	}
	return outs
}

// byKey lists the tasks that it takes.
func (s *scene) byKey(h store.Holder, limit int, fair bool, after *string) (outs []caller.Handout) {
	for _, sp := range s.byKeyOnce(h, store.ByKey{Fair: fair, After: after}, limit).Spans {
		s.want("sorted", sp.Sorted, true)
		for _, l := range sp.Tasks {
			outs = append(outs, caller.Handout{Span: sp.Span, Loaded: l})
		}
	}
	return outs
}

// keysOfOuts are the keys of hand-outs.
func keysOfOuts(outs []caller.Handout) string {
	var keys []string
	for _, o := range outs {
		keys = append(keys, o.Span.Key)
	}
	return strings.Join(keys, " ")
}

// keyGates are how keys of queue q stand: what runs, and what holds them back.
func (s *scene) keyGates(keys ...string) string {
	now, list, err := s.KeyGates(s.ctx, "q", keys)
	s.ok(err)
	var told []string
	for _, g := range list {
		text := fmt.Sprintf("%s %d", g.Key, g.Running)
		if held := g.Held(now); held != (admission.Held{}) {
			text += " " + string(held.Why)
		}
		told = append(told, text)
	}
	return strings.Join(told, ", ")
}
