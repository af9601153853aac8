package forecast

import "github.com/rotahq/rota/internal/history"

const (
	// Window is how many minutes are looked back.
	Window = 60
	// unsettled is how many minutes back from now may still be added to, by transactions that took
	// their time: they are read again.
	unsettled = 3
	// wholeMost is how many minutes of queues are read with their durations at a time, which take
	// many times as much memory as counts.
	wholeMost = 15_000
)

// Past is what happened in each queue in the last hour, minute by minute. It is built up by reading
// a few minutes at a time. Not for concurrent use.
type Past struct {
	next int64 // the first minute that is not settled; 0 = nothing was read
	by   map[string]*ring
}

// ring is the last minutes of a queue.
type ring struct {
	newest  int64 // of which minute since 1970 the newest is
	minutes [Window + 1]minute
}

// minute is what happened in a queue in one.
type minute struct {
	arrived         float64 // hand-outs that became due: tasks, stages, retries
	left            float64 // attempts that ended, as the counts say; lost ones have not
	ran             float64 // attempts that ended, of minutes that were read whole
	seconds, square float64 // of their run times: the sum, and that of the squares
	began, waited   float64 // hand-outs in it, and the sum of the seconds that they waited
	// the fewest slots that took its tasks when this node looked, plus 1; 0 = it did not look
	slots float64
}

// NewPast knows nothing yet.
func NewPast() *Past { return &Past{by: map[string]*ring{}} }

// From is the minute from which the history is to be read for Add, at the minute now.
func (p *Past) From(now int64) int64 {
	if p.next == 0 || now-p.next > Window || now < p.next {
		return now - Window
	}
	return p.next
}

// Whole is the minute from which on Add wants durations, too, of so many queues: a past that begins
// anew reads those of fewer minutes when there are many queues.
func (p *Past) Whole(now int64, queues int) int64 {
	back := int64(min(max(wholeMost/max(queues, 1), unsettled), Window))
	return max(p.From(now), now-back)
}

// Add takes in what the store said of all minutes since From(now). Queues that are not among those
// that there are are forgotten.
func (p *Past) Add(now int64, read []history.QueueMinute, there map[string]bool) {
	from := p.From(now)
	for queue, r := range p.by {
		if !there[queue] {
			delete(p.by, queue)
			continue
		}
		for ; r.newest > now; r.newest-- { // the clock was set back
			*r.at(r.newest) = minute{}
		}
		for at := max(from, r.newest-Window); at <= r.newest; at++ {
			*r.at(at) = minute{slots: r.at(at).slots} // all else is read again
		}
		r.turn(now)
	}
	for i := range read {
		q := &read[i]
		if !there[q.Queue] || q.Minute > now || q.Minute < from {
			continue
		}
		r := p.by[q.Queue]
		if r == nil {
			r = &ring{newest: now}
			p.by[q.Queue] = r
		}
		m := r.at(q.Minute)
		*m = minuteOf(&q.Record, m.slots)
	}
	p.next = max(now-unsettled, 1)
}

func minuteOf(r *history.Record, slots float64) minute {
	m := minute{slots: slots, arrived: float64(r.Submitted + r.Entered + r.Retried)}
	m.left = float64(r.Done + r.Passed + r.Retried + r.Dead)
	m.ran, m.seconds, m.square = r.Run.Moments()
	m.began, m.waited, _ = r.Wait.Moments()
	return m
}

// Saw notes how many slots take a queue's tasks at the minute now, after Add.
func (p *Past) Saw(now int64, queue string, slots float64) {
	r := p.by[queue]
	if r == nil || r.newest != now {
		return
	}
	if m := r.at(now); m.slots == 0 || slots+1 < m.slots {
		m.slots = slots + 1
	}
}

func (r *ring) at(minute int64) *minute { return &r.minutes[minute%int64(len(r.minutes))] }

// turn makes a minute the newest one. Those that come between are empty.
func (r *ring) turn(to int64) {
	for at := max(r.newest, to-Window-1) + 1; at <= to; at++ {
		*r.at(at) = minute{}
	}
	r.newest = to
}

// Of is the record of a queue at the minute now, which is not full yet; Arrived is empty where
// nothing came for an hour.
func (p *Past) Of(queue string, now int64) (rec Record) {
	r := p.by[queue]
	if r == nil || r.newest != now {
		return rec
	}
	first := now
	for at := now - Window; at <= now; at++ {
		m := r.at(at)
		rec.Runs += m.ran
		rec.Mean += m.seconds
		rec.Second += m.square
		if m.arrived > 0 {
			first = min(first, at)
		}
	}
	if rec.Runs > 0 {
		rec.Mean, rec.Second = rec.Mean/rec.Runs, rec.Second/rec.Runs
	}
	if first == now && r.at(now).arrived == 0 {
		return rec
	}
	for at := min(first, now-recentMinutes); at < now; at++ {
		m := r.at(at)
		rec.Arrived = append(rec.Arrived, m.arrived)
		rec.Left = append(rec.Left, m.left)
		rec.Slots = append(rec.Slots, m.slots-1)
		waited := -1.0
		if m.began > 0 {
			waited = m.waited / m.began
		}
		rec.Waited = append(rec.Waited, waited)
	}
	if r.at(now).arrived > 0 && first == now { // all there is: else a queue's first minute is none
		rec.Arrived[len(rec.Arrived)-1] = r.at(now).arrived
		rec.Left[len(rec.Left)-1] = r.at(now).left
	}
	return rec
}
