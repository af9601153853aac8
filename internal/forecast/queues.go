package forecast

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/task"
)

// Target is the wait that 95 of 100 tasks are to stay below unless something else is asked for.
const Target = 5 * time.Second

// DrainWithin is how long it may take to work off the tasks that are ready now, beside those that
// come meanwhile, where they are more than the target allows.
const DrainWithin = 5 * time.Minute

// Facts are what is known at a moment. They are only read.
type Facts struct {
	Queues  []Queue
	Workers []Worker
}

// Queue is a queue as it stands.
type Queue struct {
	Name       string
	Paused     bool
	MaxRunning int       // tasks that may run at a time; 0 = any number
	Rate       task.Rate // how fast they may begin; zero = any speed
	Ready      int64
	Running    int64
	// ByKeys: something limits single group keys, or holds them back; Keys is what that leaves.
	ByKeys bool
	Keys   Keys
	Record Record
}

// Worker is a worker that takes tasks.
type Worker struct {
	Slots  int // tasks that it may run at a time, beside its jobs
	Queues []string
}

// Need is how many workers a queue needs.
type Need struct {
	Queue   string
	Workers int     // that take its tasks now
	Slots   float64 // tasks that they run at a time, all together
	Busy    float64 // slots that its tasks lately keep busy
	Wanted  int     // workers, of as many slots each as those that there are
	// Known is whether Wanted follows from what was recorded; else it is what one can be sure of.
	Known bool
	// Waits is the wait that 95 of 100 tasks do not exceed with the workers that there are, by the
	// last hour; Bounded is false when it is not known, or grows without end.
	Waits   time.Duration
	Bounded bool
	Why     string
}

// Model is the facts put together by the slots that queues share. It is only read.
type Model struct {
	queues []Queue
	index  map[string]int
	pools  []pool // by queue
	sets   []set
	needs  func() []Need
}

// pool is the slots that take a queue's tasks, and what comes to them.
type pool struct {
	workers int
	slots   float64
	own     work // of the queue itself, of what its limits let through
	all     work // of all queues, as far as it falls to these slots
	sets    []int
	shared  bool    // tasks of other queues come to them, too
	useful  float64 // slots; more of them stay empty, whatever is ready, by the limits and the keys
}

// set is workers that take the same queues.
type set struct {
	queues  []int
	workers int
	slots   float64
}

// New puts facts together. What comes to a queue is divided among its workers by their slots, so
// queues that share some of their workers share what falls to these.
func New(f Facts) *Model {
	m := &Model{queues: f.Queues, index: make(map[string]int, len(f.Queues))}
	m.pools = make([]pool, len(f.Queues))
	for i := range f.Queues {
		q := &f.Queues[i]
		m.index[q.Name] = i
		if !q.Paused {
			m.pools[i].own = q.work(1)
		}
	}
	m.sets = m.setsOf(f.Workers)
	for k, s := range m.sets {
		for _, i := range s.queues {
			m.pools[i].workers += s.workers
			m.pools[i].slots += s.slots
			m.pools[i].sets = append(m.pools[i].sets, k)
		}
	}
	for _, s := range m.sets {
		var here work // what falls to these workers
		busy := 0
		for _, i := range s.queues {
			if p := &m.pools[i]; p.slots > 0 && p.own.seconds > 0 {
				here.add(&p.own, s.slots/p.slots)
				busy++
			}
		}
		for _, i := range s.queues {
			p := &m.pools[i]
			p.all.add(&here, 1)
			p.shared = p.shared || busy > 1 || busy == 1 && p.own.seconds == 0
		}
	}
	for i := range m.pools {
		p, q := &m.pools[i], &f.Queues[i]
		// else its tasks wait for those of other queues, or for their keys, too
		if !p.shared && p.slots > 0 && !q.Paused && !q.ByKeys {
			p.own = q.work(q.Record.bursts())
		}
		if p.useful = math.Inf(1); !p.shared {
			p.all, p.useful = p.own, math.Min(q.useful(), q.keySlots())
		}
	}
	m.needs = sync.OnceValue(func() []Need { return m.All(Ask{Target: Target}) })
	return m
}

// setsOf puts workers together that take the same queues, in an order that depends on these only.
func (m *Model) setsOf(workers []Worker) []set {
	at := map[string]int{}
	var sets []set
	var names []string
	for i := range workers {
		sorted := slices.Sorted(slices.Values(workers[i].Queues))
		key := strings.Join(sorted, "\n") // which no name has
		k, known := at[key]
		if !known {
			k = len(sets)
			at[key] = k
			s := set{}
			for _, name := range slices.Compact(sorted) {
				if q, there := m.index[name]; there {
					s.queues = append(s.queues, q)
				}
			}
			sets = append(sets, s)
			names = append(names, key)
		}
		sets[k].workers++
		sets[k].slots += float64(workers[i].Slots)
	}
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	sorted := make([]set, len(sets))
	for i, k := range order {
		sorted[i] = sets[k]
	}
	return sorted
}

// allowed is the share of what comes that the queue's limits and its keys let through.
func (q *Queue) allowed() float64 { return math.Min(q.through(), q.own()) }

// limited tells whether the queue's own limits hold back what its keys let through.
func (q *Queue) limited() bool { return q.own() < q.through() }

// own is the share of what comes that the queue's own limits let through.
func (q *Queue) own() float64 {
	second := q.Record.perMinute() / 60
	if second == 0 {
		return 1
	}
	share := math.Min(1, speed(q.Rate)/second)
	if q.MaxRunning > 0 && q.Record.Mean > 0 {
		share = math.Min(share, float64(q.MaxRunning)/(second*q.Record.Mean))
	}
	return share
}

// useful is how many slots the queue's own limits let be used.
func (q *Queue) useful() float64 {
	slots := math.Inf(1) // a rate says nothing of tasks that run for no time
	if q.Record.Mean > 0 {
		slots = speed(q.Rate) * q.Record.Mean
	}
	if q.MaxRunning > 0 {
		slots = math.Min(slots, float64(q.MaxRunning))
	}
	return slots
}

// Needs are what all queues need, for Target, in the order of the facts. They are found out once,
// and only read.
func (m *Model) Needs() []Need { return m.needs() }

// All is what all queues need that the asker may see, in the order of the facts.
func (m *Model) All(ask Ask) (list []Need) {
	for i := range m.queues {
		if name := m.queues[i].Name; ask.See == nil || ask.See(name) {
			n, _ := m.Queue(name, ask)
			list = append(list, n)
		}
	}
	return list
}

// Ask is what is asked of a model.
type Ask struct {
	Target time.Duration // that 95 of 100 waits are to stay below
	// See tells of which queues the asker may know; nil = of all.
	See func(queue string) bool
}

// Queue is what a queue needs so that the target is met; false when there is none of that name.
func (m *Model) Queue(name string, ask Ask) (Need, bool) {
	i, there := m.index[name]
	if !there {
		return Need{}, false
	}
	q, p := &m.queues[i], &m.pools[i]
	n := Need{
		Queue: name, Workers: p.workers, Slots: p.slots,
		Busy: q.Record.perMinute() / 60 * q.Record.Mean,
	}
	each := 1.0 // slots of a worker
	if p.slots > 0 {
		each = p.slots / float64(p.workers)
	}
	switch {
	case q.Paused:
		n.Wanted = int(math.Ceil(float64(q.Running) / each))
	case q.Record.Runs == 0 || !q.comes():
		n.Wanted = int(math.Ceil(float64(q.Running) / each))
		if q.comes() {
			n.Wanted = max(n.Wanted, 1)
		}
	case p.slots == 0:
		n.Wanted = 1
	default:
		n.Known = true
		n.Wanted = p.wanted(q, each, ask.Target.Seconds())
		n.Waits, n.Bounded = p.waits(q)
	}
	n.Why = m.why(&n, i, each, ask)
	return n, true
}

// mostWanted is the most workers that are asked for.
const mostWanted = 1 << 20

// wanted is the least number of workers of so many slots with which the target is met.
func (p *pool) wanted(q *Queue, each, target float64) int {
	low, high := 0, max(int(p.all.lately()/each), 1)
	for high < mostWanted && !p.enough(q, float64(high)*each, target) {
		low, high = high, high*2
	}
	for high-low > 1 {
		if middle := (low + high) / 2; p.enough(q, float64(middle)*each, target) {
			high = middle
		} else {
			low = middle
		}
	}
	if most := p.most(q); !math.IsInf(most, 1) { // more slots than that stay empty
		high = min(high, max(int(math.Ceil(most/each)), 1))
	}
	return high
}

// most is how many slots can be in use at all; infinite where nothing says so.
func (p *pool) most(q *Queue) float64 {
	most := math.Inf(1)
	switch {
	case p.shared:
		return most
	case q.MaxRunning > 0:
		most = float64(q.MaxRunning)
	}
	if q.full() {
		most = math.Min(most, q.keySlots())
	}
	return most
}

// enough tells whether the target is met with c slots: by the hour as a whole, by the last minutes,
// and by what is ready now, which has a slot for each task, or all that are useful, or is done
// within the target or within DrainWithin.
func (p *pool) enough(q *Queue, c, target float64) bool {
	free := c - p.all.lately()
	if free <= 0 || c < p.useful && free < p.all.ready && p.all.backlog > c*target &&
		p.all.soon > free*DrainWithin.Seconds() {
		return false
	}
	hour := p.all.play(c)
	return hour.late(q.Record.Arrived, 0, target) <= lateShare &&
		hour.late(q.Record.Arrived, Window-recentMinutes, target) <= lateShare
}

// waits is the 95th percentile of the wait with the slots that there are; false when work comes
// faster than it is done, or a limit, of the queue or of its keys, holds tasks back.
func (p *pool) waits(q *Queue) (time.Duration, bool) {
	if p.slots <= p.all.lately() || q.allowed() < 1 || q.full() {
		return 0, false
	}
	hour := p.all.play(p.slots)
	seconds := max(hour.quantile(q.Record.Arrived, 0),
		hour.quantile(q.Record.Arrived, Window-recentMinutes))
	if p.all.ready > p.slots-p.all.lately() {
		seconds = max(seconds, p.all.backlog/math.Min(p.slots, p.useful))
	}
	return durationOf(seconds), true
}
