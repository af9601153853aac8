package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// waitClaims is what holds of tasks that wait for signals.
func waitClaims() []claim {
	return []claim{
		{"NobodyIsHandedABlockedTask", func(s *scene) {
			a := s.join("a")
			id := s.blocked(a, s.paid(0, ""))
			s.wantState(id, task.Blocked)
			s.want("counts", s.counts(), task.Counts{Blocked: 1})
			s.want("the list of blocked ones", s.list(store.Filter{State: task.Blocked}),
				[]task.ID{id})
			s.want("the list of waiting ones", len(s.list(store.Filter{State: task.Waiting})), 0)
			v := s.view(id)
			s.want("what it waits for", *v.Awaits, task.Awaits{Signal: "paid"})
			s.want("its due time, stage and priority", []any{v.Due.IsZero(), v.Stage, v.Priority},
				[]any{true, "second", time.Duration(0)})
			s.clock.Advance(365 * 24 * time.Hour)
			a = s.join("a")
			got, err := s.Take(s.ctx, store.TakeRequest{Holder: a, Queue: "q", Limit: 9})
			s.ok(err)
			s.want("taken", []any{len(got.Spans), got.More, got.NextDue},
				[]any{0, false, int64(0)})
			got, err = s.Take(s.ctx, store.TakeRequest{
				Holder: a, Queue: "q", Limit: 9, Keys: &store.ByKey{},
			})
			s.ok(err)
			s.want("taken by keys", []any{len(got.Spans), got.NextDue}, []any{0, int64(0)})
			s.want("looks without a reason", s.looks(9), "ended 0")
			s.put(2)
			s.want("what comes before it", s.ahead(id), int64(0))
		}},
		{"ASignalWakesItsTaskOnce", func(s *scene) {
			a := s.join("a")
			id := s.blocked(a, s.paid(0, ""))
			s.clock.Advance(time.Second)
			at := s.clock.Micros()
			s.want("another name", s.signals(id, "shipped", "1", "2"), "")
			s.want("a signal", s.signals(id, "paid", "1", `{"by": "card"}`), "delivered wakes q")
			s.want("the same once more", s.signals(id, "paid", "1", "0"), "repeated delivered")
			s.want("another one", s.signals(id, "paid", "2", "3"), "")
			s.want("looks", s.looks(9), "ended 0")
			s.want("counts", s.counts(), task.Counts{Ready: 1})
			s.want("steps", s.stepsOf(id), []string{"next w []", "woken ann []"})
			v := s.view(id)
			s.want("what it waits for", v.Awaits == nil, true)
			s.want("its result, rank and due time", []any{string(v.Result), v.Due.UnixMicro()},
				[]any{"", at})
			o := s.takeOnly(a, id)
			s.want("its stage, attempt and context", []any{o.Stage, o.Attempt, string(o.Context)},
				[]any{"second", int32(0), `"on"`})
			s.want("what woke it", wokeBy(o.Loaded), store.Woken{
				Signal: "paid", Payload: store.Value(`{"by": "card"}`), By: "ann", At: at,
			})
			s.recorded(s.awaiting(o, s.paid(0, "")))
			s.want("a signal that came before", s.looks(9), "ended 1 wakes q")
			s.want("what woke it", string(wokeBy(s.takeOnly(a, id).Loaded).Payload), "3")
		}},
		{"ASignalIsKeptUntilItsTaskWaits", func(s *scene) {
			a := s.join("a")
			s.put(1)
			o := s.takeOne(a)
			s.want("early", s.signals(o.ID(), "paid", "1", "2"), "")
			s.clock.Advance(time.Second)
			s.want("later", s.signals(o.ID(), "paid", "0", "1"), "")
			settled, err := s.Settle(s.ctx, store.Settlement{
				Reports: []store.Report{s.awaiting(o, s.paid(0, ""))},
			})
			s.ok(err)
			s.want("where to look", settled.Look,
				[]store.Address{{Task: o.ID(), Name: "paid"}})
			s.want("there", s.looks(9, settled.Look...), "ended 1 wakes q")
			s.want("the one that came first",
				string(wokeBy(s.takeOnly(a, o.ID()).Loaded).Payload), "2")
		}},
		{"ATimeThatIsOverEndsAWait", func(s *scene) {
			a := s.join("a")
			until := s.clock.Micros() + 10e6
			plain, other := s.blocked(a, s.paid(until, "")), s.blocked(a, s.paid(until+5e6, "remind"))
			s.want("what it waits for", *s.view(other).Awaits, task.Awaits{
				Signal: "paid", Until: instant(until + 5e6), Else: "remind",
			})
			s.clock.Advance(10*time.Second - time.Microsecond)
			s.want("before it", s.looks(9), fmt.Sprint("ended 0 next ", until))
			s.clock.Advance(time.Microsecond)
			s.want("then", s.looks(9), fmt.Sprint("ended 1 wakes q next ", until+5e6))
			s.clock.Advance(5 * time.Second)
			s.want("the other", s.looks(9), "ended 1 wakes q")
			s.want("looks", s.looks(9), "ended 0")
			a = s.join("a")
			for id, stage := range map[task.ID]string{plain: "second", other: "remind"} {
				o := s.takeOnly(a, id)
				s.want("its stage", o.Stage, stage)
				s.want("what woke it", wokeBy(o.Loaded), store.Woken{
					Signal: "paid", TimedOut: true,
				})
			}
			s.want("a late signal", s.signals(plain, "paid", "1", "1"), "")
		}},
		{"ASignalThatCameInTimeEndsTheWaitHoweverLateOneLooks", func(s *scene) {
			a := s.join("a")
			const many, told = 1100, 3 // more than one look takes changes
			until := s.clock.Micros() + 10e6
			ids := s.put(many)
			for _, id := range ids[many-told:] {
				s.want("early", s.signals(id, "paid", "1", "1"), "")
			}
			var set store.Settlement
			for _, sp := range s.take(a, many) {
				for _, l := range sp.Tasks {
					o := caller.Handout{Span: sp.Span, Loaded: l}
					set.Reports = append(set.Reports, s.awaiting(o, s.paid(until, "late")))
				}
			}
			_, err := s.Settle(s.ctx, set) // and nobody looks
			s.ok(err)
			s.clock.Advance(time.Minute)
			ended := 0
			for more := true; more; {
				l, err := s.Look(s.ctx, store.LookRequest{Limit: 2 * many})
				s.ok(err)
				ended, more = ended+l.Ended, l.More
			}
			s.want("waits that ended", ended, many)
			s.want("stage of one that was told nothing", s.view(ids[0]).Stage, "late")
			for _, id := range ids[many-told:] {
				s.want("stage of one that was told", s.view(id).Stage, "second")
			}
		}},
		{"ASignalByKeyFindsWhoWaitsForIt", func(s *scene) {
			a := s.join("a")
			order := func(key string) store.Await {
				return store.Await{Address: store.Address{Name: "paid", Key: key}}
			}
			first := s.blocked(a, order("7 x"))
			s.want("what it waits for", *s.view(first).Awaits,
				task.Awaits{Signal: "paid", Key: "7 x"})
			s.clock.Advance(time.Second)
			second := s.blocked(a, order("7 x"))
			s.want("another key", s.sends("paid", "7", time.Hour), "")
			s.want("the key", s.sends("paid", "7 x", time.Hour), "delivered wakes q")
			s.wantState(first, task.Ready)
			s.want("the same once more", s.sends("paid", "7 x", time.Hour), "repeated delivered")
			s.wantState(second, task.Blocked)
			s.clock.Advance(time.Hour)
			s.want("when its time is over", s.sends("paid", "7 x", time.Hour), "delivered wakes q")
			s.wantState(second, task.Ready)
			s.want("kept", s.sends("paid", "8", time.Hour), "")
			s.clock.Advance(time.Hour)
			a = s.join("a")
			third := s.blocked(a, order("8"))
			s.want("for so long", s.looks(9), "ended 0")
			n, err := s.Prune(s.ctx, 1)
			s.ok(err)
			s.want("pruned", n, 1)
			s.prune()
			s.want("again", s.sends("paid", "8", time.Hour), "delivered wakes q")
			s.wantState(third, task.Ready)
		}},
		{"WhatEndsABlockedTaskEndsItsWait", func(s *scene) {
			a := s.join("a")
			gone := s.blocked(a, s.paid(0, ""))
			s.want("run now", s.act(task.KindMoved, gone),
				store.Acted{ID: gone, Queue: "q", Found: true, Was: task.Blocked})
			s.changed(task.KindCancelled, gone)
			s.want("a signal to one that is over", s.signals(gone, "paid", "1", "1"), "final")
			s.want("counts", s.counts(), task.Counts{Cancelled: 1})
			s.want("replay", s.replay(gone, store.Replay{}).Changed, true)
			s.wantState(gone, task.Ready)
			s.want("a signal to one that waits no longer", s.signals(gone, "paid", "1", "1"), "")
			s.want("what it waits for", s.view(gone).Awaits == nil, true)
			s.want("it stands", s.signals(gone, "paid", "1", "1"), "repeated")
			s.changed(task.KindCancelled, gone)
			removed := s.blocked(a, s.paid(0, ""))
			s.changed(task.KindRemoved, removed)
			s.want("a signal to one that is removed", s.signals(removed, "paid", "1", "1"), "none")
			s.want("looks", s.looks(9), "ended 0")
			s.want("counts", s.counts(), task.Counts{Cancelled: 1})
			left := s.blocked(a, s.paid(s.clock.Micros()+1e6, ""))
			s.ok(s.DeleteQueue(s.ctx, "q", true))
			s.clock.Advance(time.Second)
			s.want("a signal to one that is deleted", s.signals(left, "paid", "1", "1"), "none")
			s.want("looks", s.looks(9), "ended 0")
		}},
		{"AnEditLeavesATaskWaiting", func(s *scene) {
			a := s.join("a")
			id := s.blocked(a, s.paid(0, ""))
			at := s.clock.Micros()
			s.edited(a, id, store.Edit{Context: new(store.Value("5")), Priority: new(int64(2e6))})
			s.wantState(id, task.Blocked)
			v := s.view(id)
			s.want("what it is",
				[]any{v.Awaits.Signal, v.Priority, string(v.Context), v.Due.IsZero()},
				[]any{"paid", 2 * time.Second, "5", true})
			s.edited(a, id, store.Edit{Due: new(at + 60e6)})
			s.wantState(id, task.Blocked)
			s.want("counts", s.counts(), task.Counts{Blocked: 1})
			s.want("a signal", s.signals(id, "paid", "1", "1"), "delivered wakes q")
			s.wantState(id, task.Waiting)
			s.want("when it is due", s.view(id).Due.UnixMicro(), at+60e6)
			s.want("steps", s.stepsOf(id), []string{
				"next w []", "edited somebody [priority, context]", "edited somebody [due]",
				"woken ann []",
			})
			s.clock.Advance(time.Minute)
			a = s.join("a")
			o := s.takeOnly(a, id)
			s.want("its span", []any{o.Span.Due, o.Span.Rank}, []any{at + 60e6, at + 58e6})
			s.want("what woke it", wokeBy(o.Loaded).Signal, "paid")
		}},
		{"WhatWokeATaskIsToldUntilItGoesOn", func(s *scene) {
			a := s.join("a")
			bad := errors.New("no")
			id := s.blocked(a, s.paid(0, ""))
			s.signals(id, "paid", "1", "1")
			o := s.takeOnly(a, id)
			s.recorded(o.Report(s.clock, task.Retry(bad)))
			s.clock.Advance(time.Second)
			o = s.heldBy(a, id)
			s.want("a second attempt", wokeBy(o.Loaded).Signal, "paid")
			s.want("where it stands", wokeBy(s.stand(id).Loaded).Signal, "paid")
			s.recorded(o.Report(s.clock, task.RetryAfter(time.Hour, bad)))
			s.changed(task.KindMoved, id)
			o = s.takeOnly(a, id)
			s.want("one that was moved twice", wokeBy(o.Loaded).Signal, "paid")
			s.edited(a, id, store.Edit{Priority: new(int64(1))})
			o = s.takeOnly(a, id)
			s.want("one that was edited", wokeBy(o.Loaded).Signal, "paid")
			s.recorded(o.Report(s.clock, task.Fail(bad)))
			s.replay(id, store.Replay{})
			o = s.takeOnly(a, id)
			s.want("one that was replayed", o.Woken == nil, true)
			s.recorded(s.awaiting(o, s.paid(0, "")))
			s.signals(id, "paid", "2", "2")
			o = s.takeOnly(a, id)
			s.want("the second wait", string(wokeBy(o.Loaded).Payload), "2")
			s.recorded(o.Report(s.clock, task.Next("third", nil)))
			s.want("the next stage", s.heldBy(a, id).Woken == nil, true)
		}},
		{"ARepeatedReportWaitsOnce", func(s *scene) {
			a := s.join("a")
			s.put(1)
			o := s.takeOne(a)
			r := s.awaiting(o, s.paid(0, ""))
			s.want("twice in one call", s.settle(r, r),
				[]task.Status{task.Recorded, task.Repeated})
			s.want("a signal", s.signals(o.ID(), "paid", "1", "1"), "delivered wakes q")
			s.want("again", s.settle(r), []task.Status{task.Repeated})
			stale := r
			stale.Token.Seq++
			s.want("with a token that is none", s.settle(stale), []task.Status{task.Stale})
			s.want("looks", s.looks(9), "ended 0")
			s.wantState(o.ID(), task.Ready)
		}},
		{"LooksAreBounded", func(s *scene) {
			a := s.join("a")
			until := s.clock.Micros() + 1e6
			for range 5 {
				s.blocked(a, s.paid(until, ""))
			}
			for range 3 {
				s.blocked(a, store.Await{Address: store.Address{Name: "go", Key: "k"}})
			}
			s.clock.Advance(time.Second)
			s.want("a look", s.looks(2), fmt.Sprint("ended 2 wakes q more next ", until))
			s.want("the next one", s.looks(3), "ended 3 wakes q")
			s.want("the last one", s.looks(3), "ended 0")
			s.want("counts", s.counts(), task.Counts{Ready: 5, Blocked: 3})
		}},
		{"AKeyInOrderWaitsForABlockedTask", func(s *scene) {
			a := s.join("a")
			s.limitKeys(0, task.KeyLimits{MaxRunning: 1})
			s.putKeys("x", "x")
			outs := s.byKey(a, 9, false, nil)
			s.want("first", s.begin(a, outs...), []store.Beginning{store.Begins, store.HeldBack})
			s.recorded(s.awaiting(outs[0], s.paid(0, "")))
			s.want("while it waits", s.begin(a, outs[1]), []store.Beginning{store.HeldBack})
			s.want("owners", s.owners("x"), "x 0")
			s.putKeys("x")
			got := s.byKeyOnce(a, store.ByKey{}, 9)
			s.want("taken, and when to look again", []any{len(got.Spans), got.NextDue},
				[]any{0, int64(0)})
			s.want("a signal", s.signals(outs[0].ID(), "paid", "1", "1"), "delivered wakes q")
			again := s.byKey(a, 1, false, nil)
			s.want("then it is taken", again[0].ID(), outs[0].ID())
			s.want("it begins", s.begin(a, outs[1], again[0]),
				[]store.Beginning{store.HeldBack, store.Begins})
			s.recorded(again[0].Report(s.clock, task.Finish(nil)))
			s.want("then the next one", s.begin(a, outs[1]), []store.Beginning{store.Begins})
		}},
		{"OfManyWhoSignalAndCancelOneEndsTheWait", func(s *scene) {
			a := s.join("a")
			for round := range 20 {
				id := s.blocked(a, s.paid(0, ""))
				s.atOnce(8, func(i int) error {
					var err error
					switch i % 4 {
					case 0:
						_, err = s.Act(s.ctx, []store.Action{{ID: id, Kind: task.KindCancelled}})
					case 1:
						_, err = s.Look(s.ctx, store.LookRequest{Limit: 9})
					default:
						_, err = s.Signal(s.ctx, store.Signal{
							To: store.Address{Task: id, Name: "paid"}, Key: fmt.Sprint(i),
						})
					}
					return err
				})
				steps := s.stepsOf(id)
				woken := 0
				for _, k := range steps {
					if strings.HasPrefix(k, "woken") {
						woken++
					}
				}
				if v := s.view(id); woken > 1 || v.State != task.Cancelled || v.Awaits != nil {
					s.fail("round %d: %s after %v, awaits %+v", round, v.State, steps, v.Awaits)
				}
			}
			s.want("looks", s.looks(9), "ended 0")
		}},
	}
}

// paid is the wait for a signal to the task itself. [scene.awaiting] puts in which task that is.
func (s *scene) paid(until int64, otherwise string) store.Await {
	return store.Await{Address: store.Address{Name: "paid"}, Until: until, Else: otherwise}
}

// awaiting makes a report after which a task waits.
func (s *scene) awaiting(o caller.Handout, w store.Await) store.Report {
	r := o.Report(s.clock, task.Next("second", `on`))
	if w.Address.Key == "" {
		w.Address.Task = o.ID()
	}
	r.Await, r.Move, r.Step.Base = &w, store.Parked(), o.Seq+1
	return r
}

// blocked makes a task that waits.
func (s *scene) blocked(h store.Holder, w store.Await) task.ID {
	id := s.put(1)[0]
	s.recorded(s.awaiting(s.takeOnly(h, id), w))
	return id
}

// wokeBy is what woke a task; zero = nothing.
func wokeBy(l store.Loaded) store.Woken {
	if l.Woken == nil {
		return store.Woken{}
	}
	return *l.Woken
}

// signals sends one to a task, and tells what came of it.
func (s *scene) signals(id task.ID, name, key, payload string) string {
	return s.sent(store.Signal{
		To: store.Address{Task: id, Name: name}, Key: key, Payload: store.Value(payload), By: "ann",
	})
}

// sends sends a signal by name and key, and tells what came of it.
func (s *scene) sends(name, key string, keep time.Duration) string {
	return s.sent(store.Signal{
		To: store.Address{Name: name, Key: key}, Payload: store.Value("1"), By: "ann",
		Keep: keep.Microseconds(),
	})
}

func (s *scene) sent(sig store.Signal) string {
	got, err := s.Signal(s.ctx, sig)
	s.ok(err)
	var told []string
	for _, is := range []struct {
		so   bool
		word string
	}{
		{!got.Found, "none"}, {got.Final, "final"}, {got.Full, "full"}, {got.Repeated, "repeated"},
		{got.Delivered, "delivered"},
	} {
		if is.so {
			told = append(told, is.word)
		}
	}
	return strings.Join(append(told, wakes(got.Ready)...), " ")
}

// looks looks at addresses, or at all, and tells what came of it.
func (s *scene) looks(limit int, at ...store.Address) string {
	got, err := s.Look(s.ctx, store.LookRequest{Addresses: at, Limit: limit})
	s.ok(err)
	told := append([]string{fmt.Sprint("ended ", got.Ended)}, wakes(got.Ready)...)
	if got.More {
		told = append(told, "more")
	}
	if got.NextUntil != 0 {
		told = append(told, fmt.Sprint("next ", got.NextUntil))
	}
	return strings.Join(told, " ")
}

func wakes(list []store.Ready) (told []string) {
	for _, r := range list {
		told = append(told, "wakes "+r.Queue)
	}
	return told
}

// fullClaims are about what a task may have at most. They make as much as that, and depend on no
// plan.
func fullClaims() []claim {
	return []claim{
		{"OpenSignalsOfATaskAreBounded", func(s *scene) {
			a := s.join("a")
			other := s.blocked(a, s.paid(0, ""))
			full := s.blocked(a, store.Await{Address: store.Address{Name: "x"}})
			s.want("one that is used", s.signals(full, "x", "used", "1"), "delivered wakes q")
			for i := range store.MaxOpenSignals {
				s.want("a signal", s.signals(full, "x", fmt.Sprint(i), "1"), "")
			}
			s.want("one too many", s.signals(full, "x", "more", "1"), "full")
			s.want("one that stands", s.signals(full, "x", "3", "1"), "repeated")
			s.want("one to another task", s.signals(other, "x", "more", "1"), "")
		}},
	}
}
