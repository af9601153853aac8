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

// seatClaims is what holds for the seats of workers.
func seatClaims() []claim {
	return []claim{
		{"AWorkerSitsWhereItBeats", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			joined := s.clock.Micros()
			w := store.Seat{
				Worker: "w", Incarnation: "1", Capacity: 1500,
				Labels: map[string]string{"☃": "", "k": "v"}, Zone: "z", Groups: []string{"g", "h"},
				Draining: true, Silence: 7 * time.Second,
			}
			want := w
			want.Node, want.State, want.Since, want.Joined = a, store.SeatTaken, joined, joined
			s.seats(store.SeatRequest{Holder: a, Taken: []store.Seat{w}})
			s.want("seat", s.seat("w"), want)
			s.clock.Advance(time.Second)
			w.Capacity, w.Labels, w.Zone, w.Groups, w.Draining = 0, nil, "", nil, false
			w.Silence = 0
			want.Capacity = 0
			want.Labels = nil
			want.Zone = ""
			want.Groups = nil
			want.Draining = false
			want.Silence = 0
			want.Node = b
			s.seats(store.SeatRequest{Holder: b, Taken: []store.Seat{w}})
			s.want("seat at another node", s.seat("w"), want)
			s.away(b, "w", store.SeatLeft)
			want.State, want.Since = store.SeatLeft, s.clock.Micros()
			s.want("seat of one that left", s.seat("w"), want)
			s.clock.Advance(time.Second)
			s.seats(store.SeatRequest{Holder: b, Taken: []store.Seat{w}})
			want.State, want.Since = store.SeatTaken, s.clock.Micros()
			s.want("seat of one that came back", s.seat("w"), want)
		}},
		{"ASeatSaysUntilWhenItsNodeBeforeMayAnswer", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			start := s.clock.Micros()
			take := func(h store.Holder, overlap time.Duration) int64 {
				s.clock.Advance(time.Second)
				w := store.Seat{Worker: "w", Incarnation: "1"}
				s.seats(store.SeatRequest{
					Holder: h, Taken: []store.Seat{w}, Overlap: overlap,
				})
				return s.seat("w").Overlap
			}
			second := time.Second.Microseconds()
			s.want("of one that comes", take(a, 7*time.Second), int64(0))
			s.want("of one that stays", take(a, 7*time.Second), int64(0))
			s.want("of one that goes elsewhere", take(b, 7*time.Second), start+10*second)
			s.want("of one that stays there", take(b, 7*time.Second), start+10*second)
			s.want("of one that comes back", take(a, 7*time.Second), start+12*second)
			s.away(a, "w", store.SeatSilent)
			s.want("of one that fell silent", take(b, 7*time.Second), start+12*second)
			s.want("where nodes read before they answer", take(a, 0), start+12*second)
		}},
		{"AnEarlierIncarnationIsSuperseded", func(s *scene) {
			h := s.join("a")
			for i := range store.Incarnations + 2 {
				s.clock.Advance(time.Millisecond)
				s.sitAs(h, "w", fmt.Sprint(i))
				s.want("joined", s.seat("w").Joined, s.clock.Micros())
			}
			want := []string{"8", "7", "6", "5", "4", "3", "2", "1"}
			s.want("earlier ones", s.seat("w").Before, want)
			version := s.board(0).Seats.Version
			for _, old := range want {
				got := s.seats(store.SeatRequest{
					Holder: h, Taken: []store.Seat{
						{Worker: "w", Incarnation: old}, {Worker: "v", Incarnation: old},
					},
				})
				s.want("superseded", got.Superseded, []string{"w"})
			}
			s.want("incarnation", s.seat("w").Incarnation, "9")
			s.want("changes of seats, all of them v's", s.board(0).Seats.Version, version+8)
		}},
		{"AWorkerThatCameAndLeftBetweenTwoBeatsIsAway", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.sit(b, "elsewhere", 1)
			s.sitAs(a, "again", "0")
			var r store.SeatRequest
			for _, name := range []string{"new", "elsewhere", "again"} {
				w := store.Seat{Worker: name, Incarnation: "1", Capacity: 1}
				r.Taken = append(r.Taken, w)
				w.State = store.SeatLeft
				r.Away = append(r.Away, w)
			}
			r.Holder = a
			version := s.board(0).Seats.Version
			s.want("superseded", len(s.seats(r).Superseded), 0)
			for _, w := range r.Away {
				is := s.seat(w.Worker)
				s.want(w.Worker, []any{is.State, is.Node, is.Incarnation},
					[]any{store.SeatLeft, a, "1"})
			}
			s.want("changes of seats", s.board(0).Seats.Version, version+1)
		}},
		{"OnlyWhereAWorkerSitsItIsSentAway", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			s.sit(b, "w", 1)
			before := s.board(0)
			old := b
			old.Token--
			s.want("another's lease",
				s.seats(store.SeatRequest{
					Holder: old,
					Away:   []store.Seat{{Worker: "w", Incarnation: "1", State: store.SeatLeft}},
				}),
				store.Seated{Now: s.clock.Micros(), LeaseGone: true, Version: before.Seats.Version})
			for _, r := range []store.SeatRequest{
				{Holder: a, Away: []store.Seat{
					{Worker: "w", Incarnation: "1", State: store.SeatSilent},
				}},
				{Holder: b, Away: []store.Seat{
					{Worker: "w", Incarnation: "0", State: store.SeatSilent},
					{Worker: "none", State: store.SeatSilent},
				}},
			} {
				s.seats(r)
				s.want("board", s.board(0), before)
			}
			s.away(b, "w", store.SeatSilent)
			s.want("state", s.seat("w").State, store.SeatSilent)
			since := s.seat("w").Since
			s.clock.Advance(time.Second)
			s.away(b, "w", store.SeatSilent)
			s.want("since, when it was said again", s.seat("w").Since, since)
		}},
		{"SeatsOfADeadNodeAreOrphans", func(s *scene) {
			a, b := s.join("a"), s.join("b")
			for _, w := range []string{"left", "taken"} {
				s.sit(a, w, 1000)
			}
			s.sit(b, "other", 1000)
			s.away(a, "left", store.SeatLeft)
			before := s.board(0)
			s.clock.Advance(time.Second)
			_, err := s.Free(s.ctx, b, math.MaxInt64)
			s.ok(err)
			s.want("as long as all live", s.board(0).Seats.Seats, before.Seats.Seats)
			s.die(a, b)
			for i := range 2 {
				got := s.board(0)
				want := before.Seats.Seats[2]
				want.Node = store.Holder{}
				want.State = store.SeatOrphan
				want.Since = before.Seats.Now + 1e6
				s.want("seats", got.Seats.Seats,
					[]store.Seat{before.Seats.Seats[0], before.Seats.Seats[1], want})
				s.want(fmt.Sprintf("version at look %d", i), got.Seats.Version,
					before.Seats.Version+1)
				s.clock.Advance(time.Second)
				_, err := s.Free(s.ctx, b, math.MaxInt64)
				s.ok(err)
			}
			s.sit(b, "taken", 1000)
			s.want("one that came back", []any{s.seat("taken").State, s.seat("taken").Node},
				[]any{store.SeatTaken, b})
			s.want("the dead node's word", s.seats(store.SeatRequest{Holder: a}).LeaseGone, true)
		}},
		{"SeatsAreListedWhenAnythingChanged", func(s *scene) {
			h := s.jobScene()
			s.group("f", 1)
			known := s.board(0)
			s.want("workers", workersOf(known), []string{"w1", "w2"})
			s.want("groups", known.Groups, s.groups())
			s.want("time", known.Seats.Now, s.clock.Micros())
			same := func(what string) {
				got := s.board(known.Seats.Version)
				s.want("seats, "+what, got.Seats, store.Seats{
					Now: s.clock.Micros(), Version: known.Seats.Version,
				})
				s.want("groups, "+what, got.Groups, s.groups())
				list, err := s.Seats(s.ctx, known.Seats.Version)
				s.ok(err)
				s.want("list, "+what, list, got.Seats)
			}
			same("when nothing happened")
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "w1", Load: 1000}}})
			same("when only more is in use")
			s.sit(h, "w1", 10_000)
			same("when a worker beats as before")
			s.sit(h, "w1", 9_000)
			got := s.board(known.Seats.Version)
			s.want("version", got.Seats.Version, known.Seats.Version+1)
			s.want("workers", workersOf(got), []string{"w1", "w2"})
			s.want("seats",
				[]task.Units{got.Seats.Seats[0].Capacity, got.Seats.Seats[0].Used,
					got.Seats.Seats[1].Capacity}, []task.Units{9_000, 1_000, 10_000})
			list, err := s.Seats(s.ctx, 0)
			s.ok(err)
			s.want("list", list, got.Seats)
			s.want("seats, to who knows more than there is", s.board(99).Seats, got.Seats)
		}},
		{"AForgottenWorkersAssignmentsEnd", func(s *scene) {
			h := s.jobScene()
			s.group("h", 1)
			s.change(store.JobChange{Group: "h", Put: loads("x", 0)})
			_, err := s.Assign(s.ctx, store.Assign{
				Group: "h", Claim: s.claim("group/h", "a"),
				Start: []store.Place{{Job: "x", Worker: "w1", Load: 1}},
			})
			s.ok(err)
			s.assign(store.Assign{
				Start: []store.Place{
					{Job: "a", Worker: "w1"}, {Job: "b", Worker: "w1"},
					{Job: "b", Replica: 1, Worker: "w2", Load: 1},
				},
			})
			s.drop(h, s.site("b", "w1"))
			before := s.board(0)
			s.ok(s.DeleteSeat(s.ctx, "w1"))
			got := s.board(0)
			s.want("seats left", []any{len(got.Seats.Seats), got.Seats.Version},
				[]any{1, before.Seats.Version + 1})
			s.want("versions of groups", []int64{got.Groups[0].Version, got.Groups[1].Version},
				[]int64{before.Groups[0].Version + 1, before.Groups[1].Version + 1})
			s.want("the assignment", []any{s.placed("a", "w1").State, s.placed("a", "w1").Since},
				[]any{store.Ended, s.clock.Micros()})
			s.want("in the other group",
				s.changes("h", before.Groups[1].Version).Assignments[0].State, store.Ended)
			s.want("another worker's", []any{s.placed("b", "w2").State, s.seat("w2").Used},
				[]any{task.JobStarting, task.Units(1)})
			s.ok(s.DeleteSeat(s.ctx, "w1"))
			s.want("board, when it is forgotten again", s.board(0), got)
		}},
		{"SeatsOfTheGoneArePruned", func(s *scene) {
			h := s.jobScene()
			for _, w := range []string{"left", "silent", "busy"} {
				s.sit(h, w, 1000)
			}
			s.assign(store.Assign{Start: []store.Place{{Job: "a", Worker: "busy", Load: 1}}})
			s.away(h, "left", store.SeatLeft)
			s.away(h, "silent", store.SeatSilent)
			s.away(h, "busy", store.SeatLeft)
			s.clock.Advance(store.SeatsKept - time.Second)
			before := s.board(0)
			s.prune()
			s.want("a second before", s.board(0).Seats, before.Seats)
			s.clock.Advance(time.Second)
			s.prune()
			s.want("seats left", workersOf(s.board(before.Seats.Version)),
				[]string{"busy", "w1", "w2"})
		}},
	}
}

func workersOf(b store.Board) (names []string) {
	for _, s := range b.Seats.Seats {
		names = append(names, s.Worker)
	}
	return names
}

// seats says who beats at a node and who does not any more.
func (s *scene) seats(r store.SeatRequest) store.Seated {
	got, err := s.Seat(s.ctx, r)
	s.ok(err)
	s.want("time", got.Now, s.clock.Micros())
	return got
}

// sit lets a worker beat at a node.
func (s *scene) sit(h store.Holder, worker string, capacity task.Units) {
	got := s.seats(store.SeatRequest{
		Holder: h, Taken: []store.Seat{
			{Worker: worker, Incarnation: "1", Capacity: capacity, Groups: []string{"g"}},
		},
	})
	s.want("superseded", got.Superseded, []string(nil))
}

// sitAs lets a worker of an incarnation beat at a node.
func (s *scene) sitAs(h store.Holder, worker, incarnation string) {
	got := s.seats(store.SeatRequest{
		Holder: h, Taken: []store.Seat{{Worker: worker, Incarnation: incarnation}},
	})
	s.want("superseded", got.Superseded, []string(nil))
}

func (s *scene) away(h store.Holder, worker string, state store.SeatState) {
	got := s.seats(store.SeatRequest{
		Holder: h, Away: []store.Seat{{Worker: worker, Incarnation: "1", State: state}},
	})
	s.want("lease is gone", got.LeaseGone, false)
}

func (s *scene) board(known int64) store.Board {
	b, err := s.Board(s.ctx, known)
	s.ok(err)
	return b
}

func (s *scene) seat(worker string) store.Seat {
	for _, seat := range s.board(0).Seats.Seats {
		if seat.Worker == worker {
			return seat
		}
	}
	s.fail("worker %s has no seat", worker)
	panic("unreachable")
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
