package supervise_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// walkSeeds is how many walks a test run takes.
const walkSeeds = 100

// oddSeeds are walks of later seeds that once found something.
var oddSeeds = []uint64{2112, 2441}

// Whatever happens to workers, nodes, jobs and the store: nothing ever runs twice or above a
// worker's capacity, and when the trouble ends everything that has a place runs.
func TestWhateverHappensEndsWell(t *testing.T) {
	seeds := slices.Clone(oddSeeds)
	for seed := range uint64(story.Often(walkSeeds, 6)) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inHouse(t, func(h *house) { newWalk(h, seed).takes() })
		})
	}
}

// walk is a random story.
type walk struct {
	*house
	*rand.Rand
	names  []string // of nodes
	count  int      // workers that came
	ill    bool     // the store fails now and then
	jobs   int
	copies int
	acts   map[string]func()
}

func newWalk(h *house, seed uint64) *walk {
	w := &walk{
		house: h, Rand: rand.New(rand.NewPCG(seed, 1)), names: []string{"n1", "n2", "n3"}, jobs: 8,
		copies: 2,
	}
	faults := rand.New(rand.NewPCG(seed, 2)) // of its own: it is drawn from by many
	h.Fail(func(verb string) fault.Fault {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !w.ill || !ofJobs(verb) || faults.IntN(4) > 0 {
			return fault.None
		}
		return fault.Before + fault.Fault(faults.IntN(2))
	})
	w.acts = map[string]func(){
		"come": w.come, "die": w.die, "again": w.again, "freeze": w.freeze, "thaw": w.thaw,
		"reach": w.reach, "leave": w.leaves, "drain": w.drain,
		"fail": w.fail, "label": w.labels, "kill": w.killNode, "start": w.startNode,
		"cut": w.cutNode, "list": w.list, "policy": w.policy, "pause": w.pause,
		"ask": w.ask, "silences": w.silences, "hush": w.hush, "ill": w.fallIll,
		"roam": w.roam, "well": func() {
			w.heal()
		}, "rest": func() { w.Pass(20 * time.Second) },
	}
	return w
}

// silences changes how long the group's workers and handlers may be silent.
func (w *walk) silences() {
	limits := []time.Duration{4 * time.Second, 15 * time.Second, 40 * time.Second}
	handlers := time.Duration(w.IntN(2)*10) * time.Second
	w.configure("g", silentFor(limits[w.IntN(3)]), jobSilence(handlers))
}

// hush lets a handler of some worker give no signs, or all give some again.
func (w *walk) hush() {
	for _, name := range slices.Sorted(maps.Keys(w.workers)) {
		job, quiet := fmt.Sprintf("j%04d", w.IntN(w.jobs)), w.IntN(3) == 0
		one := w.workers[name]
		one.change(func() {
			if clear(one.quiet); quiet {
				one.quiet[job] = true
			}
		})
	}
}

func (w *walk) takes() {
	w.group("g", w.jobs, replicas(w.copies))
	w.Start(w.names...)
	for range 4 {
		w.come()
	}
	w.Pass(10 * time.Second)
	names := slices.Sorted(maps.Keys(w.acts))
	for range 25 {
		name := names[w.IntN(len(names))]
		w.Log.Info("act", "name", name)
		w.acts[name]()
		w.Pass(time.Duration(w.IntN(6000)) * time.Millisecond)
	}
	w.Log.Info("act", "name", "mend")
	w.mend()
	w.Await(4*time.Minute, "everything that has a place runs", func() bool {
		return w.allRun("g", w.jobs*min(w.copies, len(w.alive())))()
	})
	w.Await(3*time.Minute, "it is spread evenly", func() bool { return w.even() <= 1 })
}

// mend ends all trouble.
func (w *walk) mend() {
	w.heal()
	for _, name := range w.names {
		if w.Node(name).Dead() {
			w.Kill(name)
			w.Start(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.workers)) {
		v := w.workers[name]
		v.thaw()
		v.reach(w.names...)
		v.failOn(func(string) string { return "" })
		v.change(func() { clear(v.quiet) })
	}
	for _, name := range w.alive() {
		w.drained(name, false)
	}
	w.configure("g", func(g *task.Group) { g.Paused, g.Policy.Moves, g.Selector = false, 10, nil })
}

// even is the spread over the workers that live.
func (w *walk) even() int {
	counts, all := map[string]int{}, w.spread("g")
	for _, name := range w.alive() {
		counts[name] = all[name]
	}
	if len(counts) == 0 {
		return 0
	}
	return spreadOf(counts)
}

// alive lists the workers whose processes live.
func (w *walk) alive() (names []string) {
	for name, v := range w.workers {
		if v.ctx.Err() == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// some is one of the workers that live, nil when none does.
func (w *walk) some() *worker {
	names := w.alive()
	if len(names) == 0 {
		return nil
	}
	return w.workers[names[w.IntN(len(names))]]
}

// on does something to one of the workers.
func (w *walk) on(act func(v *worker)) {
	if v := w.some(); v != nil {
		act(v)
	}
}

// order is the nodes in any order.
func (w *walk) order() []string {
	names := slices.Clone(w.names)
	w.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func (w *walk) come() {
	if len(w.alive()) < 8 {
		w.count++
		w.worker(fmt.Sprint("w", w.count), 20, w.order()...)
	}
}

func (w *walk) die() { w.on(func(v *worker) { v.kill() }) }

// again restarts a worker at once.
func (w *walk) again() {
	w.on(func(v *worker) {
		v.kill()
		next := w.worker(v.name, 20, w.order()...)
		next.change(func() { next.labels = v.labels })
	})
}

func (w *walk) freeze() { w.on(func(v *worker) { v.freeze(true) }) }

func (w *walk) thaw() {
	for _, name := range w.alive() {
		w.workers[name].thaw()
	}
}

func (w *walk) reach() { w.on(func(v *worker) { v.reach(w.order()[:w.IntN(4)]...) }) }

func (w *walk) roam() { w.on(func(v *worker) { v.change(func() { v.roams = !v.roams }) }) }

func (w *walk) leaves() { w.on(func(v *worker) { v.leave() }) }

func (w *walk) drain() { w.on(func(v *worker) { w.drained(v.name, w.IntN(2) == 0) }) }

// gives is what a worker is to give up: the ones with an even number all they have, the others two
// units of it, one of them within ten seconds.
func (w *walk) gives(name string) (what store.Drain) {
	switch name[len(name)-1] {
	case '1', '5', '7':
		what.Shed = 2 * task.Unit
	case '3':
		what.Shed, what.By = 2*task.Unit, time.Now().Add(10*time.Second).UnixMicro()
	}
	return what
}

// drained says at all nodes that know a worker that it is drained, or not.
func (w *walk) drained(name string, yes bool) {
	for _, n := range w.Nodes() {
		if !n.Dead() {
			// a node that does not know it, or not the store, says so
			if yes {
				n.Tasks.DrainWorker(w.T.Context(), name, w.gives(name))
			} else {
				n.Tasks.UndrainWorker(w.T.Context(), name)
			}
		}
	}
}

func (w *walk) fail() {
	bad := w.IntN(3)
	w.on(func(v *worker) {
		v.failOn(func(job string) string {
			if int(job[4]-'0')%3 == bad {
				return "it is ill"
			}
			return ""
		})
	})
}

func (w *walk) labels() {
	w.on(func(v *worker) { v.label("kind", []string{"", "gpu"}[w.IntN(2)]) })
}

func (w *walk) killNode() {
	name := w.names[w.IntN(len(w.names))]
	w.Kill(name)
}

func (w *walk) startNode() {
	for _, name := range w.names {
		if w.Node(name).Dead() {
			w.Kill(name)
			w.Start(name)
			return
		}
	}
}

func (w *walk) cutNode() {
	n := w.Node(w.names[w.IntN(len(w.names))])
	n.Door.Cut()
	w.Pass(time.Duration(w.IntN(15000)) * time.Millisecond)
	n.Door.Restore()
}

func (w *walk) list() {
	w.jobs = 1 + w.IntN(12)
	w.house.jobs("g", w.jobs)
}

func (w *walk) policy() {
	w.copies = 1 + w.IntN(3)
	w.configure("g", replicas(w.copies), func(g *task.Group) {
		g.Policy.Moves = w.IntN(5)
		g.Selector = [](map[string]string){nil, {"kind": "gpu"}}[w.IntN(5)/4]
	})
}

func (w *walk) pause() { w.configure("g", func(g *task.Group) { g.Paused = !g.Paused }) }

func (w *walk) ask() { w.Must(w.Store.AskGroup(w.T.Context(), "g", false, true)) }

func (w *walk) fallIll() { w.illness(true) }
func (w *walk) heal()    { w.illness(false) }

func (w *walk) illness(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ill = yes
}
