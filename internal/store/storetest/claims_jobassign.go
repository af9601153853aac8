package storetest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// assignClaims is what holds for Assign.
func assignClaims() []claim {
	return []claim{
		{"AnAssignWithoutItsClaimChangesNothing", func(s *scene) {
			s.jobScene()
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1"}}})
			before := s.mirror("g").Known()
			for what, claim := range s.badClaims("group/g") {
				got, err := s.Assign(s.ctx, store.Assign{
					Group: "g", Claim: claim, Start: []store.Place{{Job: "b", Worker: "w1"}},
					Drop: []store.Place{s.site("a", "w1")},
				})
				s.ok(err)
				s.want(what, got, store.Assigned{
					Now: s.clock.Micros(), ClaimGone: true, Version: 3,
				})
				s.want(what, s.mirror("g").Known(), before)
			}
		}},
		{"AStartedReplicaIsAsItWasAsked", func(s *scene) {
			s.jobScene()
			got := s.assign(store.Assign{
				Start: []store.Place{{Job: "a", Replica: 1, Worker: "w1", Load: 1500}},
			})
			s.want("answer", got, store.Assigned{Now: s.clock.Micros(), Version: 3})
			s.want("assignment", s.placed("a", "w1"), store.Assignment{
				Group: "g", Job: "a", Replica: 1, Worker: "w1", Token: 3, State: task.JobStarting,
				Load: 1500, Since: s.clock.Micros(), Version: 3,
			})
			s.want("used", s.seat("w1").Used, task.Units(1500))
		}},
		{"AGroupAJobAndAWorkerMayHaveOneName", func(s *scene) {
			h := s.jobScene()
			s.sit(h, "g", 1000)
			s.change(store.JobChange{Group: "g", Put: loads("g", 0)})
			s.want("refused",
				s.assign(store.Assign{Start: []store.Place{{Job: "g", Worker: "g",
					Load: 1000}}}).Refused, []store.Refused(nil))
			s.says(h, "g", "g", task.JobRunning)
			s.want("state", s.placed("g", "g").State, task.JobRunning)
			s.ok(s.DeleteSeat(s.ctx, "g"))
			s.want("state", s.placed("g", "g").State, store.Ended)
		}},
		{"StartsThatCanNotBeAreRefusedOneByOne", func(s *scene) {
			h := s.jobScene()
			s.sit(h, "left", 9000)
			s.sit(h, "silent", 9000)
			s.away(h, "left", store.SeatLeft)
			s.away(h, "silent", store.SeatSilent)
			s.change(store.JobChange{Group: "g", Remove: []string{"c"}})
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 9000}}})
			good := store.Place{Job: "b", Worker: "w1", Load: 1000}
			bad := []store.Place{
				{Job: "b", Replica: 1, Worker: "left"}, {Job: "b", Replica: 1, Worker: "silent"},
				{Job: "b", Replica: 1, Worker: "nobody"},
				{Job: "c", Worker: "w2"}, {Job: "none", Worker: "w2"},
				{Job: "b", Replica: 1, Worker: "w2", Load: 10_001},
				{Job: "b", Replica: 1, Worker: "w1"},
				{Job: "a", Replica: 1, Worker: "w1"}, {Job: "a", Worker: "w2"},
				{Job: "b", Worker: "w2"},
			}
			got := s.assign(store.Assign{Start: append([]store.Place{good}, bad...)})
			var refused []store.Place
			for _, r := range got.Refused {
				if refused = append(refused, r.Place); r.Reason == "" {
					s.fail("%+v is refused without a reason", r.Place)
				}
			}
			sortPlaces(refused)
			sortPlaces(bad)
			s.want("refused", refused, bad)
			s.want("started", s.placed("b", "w1").State, task.JobStarting)
			s.want("used", []task.Units{s.seat("w1").Used, s.seat("w2").Used},
				[]task.Units{10_000, 0})
			version := s.groups()[0].Version
			s.want("version, when all is refused", s.assign(store.Assign{Start: bad}).Version,
				version)
		}},
		{"AWorkerIsNeverAboveItsCapacityWhoeverAssigns", func(s *scene) { s.showCapacity(4, 12) }},
		{"LoweredCapacityStartsNothingNew", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 6000}}})
			s.sit(h, "w1", 5000)
			s.want("used", s.seat("w1").Used, task.Units(6000))
			s.want("refused",
				len(s.assign(store.Assign{Start: []store.Place{{Job: "b", Worker: "w1",
					Load: 1}}}).Refused), 1)
			s.drop(h, s.site("a", "w1"))
			s.sit(h, "w1", 5000)
			s.assign(store.Assign{Start: []store.Place{{Job: "b", Worker: "w1", Load: 5000}}})
			s.want("used", s.seat("w1").Used, task.Units(5000))
		}},
		{"ALaterAssignmentHasAGreaterToken", func(s *scene) {
			h := s.jobScene()
			last := int64(0)
			for i := range 6 {
				s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1"}}})
				a := s.placed("a", "w1")
				if a.Token <= last {
					s.fail("token %d after %d", a.Token, last)
				}
				switch last = a.Token; i % 3 {
				case 0:
					s.drop(h, s.site("a", "w1"))
					s.sit(h, "w1", 10_000)
				case 1:
					s.says(h, "a", "w1", store.Ended)
				case 2:
					s.drop(h, s.site("a", "w1"))
					s.clock.Advance(store.EndedKept) // nothing is left of it
					s.prune()
					h = s.join("a")
					s.sit(h, "w1", 10_000)
				}
			}
		}},
		{"EndingTakesCapacityUntilItIsOver", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 9000}}})
			s.clock.Advance(time.Second)
			s.assign(store.Assign{End: []store.Place{s.site("a", "w1")}})
			a := s.placed("a", "w1")
			s.want("state, since", []any{a.State, a.Since}, []any{task.JobEnding, s.clock.Micros()})
			s.want("refused",
				len(s.assign(store.Assign{Start: []store.Place{{Job: "b", Worker: "w1",
					Load: 9000}}}).Refused), 1)
			s.want("the replica may start elsewhere",
				len(s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w2"}}}).Refused),
				0)
			s.says(h, "a", "w1", store.Ended)
			s.want("used", s.seat("w1").Used, task.Units(0))
			a = s.placed("a", "w1")
			s.want("state, version", []any{a.State, a.Version},
				[]any{store.Ended, s.groups()[0].Version})
			s.want("refused",
				len(s.assign(store.Assign{Start: []store.Place{{Job: "b", Worker: "w1",
					Load: 9000}}}).Refused), 0)
		}},
		{"EndAndDropNeedTheToken", func(s *scene) {
			h := s.jobScene()
			s.assign(store.Assign{
				Start: []store.Place{
					{Job: "a", Worker: "w1", Load: 10}, {Job: "b", Worker: "w1", Load: 10},
				},
			})
			a, b := s.site("a", "w1"), s.site("b", "w1")
			s.away(h, "w1", store.SeatSilent)
			a.Token++
			b.Token--
			none := store.Place{Job: "none", Worker: "w1", Token: 3}
			before := s.groups()[0].Version
			for range 2 {
				s.want("answer",
					s.assign(store.Assign{End: []store.Place{a, none},
						Drop: []store.Place{b, none}}).Version, before)
				a, b = b, a
			}
			a.Token, b.Token = 3, 3
			s.assign(store.Assign{Drop: []store.Place{a, b, b}})
			before = s.groups()[0].Version
			s.want("used", s.seat("w1").Used, task.Units(0))
			s.want("what is over is not ended again",
				s.assign(store.Assign{End: []store.Place{a}, Drop: []store.Place{a}}).Version,
				before)
			s.want("used", s.seat("w1").Used, task.Units(0))
		}},
		{"WhatAWorkerThatCameBackRunsIsNotDropped", func(s *scene) {
			h, other := s.jobScene(), s.join("b")
			for _, gone := range []store.SeatState{
				store.SeatSilent, store.SeatLeft, store.SeatOrphan,
			} {
				s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 100}}})
				if at := s.site("a", "w1"); gone == store.SeatOrphan {
					s.ok(s.End(s.ctx, store.MembershipOf("a"), h.Token, true))
					_, err := s.Free(s.ctx, other, math.MaxInt64)
					s.ok(err)
					s.want("its seat", s.seat("w1").State, gone)
					s.sit(other, "w1", 10_000)
					s.showKept(at)
				} else {
					s.away(h, "w1", gone)
					s.sit(h, "w1", 10_000)
					s.showKept(at)
					s.drop(h, at)
					s.want("what is dropped while it is "+string(gone), s.placed("a", "w1").State,
						store.Ended)
					s.sit(h, "w1", 10_000)
				}
			}
		}},
		{"AnAssignSaidTwiceDoesNothingTwice", func(s *scene) {
			h := s.jobScene()
			s.sit(h, "w3", 10_000)
			s.assign(store.Assign{
				Start: []store.Place{
					{Job: "a", Worker: "w1", Load: 100}, {Job: "b", Worker: "w1", Load: 100},
					{Job: "c", Worker: "w3"},
				},
			})
			s.away(h, "w3", store.SeatLeft)
			a := store.Assign{
				Start: []store.Place{{Job: "b", Replica: 1, Worker: "w2", Load: 100}},
				Move:  []store.Place{{Job: "a", Worker: "w2", From: "w1", Load: 100}},
				End:   []store.Place{s.site("b", "w1")}, Drop: []store.Place{s.site("c", "w3")},
			}
			s.assign(a)
			before := s.mirror("g").Known()
			s.want("refused", len(s.assign(a).Refused), 2)
			s.want("what stands", s.mirror("g").Known(), before)
			s.want("used", []task.Units{s.seat("w1").Used, s.seat("w2").Used},
				[]task.Units{200, 200})
		}},
		{"AMovingReplicaGoesOnUntilItsSuccessorRuns", func(s *scene) {
			h := s.jobScene()
			s.startMove()
			old, next := s.placed("a", "w1"), s.placed("a", "w2")
			s.want("states", []task.JobState{old.State, next.State},
				[]task.JobState{task.JobMoving, task.JobStarting})
			s.want("replicas", []int{old.Replica, next.Replica}, []int{1, 1})
			s.want("used", []task.Units{s.seat("w1").Used, s.seat("w2").Used},
				[]task.Units{100, 100})
			s.says(h, "a", "w2", task.JobRunning)
			s.want("state of the old one", s.placed("a", "w1").State, task.JobMoving)
			s.assign(store.Assign{End: []store.Place{s.site("a", "w1")}})
			s.says(h, "a", "w1", store.Ended)
			s.want("state of the new one", s.placed("a", "w2").State, task.JobRunning)
		}},
		{"AMovingReplicaStaysWhenItsSuccessorFallsAway", func(s *scene) {
			for what, fall := range map[string]func(h store.Holder){
				"is ended": func(store.Holder) {
					s.assign(store.Assign{End: []store.Place{s.site("a", "w2")}})
				},
				"is dropped":       func(h store.Holder) { s.drop(h, s.site("a", "w2")) },
				"ends by itself":   func(h store.Holder) { s.says(h, "a", "w2", store.Ended) },
				"loses its worker": func(store.Holder) { s.ok(s.DeleteSeat(s.ctx, "w2")) },
				"fails and is ended": func(h store.Holder) {
					s.says(h, "a", "w2", task.JobFailed)
					s.assign(store.Assign{End: []store.Place{s.site("a", "w2")}})
				},
			} {
				h := s.jobScene()
				s.startMove()
				s.clock.Advance(time.Second)
				fall(h)
				old := s.placed("a", "w1")
				s.want(what, []any{old.State, old.Since, old.Version},
					[]any{task.JobRunning, s.clock.Micros(), s.groups()[0].Version})
				s.ok(s.DeleteGroup(s.ctx, "g", true))
			}
		}},
		{"MovesThatCanNotBeAreRefused", func(s *scene) {
			h := s.jobScene()
			s.sit(h, "w3", 1)
			s.startMove()
			s.assign(store.Assign{
				Start: []store.Place{
					{Job: "b", Worker: "w1"}, {Job: "b", Replica: 1, Worker: "w2"},
					{Job: "c", Worker: "w1", Load: 2},
				},
			})
			s.assign(store.Assign{End: []store.Place{s.site("b", "w2")}})
			bad := []store.Place{
				// it is moving
				{Job: "a", Replica: 1, From: "w2", Worker: "w3"},
				{Job: "a", Replica: 1, From: "w1", Worker: "w3"},
				{Job: "b", Replica: 1, From: "w2", Worker: "w3"}, // it is ending
				{Job: "b", Replica: 1, From: "w1", Worker: "w3"}, // another replica
				{Job: "b", From: "w3", Worker: "w2"},             // it is elsewhere
				{Job: "b", From: "w1", Worker: "w2"},             // has one
				{Job: "b", From: "w1", Worker: "w1"},             // the same
				{Job: "b", From: "w1", Worker: "none"},           // no such worker
				{Job: "c", From: "w1", Worker: "w3", Load: 2},    // no room
				{Job: "none", From: "w1", Worker: "w3"},          // no such job
			}
			before := s.mirror("g").Known()
			got := s.assign(store.Assign{Move: bad})
			s.want("refused", len(got.Refused), len(bad))
			s.want("what stands", s.mirror("g").Known(), before)
		}},
	}
}

// startMove lets replica 1 of job a run at w1 and begin to move to w2.
func (s *scene) startMove() {
	s.assign(store.Assign{Start: []store.Place{{Job: "a", Replica: 1, Worker: "w1", Load: 100}}})
	got := s.assign(store.Assign{
		Move: []store.Place{{Job: "a", Replica: 1, Worker: "w2", From: "w1", Load: 100}},
	})
	s.want("refused moves", len(got.Refused), 0)
}

// drop drops assignments of workers that beat at a node and fall silent.
func (s *scene) drop(h store.Holder, places ...store.Place) {
	for _, p := range places {
		s.away(h, p.Worker, store.SeatSilent)
	}
	s.want("refused drops", s.assign(store.Assign{Drop: places}).Refused, []store.Refused(nil))
}

// showKept lets a supervisor drop an assignment of a worker that is there.
func (s *scene) showKept(at store.Place) {
	before := s.mirror("g").Known()
	got := s.assign(store.Assign{
		Drop: []store.Place{at}, Start: []store.Place{{Job: at.Job, Worker: "w2"}},
	})
	if len(got.Refused) != 2 || got.Refused[0].Place != at || got.Refused[0].Reason == "" {
		s.fail("a drop of what runs is answered with %+v", got.Refused)
	}
	s.want("what stands", s.mirror("g").Known(), before)
	s.want("used", s.seat(at.Worker).Used, task.Units(100))
}

// showCapacity lets the supervisors of several groups want more of two workers than these have, at
// once.
func (s *scene) showCapacity(groups, jobs int) {
	h := s.jobScene()
	var claims []store.Lease
	for i := range groups {
		name := fmt.Sprint("g", i)
		s.group(name, 2)
		var put []task.Job
		for j := range jobs {
			put = append(put, task.Job{Name: fmt.Sprint(j)})
		}
		s.change(store.JobChange{Group: name, Put: put})
		claims = append(claims, s.claim("group/"+name, "a"))
	}
	errs := make([]error, groups)
	var crowd sync.WaitGroup
	for i := range groups {
		crowd.Go(func() {
			for j := range jobs {
				at := []string{"w1", "w2"}
				if (i+j)%2 == 1 {
					slices.Reverse(at)
				}
				_, err := s.Assign(s.ctx,
					store.Assign{Group: fmt.Sprint("g", i), Claim: claims[i], Start: []store.Place{
						{Job: fmt.Sprint(j), Worker: at[0], Load: 1000},
						{Job: fmt.Sprint(j), Replica: 1, Worker: at[1], Load: 1000},
					}})
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	crowd.Wait()
	for _, err := range errs {
		s.ok(err)
	}
	loads := map[string]task.Units{}
	for i := range groups {
		for _, a := range s.changes(fmt.Sprint("g", i), 0).Assignments {
			loads[a.Worker] += a.Load
		}
	}
	for _, w := range []string{"w1", "w2"} {
		s.want("used of "+w, s.seat(w).Used, task.Units(10_000))
		s.want("assigned to "+w, loads[w], task.Units(10_000))
	}
	s.sit(h, "w1", 10_000)
}

// jobScene makes group g with two replicas of the jobs a, b and c, and the workers w1 and w2 with
// ten units each at node a, to which it lets s.assign have the claim.
func (s *scene) jobScene() store.Holder {
	h := s.join("a")
	s.group("g", 2)
	s.change(store.JobChange{Group: "g", Put: loads("a", 1000, "b", 1000, "c", 1000)})
	s.sit(h, "w1", 10_000)
	s.sit(h, "w2", 10_000)
	return h
}

// assign assigns in group g, by a claim of node a unless a has one.
func (s *scene) assign(a store.Assign) store.Assigned {
	if a.Group = "g"; a.Claim.Name == "" {
		a.Claim = s.claim("group/g", "a")
	}
	got, err := s.Assign(s.ctx, a)
	s.ok(err)
	s.want("claim is gone", got.ClaimGone, false)
	return got
}

// placed is the assignment of a job to a worker, also one that has just ended.
func (s *scene) placed(job, worker string) store.Assignment {
	whole := s.changes("g", 0)
	for _, a := range append(whole.Assignments, s.changes("g", whole.Version-1).Assignments...) {
		if a.Job == job && a.Worker == worker {
			return a
		}
	}
	s.fail("job %s has never been at %s", job, worker)
	panic("unreachable")
}

// site names an assignment as End and Drop do.
func (s *scene) site(job, worker string) store.Place {
	return store.Place{Job: job, Worker: worker, Token: s.placed(job, worker).Token}
}

func sortPlaces(list []store.Place) {
	slices.SortFunc(list, func(a, b store.Place) int { return caller.CompareText(a, b) })
}
