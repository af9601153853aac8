package supervise

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// calm is how long a job that moved for the sake of balance does not move for its sake again.
const calm = time.Minute

// plan is what is to be done about a group.
type plan struct {
	store.Assign
	census
	why     map[store.Place]Why
	lost    map[string]int  // replicas by worker that is gone
	pending []place.Pending // nothing can be done about them now
	next    []string        // jobs of which another pass starts replicas, soon
	// by the store's clock: then something changes by itself; 0 = it does not
	again int64
}

// empty tells whether there is nothing to do.
func (i *plan) empty() bool { return len(i.Start)+len(i.Move)+len(i.End)+len(i.Drop) == 0 }

// decide says what is to be done. rest says of jobs until when they do not move for the sake of
// balance. Of a paused group only those assignments are taken care of that are over anyway.
func (p *snapshot) decide(rest map[string]int64) (*plan, error) {
	c := p.census()
	in := &plan{
		Assign: store.Assign{Group: p.group.Name}, census: c, why: map[store.Place]Why{},
		lost: map[string]int{},
	}
	in.later(c.due)
	for _, a := range p.rows {
		if _, gone := c.gone[a.Worker]; gone {
			in.drop(a, Why(place.Gone))
			in.lost[a.Worker]++
		}
	}
	if p.group.Paused {
		return in, nil
	}
	moves := p.group.Policy.Moves - p.follow(in, c)
	plan, err := place.Compute(divided(p.state(in, c)), p.policy(moves))
	if err != nil {
		return nil, fmt.Errorf("plan group %q: %w", p.group.Name, err)
	}
	p.stop(in, plan.Stop)
	for _, s := range plan.Start {
		in.Start = append(in.Start, store.Place{
			Job: s.Job, Replica: s.Replica, Worker: s.Worker, Load: p.loadOf(s.Job),
		})
	}
	p.move(in, plan.Move, rest)
	p.takeAway(in, plan.Stay)
	for _, w := range plan.Pending {
		if w.Reason.Code == place.NewLimit {
			in.next = append(in.next, w.Job)
		} else {
			in.pending = append(in.pending, w)
		}
	}
	p.giveUp(in)
	p.renew(in)
	for _, a := range p.failed {
		in.later(a.Failed + p.group.Policy.Penalty.Microseconds())
	}
	return in, nil
}

// move takes over the moves of a plan, but for those of choice that are not to be now.
func (p *snapshot) move(in *plan, moves []place.Move, rest map[string]int64) {
	restless := p.restless(in)
	for _, m := range moves {
		if m.Reason.Code == place.Balance || m.Reason.Code == place.ZoneShared {
			if until := max(rest[m.Job], restless); until > p.now {
				in.later(until)
				continue
			}
		}
		to := store.Place{
			Job: m.Job, Replica: m.Replica, Worker: m.To, From: m.From, Load: p.loadOf(m.Job),
		}
		in.Move, in.why[to] = append(in.Move, to), Why(m.Reason.Code)
	}
}

// patient is how long balance waits for what starts.
const patient = 10 * time.Second

// restless is until when nothing moves for the sake of balance: what has no place yet, or starts
// for other reasons than a move, comes first.
func (p *snapshot) restless(in *plan) (until int64) {
	if len(in.Start)+len(in.Drop) > 0 {
		return p.now + patient.Microseconds()
	}
	moving := map[replica]bool{}
	for _, a := range p.rows {
		if a.State == task.JobMoving {
			moving[replica{a.Job, a.Replica}] = true
		}
	}
	for _, a := range p.rows {
		if a.State == task.JobStarting && !moving[replica{a.Job, a.Replica}] {
			until = max(until, a.Since+patient.Microseconds())
		}
	}
	return until
}

// later notes when something changes by itself.
func (i *plan) later(at int64) {
	if at != 0 && (i.again == 0 || at < i.again) {
		i.again = at
	}
}

func placeOf(a *store.Assignment) store.Place {
	return store.Place{
		Job: a.Job, Replica: a.Replica, Worker: a.Worker, Token: a.Token, Load: a.Load,
	}
}

func (i *plan) end(a *store.Assignment, why Why) {
	at := placeOf(a)
	i.End, i.why[at] = append(i.End, at), why
}

func (i *plan) drop(a *store.Assignment, why Why) {
	at := placeOf(a)
	i.Drop, i.why[at] = append(i.Drop, at), why
}

// follow goes on with what moves: when the successor runs the predecessor ends; when the successor
// fails it ends, and the predecessor runs on. It says how many are under way.
func (p *snapshot) follow(in *plan, c census) (under int) {
	successors := p.successors(c)
	for _, a := range p.rows {
		if _, gone := c.gone[a.Worker]; a.State != task.JobMoving || gone {
			continue
		}
		switch next := successors[replica{a.Job, a.Replica}]; {
		case next == nil:
		case next.State == task.JobRunning:
			in.end(a, arrived)
		case next.State == task.JobFailed:
			in.end(next, failed)
		default:
			under++
		}
	}
	return under
}

// stop does what a plan says that is to stop. Who serves the group no more, but lives, is told;
// else there is nobody to tell.
func (p *snapshot) stop(in *plan, stops []place.Stop) {
	for _, s := range stops {
		a := p.find(s.Job, s.Replica, s.Worker)
		switch {
		case a == nil || a.State == task.JobEnding:
		case s.Reason.Code == place.Gone && !p.others[s.Worker]:
			in.drop(a, Why(s.Reason.Code))
		default:
			in.end(a, Why(s.Reason.Code))
		}
	}
}

// renew ends replicas that were assigned before their job got another load or spec, so that they
// start anew: of each job one, and only while all its others run that have a place. At least one at
// a time does, even if nothing may move by choice.
func (p *snapshot) renew(in *plan) {
	budget := max(p.group.Policy.Moves, 1) - len(in.Move)
	for _, a := range p.rows { // what is on its way comes first
		if a.State == task.JobStarting || a.State == task.JobEnding || a.State == task.JobMoving {
			budget--
		}
	}
	busy := in.jobs()
	j := 0
	for from, to := 0, 0; from < len(p.rows) && budget > 0; from = to {
		job := p.rows[from].Job
		for to = from + 1; to < len(p.rows) && p.rows[to].Job == job; {
			to++
		}
		for j < len(p.jobs) && p.jobs[j].Name < job {
			j++
		}
		if j == len(p.jobs) || p.jobs[j].Name != job || busy[job] {
			continue
		}
		if a := outdated(p.rows[from:to], p.jobs[j]); a != nil {
			in.end(a, outdatedRun)
			budget--
		}
	}
}

// jobs are those about which something is to be done, now or with the next pass.
func (i *plan) jobs() map[string]bool {
	names := map[string]bool{}
	for _, list := range [][]store.Place{i.Start, i.Move, i.End, i.Drop} {
		for k := range list {
			names[list[k].Job] = true
		}
	}
	for _, name := range i.next {
		names[name] = true
	}
	return names
}

// giveUp ends replicas that are quiet and found no other place in a while, so that they start anew
// wherever there is one: as many at a time as may move.
func (p *snapshot) giveUp(in *plan) {
	budget := max(p.group.Policy.Moves, 1) - len(in.Move)
	for _, a := range p.rows { // what is on its way comes first
		if a.State == task.JobEnding || a.State == task.JobMoving {
			budget--
		}
	}
	busy := in.jobs()
	for _, a := range p.rows {
		if !a.Quiet || a.State != task.JobFailed || busy[a.Job] {
			continue
		}
		if until := a.Failed + patient.Microseconds(); until > p.now {
			in.later(until)
		} else if budget > 0 {
			in.end(a, quietRun)
			budget--
		}
	}
}

// outdated is the replica of a job that is to start anew next, nil while one does, or none has to.
func outdated(replicas []*store.Assignment, j *store.GroupJob) (old *store.Assignment) {
	for _, a := range replicas {
		stale := a.Token < j.Version || a.Load != j.Load
		switch {
		case stale && a.State != task.JobRunning && a.State != task.JobMoving &&
			a.State != task.JobEnding:
			return a // it serves nobody as it is
		case a.State != task.JobRunning:
			return nil
		case stale && old == nil:
			old = a
		}
	}
	return old
}

func (p *snapshot) loadOf(job string) task.Units {
	at, found := slices.BinarySearchFunc(p.jobs, job, func(j *store.GroupJob, name string) int {
		return strings.Compare(j.Name, name)
	})
	if !found {
		return 0
	}
	return p.jobs[at].Load
}
