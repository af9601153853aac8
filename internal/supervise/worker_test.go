package supervise_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

const (
	// after the sending of the last answered beat a worker stops its jobs by itself, unless the
	// answer says something else
	selfStop = 12 * time.Second
	starting = 200 * time.Millisecond
)

// worker is a process that runs jobs, in memory.
type worker struct {
	house       *house
	name        string
	incarnation string
	capacity    float64
	most        float64 // capacity that it ever had
	groups      []string
	labels      map[string]string
	zone        string
	fails       func(job string) string // why a job fails here now; "" = it does not

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	nodes  []string // that it reaches, the one that it prefers first; empty = none
	roams  bool     // each of its beats goes to another node
	frozen bool     // its process is stopped: it neither beats nor stops anything
	thawed time.Time
	runs   map[key]*run
	quiet  map[string]bool // jobs whose handlers give no signs
	stops  time.Duration   // it stops its jobs so long after the last answered beat
	every  time.Duration   // between two beats, at most
	signs  bool            // beats tell of signs
	begun  int             // runs that were begun
	ended  int             // and told to end
	over   error
}

type key struct{ group, job string }

type run struct {
	task.Assignment
	since time.Time
	state task.JobState
	alive time.Time
}

// worker starts a worker that prefers the first of the nodes.
func (h *house) worker(name string, capacity float64, nodes ...string) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hired++
	w := &worker{
		house: h, name: name, incarnation: fmt.Sprint("i", h.hired), capacity: capacity,
		most: capacity, groups: []string{"g"}, nodes: nodes,
		runs: map[key]*run{}, quiet: map[string]bool{}, stops: selfStop, every: 5 * time.Second,
		fails: func(string) string { return "" },
	}
	h.workers[name] = w
	w.begin(h)
	return w
}

func (w *worker) begin(h *house) {
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(h.T.Context()))
	w.done.Go(w.live)
}

// workers starts several of the same kind: w0, w1, …
func (h *house) addWorkers(n int, capacity float64, nodes ...string) {
	for i := range n {
		h.worker(fmt.Sprintf("w%d", i), capacity,
			slices.Concat(nodes[i%len(nodes):], nodes[:i%len(nodes)])...)
	}
}

// kill ends a worker at once, with all that it runs.
func (w *worker) kill() {
	w.stop()
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.runs)
}

// reach lets a worker reach other nodes from now on.
func (w *worker) reach(nodes ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = nodes
}

func (w *worker) freeze(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = yes
}

func (w *worker) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		w.frozen, w.thawed = false, time.Now()
	}
}

func (w *worker) list() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, r := range w.runs {
		list = append(list, fmt.Sprintf("%s/%s/%d@%s", k.group, k.job, r.Replica, w.name))
	}
	return list
}

// live beats until the worker ends.
func (w *worker) live() {
	answered := time.Now() // when the last beat was sent that was answered
	version := ""
	for w.ctx.Err() == nil {
		w.mu.Lock()
		frozen := w.frozen
		w.mu.Unlock()
		if frozen {
			w.sleep(100 * time.Millisecond)
			continue
		}
		if time.Since(answered) >= w.stops {
			w.mu.Lock()
			clear(w.runs)
			w.mu.Unlock()
		}
		sent := time.Now()
		within := w.stops - time.Since(answered)
		if within <= 0 { // nothing runs any more that an answer in between might not stop in time
			within = w.every
		}
		answer, err := w.send(w.beat(version), within)
		if s, ok := asSuperseded(err); ok && s {
			w.mu.Lock()
			w.over = err
			clear(w.runs)
			w.house.Log.Info("worker ends", "worker", w.name, "incarnation", w.incarnation, "error",
				err)
			w.mu.Unlock()
			return
		}
		if err != nil {
			w.sleep(300 * time.Millisecond)
			continue
		}
		answered, version = sent, answer.Version
		w.mu.Lock()
		w.stops, w.every, w.signs = selfStop, answer.Beat, answer.Jobs.Signs
		if answer.Jobs.Silence > 0 {
			w.stops = answer.Jobs.Silence * 4 / 5
		}
		w.mu.Unlock()
		w.obey(answer.Jobs)
		w.sleep(starting)
	}
}

func asSuperseded(err error) (yes, ok bool) {
	for ; err != nil; err = unwrap(err) {
		if s, is := err.(interface{ Superseded() bool }); is {
			return s.Superseded(), true
		}
	}
	return false, false
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

func (w *worker) sleep(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// beat is what the worker says now.
func (w *worker) beat(version string) task.Beat {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := task.Beat{
		Worker: w.name, Incarnation: w.incarnation, Capacity: w.capacity,
		Groups: slices.Clone(w.groups), Labels: w.labels, Zone: w.zone,
		Wait: 5 * time.Second, Version: version,
	}
	if w.every < b.Wait {
		b.Wait = w.every * 3 / 5
	}
	for k, r := range w.runs {
		if time.Since(r.since) >= starting {
			r.state = task.JobRunning
		}
		told := task.Run{
			Group: k.group, Job: k.job, Replica: r.Replica, Token: r.Token.String(), State: r.state,
		}
		if why := w.fails(k.job); why != "" {
			told.State, told.Error = task.JobFailed, why
		}
		if !w.quiet[k.job] {
			r.alive = time.Now()
		}
		if w.signs {
			told.Alive = r.alive
		}
		if told.State == task.JobStarting {
			b.Wait = starting // it wants to say that it runs
		}
		b.Jobs = append(b.Jobs, told)
	}
	slices.SortFunc(b.Jobs, func(a, b task.Run) int { return cmpRun(a, b) })
	return b
}

// send brings a beat to the first node that it reaches and that answers. Each has its share of the
// time that is left, so that one that is never going to answer leaves some to the others.
func (w *worker) send(b task.Beat, within time.Duration) (answer task.BeatAnswer, err error) {
	w.mu.Lock()
	if w.roams && len(w.nodes) > 1 {
		w.nodes = append(slices.Clone(w.nodes[1:]), w.nodes[0])
	}
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	over := time.Now().Add(within)
	err = fault.ErrAway
	for i, name := range nodes {
		n := w.house.Node(name)
		w.mu.Lock()
		cut := !slices.Contains(w.nodes, name)
		w.mu.Unlock()
		if n == nil || cut {
			continue
		}
		if n.Dead() {
			continue
		}
		share := time.Until(over) / time.Duration(len(nodes)-i)
		ctx, cancel := context.WithTimeout(w.ctx, share)
		b.Wait = min(b.Wait, share*3/5)
		answer, err = n.Tasks.Beat(ctx, b)
		cancel()
		w.mu.Lock()
		lost := n.Dead() || !slices.Contains(w.nodes, name) || w.frozen
		w.mu.Unlock()
		if lost { // the answer did not come through
			err = fault.ErrAway
			continue
		}
		if yes, ok := asSuperseded(err); err == nil || yes && ok {
			return answer, err
		}
	}
	return answer, err
}

// obey does what an answer says.
func (w *worker) obey(o task.Orders) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := map[key]bool{}
	for _, e := range o.End {
		k := key{e.Group, e.Job}
		if r := w.runs[k]; r != nil && r.Token.String() == e.Token {
			delete(w.runs, k)
			w.ended++
		}
	}
	for _, a := range o.Add {
		k := key{a.Group, a.Job}
		wanted[k] = true
		if r := w.runs[k]; r != nil && r.Token == a.Token {
			continue
		}
		w.runs[k] = &run{a, time.Now(), task.JobStarting, time.Now()}
		w.begun++
	}
	for k := range w.runs {
		if o.Reset && !wanted[k] {
			delete(w.runs, k)
			w.ended++
		}
	}
}

func cmpRun(a, b task.Run) int {
	if a.Group+"/"+a.Job < b.Group+"/"+b.Job {
		return -1
	}
	return 1
}

func (w *worker) serve(groups ...string) { w.change(func() { w.groups = groups }) }

func (w *worker) label(k, v string) { w.change(func() { w.labels = map[string]string{k: v} }) }

func (w *worker) resize(capacity float64) { w.change(func() { w.capacity = capacity }) }

func (w *worker) failOn(fails func(job string) string) { w.change(func() { w.fails = fails }) }

func (w *worker) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// pretend makes a worker run what it was never given.
func (w *worker) pretend(group, job string, token task.JobToken) {
	w.change(func() {
		w.runs[key{group, job}] = &run{
			task.Assignment{Group: group, Job: job, Token: token}, time.Now(), task.JobRunning,
			time.Now(),
		}
	})
}

// leave ends a worker in order.
func (w *worker) leave() {
	w.kill()
	w.mu.Lock()
	nodes := w.nodes
	w.mu.Unlock()
	b := w.beat("")
	b.Leaving, b.Wait = true, 0
	for _, name := range nodes {
		if n := w.house.Node(name); n != nil {
			if _, err := n.Tasks.Beat(context.Background(), b); err == nil {
				return
			}
		}
	}
}
