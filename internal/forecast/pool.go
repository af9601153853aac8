package forecast

import "math"

// work is what comes to a pool of slots: the sum of what comes to its queues, of each the part that
// falls to these slots. Work is measured in slot-seconds: what one slot does in a second.
type work struct {
	came     [Window]float64 // in each minute, the last one is the newest
	tasks    float64         // a minute, as a mean
	seconds  float64         // of work a minute, as a mean
	variance float64         // of the work of a minute
	// the part of that which is there because tasks come at odd times, and what it would be if they
	// came one by one
	bursts, single float64
	// the tasks that are ready now and may run at a time, the work of all that are ready, and what
	// of it can be done within DrainWithin: keys hold the rest back
	ready, backlog, soon float64
}

// work is what comes to a queue, of which the share counts that its limits and its keys let
// through. Its tasks come in bursts of so many at least.
func (q *Queue) work(bursts float64) (w work) {
	r, allowed := &q.Record, q.allowed()
	if r.Runs == 0 { // nobody knows how long its tasks run: those that do go on
		for i := range w.came {
			w.came[i] = 60 * float64(q.Running)
		}
		w.seconds = 60 * float64(q.Running)
		return w
	}
	n := min(len(r.Arrived), Window)
	counts := r.Arrived[len(r.Arrived)-n:]
	for i, seconds := range offered(counts, r.Mean) {
		w.came[Window-n+i] = seconds * allowed
	}
	w.tasks = sum(counts) / math.Max(float64(n), 1) * allowed
	w.seconds = w.tasks * r.Mean
	w.single = w.tasks * r.Mean * r.Mean
	w.bursts = w.single * math.Max(dispersion(counts), bursts)
	w.variance = w.bursts + w.tasks*math.Max(r.Second-r.Mean*r.Mean, 0)
	if !q.limited() { // else they wait for the limit, whatever slots there are
		w.ready, w.backlog, w.soon = q.waiting()
	}
	return w
}

// offered is the work that tasks bring in each minute if each begins when it comes: one that runs
// for longer than a minute goes on in those that follow. Before the first minute as many came as on
// average.
func offered(counts []float64, seconds float64) []float64 {
	work := make([]float64, len(counts))
	mean := sum(counts) / math.Max(float64(len(counts)), 1)
	for i := range work {
		left := seconds // that a task runs yet, which came k minutes before
		for k := 0; k <= i && left > 0; k++ {
			work[i] += counts[i-k] * math.Min(left, 60)
			left -= 60
		}
		work[i] += mean * math.Max(left, 0)
	}
	return work
}

// add adds a share of other work.
func (w *work) add(other *work, share float64) {
	for i := range w.came {
		w.came[i] += share * other.came[i]
	}
	w.tasks += share * other.tasks
	w.seconds += share * other.seconds
	w.variance += share * other.variance
	w.bursts += share * other.bursts
	w.single += share * other.single
	w.ready += share * other.ready
	w.backlog += share * other.backlog
	w.soon += share * other.soon
}

// lately is how many slots what comes kept busy in the last minutes.
func (w *work) lately() float64 { return sum(w.came[Window-recentMinutes:]) / 60 / recentMinutes }

// nearby is how many minutes to each side of one its rate is the mean of.
const nearby = 5

// played is the hour with a number of slots.
type played struct {
	fluid   [Window]float64 // seconds that whoever comes in a minute waits for what piled up
	chances [Window]chance
}

// play lets the hour pass with c slots.
func (w *work) play(c float64) *played {
	p := new(played)
	each, spread, burst := 0.0, 0.0, 1.0
	if w.single > 0 {
		each, spread, burst = w.seconds/w.tasks, w.variance/w.seconds, w.bursts/w.single
	}
	piled, near := 0.0, sum(w.came[:nearby])
	for i, came := range w.came {
		before := piled
		piled = math.Max(piled+came-60*c, 0)
		p.fluid[i] = (before + piled) / 2 / c
		n := min(i+nearby, Window-1) - max(i-nearby, 0) + 1
		if i+nearby < Window {
			near += w.came[i+nearby]
		}
		if i > nearby {
			near -= w.came[i-nearby-1]
		}
		p.chances[i] = chanceOf(c, near/60/float64(n), spread, burst, each)
	}
	return p
}

// late is the share of tasks that wait longer than t seconds, of those that came in the minutes
// from one on, as many in each as own says; 0 when none came.
func (p *played) late(own []float64, from int, t float64) float64 {
	all, late := 0.0, 0.0
	for i, n := range own {
		at := Window - len(own) + i
		if n == 0 || at < from {
			continue
		}
		all += n
		if p.fluid[at] > t {
			late += n
		} else {
			late += n * p.chances[at].beyond(t)
		}
	}
	if all == 0 {
		return 0
	}
	return late / all
}

// lateShare is the share of tasks that may wait longer: what is below is the 95th percentile.
const lateShare = 0.05

// longest is the longest wait that is told, in seconds.
const longest = 24 * 3600

// quantile is the wait in seconds that 95 of 100 tasks do not exceed, to about a percent.
func (p *played) quantile(own []float64, from int) float64 {
	within := func(t float64) bool { return p.late(own, from, t) <= lateShare }
	low, high := 0.0, 0.001
	for ; !within(high); high *= 2 {
		if high > longest {
			return longest
		}
		low = high
	}
	if low == 0 && within(0) {
		return 0
	}
	for high-low > high/100 && high > 0.0005 {
		if middle := (low + high) / 2; within(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
