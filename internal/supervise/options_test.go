package supervise_test

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

func replicas(n int) func(*task.Group) { return func(g *task.Group) { g.Replicas = n } }

func selects(k, v string) func(*task.Group) {
	return func(g *task.Group) { g.Selector = map[string]string{k: v} }
}

func paused(g *task.Group) { g.Paused = true }

// configure changes a group's configuration.
func (h *house) configure(name string, change ...func(*task.Group)) {
	h.T.Helper()
	list, err := h.Store.Groups(h.T.Context())
	h.Must(err)
	for i := range list {
		if list[i].Name == name {
			g := list[i].Group
			for _, f := range change {
				f(&g)
			}
			_, err := h.Store.ChangeGroup(h.T.Context(), g.Name, store.Whole(g))
			h.Must(err)
		}
	}
}

// settled is a house with so many workers of 60 units at one node, on which jobs run.
func settled(t *testing.T, workers, jobs, copies int, story func(h *house)) {
	t.Helper()
	inHouse(t, func(h *house) {
		h.group("g", jobs, replicas(copies))
		h.Start("n1")
		h.addWorkers(workers, 60, "n1")
		h.Await(time.Minute, "all run", h.allRun("g", jobs*copies))
		h.calm()
		story(h)
	})
}

// calm waits until nothing moves any more.
func (h *house) calm() {
	h.T.Helper()
	for last, at := -1, time.Now(); time.Since(at) < 5*beat; h.Pass(beat) {
		if begun, ended := h.begun(); begun+ended != last {
			last, at = begun+ended, time.Now()
		}
	}
}

// add adds a job.
func (h *house) add(group, name string) {
	h.T.Helper()
	_, err := h.Store.ChangeJobs(h.T.Context(), store.JobChange{
		Group: group, Put: []task.Job{{Name: name, Load: task.Unit}},
	})
	h.Must(err)
}

// newStore puts an empty store in the place of the one that there was. All nodes must be dead.
func (h *house) newStore() { h.Store = model.New(time.Now) }

// specs is how many replicas of a job run with a spec.
func (h *house) specs(job, spec string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		w.mu.Lock()
		if r := w.runs[key{"g", job}]; r != nil && string(r.Spec) == spec {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// Kinds of events.
const (
	groupShort = supervise.GroupShort
	groupOK    = supervise.GroupOK
	groupWarm  = supervise.GroupWarm
	workerDead = supervise.WorkerDead

	workersSilent = supervise.WorkersSilent
)

func (h *house) seat(worker string) store.Seat {
	h.T.Helper()
	got, err := h.Store.Seats(h.T.Context(), 0)
	h.Must(err)
	for _, s := range got.Seats {
		if s.Worker == worker {
			return s
		}
	}
	return store.Seat{}
}

// submissions are tasks of queue q.
func submissions(n int) []task.Submission {
	list := make([]task.Submission, n)
	for i := range list {
		list[i].Queue = "q"
	}
	return list
}
