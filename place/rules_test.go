package place

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// These tests let plans be carried out in a world of accidents and check, of each plan and of what
// comes of it, the laws of the package comment. They are told from what runs where, not from what
// Compute says of itself.

func TestLawsHoldThroughAccidents(t *testing.T) { rapid.Check(t, lawsHold) }

func FuzzLawsHoldThroughAccidents(f *testing.F) { f.Fuzz(rapid.MakeFuzz(lawsHold)) }

func lawsHold(t *rapid.T) {
	m := rapid.SampledFrom([]mix{unit, units, wild, wild}).Draw(t, "mix")
	w := newWorld(t, Policy{
		Replicas: rapid.IntRange(0, 3).Draw(t, "replicas by default"),
		Zones:    rapid.Bool().Draw(t, "zones"),
		Moves:    rapid.SampledFrom([]int{-1, 0, 1, 2, 100}).Draw(t, "moves"),
		New:      rapid.SampledFrom([]int{-1, 0, 1, 2}).Draw(t, "new"),
	})
	if rapid.Bool().Draw(t, "selects") {
		w.policy.Selector = map[string]string{"kind": "x"}
	}
	for range rapid.IntRange(0, 6).Draw(t, "workers") {
		w.join(m)
	}
	for range rapid.IntRange(0, 8).Draw(t, "jobs") {
		w.list(m)
	}
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		for range rapid.IntRange(0, 2).Draw(t, "rounds") {
			w.round(false)
		}
		w.disturb(m)
	}
	w.rests()
}

// round makes a plan, checks it, and carries it out.
func (w *world) round(all bool) Plan {
	s := w.state()
	plan := w.plan()
	checkPlan(w.t, s, w.policy, plan)
	w.begin(plan)
	w.pass(all)
	return plan
}

// rests lets the world come to rest, and checks what it rests in.
func (w *world) rests() {
	for range 500 {
		quiet := !w.underWay()
		if plan := w.round(true); quiet && plan.Empty() {
			checkRest(w.t, w.state(), w.policy, plan)
			return
		}
	}
	w.t.Fatalf("no rest: %+v\n%+v", w.state(), w.plan())
}

func (w *world) underWay() bool {
	for r, phase := range w.runs {
		if _, alive := w.sites[r.worker]; phase != stays || !alive {
			return true
		}
	}
	return false
}

// facts are a state looked up by names.
type facts struct {
	jobs    map[string]Job
	workers map[string]Worker
	shuns   map[Penalty]bool
	policy  Policy
}

func factsOf(s State, p Policy) facts {
	f := facts{map[string]Job{}, map[string]Worker{}, map[Penalty]bool{}, p}
	for _, j := range s.Jobs {
		if j.Replicas == 0 {
			j.Replicas = max(p.Replicas, 1)
		}
		f.jobs[j.Name] = j
	}
	for _, w := range s.Workers {
		f.workers[w.Name] = w
	}
	for _, penalty := range s.Penalties {
		f.shuns[penalty] = true
	}
	return f
}

// mayRun reports whether a job may be on a worker, room and its other replicas aside.
func (f facts) mayRun(job, worker string) bool {
	w, alive := f.workers[worker]
	return alive && w.Capacity > w.Shed && !w.Draining && f.policy.selects(w.Labels) &&
		!f.shuns[Penalty{job, worker}]
}

func (f facts) load(r Replica) Load {
	if j, listed := f.jobs[r.Job]; listed {
		return j.Load
	}
	return r.Load
}

// checkPlan checks what holds of every plan.
func checkPlan(t *rapid.T, s State, p Policy, plan Plan) {
	f := factsOf(s, p)
	taken := map[string]Load{}    // of a worker, while nothing has ended yet
	there := map[[2]string]bool{} // job and worker
	current := map[run]Replica{}  //
	// of a job's replica: where it is said to be, to wait or to come
	places := map[string]map[int]int{}
	for _, r := range s.Current {
		if at := (run{r.Job, r.Replica, r.Worker}); !current[at].Going { // of what is said twice
			current[at] = r
		}
	}
	for _, r := range current {
		taken[r.Worker] += f.load(r)
		there[[2]string{r.Job, r.Worker}] = true
	}
	for name := range f.jobs {
		places[name] = map[int]int{}
	}
	arrivals := map[string]int{}
	arrive := func(job, worker string) {
		if !f.mayRun(job, worker) {
			t.Fatalf("%s may not be on %s", job, worker)
		}
		if there[[2]string{job, worker}] {
			t.Fatalf("%s is on %s already", job, worker)
		}
		there[[2]string{job, worker}] = true
		taken[worker] += f.jobs[job].Load
		w := f.workers[worker]
		if got := taken[worker] + w.Used + w.Passing; got > w.Capacity-w.Shed {
			t.Fatalf("%s has %v of %v less %v", worker, got, w.Capacity, w.Shed)
		}
		arrivals[worker]++
	}
	for _, x := range plan.Stop {
		r, runs := current[run{x.Job, x.Replica, x.Worker}]
		if !runs || r.Going {
			t.Fatalf("%v does not run", x)
		}
		delete(current, run{x.Job, x.Replica, x.Worker})
	}
	for _, x := range plan.Start {
		arrive(x.Job, x.Worker)
		places[x.Job][x.Replica]++
	}
	for _, x := range plan.Move {
		arrive(x.Job, x.To)
		r, runs := current[run{x.Job, x.Replica, x.From}]
		if !runs || r.Going {
			t.Fatalf("%v does not run", x)
		}
	}
	for _, x := range plan.Pending {
		places[x.Job][x.Replica]++
		if x.Reason.String() == string(x.Reason.Code) {
			t.Fatalf("%+v has no words", x.Reason)
		}
	}
	checkBudgets(t, p, plan, arrivals)
	checkPlaces(t, f, s, current, places)
}

func checkBudgets(t *rapid.T, p Policy, plan Plan, arrivals map[string]int) {
	moves, fresh := p.Moves, p.New
	if moves == 0 {
		moves = DefaultMoves
	}
	if fresh == 0 {
		fresh = DefaultNew
	}
	if len(plan.Move) > max(moves, 0) {
		t.Fatalf("%d moves, at most %d", len(plan.Move), moves)
	}
	for worker, n := range arrivals {
		if fresh >= 0 && n > fresh {
			t.Fatalf("%s gets %d, at most %d", worker, n, fresh)
		}
	}
}

// checkPlaces checks that each wanted replica runs, starts or waits exactly once, and that what
// runs on is within capacity and apart.
func checkPlaces(
	t *rapid.T, f facts, s State, current map[run]Replica, places map[string]map[int]int,
) {
	stay := map[string]Load{}
	apart := map[[2]string]bool{}
	former := map[run]bool{}
	for at, r := range current {
		job, listed := f.jobs[at.job]
		w, alive := f.workers[at.worker]
		switch {
		case r.Going:
			continue
		case !listed || !alive || at.replica >= job.Replicas:
			t.Fatalf("%v runs on, which nobody wants", at)
		case apart[[2]string{at.job, at.worker}]:
			t.Fatalf("two replicas of %s run on on %s", at.job, at.worker)
		}
		apart[[2]string{at.job, at.worker}] = true
		if r.Moving {
			former[at] = true
			continue
		}
		places[at.job][at.replica]++
		if stay[at.worker] += job.Load; job.Load > 0 && stay[at.worker]+w.Used > w.Capacity {
			t.Fatalf("%s keeps %v of %v beside %v", at.worker, stay[at.worker], w.Capacity, w.Used)
		}
	}
	for at := range former { // counts when nothing has come or comes in its place
		if places[at.job][at.replica] == 0 {
			places[at.job][at.replica]++
		}
	}
	for name, j := range f.jobs {
		for replica := range j.Replicas {
			if n := places[name][replica]; n != 1 {
				t.Fatalf("replica %d of %s has %d places: %v\n%+v", replica, name, n, places, s)
			}
		}
		if len(places[name]) != j.Replicas {
			t.Fatalf("%s has %v places", name, places[name])
		}
	}
}

// checkRest checks what holds when nothing is left to be done.
func checkRest(t *rapid.T, s State, p Policy, plan Plan) {
	f := factsOf(s, p)
	taken := map[string]Load{}
	on := map[string][]Replica{}
	of := map[string][]Replica{}
	for _, r := range s.Current {
		taken[r.Worker] += f.load(r)
		on[r.Worker] = append(on[r.Worker], r)
		of[r.Job] = append(of[r.Job], r)
	}
	// takes reports whether a worker could take one more of a job now.
	takes := func(job string, w Worker) bool {
		for _, r := range of[job] {
			if r.Worker == w.Name {
				return false
			}
		}
		return f.mayRun(job, w.Name) &&
			taken[w.Name]+w.Used+w.Passing+f.jobs[job].Load <= w.Capacity-w.Shed
	}
	share := func(w Worker, more Load) *big.Rat {
		return big.NewRat(int64(taken[w.Name]+w.Used+more), int64(w.Capacity))
	}
	sharing := func(r Replica, zone string) (n int) {
		for _, other := range of[r.Job] {
			if other.Worker != r.Worker && zone != "" && p.Zones &&
				f.workers[other.Worker].Zone == zone {
				n++
			}
		}
		return n
	}
	for _, x := range plan.Pending {
		for _, w := range s.Workers {
			if takes(x.Job, w) {
				t.Fatalf("%s waits (%v), and %s has room: %+v %+v\n%+v", x.Job, x.Reason, w.Name, s,
					p, plan)
			}
		}
	}
	if p.Moves < 0 {
		return
	}
	checkSpread(t, s, p, taken)
	for _, r := range s.Current {
		from := f.workers[r.Worker]
		for _, v := range s.Workers {
			switch load := f.load(r); {
			case !takes(r.Job, v):
			case !f.mayRun(r.Job, r.Worker):
				t.Fatalf("%v is to leave, and %s has room: %+v\n%+v\n%+v", r, v.Name, s, p, plan)
			case from.Shed > 0 && load > 0 && taken[from.Name]+from.Used > from.Capacity-from.Shed:
				t.Fatalf("%v is to leave what sheds, and %s has room: %+v\n%+v", r, v.Name, s, p)
			case sharing(r, v.Zone) < sharing(r, from.Zone):
				t.Fatalf("%v shares a zone, and %s has room", r, v.Name)
			case sharing(r, v.Zone) > sharing(r, from.Zone):
			case load > 0 && share(v, load).Cmp(share(from, 0)) < 0:
				t.Fatalf("%v would be better on %s", r, v.Name)
			}
		}
	}
}

// checkSpread: with equal loads, capacities and rights no worker has two jobs more than another.
func checkSpread(t *rapid.T, s State, p Policy, taken map[string]Load) {
	if len(s.Jobs) == 0 || len(s.Workers) == 0 || len(s.Penalties) > 0 || p.Zones {
		return
	}
	least, most := Load(math.MaxInt64), Load(0)
	for _, w := range s.Workers {
		first := s.Workers[0]
		if w.Capacity != first.Capacity || w.Used+w.Passing > 0 || w.Draining || w.Shed > 0 ||
			w.Labels["kind"] != first.Labels["kind"] {
			return
		}
		least, most = min(least, taken[w.Name]), max(most, taken[w.Name])
	}
	for _, j := range s.Jobs {
		if j.Load != s.Jobs[0].Load {
			return
		}
	}
	if most-least > s.Jobs[0].Load {
		t.Fatalf("workers have from %v to %v", least, most)
	}
}
