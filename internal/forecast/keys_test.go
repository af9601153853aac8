package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// alike are n keys of so much work.
func alike(n int, w KeyWork) []KeyWork { return slices.Repeat([]KeyWork{w}, n) }

func TestWhatKeysLeaveOfWhatThereIs(t *testing.T) {
	paused := KeyWork{Ready: 100_000, Running: 1, Held: true}
	perSecond := func(n int64) task.Rate { return task.Rate{Count: n, Per: time.Second} }
	for name, c := range map[string]struct {
		list   []KeyWork
		limits task.KeyLimits
		want   Keys
	}{
		"none": {nil, task.KeyLimits{}, Keys{}},
		"a paused key": {[]KeyWork{paused}, task.KeyLimits{},
			Keys{Ready: 100_000, Running: 1, Held: 100_000, Slots: 1}},
		"a key in order": {[]KeyWork{{Ready: 100_000, Running: 1}}, task.KeyLimits{MaxRunning: 1},
			Keys{Ready: 100_000, Running: 1, Full: 100_000, AtOnce: 1, Slots: 1, FullSlots: 1,
				Work: 200_000, Soon: 300, Longest: 200_000}},
		"three keys of one each": {alike(3, KeyWork{Ready: 20, Running: 1}),
			task.KeyLimits{MaxRunning: 1},
			Keys{Ready: 60, Running: 3, Full: 60, AtOnce: 3, Slots: 3, Work: 120, Soon: 120,
				Longest: 40}},
		"one of ten places is left": {[]KeyWork{{Ready: 10_000, Running: 9}},
			task.KeyLimits{MaxRunning: 10},
			Keys{Ready: 10_000, Running: 9, Full: 8500, AtOnce: 10, Slots: 10, FullSlots: 10,
				Work: 20_000, Soon: 3000, Longest: 2000}},
		"more run than may": {[]KeyWork{{Running: 9}}, task.KeyLimits{MaxRunning: 1},
			Keys{Running: 9, Slots: 9}},
		"a key that is too fast": {[]KeyWork{{Ready: 10_000, Running: 4, Left: 0}},
			task.KeyLimits{Rate: perSecond(3)},
			Keys{Ready: 10_000, Running: 4, Full: 10_000, AtOnce: 900, Slots: 6, FullSlots: 6,
				Work: 20_000, Soon: 1800, Longest: 10_000. / 3}},
		"its rate lets all begin": {[]KeyWork{{Ready: 5, Left: 50}},
			task.KeyLimits{Rate: task.Rate{Count: 1, Per: time.Minute}, Burst: 50},
			Keys{Ready: 5, AtOnce: 5, Slots: 5, Work: 10, Soon: 10}},
		"nobody knows what its rate has left": {[]KeyWork{{Ready: 100, Left: -1}},
			task.KeyLimits{Rate: task.Rate{Count: 1, Per: time.Minute}, Burst: 50},
			Keys{Ready: 100, Full: 45, AtOnce: 55, Slots: 2 * 55. / 300, FullSlots: 2 * 55. / 300,
				Work: 200, Soon: 110, Longest: 3000}},
		"mixed": {append(alike(2, KeyWork{Ready: 1000, Running: 1}), paused, KeyWork{Ready: 1}),
			task.KeyLimits{MaxRunning: 1},
			Keys{Ready: 102_001, Running: 3, Held: 100_000, Full: 2000, AtOnce: 3, Slots: 4,
				FullSlots: 2, Work: 4002, Soon: 602, Longest: 2000}},
	} {
		c.want.Known = true
		if got := KeysOf(c.list, &c.limits, 2, false); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
	if !KeysOf(nil, &task.KeyLimits{}, 1, true).Cut {
		t.Error("nobody hears that the list was cut")
	}
}

// keyed is a queue to which so many tasks of a second came each minute, of which so many ended.
func keyed(came, left float64, ready, running int64, k Keys) Queue {
	q := Queue{
		Name: "q", ByKeys: true, Ready: ready, Running: running, Keys: k, Record: steady(came, 1),
	}
	q.Record.Left = slices.Repeat([]float64{left}, Window)
	for i := range q.Record.Waited { // for their keys: these are no bursts
		q.Record.Waited[i], q.Record.Slots[i] = 3600, 1000
	}
	return q
}

func TestWorkersDoNotHelpTasksThatWaitForTheirKeys(t *testing.T) {
	order := task.KeyLimits{MaxRunning: 1}
	slow := task.KeyLimits{Rate: task.Rate{Count: 1, Per: 4 * time.Second}}
	paused := KeyWork{Ready: 100_000, Held: true}
	three := alike(3, KeyWork{Ready: 30_000, Running: 1})
	oneRuns := append(alike(2, KeyWork{Ready: 30_000}), three[0])
	oneLong := append(alike(5, KeyWork{Running: 1}), KeyWork{Ready: 100_000, Running: 1})
	inOrder := func(list []KeyWork) Keys { return KeysOf(list, &order, 1, false) }
	for name, c := range map[string]struct {
		queue  Queue
		each   int // slots of a worker
		wanted int
		known  bool
		waits  bool
		why    string
	}{
		"without keys it is a backlog": {keyed(60, 60, 100_000, 1, Keys{}), 8, 42, true, true,
			"60 tasks a minute of 1s each, 1 slot busy; 100,000 are ready, which take 1h45m with the workers that there are; 42 workers of 8 slots work that off in 5m, then keep 95 % of the waits below 5s"},
		"a paused key has all of it": {
			keyed(60, 60, 100_000, 1, KeysOf([]KeyWork{paused}, &task.KeyLimits{}, 1, false)),
			8, 1, true, true,
			"60 tasks a minute of 1s each, 1 slot busy; 100,000 ready tasks are of keys that are paused, or whose task in front failed or waits; 1 worker of 8 slots keeps 95 % of the waits below 5s"},
		"a paused key to which 6,000 come a minute": {
			keyed(6060, 60, 100_000, 1, KeysOf([]KeyWork{paused}, &task.KeyLimits{}, 1, false)),
			8, 1, true, false,
			"6,060 tasks a minute of 1s each, 101 slots busy; 100,000 ready tasks are of keys that are paused, or whose task in front failed or waits; 1 worker of 8 slots keeps 95 % of the waits below 5s"},
		"a paused key, beside others that have too few workers": {
			keyed(1260, 960, 130_000, 16, KeysOf([]KeyWork{paused, {Ready: 30_000, Running: 16}},
				&task.KeyLimits{}, 1, false)), 8, 16, true, false,
			"1,260 tasks a minute of 1s each, 21 slots busy; 30,000 are ready, which take 31m40s with the workers that there are; 100,000 ready tasks are of keys that are paused, or whose task in front failed or waits; 16 workers of 8 slots work that off in 4m40s, then keep 95 % of the waits below 5s"},
		"nothing came but of a paused key": {
			keyed(100, 0, 100_000, 0, KeysOf([]KeyWork{paused}, &task.KeyLimits{}, 1, false)),
			8, 0, false, false,
			"nothing of it may begin: 100,000 ready tasks are of keys that are paused, or whose task in front failed or waits"},
		"a key in order": {keyed(1200, 60, 100_000, 1,
			inOrder(oneLong[5:])), 1, 1, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; 100,000 are ready, which take 27h47m with the workers that there are; its keys let 1 run: more workers are of no use; 1 worker of 1 slot keeps 95 % of the waits below 5s"},
		"three keys of one each": {keyed(3600, 180, 90_000, 3,
			inOrder(three)), 1, 3, true, false,
			"3,600 tasks a minute of 1s each, 60 slots busy; 90,000 are ready, which take 8h20m with the workers that there are; its keys let 3 run: more workers are of no use; 3 workers of 1 slot keep 95 % of the waits below 5s"},
		"three keys of which one runs": {keyed(3600, 60, 90_000, 1,
			inOrder(oneRuns)), 1, 3, true, false,
			"3,600 tasks a minute of 1s each, 60 slots busy; 90,000 are ready, which take 8h20m with the workers that there are; its keys let 3 run: more workers are of no use; 3 workers of 1 slot keep 95 % of the waits below 5s"},
		"its own limit lets fewer run": {
			func() Queue {
				q := keyed(3600, 120, 90_000, 2, inOrder(three))
				q.MaxRunning = 2
				return q
			}(), 1, 2, true, false,
			"3,600 tasks a minute of 1s each, 60 slots busy; max_running is 2: more workers are of no use; 2 workers of 1 slot keep 95 % of the waits below 5s"},
		"a rate of each key": {keyed(3600, 60, 40_000, 1,
			KeysOf(append(alike(3, KeyWork{Ready: 10_000}), KeyWork{Ready: 10_000, Running: 1}),
				&slow, 1, false)), 1, 1, true, false,
			"3,600 tasks a minute of 1s each, 60 slots busy; 40,000 are ready, which take 11h7m with the workers that there are; its keys let 1 run: more workers are of no use; 1 worker of 1 slot keeps 95 % of the waits below 5s"},
		"a key in order beside many others": {keyed(1500, 360, 100_000, 6,
			inOrder(oneLong)), 1, 7, true, false,
			"1,500 tasks a minute of 1s each, 25 slots busy; 100,000 are ready, which take 27h47m with the workers that there are; some of its keys have more to do than they may at a time; 7 workers of 1 slot keep 95 % of the waits below 5s"},
		"a list that was cut": {keyed(60, 60, 100_000, 1, KeysOf(
			[]KeyWork{{Ready: 20_000, Held: true}}, &task.KeyLimits{}, 1, true)), 8, 34, true, true,
			"60 tasks a minute of 1s each, 1 slot busy; 80,000 are ready, which take 1h23m with the workers that there are; 20,000 ready tasks are of keys that are paused, or whose task in front failed or waits; not all of its keys were looked at; 34 workers of 8 slots work that off in 5m, then keep 95 % of the waits below 5s"},
		"a key that waits for a moment only": {keyed(1200, 1200, 3, 20,
			inOrder(alike(3, KeyWork{Ready: 1, Running: 1}))), 1, 21, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; 21 workers of 1 slot keep 95 % of the waits below 5s"},
	} {
		workers := alikeWorkers(16/c.each, c.each)
		n := needOf(t, Facts{Queues: []Queue{c.queue}, Workers: workers}, "q", Target)
		if n.Wanted != c.wanted || n.Known != c.known || n.Bounded != c.waits || n.Why != c.why {
			t.Errorf("%s: wanted %d, known %v, bounded %v, %s", name, n.Wanted, n.Known, n.Bounded, n.Why)
		}
	}
}

func alikeWorkers(n, slots int) []Worker {
	return slices.Repeat([]Worker{{Slots: slots, Queues: []string{"q"}}}, n)
}

// What keys hold back does not come to the workers that a queue shares, either.
func TestKeysHoldTasksBackFromSharedWorkers(t *testing.T) {
	a := keyed(3600, 180, 90_000, 3, KeysOf(alike(3, KeyWork{Ready: 30_000, Running: 1}),
		&task.KeyLimits{MaxRunning: 1}, 1, false))
	a.Name = "a"
	b := Queue{Name: "b", Record: steady(300, 1)}
	both := slices.Repeat([]Worker{{1, []string{"a", "b"}}}, 20)
	m := New(Facts{Queues: []Queue{a, b}, Workers: both})
	n, _ := m.Queue("b", Ask{Target: Target})
	if busy := m.pools[1].all.lately(); math.Abs(busy-8) > 0.1 || n.Wanted > 12 {
		t.Errorf("%v busy: %+v", busy, n)
	}
	n, _ = m.Queue("a", Ask{Target: Target})
	if n.Wanted > 12 || !strings.Contains(n.Why, "some of its keys have more to do") {
		t.Errorf("%+v", n)
	}
}

// Whatever keys hold back, no more is wanted than without them; and what is wanted is a number.
func TestKeysNeverMakeMoreWanted(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	less := 0
	for i := range 2000 {
		f := drawn(r)
		q := &f.Queues[0]
		q.ByKeys = true
		q.Record.Left = make([]float64, len(q.Record.Arrived))
		for i, n := range q.Record.Arrived {
			q.Record.Left[i] = n * r.Float64()
		}
		bare := needOf(t, f, q.Name, Target)
		limits := task.KeyLimits{MaxRunning: r.IntN(4)}
		if r.IntN(2) == 0 {
			per := time.Duration(1+r.IntN(20)) * time.Second
			limits.Rate = task.Rate{Count: 1 + r.Int64N(20), Per: per}
		}
		var list []KeyWork
		ready, running := q.Ready, q.Running
		for range r.IntN(20) {
			w := KeyWork{
				Ready: r.Int64N(ready + 1), Running: r.Int64N(running + 1), Held: r.IntN(4) == 0,
				Left: float64(r.IntN(10) - 1),
			}
			ready, running = ready-w.Ready, running-w.Running
			list = append(list, w)
		}
		q.Keys = KeysOf(list, &limits, q.Record.Mean, false)
		n := needOf(t, f, q.Name, Target)
		// of shared workers another part may fall to the queue then, with other bursts
		more := n.Wanted > bare.Wanted && !New(f).pools[0].shared
		if more || n.Wanted < 0 || strings.Contains(n.Why, "-") ||
			strings.Contains(n.Why, "NaN") || strings.Contains(n.Why, "292277h") {
			t.Fatalf("%d: %+v of %+v\n%+v, without keys\n%+v", i, n, q.Keys, list, bare)
		}
		if n.Wanted < bare.Wanted {
			less++
		}
	}
	if less < 100 {
		t.Error(fmt.Sprint("keys made less wanted in only ", less))
	}
}
