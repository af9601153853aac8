package sim

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"

	"github.com/rotahq/rota/task"
)

// queues are those that tasks are submitted to. finals are those of them that have a queue for
// final notices; served are all.
var (
	queues = []string{"a", "b"}
	finals = map[string]string{"a": "told"}
	served = []string{"a", "b", "told"}
)

const (
	storm    = 45 * time.Second // of trouble; then everything heals
	patience = 10 * time.Minute // from then on, until everything must be final
	auditing = 200              // acts between two looks at everything
)

// mode is the kind of trouble that a world has.
type mode struct {
	name string
	salt uint64
	brew func(*world) // begins the trouble
}

// world is one run: a store, nodes, workers and people on one bus.
type world struct {
	seed  uint64
	mode  mode
	bus   *bus
	facts *model.Model
	seen  contract.Store // what the nodes see of the facts
	shift time.Duration  // of the store's clock against everybody's own
	// by how much the store's clock has jumped, all jumps together
	jumped time.Duration
	hints  bool // the store tells nodes what others did
	store  *process
	nodes  []*node
	hands  []*hand

	ledger  *ledger
	claims  claims
	people  int           // persons who are not done
	poison  int           // poisonous tasks still to be submitted
	longest time.Duration // that a handler takes
	healed  time.Time     // since when nothing more goes wrong; zero before
	bug     bug

	born     []*process // ever
	living   sync.WaitGroup
	breaches []string
	counts   map[string]int
	audited  int
}

// result is what a run leaves.
type result struct {
	breaches []string
	counts   map[string]int // how often what should happen sometimes did
	hash     uint64         // of the trace
	lines    []string       // the trace, when it was asked for
	acts     int
	virtual  time.Duration
}

// simulate runs one world from its seed to its end.
func simulate(t *testing.T, m mode, seed uint64, b bug, keep bool) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(m, seed, b, keep)
		began := time.Now()
		w.run()
		r = result{
			w.breaches, w.counts, w.bus.trace.sum.Sum64(), w.bus.trace.lines, w.bus.acts,
			time.Since(began),
		}
	})
	return r
}

func newWorld(m mode, seed uint64, b bug, keep bool) *world {
	w := &world{seed: seed, mode: m, bug: b, counts: map[string]int{}, longest: 25 * time.Second}
	w.bus = &bus{
		luck: w.luckOf("bus"), cuts: map[[2]string]bool{}, hint: make(chan struct{}, 1),
		acted: w.acted, sometimes: w.sometimes,
		trace: &trace{began: time.Now(), sum: fnv.New64a(), keep: keep},
	}
	w.claims.owners = map[string]*owner{}
	w.facts = model.New(func() time.Time { return time.Now().Add(w.shift) })
	w.seen = w.facts
	if b.store != nil {
		w.seen = plant(w, b)
	}
	luck := w.luckOf("world")
	if luck.IntN(2) == 0 {
		w.shift = time.Duration(luck.Int64N(int64(2*time.Hour))) - time.Hour
	}
	w.hints = luck.IntN(3) > 0
	w.store = w.birth(&machine{name: "store"}, nil)
	w.ledger = newLedger(w, w.facts)
	w.configure()
	for i := range 2 + luck.IntN(2) {
		w.nodes = append(w.nodes, &node{world: w, machine: &machine{name: fmt.Sprint("n", i)}})
	}
	for i := range 2 + luck.IntN(3) {
		h := &hand{
			world: w, machine: &machine{name: fmt.Sprint("w", i)}, capacity: 1 + luck.IntN(4),
			queues: queues,
		}
		switch {
		case i == 0: // can do everything, when it is all that is left
			h.capacity += 3
			h.queues = served
		case luck.IntN(2) == 0:
			h.queues = queues[i%2 : i%2+1]
		}
		w.hands = append(w.hands, h)
	}
	if luck.IntN(6) == 0 {
		w.poison = 1
	}
	return w
}

// configure names the queues for final notices, before any node reads the configurations.
func (w *world) configure() {
	for _, name := range queues {
		_, err := w.facts.ChangeQueue(context.Background(), name,
			func(q *task.Queue, _ bool) error {
				q.FinalQueue = finals[name]
				if name == gated && w.gates() {
					w.limitQueue(q)
				}
				return nil
			})
		if err != nil {
			w.breach("configure queue %q: %v", name, err)
		}
	}
}

// storeNow is what time it is in the store.
func (w *world) storeNow() int64 { return time.Now().Add(w.shift).UnixMicro() }

// luckOf is the seed's luck for one purpose.
func (w *world) luckOf(purpose string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, w.mode.salt, purpose)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// birth is a new life on a machine.
func (w *world) birth(m *machine, last *process) *process {
	p := &process{machine: m, life: 1}
	if last != nil {
		p.life = last.life + 1
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	w.born = append(w.born, p)
	return p
}

// run lets the world live until everything is final, or cannot become so.
func (w *world) run() {
	for _, n := range w.nodes {
		n.start()
	}
	for _, h := range w.hands {
		h.start()
	}
	w.lead("s0", func(s *person) { s.submit(5) })
	w.lead("s1", func(s *person) { s.submit(5) })
	w.lead("c0", func(s *person) { s.meddle(6) })
	w.lead("c1", func(s *person) { s.disturb(2) })
	if w.waits() {
		w.lead("g0", func(s *person) { s.signalling() })
	}
	if w.late() {
		w.lead("l0", func(s *person) { s.limitLate() })
	}
	if w.limits() {
		w.lead("r0", func(s *person) { s.listen(8) })
	}
	w.mode.brew(w)
	w.pulse()
	w.watchLimits()
	w.bus.run(w.over)
	w.ledger.audit()
	w.counts["a key went to another owner"] += w.claims.moved
	for _, p := range w.born {
		p.kill()
	}
	w.living.Wait()
	w.bus.serving.Wait()
}

// pulse keeps the bus awake, whatever everybody else waits for.
func (w *world) pulse() { w.bus.later(10*time.Second, quiet, w.pulse) }

// watchLimits looks once a beat for attempts that run for too long.
func (w *world) watchLimits() {
	w.ledger.overdue()
	w.ledger.unbegun()
	w.bus.later(beat, quiet, w.watchLimits)
}

// lead lets a person live.
func (w *world) lead(name string, life func(*person)) {
	w.people++
	s := w.person(name)
	w.living.Go(func() {
		defer w.bus.wake(s.door.from, 0, quiet, func() { w.people-- })
		life(s)
	})
}

// patience is how long after trouble everything must be final. Where the tasks of a key begin in
// order, each waits until those before it have waited for what they wanted, a minute or so each
// time, one after another.
func (w *world) patience() time.Duration {
	if w.gates() && w.ledger.gate.PerKey.InOrder() {
		return 4 * patience
	}
	return patience
}

// over tells whether the run has come to its end.
func (w *world) over() bool {
	switch {
	case len(w.breaches) > 0:
		return true
	case w.healed.IsZero():
		return false
	case w.people == 0 && w.ledger.finished() && w.claims.unowned() == 0:
		return true
	case w.people == 0 && w.ledger.finished() && time.Since(w.healed) > w.patience():
		w.breach("I6: %v after all trouble ended nobody looks after %d keys", w.patience(),
			w.claims.unowned())
		return true
	case time.Since(w.healed) > w.patience():
		w.breach("I11: %v after all trouble ended these are not final: %v", w.patience(),
			w.ledger.open())
		return true
	}
	return false
}

// acted looks at everything now and then.
func (w *world) acted() {
	for _, b := range w.claims.found() {
		w.breach("%s", b)
	}
	if w.bus.acts-w.audited >= auditing {
		w.audited = w.bus.acts
		w.ledger.audit()
	}
}

// later does something after a time between two others.
func (w *world) later(low, high time.Duration, do func()) {
	w.bus.later(w.bus.between(low, high), quiet, do)
}

func (w *world) breach(format string, args ...any) {
	w.bus.trace.add("BREACH "+format, args...)
	if len(w.breaches) < 5 {
		w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
	}
}

// sometimes counts what should happen now and then, over all seeds.
func (w *world) sometimes(what string) { w.counts[what]++ }

// secret seals the tokens of a node.
func (w *world) secret(node string) seal.Secret {
	if w.bug.secret != nil {
		return w.bug.secret(node)
	}
	return seal.Secret{Key: [32]byte{42}}
}

// trace is what happened, as a hash, and as lines when somebody wants to read it.
type trace struct {
	began time.Time
	sum   hash.Hash64
	keep  bool
	lines []string
}

func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf("%14v ", time.Since(t.began)) + fmt.Sprintf(format, args...)
	t.sum.Write([]byte(line))
	if t.keep {
		t.lines = append(t.lines, line)
	}
}
