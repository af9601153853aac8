package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/store/model"
)

// node is one process of a house.
type node struct {
	*Scheduler
	door *fault.Door
	name string
	stop context.CancelFunc
	done chan error
}

// dead tells whether it was killed: what its goroutines still do, nobody sees.
func (n *node) dead() bool { return n.door.Dead() }

// house is a cluster in a bubble, with a set of keys that want an owner each, and a ledger of who
// looks after them.
type house struct {
	t     *testing.T
	store contract.Store
	conf  Config                   // of every node
	kinds func(node string) []Kind // of keys besides those of the ledger; nil = none

	mu     sync.Mutex
	ahead  time.Duration // of the store's clock
	nodes  map[string]*node
	starts int
	keys   []string
	work   time.Duration // how long an owner goes on with what it is at
	owners map[string]*node
	since  map[string]time.Time // of a key without an owner
	moves  map[string][]time.Time
	cut    map[[2]string]bool // who can't probe whom
	asked  map[string]int     // by address: probes; nil = nobody counts
	events []string
	known  map[string]bool // events, by key
}

func newHouse(t *testing.T, conf Config) *house {
	h := &house{t: t, conf: conf, nodes: map[string]*node{}, owners: map[string]*node{},
		since: map[string]time.Time{}, moves: map[string][]time.Time{},
		cut: map[[2]string]bool{}, known: map[string]bool{}}
	h.store = model.New(func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		return time.Now().Add(h.ahead)
	})
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
			if n := h.nodes[name]; n != nil {
				n.door.Restore()
				h.end(n)
			}
		}
	})
	return h
}

// tell is the verb of Config.Tell, which writes by the same door.
const tell = "tell"

// startOne begins a process of a node, in no time, with the house's Config and changes.
func (h *house) startOne(name string, change ...func(*Config)) *node {
	h.t.Helper()
	h.mu.Lock()
	h.starts++
	d := fault.NewDoor(h.store)
	conf := h.conf
	conf.Leases = d
	conf.Chores = d
	conf.Name = name
	conf.Start = fmt.Sprint("start", h.starts)
	conf.Address = name
	conf.Peers = peers{h, name}
	conf.Tell = func(ctx context.Context, list ...Event) error {
		_, err := fault.Through(ctx, d, tell, func() (bool, error) { return true, h.tell(list) })
		return err
	}
	for _, f := range change {
		f(&conf)
	}
	h.mu.Unlock()
	s, err := New(conf)
	if err != nil {
		h.t.Fatal(err)
	}
	n := &node{Scheduler: s, door: d, name: name, done: make(chan error, 1)}
	kinds := []Kind{{Name: "key", Keys: h.list, Look: func(ctx context.Context, c Claim) {
		h.look(ctx, n, c)
	}}}
	if h.kinds != nil {
		kinds = append(kinds, h.kinds(name)...)
	}
	for _, k := range kinds {
		if err := s.Claim(k); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := s.Join(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	n.stop = stop
	go func() { n.done <- s.Run(ctx) }()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[name] = n
	for other := range h.nodes {
		delete(h.cut, [2]string{other, name})
	}
	return n
}

// start begins processes of nodes, a while apart, so that their beats don't fall together.
func (h *house) start(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.startOne(name)
		time.Sleep(h.beat() * 137 / 1000)
	}
}

func (h *house) beat() time.Duration { return cmp.Or(h.conf.Beat, time.Second) }

// end stops a node in order.
func (h *house) end(n *node) {
	h.t.Helper()
	n.stop()
	if err := <-n.done; err != nil && !n.dead() && !errors.Is(err, store.ErrBroken) {
		h.t.Errorf("run of %s: %v", n.name, err)
	}
	if err := n.Leave(context.Background()); err != nil && !n.dead() {
		h.t.Errorf("leave of %s: %v", n.name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes[n.name] == n {
		delete(h.nodes, n.name)
	}
}

// kill is kill -9: the node reaches nothing any more, and nobody sees what it does.
func (h *house) kill(name string) {
	h.mu.Lock()
	n := h.nodes[name]
	n.door.Kill()
	for key, owner := range h.owners {
		if owner == n {
			delete(h.owners, key)
			h.since[key] = time.Now()
		}
	}
	for other := range h.nodes {
		h.cut[[2]string{other, name}] = true
	}
	h.mu.Unlock()
	n.stop()
}

// list is the source of keys.
func (h *house) list(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys, nil
}

// add makes keys.
func (h *house) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := slices.Clone(h.keys)
	for range n {
		key := fmt.Sprintf("k%05d", len(keys)+1)
		keys = append(keys, key)
		h.since[key] = time.Now()
	}
	h.keys = keys
}

// look is the owner of a key. Two at a time break the law.
func (h *house) look(ctx context.Context, n *node, c Claim) {
	h.mu.Lock()
	if n.dead() {
		h.mu.Unlock()
		return
	}
	if other := h.owners[c.Key]; other != nil {
		h.t.Errorf("key %s is looked after by %s and %s", c.Key, other.name, n.name)
	}
	h.owners[c.Key] = n
	delete(h.since, c.Key)
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	work := h.work
	h.mu.Unlock()
	if work > 0 {
		select { // what it is at
		case <-time.After(work):
		case <-c.Held().Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owners[c.Key] == n {
		delete(h.owners, c.Key)
		h.since[c.Key] = time.Now()
		if context.Cause(ctx) == ErrGiveBack {
			h.moves[c.Key] = append(h.moves[c.Key], time.Now())
		}
	}
}

// owned counts what each living node looks after, by name.
func (h *house) owned() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := map[string]int{}
	for name, n := range h.nodes {
		if !n.dead() {
			count[name] = 0
		}
	}
	for _, n := range h.owners {
		count[n.name]++
	}
	return count
}

// unowned counts the keys that nobody looks after, and says for how long the first of them has been
// without.
func (h *house) unowned() (n int, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range h.keys {
		if h.owners[key] == nil {
			n++
			longest = max(longest, time.Since(h.since[key]))
		}
	}
	return n, longest
}

func (h *house) want(when string, want map[string]int) {
	h.t.Helper()
	if got := h.owned(); !maps.Equal(got, want) {
		h.t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

// spread is how far apart the nodes are that own most and fewest.
func (h *house) spread() int {
	counts := slices.Collect(maps.Values(h.owned()))
	return slices.Max(counts) - slices.Min(counts)
}

// wantNothingUnowned says that every key has an owner.
func (h *house) wantNothingUnowned(when string) {
	h.t.Helper()
	if n, longest := h.unowned(); n > 0 {
		h.t.Errorf("%s: %d keys have no owner, one for %v", when, n, longest)
	}
}

// tell writes events down that are new.
func (h *house) tell(list []Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range list {
		if e.Key == "" || h.known[e.Key] {
			continue
		}
		h.known[e.Key] = true
		h.events = append(h.events, strings.TrimSpace(e.Kind+" "+e.Node))
	}
	return nil
}

// told is what has been told since the last time.
func (h *house) told() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events
	h.events = nil
	return events
}

// peers are the other nodes as one reaches them.
type peers struct {
	house *house
	from  string
}

func (p peers) Probe(_ context.Context, _, address string) error {
	p.house.mu.Lock()
	defer p.house.mu.Unlock()
	if p.house.asked != nil {
		p.house.asked[address]++
	}
	if n := p.house.nodes[address]; n == nil || n.dead() ||
		p.house.cut[[2]string{p.from, address}] || p.house.cut[[2]string{p.from, "*"}] {
		return fault.ErrAway
	}
	return nil
}
