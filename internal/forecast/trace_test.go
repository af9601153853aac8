package forecast

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
)

// arrival is a task of a trace: when it comes, in seconds, and how long it runs.
type arrival struct{ at, runs float64 }

// trace is the tasks that come to a queue, by time.
type trace []arrival

// hours is how long a trace is: one in which a queue that was empty fills, one that is recorded,
// and one that follows.
const hours = 3

// traceOf makes a trace of times and run times.
func traceOf(seed uint64, times func(*rand.Rand) []float64, runs func(*rand.Rand) float64) trace {
	r := rand.New(rand.NewPCG(seed, 1))
	var t trace
	for _, at := range times(r) {
		t = append(t, arrival{at, runs(r)})
	}
	slices.SortStableFunc(t, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return t
}

// varying are times of tasks that come independently of each other, so many a minute, which depends
// on the time in minutes and is at most most.
func varying(most float64, perMinute func(at float64) float64) func(*rand.Rand) []float64 {
	return func(r *rand.Rand) (times []float64) {
		for at := r.ExpFloat64() / most; at < hours*60; at += r.ExpFloat64() / most {
			if r.Float64()*most < perMinute(at) {
				times = append(times, at*60)
			}
		}
		return times
	}
}

func poisson(perMinute float64) func(*rand.Rand) []float64 {
	return varying(perMinute, func(float64) float64 { return perMinute })
}

// bursts are times of tasks that come many at once, at times that are independent of each other.
func bursts(perMinute float64, size func(*rand.Rand) int) func(*rand.Rand) []float64 {
	return func(r *rand.Rand) (times []float64) {
		for _, at := range poisson(perMinute)(r) {
			for range size(r) {
				times = append(times, at)
			}
		}
		return times
	}
}

// switching are times of tasks whose rate jumps between two, after minutes of exponential length.
func switching(low, high, minutes float64) func(*rand.Rand) []float64 {
	return func(r *rand.Rand) []float64 {
		var ends []float64
		for at := 0.0; at < hours*60; {
			at += minutes * r.ExpFloat64()
			ends = append(ends, at)
		}
		return varying(high, func(at float64) float64 {
			n, _ := slices.BinarySearch(ends, at)
			return []float64{low, high}[n%2]
		})(r)
	}
}

func exponential(mean float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return mean * r.ExpFloat64() }
}

func constant(x float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return x } }

// lognormal has a tail that grows with sigma; at 1.5 one in a hundred runs ten times the mean.
func lognormal(mean, sigma float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
	}
}

// pareto has a variance without end where alpha <= 2; it is cut at a thousand times its least.
func pareto(mean, alpha float64) func(*rand.Rand) float64 {
	least := mean * (alpha - 1) / alpha
	return func(r *rand.Rand) float64 {
		return least * math.Min(math.Pow(1-r.Float64(), -1/alpha), 1000)
	}
}

// frees are the times at which slots become free, as a heap.
type frees []float64

func (f frees) Len() int           { return len(f) }
func (f frees) Less(i, j int) bool { return f[i] < f[j] }
func (f frees) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frees) Push(any)          { panic("it never grows") }
func (f *frees) Pop() any          { panic("it never shrinks") }

// simulated are the waits of all tasks of a trace with so many slots, first come, first served.
func (t trace) simulated(slots int) []float64 {
	free := make(frees, slots)
	waits := make([]float64, len(t))
	for i, a := range t {
		begins := math.Max(a.at, free[0])
		waits[i] = begins - a.at
		free[0] = begins + a.runs
		heap.Fix(&free, 0)
	}
	return waits
}

// p95 is the 95th percentile of the waits of those that come in an hour of the trace, 0 the first.
func (t trace) p95(waits []float64, hour float64) float64 {
	var some []float64
	for i, a := range t {
		if a.at >= hour*3600 && a.at < (hour+1)*3600 {
			some = append(some, waits[i])
		}
	}
	if len(some) == 0 {
		return 0
	}
	slices.Sort(some)
	return some[int(math.Ceil(0.95*float64(len(some))))-1]
}

// least is the least number of slots with which the 95th percentile of an hour is below a target.
func (t trace) least(target, hour float64) int {
	enough := func(slots int) bool { return t.p95(t.simulated(slots), hour) <= target }
	high := 1
	for !enough(high) {
		high *= 2
	}
	low := high / 2
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// recorder writes down what a history would say of a trace, and asks for forecasts.
type recorder struct {
	past *Past
	by   map[int64]*history.QueueMinute // by minute of the trace
}

func newRecorder() *recorder {
	return &recorder{past: NewPast(), by: map[int64]*history.QueueMinute{}}
}

func (r *recorder) at(seconds float64) *history.QueueMinute {
	m := int64(seconds / 60)
	if r.by[m] == nil {
		r.by[m] = &history.QueueMinute{Queue: "q", Minute: base + m}
	}
	return r.by[m]
}

// ran writes down a task that waited so long.
func (r *recorder) ran(a arrival, waited float64) {
	r.at(a.at).Submitted++
	r.at(a.at + waited).Wait.Add(int64(waited * 1e6))
	end := r.at(a.at + waited + a.runs)
	end.Run.Add(int64(a.runs * 1e6))
	end.Done++
}

// read lets the past know of all that happened before a minute, in which there are so many slots.
func (r *recorder) read(minute int64, slots int) {
	var list []history.QueueMinute
	for m := r.past.From(base+minute) - base; m < minute; m++ {
		if q := r.by[m]; q != nil {
			list = append(list, *q)
		}
	}
	r.past.Add(base+minute, list, map[string]bool{"q": true})
	r.past.Saw(base+minute, "q", float64(slots))
}

// need is the forecast at a minute.
func (r *recorder) need(minute int64, slots int, ready int, target float64) Need {
	rec := r.past.Of("q", base+minute)
	q := Queue{Name: "q", Record: rec, Ready: int64(ready)}
	workers := make([]Worker, slots)
	for i := range workers {
		workers[i] = Worker{Slots: 1, Queues: []string{"q"}}
	}
	need, _ := New(Facts{Queues: []Queue{q}, Workers: workers}).
		Queue("q", Ask{Target: time.Duration(target * float64(time.Second))})
	return need
}

// followed are the waits when each minute as many slots are there as the forecast of that minute
// wants, from the last hour on; before it there are so many. It answers how many there were on
// average in the last hour, and what was wanted at its beginning.
func (t trace) followed(slots int, target float64) (waits []float64, first Need, mean float64) {
	r := newRecorder()
	free := make(frees, slots)
	next := 0 // the first task that waits, or is to come
	for minute := range int64(hours * 60) {
		now := float64(minute * 60)
		r.read(minute, len(free))
		if minute >= 120 {
			ready, _ := slices.BinarySearchFunc(t, now, func(a arrival, now float64) int {
				return cmp.Compare(a.at, now)
			})
			need := r.need(minute, len(free), max(ready-next, 0), target)
			if minute == 120 {
				first = need
			}
			slices.Sort(free)
			for len(free) < need.Wanted {
				free = append(free, now)
			}
			free = free[:max(need.Wanted, 1)] // what runs at the others ends there
			heap.Init(&free)
			mean += float64(len(free)) / 60
		}
		for ; next < len(t); next++ {
			a := t[next]
			begins := max(a.at, free[0], now)
			if begins >= now+60 {
				break
			}
			waits = append(waits, begins-a.at)
			r.ran(a, begins-a.at)
			free[0] = begins + a.runs
			heap.Fix(&free, 0)
		}
	}
	for ; next < len(t); next++ { // they wait beyond the end
		waits = append(waits, hours*3600-t[next].at)
	}
	return waits, first, mean
}

// base is the minute since 1970 at which traces begin.
const base = 29_000_000
