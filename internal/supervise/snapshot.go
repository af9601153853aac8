package supervise

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// snapshot is one group at one moment: what is decided about it is decided from this alone.
type snapshot struct {
	now    int64 // by the store's clock
	steady int64 // since then the store was heard without a gap
	group  store.Group
	jobs   []*store.GroupJob   // by name
	rows   []*store.Assignment // that have not ended, by job, replica and worker
	failed []*store.Assignment // ended after they failed, still within the penalty
	seats  []*store.Seat       // that serve the group, by worker
	// workers with assignments that serve the group no more: whether they live
	others map[string]bool
	seen   versions // what it was drawn from
	// what is used of the workers was counted when the assignments stood so
	exact bool
}

// versions are the versions that a snapshot was drawn from.
type versions struct{ group, seats int64 }

// snapshot draws a group whose cache was caught up.
func (b *ClusterCache) snapshot(l *groupCache, now time.Time) *snapshot {
	l.mu.Lock()
	p := &snapshot{group: l.group, seen: versions{group: l.version}}
	for _, name := range l.sorted() {
		if j := l.jobs[name]; j != nil {
			p.jobs = append(p.jobs, j)
		}
		p.rows = append(p.rows, l.stand[name]...)
	}
	ended := l.ended
	l.mu.Unlock()
	b.mu.RLock()
	defer b.mu.RUnlock()
	p.now, p.steady, p.seen.seats = b.clock.read(now), b.steady, b.version
	p.exact = b.counted[p.group.Name].Version == p.seen.group
	for _, a := range ended {
		if a.Failed > 0 && a.Failed+p.group.Policy.Penalty.Microseconds() > p.now {
			p.failed = append(p.failed, a)
		}
	}
	for _, s := range b.seats {
		if slices.Contains(s.Groups, p.group.Name) {
			p.seats = append(p.seats, s)
		}
	}
	slices.SortFunc(p.seats, func(a, b *store.Seat) int {
		return strings.Compare(a.Worker, b.Worker)
	})
	p.others = map[string]bool{}
	for _, a := range p.rows {
		if s := b.seats[a.Worker]; s != nil && !slices.Contains(s.Groups, p.group.Name) {
			p.others[a.Worker] = s.State == store.SeatTaken
		}
	}
	return p
}

// whole tells whether the parts of the snapshot are of one moment. An assignment of a worker that
// has no seat may be of one that came after the seats were read; a worker that was forgotten has no
// assignments.
func (p *snapshot) whole() bool {
	if !p.exact {
		return false
	}
	known := make(map[string]bool, len(p.seats))
	for _, s := range p.seats {
		known[s.Worker] = true
	}
	return !slices.ContainsFunc(p.rows, func(a *store.Assignment) bool {
		_, other := p.others[a.Worker]
		return !other && !known[a.Worker]
	})
}

// short tells whether a replica of a listed job has no assignment.
func (p *snapshot) short() bool {
	i := 0
	for _, j := range p.jobs {
		for i < len(p.rows) && p.rows[i].Job < j.Name {
			i++
		}
		next := 0 // the first replica of which none was seen
		for ; i < len(p.rows) && p.rows[i].Job == j.Name; i++ {
			if p.rows[i].Replica == next && lives(p.rows[i].State) {
				next++
			}
		}
		if next < p.group.Replicas {
			return true
		}
	}
	return false
}

// The mass-silence brake: when at least so many workers, and more than this share of them, have
// lost their nodes and did not come back, it is more likely the network: they get one more limit.
const (
	brakeLeast = 5
	brakeShare = 0.3
)

// census is who of a group's workers can be counted on.
type census struct {
	gone  map[string]string // by worker: why its assignments are over
	hold  map[string]bool   // orphans that may come back: they keep what they have, and get nothing
	brake bool              // so many orphans are overdue that they get one more limit
	due   int64             // when an orphan will be overdue; 0 = there is none
}

// census counts the workers. How long an orphan may take to come back is what its seat says.
func (p *snapshot) census() census {
	c := census{gone: map[string]string{}, hold: map[string]bool{}}
	active, overdue := 0, 0
	age := func(s *store.Seat) time.Duration {
		return time.Duration(p.now-unheard(s, p.steady)) * time.Microsecond
	}
	for _, s := range p.seats {
		switch s.State {
		case store.SeatTaken:
			active++
		case store.SeatOrphan:
			if limit := silenceOf(s); age(s) >= limit && age(s) < 2*limit {
				overdue++
			}
			active++
		case store.SeatLeft:
			c.gone[s.Worker] = "it left"
		case store.SeatSilent:
			c.gone[s.Worker] = "it fell silent"
		}
	}
	c.brake = overdue >= brakeLeast && float64(overdue) > brakeShare*float64(active)
	for _, s := range p.seats {
		if s.State != store.SeatOrphan {
			continue
		}
		limit := silenceOf(s)
		if c.brake {
			limit *= 2
		}
		if age(s) >= limit {
			c.gone[s.Worker] = "its node died and it came to no other"
			continue
		}
		c.hold[s.Worker] = true
		if at := unheard(s, p.steady) + limit.Microseconds(); c.due == 0 || at < c.due {
			c.due = at
		}
	}
	return c
}

// unheard is since when, by the store's clock, it is certain that no node has answered an orphan.
func unheard(s *store.Seat, steady int64) int64 { return max(s.Since, s.Overlap, steady) }

// state is what a plan is made of, beside what is intended already.
func (p *snapshot) state(in *plan, c census) place.State {
	s := place.State{
		Jobs: make([]place.Job, len(p.jobs)), Workers: p.workers(c),
		Current: make([]place.Replica, 0, len(p.rows)),
	}
	for i, j := range p.jobs {
		s.Jobs[i] = place.Job{Name: j.Name, Load: place.Load(j.Load)}
	}
	ends := make(map[store.Place]bool, len(in.End))
	for _, e := range in.End {
		ends[e] = true
	}
	for _, a := range p.rows {
		if _, gone := c.gone[a.Worker]; gone {
			continue
		}
		s.Current = append(s.Current, place.Replica{
			Job: a.Job, Replica: a.Replica, Worker: a.Worker, Load: place.Load(a.Load),
			Going: a.State == task.JobEnding || len(ends) > 0 &&
				ends[placeOf(a)], Moving: a.State == task.JobMoving,
		})
	}
	fled := map[string]bool{} // jobs that failed at another worker not long ago
	for _, a := range p.failed {
		s.Penalties = append(s.Penalties, place.Penalty{Job: a.Job, Worker: a.Worker})
		fled[a.Job] = true
	}
	for _, a := range p.rows {
		// a job that fails everywhere stays where it is, and its worker tries again
		if a.State == task.JobFailed && (a.Quiet || !fled[a.Job]) &&
			a.Failed+p.group.Policy.Penalty.Microseconds() > p.now {
			s.Penalties = append(s.Penalties, place.Penalty{Job: a.Job, Worker: a.Worker})
		}
	}
	return s
}

// mostRuns is how many replicas a worker may have, whatever their loads: a beat names 10,000 at
// most, and some may still be ending. Each group that it serves has its share of them, since no
// supervisor knows of the others.
const mostRuns = 9000

// workers are those that the planner may count on.
func (p *snapshot) workers(c census) []place.Worker {
	own := map[string]task.Units{} // used by this group
	for _, a := range p.rows {
		own[a.Worker] += a.Load
	}
	var list []place.Worker
	for _, s := range p.seats {
		if _, gone := c.gone[s.Worker]; gone {
			continue
		}
		w := place.Worker{
			Name: s.Worker, Capacity: place.Load(s.Capacity),
			Used:   place.Load(max(s.Used-own[s.Worker], 0)),
			Labels: s.Labels, Zone: s.Zone, Draining: s.Draining,
			Shed: place.Load(s.Shed),
			Most: mostRuns / max(len(s.Groups), 1),
		}
		if c.hold[s.Worker] {
			w.Passing, w.Draining, w.Shed = w.Capacity, false, 0
		}
		list = append(list, w)
	}
	return list
}

// policy is how the group's replicas are placed, with so many moves at most.
func (p *snapshot) policy(moves int) place.Policy {
	if moves <= 0 {
		moves = -1
	}
	return place.Policy{
		Replicas: p.group.Replicas, Selector: p.group.Selector,
		Zones: p.group.Spread != task.SpreadWorker, Moves: moves, New: p.group.Policy.New,
	}
}

// replica names one replica of a job.
type replica struct {
	job string
	n   int
}

// successors are the assignments that take the place of moving ones.
func (p *snapshot) successors(c census) map[replica]*store.Assignment {
	moving := map[replica]*store.Assignment{}
	for _, a := range p.rows {
		if a.State == task.JobMoving {
			moving[replica{a.Job, a.Replica}] = nil
		}
	}
	for _, a := range p.rows {
		_, ok := moving[replica{a.Job, a.Replica}]
		if _, gone := c.gone[a.Worker]; ok && !gone &&
			(a.State == task.JobStarting || a.State == task.JobRunning ||
				a.State == task.JobFailed) {
			moving[replica{a.Job, a.Replica}] = a
		}
	}
	return moving
}

// find is the assignment of a job on a worker, nil when there is none.
func (p *snapshot) find(job string, n int, worker string) *store.Assignment {
	at, ok := slices.BinarySearchFunc(p.rows, worker, func(a *store.Assignment, worker string) int {
		return cmp.Or(strings.Compare(a.Job, job), cmp.Compare(a.Replica, n),
			strings.Compare(a.Worker, worker))
	})
	if !ok {
		return nil
	}
	return p.rows[at]
}
