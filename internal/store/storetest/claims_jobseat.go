package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

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
