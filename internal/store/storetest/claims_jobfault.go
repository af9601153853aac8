package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// assignSurely assigns; after an unknown outcome it reads on, as a supervisor does, and finds
// either all of it or nothing.
func (s *scene) assignSurely(a store.Assign) {
	for range patience {
		before := s.jobsLeft()
		got, err := s.Assign(s.ctx, a)
		switch {
		case err == nil:
			s.want("refused", len(got.Refused), 0)
			return
		case errors.Is(err, store.ErrUnknown) && !slices.Equal(s.jobsLeft(), before):
			return
		case !errors.Is(err, fault.ErrFault) && !errors.Is(err, store.ErrUnknown):
			s.fail("%v", err)
		}
	}
	s.fail("an assignment failed %d times", patience)
}

// jobFaultStory leads jobs through every write and answers what is left of them. It repeats what
// fails.
func (s *scene) jobFaultStory() []string {
	acquire := func(name string) store.Lease {
		return again(s, func() (store.Lease, error) {
			return s.Acquire(s.ctx, name, "a", time.Minute, nil)
		})
	}
	change := func(c store.JobChange) {
		again(s, func() (store.JobsChanged, error) { return s.ChangeJobs(s.ctx, c) })
	}
	h := store.Holder{Node: "a", Token: acquire(store.MembershipOf("a")).Token}
	says := func(job, worker string, state task.JobState) {
		seen := store.Observation{
			Group: "g", Job: job, Worker: worker, Token: s.site(job, worker).Token, State: state,
			Note: "n",
		}
		o := store.Observed{Holder: h, States: []store.Observation{seen}}
		again(s, func() (store.Observing, error) { return s.Observe(s.ctx, o) })
	}
	g := limits.DefaultGroup("g")
	g.Replicas = 2
	again(s, func() (store.Changed[task.Group], error) {
		return s.ChangeGroup(s.ctx, g.Name, store.Whole(g))
	})
	change(store.JobChange{Group: "g", Put: loads("a", 1, "b", 2, "c", 3, "d", 4)})
	claim := acquire("group/g")
	read := store.SourceRead{Time: 1, Hash: "h"}
	change(store.JobChange{
		Group: "g", Put: loads("a", 1, "b", 2, "c", 5), Whole: true, Claim: claim, Read: &read,
	})
	read.Time = 2
	s.againTell(func() error { return s.NoteSource(s.ctx, "g", claim, read) })
	s.againTell(func() error { return s.AskGroup(s.ctx, "g", true, true) })
	seats := store.SeatRequest{Holder: h}
	for _, w := range []string{"w1", "w2", "w3"} {
		seats.Taken = append(seats.Taken, store.Seat{
			Worker: w, Incarnation: "1", Capacity: 10, Groups: []string{"g"},
		})
	}
	again(s, func() (store.Seated, error) { return s.Seat(s.ctx, seats) })
	s.assignSurely(store.Assign{Group: "g", Claim: claim, Start: []store.Place{
		{Job: "a", Worker: "w1", Load: 1}, {Job: "a", Replica: 1, Worker: "w2", Load: 1},
		{Job: "b", Worker: "w1", Load: 2}, {Job: "c", Worker: "w3", Load: 5},
	}})
	says("a", "w1", task.JobRunning)
	says("b", "w1", task.JobFailed)
	seats.Away = []store.Seat{{Worker: "w1", Incarnation: "1", State: store.SeatSilent}}
	again(s, func() (store.Seated, error) {
		return s.Seat(s.ctx, store.SeatRequest{Holder: h, Away: seats.Away})
	})
	s.assignSurely(store.Assign{
		Group: "g", Claim: claim,
		Move: []store.Place{{Job: "a", From: "w1", Worker: "w3", Load: 1}},
		End:  []store.Place{s.site("a", "w2")},
		Drop: []store.Place{s.site("b", "w1")},
	})
	says("a", "w2", store.Ended)
	adopt := store.Observed{Holder: h, Adopt: []store.Observation{
		{Group: "g", Job: "b", Replica: 1, Worker: "w2", Token: 99, State: task.JobRunning,
			Load: 2},
	}}
	got := again(s, func() (store.Observing, error) { return s.Observe(s.ctx, adopt) })
	s.want("refused", len(got.Refused), 0)
	seats.Taken[0].Incarnation = "2"
	seats.Taken = seats.Taken[:1]
	seats.Away = []store.Seat{{Worker: "w2", Incarnation: "1", State: store.SeatSilent}}
	again(s, func() (store.Seated, error) { return s.Seat(s.ctx, seats) })
	s.againTell(func() error { return s.DeleteSeat(s.ctx, "w3") })
	s.againTell(func() error { return s.End(s.ctx, store.MembershipOf("a"), h.Token, true) })
	again(s, func() (int, error) { return s.Free(s.ctx, store.Holder{Node: "b"}, math.MaxInt64) })
	return s.jobsLeft()
}

// jobsLeft is all that can be seen of jobs, but for numbers that grow with every repetition.
func (s *scene) jobsLeft() (lines []string) {
	b := s.board(0)
	for _, g := range b.Groups {
		lines = append(lines,
			fmt.Sprintf("group %s of %d, %d jobs, read %+v, asked %v", g.Name, g.Replicas, g.Jobs,
				g.Read, g.Refresh > 0 && g.Rebalance > 0))
		c := s.changes(g.Name, 0)
		for _, j := range c.Jobs {
			lines = append(lines, fmt.Sprintf("job %+v", j.Job))
		}
		for _, a := range c.Assignments {
			lines = append(lines,
				fmt.Sprintf("%s %d at %s %s load %d failed %d %s", a.Job, a.Replica, a.Worker,
					a.State, a.Load, a.Failed, a.Note))
		}
	}
	for _, seat := range b.Seats.Seats {
		seat.Node.Token = 0
		lines = append(lines, fmt.Sprintf("seat %+v", seat))
	}
	slices.Sort(lines)
	return lines
}
