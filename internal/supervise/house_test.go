package supervise_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/nodetest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

const (
	beat   = nodetest.Beat
	lease  = nodetest.Lease
	maxAge = nodetest.MaxAge
)

// house is a cluster whose nodes have jobs, with workers, and what really runs.
type house struct {
	*nodetest.House[*nodetest.Jobs]
	sources supervise.Sources

	mu      sync.Mutex
	hired   int
	workers map[string]*worker
	events  []string
	moves   map[string]int // by change and reason
	lax     bool           // the store has lost rows: what runs is in none
}

func newHouse(t *testing.T) *house {
	h := &house{workers: map[string]*worker{}, moves: map[string]int{}}
	h.House = nodetest.New(t, nodetest.WithJobs(
		func(_ *nodetest.Node[*nodetest.Jobs], c *supervise.Config) {
			c.Sources, c.Tell, c.Moved = h.sources, h.tell, h.moved
			c.Gone = func() { h.moved("gone", "") }
		}))
	h.Watch = h.audit
	h.Stand = func() string {
		return fmt.Sprintf("assignments: %v\nruns: %v", h.stand("g"), h.running())
	}
	return h
}

// inHouse runs a story in a bubble, and ends everything in it.
func inHouse(t *testing.T, story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		defer h.Close()
		story(h)
		synctest.Wait()
		h.audit()
	})
}

// Close ends all workers, and then all nodes.
func (h *house) Close() {
	for _, w := range h.workers {
		w.kill()
	}
	h.House.Close()
}

// writes counts what came through a door that changes something of jobs, or might have.
func writes(d *fault.Door) int { return d.Calls("Seat", "Observe", "Assign") }

func (h *house) tell(e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e.Kind+" "+e.Subject)
	h.Log.Info("event", "kind", e.Kind, "text", e.Text)
}

func (h *house) moved(change supervise.Change, why supervise.Why) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves[strings.TrimSpace(string(change)+" "+string(why))]++
}

// movedBy takes what was told of moves since it was asked last.
func (h *house) movedBy() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	moves := h.moves
	h.moves = map[string]int{}
	return moves
}

// told is how often an event was told.
func (h *house) told(kind string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if k, _, _ := strings.Cut(e, " "); k == kind {
			n++
		}
	}
	return n
}

// group makes a group with jobs j0000, j0001, … of one unit each.
func (h *house) group(name string, jobs int, change ...func(*task.Group)) {
	h.T.Helper()
	g := limits.DefaultGroup(name)
	for _, f := range change {
		f(&g)
	}
	_, err := h.Store.ChangeGroup(h.T.Context(), g.Name, store.Whole(g))
	h.Must(err)
	if jobs > 0 {
		h.jobs(name, jobs)
	}
}

// jobs makes a group's jobs be j0000, j0001, …
func (h *house) jobs(group string, n int) {
	h.T.Helper()
	list := make([]task.Job, n)
	for i := range list {
		list[i] = task.Job{Name: fmt.Sprintf("j%04d", i), Load: task.Unit}
	}
	_, err := h.Store.ChangeJobs(h.T.Context(), store.JobChange{
		Group: group, Whole: true, Put: list,
	})
	h.Must(err)
}

// stand lists the assignments of a group that have not ended, by job and replica.
func (h *house) stand(group string) []store.Assignment {
	h.T.Helper()
	c, err := h.Store.Changes(context.Background(), group, 0)
	h.Must(err)
	list := slices.DeleteFunc(c.Assignments, func(a store.Assignment) bool {
		return a.State == store.Ended
	})
	slices.SortFunc(list, func(a, b store.Assignment) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), cmp.Compare(a.Replica, b.Replica),
			strings.Compare(a.Worker, b.Worker))
	})
	return list
}

// spread is how many assignments of a group each worker has.
func (h *house) spread(group string) map[string]int {
	counts := map[string]int{}
	for _, a := range h.stand(group) {
		counts[a.Worker]++
	}
	return counts
}

// allRun tells whether the wanted replicas of a group run, all of them and nothing else.
func (h *house) allRun(group string, replicas int) func() bool {
	return func() bool {
		n := 0
		for _, a := range h.stand(group) {
			if a.State != task.JobRunning {
				return false
			}
			n++
		}
		return n == replicas && len(h.running()) == replicas
	}
}

// running lists what really runs, as job/replica@worker.
func (h *house) running() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, w := range h.workers {
		list = append(list, w.list()...)
	}
	slices.Sort(list)
	return list
}

// ofJobs tells whether a call of the store is about jobs, or about who lives: without the others a
// node would be no member, or could not start.
func ofJobs(verb string) bool {
	return slices.Contains([]string{"Free", "Board", "Changes", "Seat", "Observe", "Assign",
		"ChangeJobs", "NoteSource"}, verb)
}
