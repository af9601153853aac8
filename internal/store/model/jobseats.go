package model

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Assign implements [contract.Assignments].
func (m *Model) Assign(ctx context.Context, a store.Assign) (store.Assigned, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Assigned{}, err
	}
	defer m.mu.Unlock()
	e, err := m.edit(a.Group, now)
	if err != nil {
		return store.Assigned{}, err
	}
	answer := store.Assigned{Now: now, ClaimGone: !m.claimed(a.Claim, now), Version: e.Version}
	if answer.ClaimGone {
		return answer, nil
	}
	for _, p := range a.Drop {
		row, seat := e.live(p.Job, p.Worker, p.Token), m.jobs.seats[p.Worker]
		if row != nil && seat != nil && seat.State == store.SeatTaken {
			answer.Refused = append(answer.Refused, store.Refused{
				Place: p, Reason: "the worker is there",
			})
		} else if row != nil {
			m.over(e, row)
		}
	}
	for _, p := range a.End {
		if row := e.live(p.Job, p.Worker, p.Token); row != nil && row.State != task.JobEnding {
			e.set(row, task.JobEnding)
		}
	}
	for _, p := range a.Move {
		if reason := m.move(e, p); reason != "" {
			answer.Refused = append(answer.Refused, store.Refused{Place: p, Reason: reason})
		}
	}
	for _, p := range a.Start {
		reason := ""
		if e.owner(p.Job, p.Replica) != nil {
			reason = "the replica has a worker"
		} else {
			reason = m.start(e, p)
		}
		if reason != "" {
			answer.Refused = append(answer.Refused, store.Refused{Place: p, Reason: reason})
		}
	}
	e.settleMoves()
	answer.Version = e.end()
	return answer, nil
}

// live is the assignment of a job to a worker, nil when it is over or has another token.
func (e *edit) live(job, worker string, token int64) *store.Assignment {
	a := e.places[site{job, worker}]
	if a == nil || a.State == store.Ended || a.Token != token {
		return nil
	}
	return a
}

// owner is the assignment that has a replica, nil when none has or the one that had is ending.
func (e *edit) owner(job string, replica int) *store.Assignment {
	for at, a := range e.places {
		if at.job == job && a.Replica == replica && a.State != store.Ended &&
			a.State != task.JobEnding {
			return a
		}
	}
	return nil
}

// set gives an assignment another state.
func (e *edit) set(a *store.Assignment, state task.JobState) {
	a.State, a.Since, a.Quiet = state, e.now, false
	e.touched = append(e.touched, a)
}

// over makes an assignment a tombstone, which takes no capacity.
func (m *Model) over(e *edit, a *store.Assignment) {
	if a.State == store.Ended {
		return
	}
	if seat := m.jobs.seats[a.Worker]; seat != nil {
		seat.Used -= a.Load
	}
	e.set(a, store.Ended)
}

// move starts a replica's successor, and says why not.
func (m *Model) move(e *edit, p store.Place) (reason string) {
	from := e.places[site{p.Job, p.From}]
	if from == nil || from.Replica != p.Replica || !holds(from.State) {
		return "the replica is not there any more"
	}
	for _, a := range e.places {
		if a.Job == p.Job && a.Replica == p.Replica && a.State == task.JobMoving {
			return "the replica is moving already"
		}
	}
	if reason := m.start(e, p); reason != "" {
		return reason
	}
	e.set(from, task.JobMoving)
	return ""
}

// holds tells of the states of one who has a replica and will go on.
func holds(s task.JobState) bool {
	return s == task.JobStarting || s == task.JobRunning || s == task.JobFailed
}

// start assigns a replica to a worker, and says why not.
func (m *Model) start(e *edit, p store.Place) (reason string) {
	seat := m.jobs.seats[p.Worker]
	switch {
	case !e.has(p.Job):
		return "the job was removed"
	case seat == nil || seat.State != store.SeatTaken:
		return "the worker is gone"
	}
	return m.sit(e, seat, store.Assignment{
		Job: p.Job, Replica: p.Replica, Worker: p.Worker, State: task.JobStarting, Load: p.Load,
	})
}

// sit puts an assignment where its worker has room for it, and says why not.
func (m *Model) sit(e *edit, seat *store.Seat, a store.Assignment) (reason string) {
	at := site{a.Job, a.Worker}
	switch old := e.places[at]; {
	case old != nil && old.State != store.Ended:
		return "the worker has a replica of the job"
	case seat.Used+a.Load > seat.Capacity:
		return "the worker is full"
	}
	seat.Used += a.Load
	a.Group, a.Since = e.Name, e.now
	e.places[at] = &a
	e.touched = append(e.touched, &a)
	if a.Token == 0 {
		e.made = append(e.made, &a)
	}
	return ""
}

// settleMoves lets those go on whose successors are no more.
func (e *edit) settleMoves() {
	for _, old := range e.places {
		if old.State != task.JobMoving {
			continue
		}
		succeeded := false
		for _, a := range e.places {
			succeeded = succeeded || a.Job == old.Job && a.Replica == old.Replica && holds(a.State)
		}
		if !succeeded {
			e.set(old, task.JobRunning)
		}
	}
}

// Observe implements [contract.Assignments].
func (m *Model) Observe(ctx context.Context, o store.Observed) (store.Observing, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Observing{}, err
	}
	defer m.mu.Unlock()
	answer := store.Observing{Now: now, LeaseGone: !m.lives(o.Holder, now)}
	if answer.LeaseGone {
		return answer, nil
	}
	edits := map[string]*edit{}
	for _, list := range [][]store.Observation{o.States, o.Adopt} {
		for _, seen := range list {
			if e, err := m.edit(seen.Group, now); err == nil && edits[seen.Group] == nil {
				edits[seen.Group] = e
			}
		}
	}
	for _, seen := range o.States {
		if e := edits[seen.Group]; e != nil && m.sits(seen.Worker, o.Holder) {
			m.observe(e, seen)
		}
	}
	for _, seen := range o.Adopt {
		if m.sits(seen.Worker, o.Holder) && !m.adopt(edits[seen.Group], seen) {
			answer.Refused = append(answer.Refused, seen)
		}
	}
	for _, e := range edits {
		e.settleMoves()
		e.end()
	}
	return answer, nil
}

// sits tells whether a worker beats at a node.
func (m *Model) sits(worker string, h store.Holder) bool {
	seat := m.jobs.seats[worker]
	return seat != nil && seat.State == store.SeatTaken && seat.Node == h
}

// observe writes down what a worker said of an assignment.
func (m *Model) observe(e *edit, o store.Observation) {
	a := e.live(o.Job, o.Worker, o.Token)
	switch {
	case a == nil:
	case o.State == store.Ended:
		m.over(e, a)
	case o.Anew && holds(a.State):
		e.set(a, task.JobStarting)
		e.made = append(e.made, a)
	case !holds(o.State) || !holds(a.State),
		a.State == o.State && a.Quiet == o.Quiet:
	default:
		e.set(a, o.State)
		if o.State == task.JobFailed {
			a.Failed, a.Note, a.Quiet = e.now, o.Note, o.Quiet
		}
	}
}

// adopt makes a run an assignment again, and says whether it is one.
func (m *Model) adopt(e *edit, o store.Observation) bool {
	if e == nil || !e.has(o.Job) || o.Replica < 0 || o.Replica >= e.Replicas || o.Token <= 0 ||
		o.Token > maxToken || !holds(o.State) {
		return false
	}
	if old := e.places[site{o.Job, o.Worker}]; old != nil && old.Token >= o.Token {
		return old.Token == o.Token && old.Replica == o.Replica && old.State != store.Ended
	}
	if e.owner(o.Job, o.Replica) != nil {
		return false
	}
	a := store.Assignment{
		Job: o.Job, Replica: o.Replica, Worker: o.Worker, Token: o.Token, State: o.State,
		Load: o.Load,
	}
	if o.State == task.JobFailed {
		a.Failed, a.Note = e.now, o.Note
	}
	if m.sit(e, m.jobs.seats[o.Worker], a) != "" {
		return false
	}
	e.floor = max(e.floor, o.Token)
	return true
}

// Seat implements [contract.Seats].
func (m *Model) Seat(ctx context.Context, r store.SeatRequest) (store.Seated, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Seated{}, err
	}
	defer m.mu.Unlock()
	answer := store.Seated{Now: now, LeaseGone: !m.lives(r.Holder, now), Version: m.jobs.seated}
	if answer.LeaseGone {
		return answer, nil
	}
	changed := false
	for _, s := range r.Taken {
		old := m.jobs.seats[s.Worker]
		if old != nil && slices.Contains(old.Before, s.Incarnation) {
			answer.Superseded = append(answer.Superseded, s.Worker)
			continue
		}
		s = cloneSeat(s)
		s.Node = r.Holder
		s.State = store.SeatTaken
		s.Since = now
		s.Joined = now
		s.Before = nil
		s.Used = 0
		s.Overlap = 0
		if old != nil {
			s.Before, s.Used, s.Overlap = old.Before, old.Used, old.Overlap
			if r.Overlap > 0 && old.State == s.State && old.Node.Node != s.Node.Node {
				s.Overlap = now + r.Overlap.Microseconds()
			}
			if old.State == s.State {
				s.Since = old.Since
			}
			if old.Incarnation == s.Incarnation {
				s.Joined = old.Joined
			} else {
				s.Before = append([]string{old.Incarnation}, old.Before...)
				s.Before = s.Before[:min(len(s.Before), store.Incarnations)]
			}
		}
		if old == nil || !reflect.DeepEqual(*old, s) {
			m.jobs.seats[s.Worker], changed = &s, true
		}
	}
	for _, s := range r.Away {
		old := m.jobs.seats[s.Worker]
		if old != nil && old.Node == r.Holder && old.Incarnation == s.Incarnation &&
			old.State != s.State {
			old.State, old.Since, changed = s.State, now, true
		}
	}
	if changed {
		m.jobs.seated++
	}
	answer.Version = m.jobs.seated
	return answer, nil
}

// cloneSeat copies a seat; what is empty becomes nil.
func cloneSeat(s store.Seat) store.Seat {
	s.Before = append([]string(nil), s.Before...)
	s.Groups = append([]string(nil), s.Groups...)
	if s.Labels = maps.Clone(s.Labels); len(s.Labels) == 0 {
		s.Labels = nil
	}
	return s
}

// Seats implements [contract.Seats].
func (m *Model) Seats(ctx context.Context, known int64) (store.Seats, error) {
	b, err := m.Board(ctx, known)
	return b.Seats, err
}

// Board implements [contract.Seats].
func (m *Model) Board(ctx context.Context, known int64) (store.Board, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Board{}, err
	}
	defer m.mu.Unlock()
	b := store.Board{Groups: m.listGroups(), Seats: store.Seats{Now: now, Version: m.jobs.seated}}
	if known != m.jobs.seated {
		for _, name := range slices.Sorted(maps.Keys(m.jobs.seats)) {
			b.Seats.Seats = append(b.Seats.Seats, cloneSeat(*m.jobs.seats[name]))
		}
	}
	return b, nil
}

// DeleteSeat implements [contract.Seats].
func (m *Model) DeleteSeat(ctx context.Context, worker string) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.jobs.seats[worker] == nil {
		return nil
	}
	for _, g := range m.jobs.groups {
		e := &edit{jobGroup: g, now: now}
		for at, a := range g.places {
			if at.worker == worker {
				m.over(e, a)
			}
		}
		e.settleMoves()
		e.end()
	}
	delete(m.jobs.seats, worker)
	m.jobs.seated++
	return nil
}

// orphanSeats notes of taken seats that their node is no more.
func (m *Model) orphanSeats(now int64) {
	changed := false
	for _, s := range m.jobs.seats {
		if l, ok := m.leases[store.MembershipPrefix+s.Node.Node]; s.State == store.SeatTaken &&
			(!ok || l.Token != s.Node.Token) {
			s.State, s.Node, s.Since, changed = store.SeatOrphan, store.Holder{}, now, true
		}
	}
	if changed {
		m.jobs.seated++
	}
}
