package supervise_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

const (
	beat  = time.Second
	lease = 10 * time.Second
	// of what was read, for beats to be answered by it
	maxAge = lease * 3 / 4
)

var secret = seal.Secret{Key: [32]byte{47, 11}}

var errAway = fmt.Errorf("away: %w", store.ErrOutOfReach)

// node is one life of a node: what the module's root ties together.
type node struct {
	name     string
	door     *door
	rounds   *scheduler.Scheduler
	tasks    *dispatch.Dispatcher
	sessions *supervise.Sessions
	cache    *supervise.ClusterCache
	stop     context.CancelFunc
	loops    sync.WaitGroup

	mu    sync.Mutex
	heard time.Time // when the last renewal was asked for that was answered
	dead  bool
}

// held says whether the node is certainly a member.
func (n *node) held() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.heard) >= lease-beat {
		return errAway
	}
	return nil
}

// rounds is how often something is tried: often, or as often as is enough for the race detector,
// which looks for what no seed and no place of a fault decides. The whole runs without it.
func rounds(often, enough int) int {
	if testing.Short() {
		return enough
	}
	return often
}

// house is a cluster in a bubble: nodes, workers, and what really runs.
type house struct {
	t       *testing.T
	store   *model.Model
	sources supervise.Sources

	mu      sync.Mutex
	starts  int
	nodes   map[string]*node
	workers map[string]*worker
	events  []string
	moves   map[string]int // by change and reason
	fault   func(verb string) fault.Fault
	crash   crash
	lax     bool // the store has lost rows: what runs is in none
	log     *slog.Logger
	journal *journal // what it says
}

// journal keeps the lines of a log.
type journal struct {
	to io.Writer

	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return j.to.Write(line)
}

// count is how many lines have a text in them.
func (j *journal) count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// inHouse runs a story in a bubble, and ends everything in it.
func inHouse(t *testing.T, story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{
			t: t, store: model.New(time.Now), nodes: map[string]*node{},
			workers: map[string]*worker{}, moves: map[string]int{},
			journal: &journal{to: t.Output()},
		}
		h.log = slog.New(slog.NewTextHandler(h.journal, nil))
		defer h.close()
		story(h)
		synctest.Wait()
		h.audit()
	})
}

func (h *house) close() {
	for _, w := range h.workers {
		w.kill()
	}
	for name := range h.nodes {
		h.kill(name)
	}
	synctest.Wait()
}

// start begins a life of a node.
func (h *house) start(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.startOne(name)
		time.Sleep(beat * 137 / 1000) // so that their beats don't fall together
	}
}

func (h *house) startOne(name string) {
	h.t.Helper()
	h.mu.Lock()
	h.starts++
	start := fmt.Sprint("start", h.starts)
	h.mu.Unlock()
	n := &node{name: name, door: &door{Model: h.store, fault: h.fault}}
	if h.crash.node == name {
		n.door.crash = &h.crash
	}
	n.cache = supervise.NewClusterCache(n.door, beat)
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	n.stop = stop
	var err error
	n.rounds, err = scheduler.New(scheduler.Config{
		Leases: n.door, Chores: n.door, Name: name, Start: start, TTL: lease, Beat: beat,
		Along: dispatch.Words(), Passing: []string{dispatch.AlivePrefix},
		Log: h.log.With("node", name),
		Heard: func(asked, answered time.Time, got store.Beat) {
			n.mu.Lock()
			n.heard = asked
			n.mu.Unlock()
			if n.sessions != nil {
				n.tasks.HearStore(asked, answered, got)
				n.sessions.HearStore(got.Leases)
			}
		},
	})
	h.must(err)
	h.must(n.rounds.Claim(scheduler.Kind{Name: "group", Keys: n.cache.Names,
		Look: func(ctx context.Context, c scheduler.Claim) {
			s, err := supervise.New(supervise.Config{
				Cache: n.cache, Store: n.door, Group: c.Key, Claim: store.Lease{
					Name: "claim/group/" + c.Key, Holder: name + "@" + start, Token: c.Token,
				},
				Beat: beat, Sources: h.sources, Tell: h.tell, Log: h.log.With("node", name),
				Moved: h.moved, Gone: func() { h.moved("gone", "") },
			})
			h.must(err)
			h.must(s.Run(ctx))
		}}))
	holder, err := n.rounds.Join(ctx)
	h.must(err)
	clock := tick.New(tick.Config{})
	conf := dispatch.Config{
		Store: n.door, Holder: holder, Clock: clock, Secret: secret, Working: n.rounds.Working,
	}
	n.sessions, err = supervise.NewSessions(supervise.SessionsConfig{
		Cache: n.cache, Store: n.door, Holder: holder, Secret: secret, Held: n.held, Beat: beat,
		MaxAge:  maxAge,
		Log:     h.log.With("node", name),
		Reserve: func(worker string, load task.Units) { n.tasks.Reserve(worker, load) },
	})
	h.must(err)
	conf.Jobs = n.sessions
	n.tasks, err = dispatch.New(ctx, conf)
	h.must(err)
	for _, loop := range []func(context.Context) error{clock.Run, n.tasks.Run, n.sessions.Run} {
		n.loops.Go(func() { loop(ctx) })
	}
	n.loops.Go(func() {
		if err := n.rounds.Run(ctx); err != nil { // it was ousted: the process ends
			n.end()
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[name] = n
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// end lets a node reach nobody any more.
func (n *node) end() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	n.door.cut(true)
	n.stop()
	n.tasks.Stop()
}

// ended tells whether a node reaches nobody.
func (n *node) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// kill ends a node at once.
func (h *house) kill(name string) {
	n := h.nodes[name]
	n.end()
	n.loops.Wait()
	n.tasks.Close(context.Background())
}

func (h *house) tell(e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e.Kind+" "+e.Subject)
	h.log.Info("event", "kind", e.Kind, "text", e.Text)
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
	h.t.Helper()
	g := limits.DefaultGroup(name)
	for _, f := range change {
		f(&g)
	}
	_, err := h.store.ChangeGroup(h.t.Context(), g.Name, store.Whole(g))
	h.must(err)
	if jobs > 0 {
		h.jobs(name, jobs)
	}
}

// jobs makes a group's jobs be j0000, j0001, …
func (h *house) jobs(group string, n int) {
	h.t.Helper()
	list := make([]task.Job, n)
	for i := range list {
		list[i] = task.Job{Name: fmt.Sprintf("j%04d", i), Load: task.Unit}
	}
	_, err := h.store.ChangeJobs(h.t.Context(), store.JobChange{
		Group: group, Whole: true, Put: list,
	})
	h.must(err)
}

// stand lists the assignments of a group that have not ended, by job and replica.
func (h *house) stand(group string) []store.Assignment {
	h.t.Helper()
	c, err := h.store.Changes(context.Background(), group, 0)
	h.must(err)
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

// await waits until something holds, and says how long that took. It looks so seldom that a story
// in which it takes a while stays quick.
func (h *house) await(within time.Duration, what string, holds func() bool) time.Duration {
	h.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		h.audit()
		switch waited := time.Since(begun); {
		case holds():
			return waited
		case waited > within:
			h.t.Fatalf("after %v: %s does not hold\nassignments: %v\nruns: %v", waited, what,
				h.stand("g"), h.running())
		}
	}
}

// pass lets time go by, and audits what happens.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		h.audit()
	}
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

// live is a node that answers.
func (h *house) live() (list []*node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		list = append(list, h.nodes[name])
	}
	return list
}
