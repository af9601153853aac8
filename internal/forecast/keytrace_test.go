package forecast

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// keyedTask is a task of a key.
type keyedTask struct {
	arrival
	key string
}

// keyedSim is a queue of keys of which one task each may run at a time, unless any may; its slots
// follow what the forecast wants every minute.
type keyedSim struct {
	tasks  []keyedTask // by time
	limits task.KeyLimits
	paused func(key string, minute int64) bool

	next    int
	waiting map[string][]keyedTask
	order   []string // keys that wait, whoever came first
	running []keyedTask
	ends    []float64 // of these
	waits   map[string][]float64
}

// runsOf is how many tasks of a key run.
func (s *keyedSim) runsOf(key string) (n int64) {
	for i := range s.running {
		if s.running[i].key == key {
			n++
		}
	}
	return n
}

// step lets a tenth of a second pass.
func (s *keyedSim) step(now float64, slots int, r *recorder) {
	for i := len(s.running) - 1; i >= 0; i-- {
		if s.ends[i] <= now {
			s.running = slices.Delete(s.running, i, i+1)
			s.ends = slices.Delete(s.ends, i, i+1)
		}
	}
	for ; s.next < len(s.tasks) && s.tasks[s.next].at <= now; s.next++ {
		t := s.tasks[s.next]
		if len(s.waiting[t.key]) == 0 {
			s.order = append(s.order, t.key)
		}
		s.waiting[t.key] = append(s.waiting[t.key], t)
		r.at(t.at).Submitted++
	}
	order := s.order
	s.order = nil
	for _, key := range order {
		for most := int64(s.limits.MaxRunning); len(s.waiting[key]) > 0 && len(s.running) < slots &&
			!s.paused(key, int64(now/60)) && (most == 0 || s.runsOf(key) < most); {
			t := s.waiting[key][0]
			s.waiting[key] = s.waiting[key][1:]
			s.running = append(s.running, t)
			s.ends = append(s.ends, now+t.runs)
			s.waits[key] = append(s.waits[key], now-t.at)
			r.at(now).Wait.Add(int64((now - t.at) * 1e6))
			end := r.at(now + t.runs)
			end.Run.Add(int64(t.runs * 1e6))
			end.Done++
		}
		if len(s.waiting[key]) > 0 {
			s.order = append(s.order, key)
		}
	}
}

// follow plays so many minutes and answers the slots that were wanted in each.
func (s *keyedSim) follow(minutes int64) (wanted []int) {
	s.waiting, s.waits = map[string][]keyedTask{}, map[string][]float64{}
	r := newRecorder()
	slots := 8
	for minute := range minutes {
		r.read(minute, slots)
		if minute >= 10 {
			slots = max(s.need(r, minute, slots).Wanted, 1)
		}
		wanted = append(wanted, slots)
		for tenth := range 600 {
			s.step(float64(minute)*60+float64(tenth)/10, slots, r)
		}
	}
	return wanted
}

// need is the forecast at a minute.
func (s *keyedSim) need(r *recorder, minute int64, slots int) Need {
	q := Queue{
		Name: "q", ByKeys: true, Running: int64(len(s.running)),
		Record: r.past.Of("q", base+minute),
	}
	var list []KeyWork
	work := map[string]int64{}
	for i := range s.running {
		work[s.running[i].key]++
	}
	for _, key := range s.order {
		n := int64(len(s.waiting[key]))
		q.Ready += n
		list = append(list, KeyWork{
			Ready: n, Running: work[key], Held: s.paused(key, minute), Left: math.Inf(1),
		})
		delete(work, key)
	}
	for _, n := range work {
		list = append(list, KeyWork{Running: n})
	}
	q.Keys = KeysOf(list, &s.limits, q.Record.Mean, false)
	need, _ := New(Facts{Queues: []Queue{q}, Workers: alikeWorkers(slots, 1)}).
		Queue("q", Ask{Target: Target})
	return need
}

// together are traces put together, each of a key of its own, or of a thousand.
func together(one, many trace) (list []keyedTask) {
	for _, a := range one {
		list = append(list, keyedTask{a, "one"})
	}
	for i, a := range many {
		list = append(list, keyedTask{a, strconv.Itoa(i % 1000)})
	}
	slices.SortStableFunc(list, func(a, b keyedTask) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	return list
}

// When slots follow the forecast, a key that comes to 20 slots' work and may use one, or none,
// costs no more of them, others wait no longer, and a pause that ends is worked off.
func TestSlotsThatFollowAForecastAreOfUseWithKeys(t *testing.T) {
	story.Whole(t)
	one := traceOf(1, poisson(1200), constant(1))
	many := traceOf(2, poisson(300), exponential(1)) // five slots busy
	never := func(string, int64) bool { return false }
	order := task.KeyLimits{MaxRunning: 1}
	for name, c := range map[string]struct {
		sim   keyedSim
		early float64 // slots on average from minute 30 to 60, at most
		late  float64 // from minute 75 to 90
		peak  int     // at least so many at some time
		p95   float64 // of the waits of others; in the last one they wait for those of the key
	}{
		"a key in order alone": {keyedSim{
			tasks: together(one, nil), limits: order, paused: never}, 1, 1, 1, 0},
		"a key in order beside others": {keyedSim{
			tasks: together(one, many), limits: order, paused: never}, 8, 8, 6, 5},
		"a paused key beside others": {keyedSim{tasks: together(one, many),
			paused: func(key string, _ int64) bool { return key == "one" }}, 7, 7, 6, 5},
		"a key that is paused for half an hour": {keyedSim{tasks: together(one, many),
			paused: func(key string, minute int64) bool {
				return key == "one" && minute >= 15 && minute < 60
			}}, 7, 30, 100, math.Inf(1)},
	} {
		wanted := c.sim.follow(90)
		mean := func(list []int) (x float64) {
			for _, n := range list {
				x += float64(n) / float64(len(list))
			}
			return x
		}
		var others []float64
		for key, list := range c.sim.waits {
			if key != "one" {
				others = append(others, list...)
			}
		}
		slices.Sort(others)
		p95 := 0.0
		if len(others) > 0 {
			p95 = others[len(others)*95/100]
		}
		early, late := mean(wanted[30:60]), mean(wanted[75:])
		if early > c.early || late > c.late || slices.Max(wanted[10:]) < c.peak ||
			p95 > c.p95 {
			t.Errorf("%s: %.1f slots, then %.1f; others wait %.1f s: wanted %v", name, early, late,
				p95, wanted)
		}
	}
}
