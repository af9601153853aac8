package place

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// world is a cluster in which plans are carried out as slowly, and with as many accidents, as in
// life: what is stopped takes rounds to go, and a replica that moves is on both workers meanwhile.
type world struct {
	t      *rapid.T
	jobs   map[string]Job
	sites  map[string]Worker
	runs   map[run]phase
	shuns  []Penalty
	policy Policy
	made   int
}

type run struct {
	job     string
	replica int
	worker  string
}

// phase is what becomes of a run: it stays, or waits for its successor, or ends.
type phase int

const (
	stays phase = iota
	waits       // Moving
	ends        // Going
)

func newWorld(t *rapid.T, p Policy) *world {
	return &world{
		t: t, jobs: map[string]Job{}, sites: map[string]Worker{}, runs: map[run]phase{}, policy: p,
	}
}

func (w *world) state() State {
	s := State{Penalties: w.shuns}
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		s.Jobs = append(s.Jobs, w.jobs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.sites)) {
		s.Workers = append(s.Workers, w.sites[name])
	}
	for _, r := range w.running() {
		s.Current = append(s.Current, Replica{
			Job: r.job, Replica: r.replica, Worker: r.worker, Going: w.runs[r] == ends,
			Moving: w.runs[r] == waits, Load: w.jobs[r.job].Load,
		})
	}
	return s
}

func (w *world) running() []run {
	return slices.SortedFunc(maps.Keys(w.runs), func(x, y run) int {
		return cmp.Or(cmp.Compare(x.job, y.job), cmp.Compare(x.replica, y.replica),
			cmp.Compare(x.worker, y.worker))
	})
}

func (w *world) plan() Plan {
	plan, err := Compute(w.state(), w.policy)
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

// begin carries out the beginning of a plan.
func (w *world) begin(p Plan) {
	for _, x := range p.Stop {
		w.runs[run{x.Job, x.Replica, x.Worker}] = ends
	}
	for _, x := range p.Start {
		w.runs[run{x.Job, x.Replica, x.Worker}] = stays
	}
	for _, x := range p.Move {
		w.runs[run{x.Job, x.Replica, x.From}] = waits
		w.runs[run{x.Job, x.Replica, x.To}] = stays
	}
}

// pass lets some of what is under way go on; with all, all of it.
func (w *world) pass(all bool) {
	for _, r := range w.running() {
		if !all && rapid.IntRange(0, 2).Draw(w.t, "later") == 0 {
			continue
		}
		_, alive := w.sites[r.worker]
		switch phase := w.runs[r]; {
		case !alive || phase == ends:
			delete(w.runs, r)
		case phase == waits && w.successor(r):
			w.runs[r] = ends
		case phase == waits:
			w.runs[r] = stays
		}
	}
}

func (w *world) successor(r run) bool {
	for other, phase := range w.runs {
		if _, alive := w.sites[other.worker]; alive && other.job == r.job &&
			other.replica == r.replica && other != r && phase == stays {
			return true
		}
	}
	return false
}

// mix is what loads and capacities jobs and workers have.
type mix struct {
	loads      []Load
	capacities []Load
	used       []Load
	zones      []string
	labels     []string
	replicas   int
}

var (
	unit = mix{
		loads: []Load{Unit}, capacities: []Load{8 * Unit}, used: []Load{0}, zones: []string{""},
		labels: []string{"x"}, replicas: 3,
	}
	units = mix{
		loads: []Load{Unit}, capacities: []Load{Unit, 2 * Unit, 3 * Unit, 8 * Unit},
		used: []Load{0, 0, Unit}, zones: []string{""}, labels: []string{"x"}, replicas: 3,
	}
	wild = mix{
		loads:      []Load{0, Unit / 2, Unit, Unit, 2 * Unit, 3 * Unit},
		capacities: []Load{0, Unit, 2500, 4 * Unit, 4 * Unit, 10 * Unit}, used: []Load{0, 0, 700},
		zones: []string{"", "", "a", "b", "c"}, labels: []string{"x", "x", "x", "y"}, replicas: 4,
	}
)

func (w *world) join(m mix) {
	w.made++
	name := fmt.Sprintf("w%02d", w.made)
	w.sites[name] = Worker{
		Name:     name,
		Capacity: rapid.SampledFrom(m.capacities).Draw(w.t, "capacity"),
		Used:     rapid.SampledFrom(m.used).Draw(w.t, "used"),
		Passing:  rapid.SampledFrom(m.used).Draw(w.t, "passing"),
		Zone:     rapid.SampledFrom(m.zones).Draw(w.t, "zone"),
		Labels:   map[string]string{"kind": rapid.SampledFrom(m.labels).Draw(w.t, "label")},
	}
}

func (w *world) list(m mix) {
	w.made++
	name := fmt.Sprintf("j%02d", w.made)
	w.jobs[name] = Job{
		Name: name, Load: rapid.SampledFrom(m.loads).Draw(w.t, "load"),
		Replicas: rapid.IntRange(0, m.replicas).Draw(w.t, "replicas"),
	}
}

// disturb does something that plans must live with.
func (w *world) disturb(m mix) {
	kinds := []string{
		"join", "join", "list", "list", "list", "die", "die", "unlist", "drain", "fail", "resize",
		"reload", "use", "lose", "forgive", "shed",
	}
	kind := rapid.SampledFrom(kinds).Draw(w.t, "event")
	worker, job := w.someWorker(), w.someJob()
	switch site, listed := w.sites[worker], w.jobs[job]; {
	case kind == "join" || worker == "":
		w.join(m)
	case kind == "list" || job == "":
		w.list(m)
	case kind == "die":
		delete(w.sites, worker)
	case kind == "unlist":
		delete(w.jobs, job)
		for r := range w.runs { // what it takes is not known by its job any more
			if r.job == job && listed.Load > 0 {
				w.runs[r] = ends
			}
		}
	case kind == "drain":
		site.Draining = !site.Draining
		w.sites[worker] = site
	case kind == "shed":
		site.Shed = rapid.SampledFrom([]Load{0, Unit / 2, Unit, 3 * Unit, 9 * Unit}).Draw(w.t, "shed")
		w.sites[worker] = site
	case kind == "fail":
		w.shuns = append(w.shuns, Penalty{job, worker})
	case kind == "forgive":
		w.shuns = nil
	case kind == "resize":
		site.Capacity = rapid.SampledFrom(m.capacities).Draw(w.t, "capacity")
		w.sites[worker] = site
	case kind == "use":
		site.Used = rapid.SampledFrom(m.used).Draw(w.t, "used")
		site.Passing = rapid.SampledFrom(m.used).Draw(w.t, "passing")
		w.sites[worker] = site
	case kind == "reload":
		listed.Load = rapid.SampledFrom(m.loads).Draw(w.t, "load")
		listed.Replicas = rapid.IntRange(0, m.replicas).Draw(w.t, "replicas")
		w.jobs[job] = listed
	case kind == "lose": // a replica is not there any more
		if all := w.running(); len(all) > 0 {
			delete(w.runs, rapid.SampledFrom(all).Draw(w.t, "run"))
		}
	}
}

func (w *world) someWorker() string { return some(w.t, "worker", w.sites) }
func (w *world) someJob() string    { return some(w.t, "job", w.jobs) }

func some[V any](t *rapid.T, what string, m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, what)
}
