// Package overview makes one picture of how everything stands, out of what a node knows. It is pure:
// facts and the time they are of go in, and the same facts in whatever order give the same picture.
package overview

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// How much of each list an overview shows.
const (
	MaxQueues  = 200
	MaxWorkers = 500
	MaxNodes   = 200
)

// LateAfter is how long after a due time that was not handled a schedule is late: several beats.
const LateAfter = 10 * time.Second

// Facts are what an overview is made of. They are only read.
type Facts struct {
	Now    int64 // the store's time at which the queues were counted, in microseconds
	Queues []store.QueueCounts
	Paused map[string]bool // by queue
	// Limited are the queues of which a limit holds ready tasks back.
	Limited map[string]bool
	Sums    *Sums // nil = it is not known what happened

	Schedules []store.ScheduleStand
	Groups    []store.GroupView

	Cluster *store.Cluster // nil = not known
	Workers []task.Worker
	Missing []string // nodes that did not say which workers they have
}

// Scope is what whoever asks may see. The zero value is everything.
type Scope struct {
	// Queue and Group tell whether one may be seen; nil = all may, and so may workers, which serve
	// several queues and groups, and what depends on all of them.
	Queue, Group func(name string) bool
}

func (s Scope) queue(name string) bool { return s.Queue == nil || s.Queue(name) }
func (s Scope) group(name string) bool { return s.Group == nil || s.Group(name) }
func (s Scope) all() bool              { return s.Queue == nil && s.Group == nil }

// Of is the overview that the facts give of what is in a scope.
func Of(f *Facts, s Scope) view.Overview {
	o := view.Overview{
		Nodes: []view.OverviewNode{}, Fleet: []view.FleetWorker{}, Missing: []string{},
		Queues: []view.OverviewQueue{},
	}
	f.queues(&o, s)
	f.nodes(&o, s)
	f.jobs(&o, s)
	for _, q := range f.Schedules {
		if s.queue(q.Queue) {
			o.Schedules.Total += q.All
			o.Schedules.Late += q.Late
			o.Schedules.Paused += q.Paused
		}
	}
	if s.all() {
		f.workers(&o)
	}
	return o
}

// queues fills in what is known of queues, and their sums.
func (f *Facts) queues(o *view.Overview, s Scope) {
	var seen []store.QueueCounts
	for _, q := range f.Queues {
		if s.queue(q.Queue) {
			seen = append(seen, q)
			o.Ready += q.Counts.Ready
			o.Waiting += q.Counts.Waiting
			o.Blocked += q.Counts.Blocked
			o.Running += q.Counts.Running
		}
	}
	if f.Sums != nil {
		o.Totals = f.Sums.totals(s.queue)
		o.DeadHour = f.Sums.deadHour(s.queue)
	}
	slices.SortFunc(seen, func(a, b store.QueueCounts) int {
		return cmp.Or(cmp.Compare(since(a), since(b)), cmp.Compare(unfinished(b), unfinished(a)),
			cmp.Compare(a.Queue, b.Queue))
	})
	if len(seen) > 0 && seen[0].OldestReady != 0 {
		o.OldestReady = &view.OldestReady{Queue: seen[0].Queue, Age: f.age(seen[0].OldestReady)}
	}
	for _, q := range seen[:min(len(seen), MaxQueues)] {
		item := view.OverviewQueue{
			Queue: q.Queue, Ready: q.Counts.Ready, Waiting: q.Counts.Waiting,
			Blocked: q.Counts.Blocked,
			Running: q.Counts.Running, Paused: f.Paused[q.Queue],
			Limited: f.Limited[q.Queue],
		}
		if q.OldestReady != 0 {
			age := f.age(q.OldestReady)
			item.OldestReady = &age
		}
		if f.Sums != nil {
			c := f.Sums.Of(q.Queue)
			item.Submitted, item.Done, item.Dead = c.Submitted, c.Done, c.Dead
		}
		o.Queues = append(o.Queues, item)
	}
	o.QueuesLeftOut = len(seen) - len(o.Queues)
}

// since is when a queue's oldest ready task was due; without any it is after all times.
func since(q store.QueueCounts) int64 {
	if q.OldestReady == 0 {
		return math.MaxInt64
	}
	return q.OldestReady
}

func unfinished(q store.QueueCounts) int64 {
	return q.Counts.Blocked + q.Counts.Waiting + q.Counts.Ready + q.Counts.Running
}

// age is how long ago a time was, in milliseconds; 0 of one that is yet to come.
func (f *Facts) age(at int64) view.Duration {
	age := time.Duration(max(f.Now-at, 0)) * time.Microsecond
	return view.Duration(age.Truncate(time.Millisecond))
}

// nodes fills in the nodes, and how many of them can die.
func (f *Facts) nodes(o *view.Overview, s Scope) {
	if f.Cluster == nil {
		return
	}
	nodes := slices.Clone(f.Cluster.Nodes)
	slices.SortFunc(nodes, func(a, b store.Node) int {
		return cmp.Or(cmp.Compare(gone(a), gone(b)), cmp.Compare(a.Name, b.Name))
	})
	o.NodesLeftOut = max(len(nodes)-MaxNodes, 0)
	for _, n := range nodes[:len(nodes)-o.NodesLeftOut] {
		item := view.OverviewNode{
			Name: n.Name, State: view.NodeState(n.State), Score: math.Round(n.Score),
			CPU: hundredths(n.CPU), Memory: hundredths(n.Memory), Tasks: n.Tasks,
			Claims: view.NodeClaims{
				Owned: n.Owned, Target: n.Target, Cap: n.Cap, Alarm: n.Alarm,
			},
			Strikes: len(n.Strikes),
		}
		if n.Down != 0 {
			item.Down = view.Time{Time: time.UnixMicro(n.Down).UTC()}
		}
		o.Nodes = append(o.Nodes, item)
	}
	slices.SortFunc(o.Nodes, func(a, b view.OverviewNode) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if s.all() {
		o.Budget = &f.Cluster.AtOnce
	}
}

// gone is 1 for a node that lives no more: when there are too many it is left out before others.
func gone(n store.Node) int {
	if n.Down != 0 {
		return 1
	}
	return 0
}

// hundredths rounds what is different at every beat, so that it is told only when it matters.
func hundredths(x float64) float64 { return math.Round(x*100) / 100 }

// jobs fills in what is known of replicas.
func (f *Facts) jobs(o *view.Overview, s Scope) {
	for i := range f.Groups {
		g := &f.Groups[i]
		if !s.group(g.Name) {
			continue
		}
		o.Jobs.Wanted += g.Wanted
		o.Jobs.Running += g.Running
		o.Jobs.Starting += g.Starting
		o.Jobs.Failed += g.Failed
		o.Jobs.Pending += g.Pending
		if g.Wanted > 0 && s.all() &&
			(o.BudgetWorkers == nil || g.Budget.Workers < *o.BudgetWorkers) {
			o.BudgetWorkers = &g.Budget.Workers
		}
	}
}

// workers fills in what is known of workers, and their sums.
func (f *Facts) workers(o *view.Overview) {
	o.Missing = append(o.Missing, f.Missing...)
	for i := range f.Workers {
		w := &f.Workers[i]
		switch w.State {
		case task.WorkerActive:
			o.Workers.Active++
		case task.WorkerDraining:
			o.Workers.Draining++
		case task.WorkerSilent:
			o.Workers.Silent++
		default:
			continue
		}
		if w.State != task.WorkerSilent {
			o.Capacity += w.Capacity
		}
		o.Fleet = append(o.Fleet, view.FleetWorker{
			Worker: w.Name, Node: w.Node, State: w.State, Capacity: w.Capacity,
			Running: w.Running, Jobs: w.Jobs,
		})
	}
	o.Capacity = math.Round(o.Capacity*1000) / 1000 // sums of thousandths drift
	if len(o.Fleet) > MaxWorkers {
		slices.SortFunc(o.Fleet, func(a, b view.FleetWorker) int {
			return cmp.Or(cmp.Compare(calm(a), calm(b)), byPlace(a, b))
		})
		o.FleetLeftOut = len(o.Fleet) - MaxWorkers
		o.Fleet = slices.Clip(o.Fleet[:MaxWorkers])
	}
	slices.SortFunc(o.Fleet, byPlace)
}

// calm orders workers by how little there is to say of them.
func calm(w view.FleetWorker) int {
	return slices.Index([]task.WorkerState{
		task.WorkerSilent, task.WorkerDraining, task.WorkerActive,
	}, w.State)
}

func byPlace(a, b view.FleetWorker) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Worker, b.Worker))
}
