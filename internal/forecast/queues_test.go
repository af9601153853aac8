package forecast

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// steady is a record of an hour in which as many came each minute, of such a length.
func steady(perMinute, seconds float64) Record {
	r := Record{Runs: perMinute * 60, Mean: seconds, Second: 2 * seconds * seconds}
	for range Window {
		r.Arrived = append(r.Arrived, perMinute)
		r.Waited = append(r.Waited, -1)
		r.Slots = append(r.Slots, -1)
	}
	return r
}

func needOf(t *testing.T, f Facts, queue string, target time.Duration) Need {
	t.Helper()
	n, there := New(f).Queue(queue, Ask{Target: target})
	if !there {
		t.Fatalf("there is no %s", queue)
	}
	return n
}

func TestWhatQueuesNeedAndWhy(t *testing.T) {
	eight := []Worker{{Slots: 8, Queues: []string{"q"}}, {Slots: 8, Queues: []string{"q", "none"}}}
	limited := func(max int, rate task.Rate) Queue {
		return Queue{MaxRunning: max, Rate: rate, Record: steady(1200, 1)}
	}
	for name, c := range map[string]struct {
		queue   Queue
		workers []Worker
		wanted  int
		known   bool
		waits   bool
		why     string
	}{
		"nothing came": {Queue{}, eight, 0, false, false, "nothing came in the last hour"},
		"what runs goes on": {Queue{Running: 9}, eight, 2, false, false,
			"nothing new came in the last hour; what runs goes on"},
		"nothing ended": {Queue{Ready: 1, Record: Record{
			Arrived: []float64{1}, Waited: []float64{-1}, Slots: []float64{-1},
		}}, eight, 1, false, false,
			"none of its tasks has ended in the last hour, so nobody knows how long they run"},
		"paused": {Queue{Paused: true, Running: 1, Record: steady(1200, 1)}, eight, 1, false, false,
			"it is paused: nothing is handed out"},
		"nobody serves it": {Queue{Ready: 5, Record: steady(1200, 1)}, nil, 1, false, false,
			"no worker takes its tasks; how many it needs is known once one does"},
		"no room": {Queue{Ready: 5, Record: steady(1200, 1)}, []Worker{{Queues: []string{"q"}}},
			1, false, false, "its workers have no room for tasks beside their jobs"},
		"a worker too few": {Queue{Record: steady(1200, 1)}, eight, 3, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; 3 workers of 8 slots keep 95 % of the waits below 5s"},
		"one is enough": {Queue{Record: steady(60, 0.1)}, eight, 1, true, true,
			"60 tasks a minute of 100ms each, 0.1 slots busy; 1 worker of 8 slots keeps 95 % of the waits below 5s"},
		"a backlog": {Queue{Ready: 120_000, Record: steady(60, 0.1)}, eight, 6, true, true,
			"60 tasks a minute of 100ms each, 0.1 slots busy; 120,000 are ready, which take 12m30s with the workers that there are; 6 workers of 8 slots work that off in 4m10s, then keep 95 % of the waits below 5s"},
		"a slot for each is enough": {Queue{Ready: 5, Record: steady(0.1, 600)},
			eight, 1, true, true,
			"0.1 tasks a minute of 10m each, 1 slot busy; 1 worker of 8 slots keeps 95 % of the waits below 5s"},
		"max_running": {limited(4, task.Rate{}), eight, 1, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; max_running is 4: more workers are of no use; 1 worker of 8 slots keeps 95 % of the waits below 5s"},
		"rate": {limited(0, task.Rate{Count: 10, Per: time.Second}), eight, 2, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; its rate is 10/1s: more workers are of no use; 2 workers of 8 slots keep 95 % of the waits below 5s"},
		"a backlog that max_running holds back": {
			Queue{Ready: 1e6, MaxRunning: 4, Record: steady(60, 1)}, eight, 1, true, true,
			"60 tasks a minute of 1s each, 1 slot busy; 1,000,000 are ready, which take 69h27m with the workers that there are; max_running is 4: more workers are of no use; 1 worker of 8 slots works that off in 91h40m, then keeps 95 % of the waits below 5s"},
		"a backlog that a rate holds back": {
			Queue{Ready: 1e6, Rate: task.Rate{Count: 30, Per: time.Second}, Record: steady(60, 1)},
			eight, 4, true, true,
			"60 tasks a minute of 1s each, 1 slot busy; 1,000,000 are ready, which take 17h30m with the workers that there are; its rate is 30/1s: more workers are of no use; 4 workers of 8 slots work that off in 9h27m, then keep 95 % of the waits below 5s"},
		"limits that hold nothing back": {limited(400, task.Rate{Count: 100, Per: time.Second}),
			eight, 3, true, false,
			"1,200 tasks a minute of 1s each, 20 slots busy; 3 workers of 8 slots keep 95 % of the waits below 5s"},
	} {
		c.queue.Name = "q"
		n := needOf(t, Facts{
			Queues: []Queue{c.queue, {Name: "none"}}, Workers: c.workers,
		}, "q", Target)
		if n.Wanted != c.wanted || n.Known != c.known || n.Bounded != c.waits || n.Why != c.why {
			t.Errorf("%s: wanted %d, known %v, bounded %v, %s", name, n.Wanted, n.Known, n.Bounded, n.Why)
		}
	}
	if _, there := New(Facts{}).Queue("q", Ask{Target: Target}); there {
		t.Error("there is a queue that does not exist")
	}
}

// Queues on the same workers need together what one queue with the tasks of both would.
func TestQueuesOnTheSameWorkersNeedThemTogether(t *testing.T) {
	both := []string{"a", "b"}
	workers := []Worker{{4, both}, {4, both}, {4, both}}
	f := Facts{Workers: workers, Queues: []Queue{
		{Name: "a", Record: steady(300, 1)}, {Name: "b", Record: steady(600, 1)},
	}}
	one := needOf(t, Facts{Workers: workers, Queues: []Queue{
		{Name: "a", Record: steady(900, 1)},
	}}, "a", Target)
	a, b := needOf(t, f, "a", Target), needOf(t, f, "b", Target)
	if a.Wanted != one.Wanted || b.Wanted != one.Wanted || a.Busy != 5 || b.Busy != 10 {
		t.Errorf("a %+v\nb %+v\ntogether %+v", a, b, one)
	}
	if !strings.Contains(a.Why, "5 slots busy, 15 with those of b on the same workers") {
		t.Error(a.Why)
	}
	// a queue of its own on further workers takes its tasks there, too, by their slots
	f.Workers = append(f.Workers, Worker{12, []string{"a"}})
	if got, busy := needOf(t, f, "b", Target), New(f).pools[1].all.lately(); busy != 12.5 ||
		got.Wanted != 4 {
		t.Errorf("b wants %d of %v busy slots", got.Wanted, busy)
	}
	see, _ := New(f).Queue("a", Ask{Target: Target, See: func(queue string) bool { return queue == "a" }})
	if !strings.Contains(see.Why, "with those of others") {
		t.Error(see.Why)
	}
}

// What a limit holds back does not come to the workers that a queue shares.
func TestLimitsHoldTasksBackFromSharedWorkers(t *testing.T) {
	both := []string{"a", "b"}
	for name, q := range map[string]Queue{
		"max_running": {MaxRunning: 4}, "rate": {Rate: task.Rate{Count: 4, Per: time.Second}},
	} {
		q.Name, q.Record, q.Ready = "a", steady(1200, 1), 1e6
		m := New(Facts{Workers: []Worker{{20, both}}, Queues: []Queue{
			q, {Name: "b", Record: steady(300, 1)},
		}})
		if busy := m.pools[1].all.lately(); busy < 8.99 || busy > 9.01 {
			t.Errorf("%s: %v slots busy, want 4 of a and 5 of b", name, busy)
		}
		if n, _ := m.Queue("b", Ask{Target: Target}); n.Wanted != 1 || !n.Bounded {
			t.Errorf("%s: what a limit holds back is no backlog: %+v", name, n)
		}
	}
}

// drawn is a cluster by chance.
func drawn(r *rand.Rand) Facts {
	var f Facts
	names := make([]string, 1+r.IntN(5))
	for i := range names {
		names[i] = fmt.Sprint("q", i)
		q := Queue{Name: names[i], Ready: int64(r.IntN(1000)), Running: int64(r.IntN(10))}
		q.Record = Record{Runs: 1 + float64(r.IntN(1000)), Mean: 0.01 + 10*r.Float64()}
		q.Record.Second = q.Record.Mean * q.Record.Mean * (1 + 3*r.Float64())
		for range 10 + r.IntN(51) {
			q.Record.Arrived = append(q.Record.Arrived, float64(r.IntN(1+r.IntN(300))))
			q.Record.Waited = append(q.Record.Waited, 10*r.Float64()-1)
			q.Record.Slots = append(q.Record.Slots, float64(r.IntN(50)-1))
		}
		if r.IntN(8) == 0 {
			q.Paused = true
		}
		if r.IntN(6) == 0 {
			q.MaxRunning = 1 + r.IntN(20)
		}
		f.Queues = append(f.Queues, q)
	}
	for range r.IntN(8) {
		w := Worker{Slots: r.IntN(9)}
		for _, name := range names {
			if r.IntN(2) == 0 {
				w.Queues = append(w.Queues, name)
			}
		}
		f.Workers = append(f.Workers, w)
	}
	return f
}

// What is wanted is enough, and one less is not; a stricter target, and tasks that are longer,
// never need fewer workers.
func TestWhatIsWantedIsTheLeastThatIsEnough(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	checked := 0
	for range 300 {
		f := drawn(r)
		m := New(f)
		for i := range f.Queues {
			q, p := &f.Queues[i], &m.pools[i]
			n, _ := m.Queue(q.Name, Ask{Target: Target})
			if !n.Known || q.MaxRunning > 0 {
				continue
			}
			checked++
			each := p.slots / float64(p.workers)
			if !p.enough(q, float64(n.Wanted)*each, Target.Seconds()) ||
				n.Wanted > 1 && p.enough(q, float64(n.Wanted-1)*each, Target.Seconds()) {
				t.Fatalf("%+v", n)
			}
			if n.Bounded && n.Waits < Target*99/100 && n.Workers < n.Wanted &&
				float64(q.Ready)*q.Record.Mean < p.slots && !p.shared {
				t.Fatalf("it waits %v and wants more: %+v", n.Waits, n)
			}
			if n.Bounded && p.all.ready > p.slots-p.all.lately() &&
				n.Waits.Seconds() < p.all.backlog/p.slots-0.001 {
				t.Fatalf("what is ready takes %v s: %+v", p.all.backlog/p.slots, n)
			}
			if strict, _ := m.Queue(q.Name, Ask{Target: Target / 10}); strict.Wanted < n.Wanted {
				t.Fatalf("%d for a tenth of the wait of %d", strict.Wanted, n.Wanted)
			}
			if p.shared {
				continue
			}
			more := *q
			more.Record.Mean, more.Record.Second = 2*q.Record.Mean, 4*q.Record.Second
			more.Record.Waited = make([]float64, len(q.Record.Waited))
			less := *q
			less.Record.Waited = more.Record.Waited
			few := needOf(t, Facts{Queues: []Queue{less}, Workers: f.Workers}, q.Name, Target)
			many := needOf(t, Facts{Queues: []Queue{more}, Workers: f.Workers}, q.Name, Target)
			if many.Wanted < few.Wanted {
				t.Fatalf("twice as long: %d, before %d", many.Wanted, few.Wanted)
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d were checked", checked)
	}
}

func TestForecastsDoNotDependOnTheOrderOfFacts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		f := drawn(r)
		want := map[string]Need{}
		for _, n := range New(f).Needs() {
			want[n.Queue] = n
		}
		r.Shuffle(len(f.Workers), func(i, j int) {
			f.Workers[i], f.Workers[j] = f.Workers[j], f.Workers[i]
		})
		for _, n := range New(f).Needs() {
			if !reflect.DeepEqual(n, want[n.Queue]) {
				t.Fatalf("%+v, want %+v", n, want[n.Queue])
			}
		}
	}
}

// Waits that room for all does not explain are bursts, up to what a minute has.
func TestWaitsThatNothingElseExplainsAreBursts(t *testing.T) {
	with := func(waited, slots float64) *Record {
		r := steady(300, 0.2) // one slot busy
		for i := range r.Waited {
			r.Waited[i], r.Slots[i] = waited, slots
		}
		return &r
	}
	for name, c := range map[string]struct {
		record      *Record
		least, most float64
	}{
		"nobody knows the slots":   {with(2.5, -1), 1, 1},
		"there were none":          {with(2.5, 0), 1, 1},
		"there were too few":       {with(2.5, 1), 1, 1},
		"far too few":              {with(60, 1), 1, 1},
		"nothing waited":           {with(0, 12), 1, 1},
		"as long as by chance":     {with(0.02, 2), 1, 1},
		"as long as bursts of 100": {with(100*0.2/2/12, 12), 100, 115},
		"longer than all at once":  {with(60, 12), 300, 300},
	} {
		if got := c.record.bursts(); got < c.least || got > c.most {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func BenchmarkThousandQueues(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	var f Facts
	for i := range 1000 {
		q := Queue{Name: fmt.Sprint("q", i), Record: steady(float64(r.IntN(1000)), r.Float64())}
		for k := range q.Record.Arrived {
			q.Record.Arrived[k] = float64(r.IntN(2000))
		}
		f.Queues = append(f.Queues, q)
	}
	for range 1000 {
		w := Worker{Slots: 32}
		for range 3 {
			w.Queues = append(w.Queues, fmt.Sprint("q", r.IntN(1000)))
		}
		f.Workers = append(f.Workers, w)
	}
	for b.Loop() {
		New(f).Needs()
	}
}
