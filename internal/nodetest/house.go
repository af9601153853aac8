package nodetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/story"
)

// Times of all nodes.
const (
	Beat  = time.Second
	Lease = 10 * time.Second
)

// glance is how often a house is watched. It is so seldom that a story in which something takes a
// while stays quick.
const glance = 50 * time.Millisecond

// Config of a house: what its nodes have besides what all nodes have. Each function may be nil.
type Config[Own any] struct {
	// Begin is the time at which the store's clock begins, as time.DateTime. Default: that of the
	// bubble.
	Begin string
	// Alone: each node works alone on its store.
	Alone bool
	// Scheduler changes how a node's scheduler is made.
	Scheduler func(*Node[Own], *scheduler.Config) error
	// Dispatcher changes how its dispatcher is made. The node is a member by then.
	Dispatcher func(*Node[Own], *dispatch.Config) error
	// Tie ties the rest to what a node has. Its loops begin afterwards.
	Tie func(*Node[Own]) error
}

// House is a cluster in a bubble, on the reference model.
type House[Own any] struct {
	T       *testing.T
	Store   *model.Model // behind the doors of the nodes
	Journal *story.Journal
	Log     *slog.Logger // kept in the journal
	// Watch is called again and again while time passes. Default: nothing is watched.
	Watch func()
	// Stand says how things stand, when what a story waits for does not come. Default: it says
	// nothing.
	Stand func() string

	conf Config[Own]

	mu     sync.Mutex
	skew   time.Duration // of the store's clock to the bubble's
	starts int
	nodes  map[string]*Node[Own] // the last life of each
	fail   func(verb string) fault.Fault
	crash  map[string]func(verb string) fault.Fault // by node
}

// New is a house without nodes, in a bubble. It is to be closed in there.
func New[Own any](t *testing.T, conf Config[Own]) *House[Own] {
	t.Helper()
	h := &House[Own]{
		T: t, Journal: story.NewJournal(t.Output()), conf: conf, nodes: map[string]*Node[Own]{},
		crash: map[string]func(string) fault.Fault{},
	}
	h.Log = h.Journal.Log()
	if conf.Begin != "" {
		at, err := time.Parse(time.DateTime, conf.Begin)
		h.Must(err)
		h.skew = time.Until(at)
	}
	h.Store = model.New(h.Now)
	return h
}

// Close kills all nodes.
func (h *House[Own]) Close() {
	for _, n := range h.Nodes() {
		h.Kill(n.Name)
	}
	synctest.Wait()
}

// Must ends the story when something failed.
func (h *House[Own]) Must(err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

// Now is what the store's clock reads.
func (h *House[Own]) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.skew)
}

// Jump moves the store's clock.
func (h *House[Own]) Jump(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.skew += d
}

// Fail lets calls of the store fail at all nodes, those to come too; see [fault.Door.Fail].
func (h *House[Own]) Fail(how func(verb string) fault.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = how
	for _, n := range h.nodes {
		n.Door.Fail(how)
	}
}

// CrashAt lets a node that is to start crash at a call of the store; see [fault.Door.CrashAt].
func (h *House[Own]) CrashAt(name string, where func(verb string) fault.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crash[name] = where
}

// Start begins lives of nodes, a while apart, so that their beats don't fall together.
func (h *House[Own]) Start(names ...string) {
	h.T.Helper()
	for _, name := range names {
		h.StartOne(name)
		time.Sleep(Beat * 137 / 1000)
	}
}

// StartOne begins a life of a node, in no time.
func (h *House[Own]) StartOne(name string) {
	h.T.Helper()
	if last := h.Node(name); last != nil && last.Dead() {
		h.Kill(name) // others may have ousted it: what it was made of is over before
	}
	h.mu.Lock()
	h.starts++
	n := &Node[Own]{
		T: h.T, Name: name, Start: fmt.Sprint("start", h.starts), Door: fault.NewDoor(h.Store),
		Log: h.Log.With("node", name),
	}
	n.Door.Fail(h.fail)
	n.Door.CrashAt(h.crash[name])
	h.mu.Unlock()
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(h.T.Context()))
	h.Must(n.tie(&h.conf))
	h.mu.Lock()
	defer h.mu.Unlock()
	n.Door.Fail(h.fail)
	h.nodes[name] = n
}

// Kill ends the life of a node at once, and waits for what it is made of.
func (h *House[Own]) Kill(name string) {
	n := h.Node(name)
	n.Kill()
	n.loops.Wait()
	n.Tasks.Close(context.Background())
}

// Node is the last life of a node; nil = it was never started.
func (h *House[Own]) Node(name string) *Node[Own] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nodes[name]
}

// Nodes are the last lives of all nodes, by name.
func (h *House[Own]) Nodes() (list []*Node[Own]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		list = append(list, h.nodes[name])
	}
	return list
}

// Live is some node that lives, though it may be cut off.
func (h *House[Own]) Live() *Node[Own] {
	h.T.Helper()
	for _, n := range h.Nodes() {
		if !n.Door.Dead() && !n.Door.Crashed() {
			return n
		}
	}
	h.T.Fatal("no node lives")
	return nil
}

// Pass lets time go by.
func (h *House[Own]) Pass(d time.Duration) {
	h.T.Helper()
	if h.Watch == nil {
		time.Sleep(d)
		synctest.Wait()
		return
	}
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(glance) {
		synctest.Wait()
		h.Watch()
	}
}

// Until lets time go by up to a time by the store's clock, as time.DateTime.
func (h *House[Own]) Until(clock string) {
	h.T.Helper()
	at, err := time.Parse(time.DateTime, clock)
	h.Must(err)
	h.Pass(at.Sub(h.Now()))
}

// Await lets time go by until something holds, and says how much did.
func (h *House[Own]) Await(
	within time.Duration, what string, holds func() bool,
) time.Duration {
	h.T.Helper()
	for begun := time.Now(); ; time.Sleep(glance) {
		synctest.Wait()
		if h.Watch != nil {
			h.Watch()
		}
		switch waited := time.Since(begun); {
		case holds():
			return waited
		case waited > within:
			stands := ""
			if h.Stand != nil {
				stands = "\n" + h.Stand()
			}
			h.T.Fatalf("after %v: %s does not hold%s", waited, what, stands)
		}
	}
}

// Events lists the texts of the store's events of a kind.
func (h *House[Own]) Events(kind string) (list []string) {
	h.T.Helper()
	page, err := h.Store.Events(context.Background(), store.EventQuery{
		Kinds: []string{kind}, Limit: 1000,
	})
	h.Must(err)
	for _, e := range page.Events {
		list = append(list, e.Text)
	}
	return list
}
