package storetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// observeClaims is what holds for Observe.
func observeClaims() []claim {
	return []claim{
		{"WhatAWorkerSaysIsWrittenDown", func(s *scene) {
			const starting, running, failed, moving, ending = task.JobStarting, task.JobRunning,
				task.JobFailed, task.JobMoving, task.JobEnding
			for _, c := range []struct{ was, said, is task.JobState }{
				{starting, running, running}, {starting, failed, failed},
				{starting, store.Ended, store.Ended}, {starting, starting, starting},
				{running, starting, starting}, {running, failed, failed},
				{running, store.Ended, store.Ended}, {running, moving, running},
				{failed, running, running}, {failed, starting, starting},
				{failed, store.Ended, store.Ended}, {failed, ending, failed},
				{moving, running, moving}, {moving, failed, moving},
				{moving, store.Ended, store.Ended},
				{ending, running, ending}, {ending, failed, ending},
				{ending, store.Ended, store.Ended}, {store.Ended, running, store.Ended},
			} {
				h := s.jobScene()
				s.bring(h, c.was)
				before := s.placed("a", "w1")
				s.clock.Advance(time.Second)
				want := before
				if want.State = c.is; c.is != c.was {
					want.Since, want.Version = s.clock.Micros(), before.Version+1
				}
				if c.is == failed && c.was != failed {
					want.Failed, want.Note = s.clock.Micros(), "why ☃"
				}
				s.observe(store.Observed{Holder: h, States: []store.Observation{
					{Group: "g", Job: "a", Worker: "w1", Token: before.Token, State: c.said,
						Note: "why ☃"},
				}})
				s.want(fmt.Sprintf("%s that is said to be %s", c.was, c.said), s.placed("a", "w1"),
					want)
				s.ok(s.DeleteGroup(s.ctx, "g", true))
			}
		}},
		{"AFailureIsRememberedBeyondTheEnd", func(s *scene) {
			h := s.jobScene()
			s.bring(h, task.JobFailed)
			at := s.placed("a", "w1").Failed
			s.clock.Advance(time.Second)
			s.says(h, "a", "w1", task.JobRunning)
			s.drop(h, s.site("a", "w1"))
			s.sit(h, "w1", 10_000)
			a := s.placed("a", "w1")
			s.want("state, failed, note", []any{a.State, a.Failed, a.Note},
				[]any{store.Ended, at, "it said so"})
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1"}}})
			a = s.placed("a", "w1")
			s.want("failed, note of the next", []any{a.Failed, a.Note}, []any{int64(0), ""})
		}},
		{"AQuietOneFailsUntilItGivesASign", func(s *scene) {
			h := s.jobScene()
			s.bring(h, task.JobRunning)
			say := func(state task.JobState, quiet bool) store.Assignment {
				s.clock.Advance(time.Second)
				token := s.placed("a", "w1").Token
				s.observe(store.Observed{Holder: h, States: []store.Observation{
					{Group: "g", Job: "a", Worker: "w1", Token: token, State: state,
						Note: "no sign", Quiet: quiet},
				}})
				return s.placed("a", "w1")
			}
			a := say(task.JobFailed, true)
			s.want("quiet", []any{a.State, a.Quiet, a.Failed, a.Note},
				[]any{task.JobFailed, true, s.clock.Micros(), "no sign"})
			s.want("said again", say(task.JobFailed, true), a)
			b := say(task.JobFailed, false)
			s.want("failed by returning", []any{b.State, b.Quiet, b.Failed},
				[]any{task.JobFailed, false, s.clock.Micros()})
			say(task.JobFailed, true)
			c := say(task.JobRunning, false)
			s.want("running again", []any{c.State, c.Quiet}, []any{task.JobRunning, false})
			say(task.JobFailed, true)
			s.sit(h, "w2", 10_000)
			s.assign(store.Assign{Move: []store.Place{{Job: "a", Worker: "w2", From: "w1"}}})
			d := s.placed("a", "w1")
			s.want("moving", []any{d.State, d.Quiet}, []any{task.JobMoving, false})
		}},
		{"WhatBeginsAnewHasANewToken", func(s *scene) {
			const starting, running, failed, moving, ending = task.JobStarting, task.JobRunning,
				task.JobFailed, task.JobMoving, task.JobEnding
			for was, renewed := range map[task.JobState]bool{starting: true, running: true,
				failed: true, moving: false, ending: false, store.Ended: false} {
				h := s.jobScene()
				s.bring(h, was)
				before := s.placed("a", "w1")
				s.clock.Advance(time.Second)
				anew := store.Observed{Holder: h, States: []store.Observation{
					{Group: "g", Job: "a", Worker: "w1", Token: before.Token, State: starting,
						Anew: true},
				}}
				s.observe(anew)
				want := before
				if renewed {
					want.State = starting
					want.Since = s.clock.Micros()
					want.Version = before.Version + 1
					want.Token = before.Version + 1
				}
				s.want(fmt.Sprintf("%s, and its worker begins anew", was), s.placed("a", "w1"),
					want)
				s.observe(anew)
				s.want("said once more", s.placed("a", "w1"), want)
				s.ok(s.DeleteGroup(s.ctx, "g", true))
			}
		}},
		{"WhatIsSaidInVainChangesNothing", func(s *scene) {
			h := s.jobScene()
			s.sit(s.join("b"), "w2", 10_000)
			s.assign(store.Assign{
				Start: []store.Place{
					{Job: "a", Worker: "w1"}, {Job: "a", Replica: 1, Worker: "w2"},
				},
			})
			good := store.Observation{
				Group: "g", Job: "a", Worker: "w1", Token: 3, State: task.JobRunning,
			}
			before := s.mirror("g").Known()
			for what, change := range map[string]func(*store.Observed){
				"a lease of another token": func(o *store.Observed) { o.Holder.Token++ },
				"no lease":                 func(o *store.Observed) { o.Holder.Node = "x" },
				"a worker that sits elsewhere": func(o *store.Observed) {
					o.States[0].Worker, o.States[0].Replica = "w2", 1
				},
				"no worker":     func(o *store.Observed) { o.States[0].Worker = "none" },
				"an old token":  func(o *store.Observed) { o.States[0].Token-- },
				"a later token": func(o *store.Observed) { o.States[0].Token++ },
				"no group":      func(o *store.Observed) { o.States[0].Group = "none" },
				"no job":        func(o *store.Observed) { o.States[0].Job = "none" },
				"no state":      func(o *store.Observed) { o.States[0].State = "" },
			} {
				o := store.Observed{Holder: h, States: []store.Observation{good}}
				change(&o)
				got := s.observe(o)
				s.want(what, got, store.Observing{Now: s.clock.Micros(), LeaseGone: o.Holder != h})
				s.want(what, s.mirror("g").Known(), before)
			}
			s.observe(store.Observed{Holder: h, States: []store.Observation{good, good}})
			version := s.groups()[0].Version
			s.observe(store.Observed{Holder: h, States: []store.Observation{good}})
			s.want("version after it was said again", s.groups()[0].Version, version)
			s.away(h, "w1", store.SeatSilent)
			good.State = task.JobFailed
			s.observe(store.Observed{Holder: h, States: []store.Observation{good}})
			s.want("state of a silent worker's", s.placed("a", "w1").State, task.JobRunning)
			s.clock.Advance(caller.LeaseTime)
			s.want("when the lease has expired", s.observe(store.Observed{Holder: h}).LeaseGone,
				true)
		}},
		{"ARunThatNoRowKnowsIsAdopted", func(s *scene) {
			h := s.jobScene()
			seen := store.Observation{
				Group: "g", Job: "a", Replica: 1, Worker: "w1", Token: 70, State: task.JobFailed,
				Load: 1500, Note: "x",
			}
			for range 2 {
				got := s.observe(store.Observed{Holder: h, Adopt: []store.Observation{seen}})
				s.want("refused", got.Refused, []store.Observation(nil))
				s.want("assignment", s.placed("a", "w1"), store.Assignment{
					Group: "g", Job: "a", Replica: 1, Worker: "w1", Token: 70,
					State: task.JobFailed, Load: 1500, Since: s.clock.Micros(),
					Failed: s.clock.Micros(), Note: "x", Version: 71,
				})
			}
			s.want("used", s.seat("w1").Used, task.Units(1500))
			s.assign(store.Assign{Start: []store.Place{{Job: "b", Worker: "w1"}}})
			s.want("the next token", s.placed("b", "w1").Token, int64(72))
			seen.Job, seen.Token = "c", 5
			s.observe(store.Observed{Holder: h, Adopt: []store.Observation{seen}})
			s.want("version of a run with an earlier token", s.placed("c", "w1").Version, int64(73))
			s.says(h, "c", "w1", task.JobRunning)
			s.want("its state", s.placed("c", "w1").State, task.JobRunning)
		}},
		{"RunsThatAreNotWantedAreNotAdopted", func(s *scene) {
			h := s.jobScene()
			s.sit(s.join("b"), "far", 10_000)
			s.assign(store.Assign{Start: []store.Place{
				{Job: "a", Worker: "w1", Load: 4000}, {Job: "b", Worker: "w1", Load: 4000},
				{Job: "b", Replica: 1, Worker: "w2"},
			}})
			s.drop(h, s.site("b", "w2"))
			s.sit(h, "w2", 10_000)
			s.change(store.JobChange{Group: "g", Put: loads("d", 0), Remove: []string{"c"}})
			before := s.mirror("g").Known()
			bad := []store.Observation{
				{Group: "none", Job: "a", Replica: 1, Worker: "w2", Token: 90,
					State: task.JobRunning},
				{Group: "g", Job: "none", Worker: "w2", Token: 90, State: task.JobRunning},
				{Group: "g", Job: "c", Worker: "w2", Token: 90, State: task.JobRunning},
				// its replica is elsewhere
				{Group: "g", Job: "a", Worker: "w2", Token: 90, State: task.JobRunning},
				// two replicas are wanted
				{Group: "g", Job: "d", Replica: 2, Worker: "w2", Token: 90, State: task.JobRunning},
				// none can be
				{Group: "g", Job: "d", Replica: -1, Worker: "w2", Token: 90,
					State: task.JobRunning},
				// it was ended
				{Group: "g", Job: "b", Replica: 1, Worker: "w2", Token: 3, State: task.JobRunning},
				// so was a later one
				{Group: "g", Job: "b", Replica: 1, Worker: "w2", Token: 2, State: task.JobRunning},
				// a worker with a replica of the job
				{Group: "g", Job: "a", Replica: 1, Worker: "w1", Token: 90, State: task.JobRunning},
				// no room
				{Group: "g", Job: "d", Worker: "w1", Token: 90, State: task.JobRunning, Load: 2001},
				// no token
				{Group: "g", Job: "d", Worker: "w1", Token: 0, State: task.JobRunning},
				// one that would end all versions
				{
					Group: "g", Job: "d", Worker: "w1", Token: math.MaxInt64/2 + 1,
					State: task.JobRunning,
				},
				// not a state of a run
				{Group: "g", Job: "d", Worker: "w1", Token: 90, State: task.JobEnding},
			}
			passed := []store.Observation{
				{Group: "g", Job: "d", Worker: "far", Token: 90, State: task.JobRunning},
				{Group: "g", Job: "d", Worker: "none", Token: 90, State: task.JobRunning},
			}
			got := s.observe(store.Observed{Holder: h,
				Adopt: append(slices.Clone(bad), passed...)}).Refused
			byText := func(a, b store.Observation) int { return caller.CompareText(a, b) }
			slices.SortFunc(got, byText)
			slices.SortFunc(bad, byText)
			s.want("refused", got, bad)
			s.want("what stands", s.mirror("g").Known(), before)
		}},
	}
}

// bring lets job a come to w1 and into a state.
func (s *scene) bring(h store.Holder, state task.JobState) {
	s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 1000}}})
	switch state {
	case task.JobRunning, task.JobFailed, store.Ended:
		s.says(h, "a", "w1", state)
	case task.JobMoving:
		s.assign(store.Assign{Move: []store.Place{{Job: "a", Worker: "w2", From: "w1"}}})
	case task.JobEnding:
		s.assign(store.Assign{End: []store.Place{s.site("a", "w1")}})
	}
}

func (s *scene) observe(o store.Observed) store.Observing {
	got, err := s.Observe(s.ctx, o)
	s.ok(err)
	return got
}

// says lets a worker say of job a how it is.
func (s *scene) says(h store.Holder, job, worker string, state task.JobState) {
	s.observe(store.Observed{Holder: h, States: []store.Observation{
		{Group: "g", Job: job, Worker: worker, Token: s.placed(job, worker).Token, State: state,
			Note: "it said so"},
	}})
}
