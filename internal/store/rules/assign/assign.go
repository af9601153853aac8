package assign

import (
	"fmt"
	"math"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Seat is what of a worker's seat matters to assignments.
type Seat struct {
	State    store.SeatState
	Node     store.Holder
	Capacity task.Units
	Used     task.Units
	Changed  bool // Used is another than it was
}

// Table is what one transaction knows of a group.
type Table struct {
	Now      int64
	Group    string
	Replicas int              // of each job
	Version  int64            // of the group
	Jobs     map[string]bool  // those of the jobs concerned that stand
	Seats    map[string]*Seat // of the workers concerned; groups share them

	entries map[string][]*entry // by job
	touched []*entry
	floor   int64 // the next version is greater
}

// entry is an assignment, and what happened to it.
type entry struct {
	store.Assignment
	touched bool
	made    bool // its token is the version that is to come
}

// Put puts an assignment on the table that was read. All of a job's are needed, tombstones too.
func (t *Table) Put(a store.Assignment) { t.put(&entry{Assignment: a}) }

func (t *Table) put(p *entry) {
	if t.entries == nil {
		t.entries = map[string][]*entry{}
	}
	t.entries[p.Job] = append(t.entries[p.Job], p)
}

// Close lets those go on whose successors fell away and, if anything changed, gives what changed
// the group's next version.
func (t *Table) Close() (changed []*store.Assignment) {
	for _, list := range t.entries {
		for _, p := range list {
			if p.State == task.JobMoving && !succeeded(list, p) {
				t.set(p, task.JobRunning)
			}
		}
	}
	if len(t.touched) > 0 {
		t.Version = max(t.Version, t.floor) + 1
	}
	for _, p := range t.touched {
		if p.Version = t.Version; p.made {
			p.Token = t.Version
		}
		changed = append(changed, &p.Assignment)
	}
	return changed
}

func succeeded(list []*entry, old *entry) bool {
	for _, p := range list {
		if p.Replica == old.Replica && holds(p.State) {
			return true
		}
	}
	return false
}

// holds tells of the states of one who has a replica and goes on with it.
func holds(s task.JobState) bool {
	return s == task.JobStarting || s == task.JobRunning || s == task.JobFailed
}

// set gives an assignment another state.
func (t *Table) set(p *entry, state task.JobState) {
	p.State, p.Since, p.Quiet = state, t.Now, false
	t.touch(p)
}

func (t *Table) touch(p *entry) {
	if !p.touched {
		p.touched = true
		t.touched = append(t.touched, p)
	}
}

// end makes an assignment a tombstone. From then on it takes no capacity.
func (t *Table) end(p *entry) {
	if s := t.Seats[p.Worker]; s != nil {
		s.Used -= p.Load
		s.Changed = true
	}
	t.set(p, store.Ended)
}

// at is what stands of a job at a worker, nil when nothing does.
func (t *Table) at(job, worker string) *entry {
	for _, p := range t.entries[job] {
		if p.Worker == worker {
			return p
		}
	}
	return nil
}

// live is the assignment of a job to a worker, nil when it is over or has another token.
func (t *Table) live(job, worker string, token int64) *entry {
	if p := t.at(job, worker); p != nil && p.State != store.Ended && p.Token == token {
		return p
	}
	return nil
}

// Assign does what a supervisor decided, and answers what it refused.
func (t *Table) Assign(a *store.Assign) (refused []store.Refused) {
	for _, p := range a.Drop {
		old, seat := t.live(p.Job, p.Worker, p.Token), t.Seats[p.Worker]
		switch {
		case old == nil:
		case seat != nil && seat.State == store.SeatTaken:
			refused = append(refused, store.Refused{Place: p, Reason: "the worker has come back"})
		default:
			t.end(old)
		}
	}
	for _, p := range a.End {
		if old := t.live(p.Job, p.Worker, p.Token); old != nil && old.State != task.JobEnding {
			t.set(old, task.JobEnding)
		}
	}
	for _, p := range a.Move {
		if reason := t.move(p); reason != "" {
			refused = append(refused, store.Refused{Place: p, Reason: reason})
		}
	}
	for _, p := range a.Start {
		if reason := t.start(p); reason != "" {
			refused = append(refused, store.Refused{Place: p, Reason: reason})
		}
	}
	return refused
}

// move starts a replica's successor, and says why not.
func (t *Table) move(p store.Place) (reason string) {
	from := t.at(p.Job, p.From)
	switch {
	case from == nil || from.Replica != p.Replica || !holds(from.State):
		return "the replica is not at " + p.From + " any more"
	case t.has(p.Job, p.Replica, func(s task.JobState) bool { return s == task.JobMoving }):
		return "the replica is moving already"
	}
	if reason = t.give(p); reason == "" {
		t.set(from, task.JobMoving)
	}
	return reason
}

// start assigns a replica that nobody has, and says why not.
func (t *Table) start(p store.Place) (reason string) {
	if t.owned(p.Job, p.Replica) {
		return "the replica has a worker already"
	}
	return t.give(p)
}

// has tells whether a replica is somewhere in such a state.
func (t *Table) has(job string, replica int, such func(task.JobState) bool) bool {
	for _, p := range t.entries[job] {
		if p.Replica == replica && such(p.State) {
			return true
		}
	}
	return false
}

// owned tells whether a replica has a worker at which it is not ending.
func (t *Table) owned(job string, replica int) bool {
	return t.has(job, replica, func(s task.JobState) bool {
		return holds(s) || s == task.JobMoving
	})
}

// absent says of a seat that is not taken why nothing is assigned to it.
var absent = map[store.SeatState]string{
	store.SeatSilent: "the worker is silent",
	store.SeatLeft:   "the worker has left",
	store.SeatOrphan: "the worker was not heard since its node died",
}

// give assigns a replica to a worker, and says why not.
func (t *Table) give(p store.Place) (reason string) {
	seat := t.Seats[p.Worker]
	switch {
	case !t.Jobs[p.Job]:
		return "the job was removed"
	case seat == nil:
		return "there is no such worker"
	case seat.State != store.SeatTaken:
		return absent[seat.State]
	}
	return t.add(seat, store.Assignment{
		Job: p.Job, Replica: p.Replica, Worker: p.Worker, State: task.JobStarting, Load: p.Load,
	})
}

// add adds an assignment where its worker has room for it, and says why not. Without a token it
// gets the version that is to come.
func (t *Table) add(seat *Seat, a store.Assignment) (reason string) {
	old := t.at(a.Job, a.Worker)
	switch {
	case old != nil && old.State != store.Ended:
		return "the worker has a replica of the job already"
	case seat.Used+a.Load > seat.Capacity:
		free := max(seat.Capacity-seat.Used, 0)
		return fmt.Sprintf("the worker has %v of %v units free, %v are needed", free.Float(),
			seat.Capacity.Float(), a.Load.Float())
	}
	seat.Used += a.Load
	seat.Changed = true
	a.Group, a.Since = t.Group, t.Now
	if old == nil {
		old = &entry{}
		old.Job = a.Job
		t.put(old)
	}
	old.Assignment, old.made = a, a.Token == 0
	t.touch(old)
	return ""
}

// Observe writes down what workers that beat at a node said of assignments, on the tables of their
// groups, and answers the runs that are not adopted.
func Observe(o *store.Observed, tables map[string]*Table) (refused []store.Observation) {
	for i := range o.States {
		seen := &o.States[i]
		if t := tables[seen.Group]; t.beatsAt(seen.Worker, o.Holder) {
			t.observe(seen)
		}
	}
	for i := range o.Adopt {
		seen := &o.Adopt[i]
		if t := tables[seen.Group]; t.beatsAt(seen.Worker, o.Holder) && !t.adopt(seen) {
			refused = append(refused, *seen)
		}
	}
	return refused
}

// beatsAt tells whether a worker beats at a node.
func (t *Table) beatsAt(worker string, at store.Holder) bool {
	s := t.Seats[worker]
	return s != nil && s.State == store.SeatTaken && s.Node == at
}

// observe writes down what a worker said of an assignment.
func (t *Table) observe(o *store.Observation) {
	p := t.live(o.Job, o.Worker, o.Token)
	switch {
	case p == nil:
	case o.State == store.Ended:
		t.end(p)
	case o.Anew && holds(p.State):
		p.made = true
		t.set(p, task.JobStarting)
	case holds(o.State) && holds(p.State) && (p.State != o.State || p.Quiet != o.Quiet):
		t.set(p, o.State)
		t.fail(p, o)
	}
}

// fail notes the failure, if o tells of one.
func (t *Table) fail(p *entry, o *store.Observation) {
	if o.State == task.JobFailed {
		p.Failed, p.Note, p.Quiet = t.Now, o.Note, o.Quiet
	}
}

// maxToken bounds the tokens that are adopted: versions, which grow past them, must not overflow.
const maxToken = math.MaxInt64 / 2

// adopt makes a run an assignment again that no row speaks of, and says whether it is one now.
func (t *Table) adopt(o *store.Observation) bool {
	if !t.Jobs[o.Job] || o.Replica < 0 || o.Replica >= t.Replicas || o.Token <= 0 ||
		o.Token > maxToken || !holds(o.State) {
		return false
	}
	if old := t.at(o.Job, o.Worker); old != nil && old.Token >= o.Token {
		// it was ended, unless it is this one
		return old.Token == o.Token && old.Replica == o.Replica && old.State != store.Ended
	}
	if t.owned(o.Job, o.Replica) {
		return false
	}
	a := store.Assignment{
		Job: o.Job, Replica: o.Replica, Worker: o.Worker, Token: o.Token, State: o.State,
		Load: o.Load,
	}
	if t.add(t.Seats[o.Worker], a) != "" {
		return false
	}
	t.fail(t.at(o.Job, o.Worker), o)
	t.floor = max(t.floor, o.Token)
	return true
}

// Forget ends all assignments of a worker.
func (t *Table) Forget(worker string) {
	for _, list := range t.entries {
		for _, p := range list {
			if p.Worker == worker && p.State != store.Ended {
				t.end(p)
			}
		}
	}
}
