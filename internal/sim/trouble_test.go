package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/task"
)

// faults are what may happen to a message, in per cent.
type faults struct {
	loss   int // it never arrives
	double int // a late copy of a request arrives too
	slow   int // it takes up to seconds
	refuse int // the store fails, and has done nothing
	deny   int // the store has done it, and says that it does not know
}

// latest is how long after all trouble has ended something may arrive that was said before: when a
// stopped machine would have gone on, and what is slow besides.
const latest = 25 * time.Second

var (
	safety   = mode{"safety", 1, (*world).brewSafety}
	liveness = mode{"liveness", 2, (*world).brewLiveness}
	calm     = mode{"calm", 3, (*world).brewCalm}
	forsaken = mode{"forsaken", 4, (*world).brewForsaken}
)

// brewSafety makes trouble of every kind, each in some of the worlds, for a while.
func (w *world) brewSafety() {
	luck := w.luckOf("weather")
	rate := func(most int) int {
		if luck.IntN(5) < 2 {
			return 0
		}
		return 1 + luck.IntN(most)
	}
	w.bus.faults = faults{
		loss: rate(8), double: rate(5), slow: rate(10), refuse: rate(5), deny: rate(5),
	}
	all := []func(){w.killNode, w.killNode, w.stopNode, w.killHand, w.stopHand, w.pause, w.pause,
		w.partition, w.partition, w.evict, w.evict, w.jump, w.outage,
		w.double}
	var kinds []func()
	for _, k := range all {
		if luck.IntN(5) >= 2 {
			kinds = append(kinds, k)
		}
	}
	w.goWrong(kinds, 8*time.Second)
	w.bus.later(storm, "heal", w.heal)
}

// goWrong lets one thing after the other go wrong, until the world heals.
func (w *world) goWrong(kinds []func(), every time.Duration) {
	if len(kinds) == 0 {
		return
	}
	w.later(every/20, every, func() {
		if !w.healed.IsZero() {
			return
		}
		kinds[w.bus.luck.IntN(len(kinds))]()
		w.goWrong(kinds, every)
	})
}

// brewLiveness makes trouble for a while; then everything but a healthy core is broken for good.
func (w *world) brewLiveness() {
	w.bus.faults = faults{loss: 2, double: 2, slow: 5, refuse: 2, deny: 2}
	w.goWrong([]func(){w.killNode, w.killHand, w.pause, w.partition, w.outage}, 6*time.Second)
	w.bus.later(20*time.Second, "only the core is healthy", func() {
		w.heal()
		for _, n := range w.nodes[1:] {
			w.breakForGood(n.machine, func() { n.down = true; n.process.Load().kill() })
		}
		for _, h := range w.hands[1:] { // the first one serves every queue
			w.breakForGood(h.machine, func() { h.down = true; h.process.kill() })
		}
	})
}

// breakForGood lets a machine die, hang, or lose the others.
func (w *world) breakForGood(m *machine, die func()) {
	switch w.bus.luck.IntN(3) {
	case 0:
		w.bus.trace.add("%s is dead for good", m.name)
		die()
	case 1:
		w.bus.trace.add("%s hangs for good", m.name)
		m.paused = time.Now().Add(24 * time.Hour)
	default:
		w.bus.trace.add("%s is cut off for good", m.name)
		for _, other := range w.machines() {
			w.cut(m, other)
			w.cut(other, m)
		}
	}
}

// brewCalm only kills nodes, one at a time: whatever runs longer than a moment must not notice.
func (w *world) brewCalm() {
	w.poison, w.longest = 0, 40*time.Second
	w.ledger.calm, w.ledger.judged = w.excused, true
	w.goWrong([]func(){w.killNode, w.killNode, w.stopNode}, 12*time.Second)
	w.bus.later(storm, "heal", w.heal)
}

// brewForsaken kills nodes and workers, so that nobody is left who watches over what they ran.
func (w *world) brewForsaken() {
	w.poison, w.longest = 0, 40*time.Second
	w.ledger.judged = true
	w.goWrong([]func(){w.killNode, w.killHand, w.killHand}, 8*time.Second)
	w.bus.later(storm, "heal", w.heal)
}

// youth is how long a hand-out may be lost with its node: until it is a second old, and a beat, and
// the writing of its row.
const youth = 2500 * time.Millisecond

// excused tells whether the refusal of a report is no wonder even in calm weather: something was
// done to its task, the hand-out was lost with its node, or the worker was to give it up.
func (w *world) excused(t *tale, g *given) bool {
	young := g.node.dead() && !g.node.orderly && g.node.died.Sub(g.at) < youth
	taken := slices.ContainsFunc(w.ledger.givenUp[g.worker.name], func(at time.Time) bool {
		return g.at.Before(at.Add(obedience)) && time.Now().After(at)
	})
	return len(t.asked) > 0 || t.fallen > 0 || t.wish.sub.Timeout > 0 || young || taken
}

// heal ends all trouble: what is down starts again, what is stopped goes on.
func (w *world) heal() {
	w.bus.faults = faults{}
	w.healed = time.Now()
	clear(w.bus.cuts)
	for _, m := range w.machines() {
		m.paused = time.Time{}
	}
	for _, p := range w.born {
		p.paused = time.Time{}
	}
}

// calmFor tells whether nothing has gone wrong for a while, and nothing will.
func (w *world) calmFor(d time.Duration) bool {
	return !w.healed.IsZero() && time.Since(w.healed) > d
}

func (w *world) machines() []*machine {
	list := []*machine{w.store.machine}
	for _, n := range w.nodes {
		list = append(list, n.machine)
	}
	for _, h := range w.hands {
		list = append(list, h.machine)
	}
	return list
}

// someNode is any node.
func (w *world) someNode() *node { return w.nodes[w.bus.luck.IntN(len(w.nodes))] }

func (w *world) someHand() *hand { return w.hands[w.bus.luck.IntN(len(w.hands))] }

func (w *world) killNode() {
	n := w.someNode()
	if p := n.process.Load(); !p.dead() {
		w.bus.trace.add("kill %v", p)
		w.sometimes("a node was killed")
		n.kill()
	}
}

func (w *world) stopNode() {
	n := w.someNode()
	if p := n.process.Load(); !p.dead() && p.serves.Load() != nil && !isClosed(p.leave) {
		w.bus.trace.add("stop %v", p)
		w.sometimes("a node was stopped in order")
		p.orderly = true
		close(p.leave)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *world) killHand() {
	if h := w.someHand(); !h.process.dead() {
		w.bus.trace.add("kill %v", h.process)
		w.sometimes("a worker was killed")
		h.kill()
	}
}

func (w *world) stopHand() {
	h := w.someHand()
	w.bus.trace.add("stop %v", h.process)
	w.sometimes("a worker was stopped in order")
	h.stop()
}

// poisoned is what a poisonous task does: it takes its worker with it, and the node that handed it
// out.
func (w *world) poisoned(t task.Handout, h *hand) {
	for _, g := range w.ledger.tales[t.ID].gave {
		if n := w.nodeOf(g.node); g.text == t.Token && n != nil {
			n.kill()
		}
	}
	w.sometimes("poison killed a node")
	h.kill()
}

// nodeOf is the node of which p is the present life, nil when it is over.
func (w *world) nodeOf(p *process) *node {
	for _, n := range w.nodes {
		if n.process.Load() == p && !p.dead() {
			return n
		}
	}
	return nil
}

// pause stops a machine for a while, as SIGSTOP does: nothing goes in or out, and its own alarm
// clocks ring late.
func (w *world) pause() {
	list := w.machines()[1:]
	m := list[w.bus.luck.IntN(len(list))]
	m.paused = time.Now().Add(w.bus.between(time.Second, 20*time.Second))
	w.bus.trace.add("pause %s until %v", m.name, m.paused.Sub(w.bus.trace.began))
	w.sometimes("a machine was paused")
}

// double stops a node's process for a while and starts another one beside it, as somebody does who
// takes it for dead.
func (w *world) double() {
	n := w.someNode()
	p := n.process.Load()
	if n.stopped != nil || p.dead() || p.serves.Load() == nil || isClosed(p.leave) {
		return
	}
	// its own: the other one runs
	p.machine = &machine{
		name: n.name, paused: time.Now().Add(w.bus.between(time.Second, 20*time.Second)),
	}
	w.bus.trace.add("stop %v until %v, and start another", p, p.paused.Sub(w.bus.trace.began))
	w.sometimes("a process was started beside one that was only stopped")
	n.stopped = p
	n.start()
}

// evict ends the membership of a node that lives, as others do who take it for dead: until its next
// round it acts in a right that it no longer has.
func (w *world) evict() {
	n := w.someNode()
	name := "node/" + n.name
	leases, err := w.facts.LeasesOf(context.Background(), name)
	if err != nil || len(leases) != 1 || leases[0].Until == 0 {
		return
	}
	w.bus.trace.add("evict %v", n.process.Load())
	if err := w.facts.End(context.Background(), name, leases[0].Token, false); err != nil {
		w.breach("evict %v: %v", n.process.Load(), err)
	}
	if w.bus.luck.IntN(2) == 0 {
		// it is even longer until it learns, because it hears nothing of the store
		w.cutFor(w.store.machine, n.machine)
	}
	w.sometimes("a node was taken for dead and lived")
}

// outage stops the store for a while.
func (w *world) outage() {
	w.store.paused = time.Now().Add(w.bus.between(time.Second, 14*time.Second))
	w.bus.trace.add("the store hangs until %v", w.store.paused.Sub(w.bus.trace.began))
	w.sometimes("the store hung")
}

// partition cuts two machines off each other for a while, in one direction or both.
func (w *world) partition() {
	list := w.machines()
	luck := w.bus.luck
	i, j := luck.IntN(len(list)), luck.IntN(len(list)-1)
	if j >= i {
		j++
	}
	a, b := list[i], list[j]
	both := luck.IntN(2) == 0
	w.cutFor(a, b)
	if both {
		w.cutFor(b, a)
	}
	w.sometimes(fmt.Sprintf("a partition, both ways %v", both))
}

// cutFor lets nothing pass from one machine to another for a while.
func (w *world) cutFor(from, to *machine) {
	w.bus.trace.add("cut %s>%s", from.name, to.name)
	w.cut(from, to)
	w.later(2*time.Second, 20*time.Second, func() {
		if w.healed.IsZero() {
			delete(w.bus.cuts, [2]string{from.name, to.name})
		}
	})
}

func (w *world) cut(from, to *machine) {
	if from != to {
		w.bus.cuts[[2]string{from.name, to.name}] = true
	}
}

// jump moves the store's clock against everybody's own.
func (w *world) jump() {
	by := w.bus.between(-15*time.Second, 15*time.Second)
	w.shift += by
	w.jumped += by.Abs()
	w.bus.trace.add("the store's clock jumps by %v", by)
	w.sometimes("the store's clock jumped")
}
