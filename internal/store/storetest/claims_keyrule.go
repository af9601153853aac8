package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// keyRuleClaims is what holds of what is said of single group keys.
func keyRuleClaims() []claim {
	const begins, held = store.Begins, store.HeldBack
	two := task.KeyLimits{MaxRunning: 2}
	return []claim{
		{"NothingOfAPausedKeyBegins", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, two)
			s.putKeys("x", "x", "x", "y", "")
			outs := s.byKey(a, 9, false, nil)
			s.want("one began before", s.begin(a, outs[0]), []store.Beginning{begins})
			s.pauseKey("x", time.Second)
			s.want("then", s.begin(a, outs[1], outs[3], outs[4]),
				[]store.Beginning{held, begins, begins})
			s.want("what began before is asked for again", s.begin(a, outs[0]),
				[]store.Beginning{begins})
			s.want("it is shown", s.keyGates("x", "y"), "x 1 key_paused, y 1")
			s.clock.Advance(time.Second - time.Microsecond)
			s.want("still", s.begin(a, outs[1]), []store.Beginning{held})
			s.clock.Advance(time.Microsecond)
			s.want("over", s.begin(a, outs[1], outs[2]), []store.Beginning{begins, held})
		}},
		{"APausedKeyIsResumed", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, two)
			s.putKeys("x", "x")
			outs := s.byKey(a, 9, false, nil)
			rule := s.pauseKey("x", store.Forever)
			s.want("for good", rule.Paused, int64(store.Never))
			s.clock.Advance(5 * time.Second)
			s.want("still", s.begin(a, outs[0]), []store.Beginning{held})
			s.want("resumed", s.ruleKey(store.KeyChange{Key: "x", Resume: true}),
				store.KeyRule{Queue: "q", Key: "x"})
			s.want("then", s.begin(a, outs[0]), []store.Beginning{begins})
			rule = s.pauseKey("x", time.Hour)
			s.want("a pause may be made shorter", s.pauseKey("x", time.Second).Paused < rule.Paused,
				true)
		}},
		{"TakesPassPausedKeysOver", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, two)
			s.putKeys("x", "y", "z")
			s.pauseKey("x", 5*time.Second)
			s.pauseKey("z", store.Forever)
			got := s.byKeyOnce(a, store.ByKey{}, 9)
			s.want("taken", len(got.Spans), 1)
			s.want("the key", got.Spans[0].Key, "y")
			s.want("look when the first pause is over", got.NextDue-s.clock.Micros(), int64(5e6))
			s.clock.Advance(5 * time.Second)
			s.want("then", keysOfOuts(s.byKey(a, 9, true, nil)), "x")
		}},
		{"AQueueWithoutLimitsMayHavePausedKeys", func(s *scene) {
			a := s.join("a")
			s.putKeys("x", "y")
			s.want("nothing is said", s.hasKeyRules(), false)
			s.want("no gates", s.gates(), []string(nil))
			s.pauseKey("x", time.Minute)
			s.want("something is", s.hasKeyRules(), true)
			s.want("one is paused", s.pausedKeys(), 1)
			outs := s.byKey(a, 9, false, nil)
			s.want("what is taken", keysOfOuts(outs), "y")
			s.want("it begins", s.begin(a, outs...), []store.Beginning{begins})
			s.pauseKey("z", time.Hour)
			s.ruleKey(store.KeyChange{Key: "x", Resume: true})
			s.want("one is left", s.hasKeyRules(), true)
			s.clock.Advance(time.Hour)
			s.want("its pause is over", s.pausedKeys(), 0)
			s.want("still", s.hasKeyRules(), true)
			_, err := s.Prune(s.ctx, 1000)
			s.ok(err)
			s.want("nothing is said any more", s.hasKeyRules(), false)
			s.want("no gates again", s.gates(), []string(nil))
		}},
		{"AReportHoldsItsKey", func(s *scene) {
			a := s.join("a")
			s.putKeys("x", "x", "y", "")
			outs := s.takeThose(a, 4)
			r := outs[0].Report(s.clock, task.Retry(nil))
			r.HoldKey = time.Minute
			s.want("it is", s.settle(r), []task.Status{task.Recorded})
			s.want("held", s.pausedFor("x"), int64(60e6))
			r.HoldKey = time.Hour
			s.want("again", s.settle(r), []task.Status{task.Repeated})
			s.want("as it was", s.pausedFor("x"), int64(60e6))
			r = outs[1].Report(s.clock, task.Retry(nil))
			r.HoldKey = time.Second
			s.want("another one", s.settle(r), []task.Status{task.Recorded})
			s.want("the longer one counts", s.pausedFor("x"), int64(60e6))
			r = outs[3].Report(s.clock, task.Retry(nil))
			r.HoldKey = time.Second
			s.want("one without a key", s.settle(r), []task.Status{task.Recorded})
			r = outs[2].Report(s.clock, task.Retry(nil))
			r.Token.SpanToken += 2
			r.HoldKey = time.Second
			s.want("a stale one", s.settle(r), []task.Status{task.Stale})
			s.want("holds nothing", s.pausedKeys(), 1)
			s.pauseKey("y", store.Forever)
			r.Token.SpanToken -= 2
			s.want("its own", s.settle(r), []task.Status{task.Recorded})
			s.want("for good is longer", s.pausedFor("y") > int64(1e15), true)
		}},
		{"AHeldKeyIsTheOneThatWasEdited", func(s *scene) {
			a := s.join("a")
			b := s.batch("q", 1)
			b.Tasks[0].GroupKey = "x"
			s.submit(store.Holder{}, b)
			id := task.ID{Batch: b.ID}
			s.edited(a, id, store.Edit{GroupKey: new("y")})
			r := s.takeOnly(a, id).Report(s.clock, task.Retry(nil))
			r.HoldKey = time.Second
			s.recorded(r)
			s.want("keys", []int64{s.pausedFor("x"), s.pausedFor("y")}, []int64{0, 1e6})
		}},
		{"AKeyHasATurnOfItsWeight", func(s *scene) {
			a := s.join("a")
			for range 9 {
				s.putKeys("x")
			}
			for range 9 {
				s.putKeys("y")
			}
			s.weighKey("y", 3)
			got := s.byKeyOnce(a, store.ByKey{Fair: true}, 8)
			s.want("keys", keysOfSpans(got.Spans), "x y y y x y y y")
			s.want("turns", got.Turns, map[string]int{"y": 3})
			s.weighKey("y", 0)
			got = s.byKeyOnce(a, store.ByKey{Fair: true}, 4)
			s.want("nothing is said any more", keysOfSpans(got.Spans), "x y x y")
			s.want("no turns", got.Turns, map[string]int(nil))
		}},
		{"KeysTellOfTheirWork", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, two)
			s.putKeys("x", "y", "y", "y", "")
			s.begin(a, s.byKey(a, 2, false, nil)[0])
			s.putKeys("y", "z")
			late := s.batch("q", 1)
			late.Tasks[0].GroupKey, late.Due = "late", s.clock.Micros()+1
			late.Rank = late.Due
			s.submit(store.Holder{}, late)
			s.pauseKey("w", time.Minute)
			s.weighKey("y", 7)
			s.want("keys", s.keysTold(), "y 4 ready, 0 run, weighs 7; x 0 ready, 1 run; "+
				"z 1 ready, 0 run; w 0 ready, 0 run, paused")
			s.clock.Advance(time.Minute)
			s.want("later", s.keysTold(), "y 4 ready, 0 run, weighs 7; late 1 ready, 0 run; "+
				"x 0 ready, 1 run; z 1 ready, 0 run")
		}},
		{"RulesGoWithTheirQueue", func(s *scene) {
			_, err := s.ChangeKey(s.ctx, store.KeyChange{Queue: "none", Key: "x",
				Pause: time.Second})
			s.want("without a queue", errors.Is(err, store.ErrNotFound), true)
			s.putKeys("x")
			s.pauseKey("x", store.Forever)
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.putKeys("x")
			s.want("nothing is said", s.hasKeyRules(), false)
			s.want("nor of its keys", s.keysTold(), "x 1 ready, 0 run")
		}},
	}
}

// ruleKey changes what is said of a key of queue q.
func (s *scene) ruleKey(c store.KeyChange) store.KeyRule {
	c.Queue = "q"
	rule, err := s.ChangeKey(s.ctx, c)
	s.ok(err)
	return rule
}

func (s *scene) pauseKey(key string, d time.Duration) store.KeyRule {
	return s.ruleKey(store.KeyChange{Key: key, Pause: d})
}

func (s *scene) weighKey(key string, weight int) {
	rule := s.ruleKey(store.KeyChange{Key: key, Weight: &weight})
	s.want("weight", rule.Weight, weight)
}

// hasKeyRules tells whether the configuration of queue q says that its keys have rules.
func (s *scene) hasKeyRules() bool {
	list, err := s.Queues(s.ctx)
	s.ok(err)
	for _, q := range list {
		if q.Name == "q" {
			return q.KeyRules
		}
	}
	return false
}

// pausedKeys is how many keys of queue q its gate says to be paused.
func (s *scene) pausedKeys() int {
	_, gates, err := s.Gates(s.ctx, "q")
	s.ok(err)
	if len(gates) == 0 {
		return 0
	}
	return gates[0].PausedKeys
}

// pausedFor is for how long a key of queue q is paused; 0 = it is not.
func (s *scene) pausedFor(key string) int64 {
	now, list, err := s.KeyGates(s.ctx, "q", []string{key})
	s.ok(err)
	if len(list) == 0 {
		return 0
	}
	return max(list[0].Paused-now, 0)
}

// keysOfSpans are the keys of spans.
func keysOfSpans(spans []store.HeldSpan) string {
	var keys []string
	for _, sp := range spans {
		keys = append(keys, sp.Key)
	}
	return strings.Join(keys, " ")
}

// keysTold is what Keys says of queue q.
func (s *scene) keysTold() string {
	uses, err := s.Keys(s.ctx, "q")
	s.ok(err)
	s.want("cut", uses.Cut, false)
	return caller.TellUses(&uses)
}
