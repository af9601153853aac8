package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The protocol of ADR 52, limits of a queue, played before it is built: nodes, a store, and
// messages between them that come late, in any order, or never. One act happens at a time, drawn
// from a seed.
//
// A queue that has limits is kept by one node at a time, by a claim. Only its keeper hands its
// tasks out, by what it has in memory; but each hand-out is a row before anybody sees it, and the
// store takes the row only from who has the claim at that moment.

// plan is what the queue may do.
type plan struct {
	running, perKey int // at most so many at a time; 0 = any number
	// hand-outs: a bucket of burst, that fills by one in every ticks; 0 = any number
	every, burst int64
	inOrder      bool // tasks of a key one after another, retries included
}

// flaw is a rule of the protocol that is left out.
type flaw string

const (
	noFlaw        flaw = ""
	noFence       flaw = "the store takes rows whoever has the claim"
	noReading     flaw = "a new keeper counts what it hands out itself"
	earlyReading  flaw = "a new keeper reads the rows before it has the claim"
	fullBucket    flaw = "a new keeper begins with a full bucket"
	lostAtOnce    flaw = "what an unheard worker has counts no more"
	countedLate   flaw = "a hand-out counts when its row is there"
	slotOfAttempt flaw = "a task gives its key up while it waits for its next attempt"
	noSlotKey     flaw = "the store takes rows whichever task has the key"
	neverAgain    flaw = "a keeper does not look at its rows again"
)

// limitedQueue is the world: the store's rows, the nodes, and what is under way between them.
type limitedQueue struct {
	plan
	flaw
	luck  *rand.Rand
	now   int64
	tasks []*keptTask
	// rows of the store
	claim   int64 // the token of the keeper; it only grows
	keeper  int
	until   int64
	running map[int]*keptTask // by hand-out
	slots   map[int]*keptTask // by key: the task that was begun and is not final, of plans in order

	nodes   []*keptNode
	mail    []keptMail
	handed  int     // hand-outs so far, their names
	times   []int64 // when hand-outs that the store took were decided
	breach  string
	quiet   bool // nothing goes wrong any more
	counted struct{ takeovers, refused, full, lost int }
}

type keptTask struct {
	id, key  int
	attempts int
	due      int64
	out      int // its hand-out, 0 = none
	final    bool
}

type keptNode struct {
	id    int
	alive bool
	until int64 // it stands still until then
	renew int64 // when it asks for the claim, or renews it
	token int64 // of the claim, as far as it knows; 0 = it is no keeper
	// what it has counted: hand-outs decided here, or read in the store
	counts map[int]int // key by hand-out
	slots  map[int]int // task by key
	level  int64       // of the bucket, in parts of 1/every
	filled int64       // when that was
	ready  bool        // it has read the rows
	// of hand-outs whose rows have neither come nor been refused, as far as it knows: when the
	// store will refuse them
	asked map[int]int64
	stood map[int]int64 // of the others: when it heard that their rows are there
}

// keptMail is what arrives somewhere, at some time.
type keptMail struct {
	at   int64
	what func()
}

func (w *limitedQueue) chance(n int) bool { return w.luck.IntN(n) == 0 }

// send lets something happen after a while, or never, unless it must.
func (w *limitedQueue) send(must bool, what func()) {
	if !must && !w.quiet && w.chance(10) {
		return
	}
	delay := int64(1 + w.luck.IntN(5))
	if !w.quiet && w.chance(8) {
		delay += int64(w.luck.IntN(80))
	}
	w.mail = append(w.mail, keptMail{w.now + delay, what})
}

const leaseOf = 30 // ticks

func play(seed uint64, p plan, f flaw) *limitedQueue {
	w := &limitedQueue{
		plan: p, flaw: f, luck: rand.New(rand.NewPCG(seed, 1)),
		running: map[int]*keptTask{}, slots: map[int]*keptTask{},
	}
	for i := range 3 {
		w.nodes = append(w.nodes, &keptNode{id: i, alive: true})
	}
	for i := range 25 {
		w.tasks = append(w.tasks, &keptTask{id: i, key: w.luck.IntN(6)})
	}
	for w.breach == "" && w.now < 6000 {
		w.quiet = w.now > 1000
		w.step()
	}
	if w.checkRate(); w.breach != "" {
		return w
	}
	for _, t := range w.tasks {
		if !t.final {
			w.breach = fmt.Sprintf("task %d of key %d is not final", t.id, t.key)
			break
		}
	}
	return w
}

// step lets a tick go by, and something happen in it.
func (w *limitedQueue) step() {
	w.now++
	for i := 0; i < len(w.mail); i++ {
		if m := w.mail[i]; m.at <= w.now {
			w.mail = slices.Delete(w.mail, i, i+1)
			m.what()
			i = -1
		}
	}
	i := w.luck.IntN(len(w.nodes))
	n := w.nodes[i]
	switch {
	case w.quiet || !w.chance(25):
	case w.chance(2): // it stands still, and goes on as if nothing had been
		n.until = w.now + int64(w.luck.IntN(3*leaseOf))
	default: // it dies, and another process of it begins after a while
		n.alive = false
		n = &keptNode{id: n.id, alive: true, until: w.now + int64(w.luck.IntN(leaseOf))}
		w.nodes[i] = n
	}
	if n.until <= w.now {
		w.act(n)
	}
	w.check()
}

// act is one round of a node, or one hand-out of a keeper.
func (w *limitedQueue) act(n *keptNode) {
	switch {
	case n.renew <= w.now:
		n.renew = w.now + leaseOf/4
		w.claims(n)
	case !n.ready:
	case w.chance(4) && w.flaw != neverAgain:
		w.looks(n)
	default:
		w.handOut(n)
	}
}

// claims takes the claim, or renews it. A claim that is over is anybody's, under a greater token.
func (w *limitedQueue) claims(n *keptNode) {
	token := n.token
	early := map[int]int{}
	if w.flaw == earlyReading {
		for h, t := range w.running {
			early[h] = t.key
		}
	}
	w.send(false, func() { // at the store
		switch {
		case w.claim == token && w.keeper == n.id && token > 0:
			w.until = w.now + leaseOf
		case w.until < w.now:
			w.claim++
			w.keeper, w.until = n.id, w.now+leaseOf
			w.counted.takeovers++
		default:
			return
		}
		got := w.claim
		w.send(false, func() { // back at the node
			if !n.alive || n.until > w.now || got <= n.token {
				return
			}
			n.token, n.ready = got, false
			w.reads(n, got, early)
		})
	})
}

// reads lets a new keeper count what runs. The bucket is empty by then: whatever its predecessor
// handed out it did before the claim changed hands.
func (w *limitedQueue) reads(n *keptNode, token int64, early map[int]int) {
	w.send(false, func() {
		counts, slots := map[int]int{}, map[int]int{}
		for h, t := range w.running {
			counts[h] = t.key
		}
		for key, t := range w.slots {
			slots[key] = t.id
		}
		switch w.flaw {
		case noReading:
			clear(counts)
		case earlyReading:
			counts = early
		}
		w.send(false, func() {
			if n.token != token || n.ready { // it has asked twice
				return
			}
			n.counts, n.slots, n.ready = counts, slots, true
			n.asked, n.stood = map[int]int64{}, map[int]int64{}
			n.level, n.filled = 0, w.now
			if w.flaw == fullBucket {
				n.level = w.burst * max(w.every, 1)
			}
		})
	})
	// an answer that is lost is asked for again: the next round finds it not ready
	w.send(true, func() {
		if n.token == token && !n.ready && n.alive {
			w.reads(n, token, early)
		}
	})
}

// looks reads which of the rows that a keeper counts are no more: reports went to other nodes, and
// what those told it may have been lost. What may still come counts.
func (w *limitedQueue) looks(n *keptNode) {
	token, asked := n.token, w.now
	w.send(false, func() {
		there, slots := map[int]bool{}, map[int]int{}
		for h := range w.running {
			there[h] = true
		}
		for key, t := range w.slots {
			slots[key] = t.id
		}
		w.send(false, func() {
			if n.token != token || !n.alive {
				return
			}
			for h := range n.counts {
				// what was read before its row came says nothing
				if by, waits := n.asked[h]; !there[h] &&
					(waits && by < asked || !waits && n.stood[h] <= asked) {
					w.forget(n, h)
				}
			}
			for key, id := range n.slots {
				if at, found := slots[key]; (!found || at != id) && !n.waitsFor(key) {
					delete(n.slots, key)
				}
			}
		})
	})
}

func (w *limitedQueue) forget(n *keptNode, h int) {
	delete(n.counts, h)
	delete(n.asked, h)
	delete(n.stood, h)
}

// waitsFor tells whether a hand-out of a key may still come to the store.
func (n *keptNode) waitsFor(key int) bool {
	for h := range n.asked {
		if n.counts[h] == key {
			return true
		}
	}
	return false
}

// handOut decides one hand-out in a keeper's memory, and has its row written. Only then does a
// worker see it.
func (w *limitedQueue) handOut(n *keptNode) {
	t := w.next(n)
	if t == nil || !w.fills(n) {
		return
	}
	w.handed++
	h, token, decided := w.handed, n.token, w.now
	by := decided + insertBy
	if w.flaw != countedLate {
		n.counts[h] = t.key
	}
	n.asked[h] = by
	n.slots[t.key] = t.id
	w.send(false, func() { // at the store
		slot := w.slots[t.key]
		switch {
		case w.flaw != noFence && (w.claim != token || w.now > by),
			t.final, t.out != 0, // the key of what stands there refuses it
			slot != nil && slot != t && w.flaw != noSlotKey:
			w.counted.refused++
			w.send(false, func() {
				if n.token == token {
					w.forget(n, h)
				}
			})
			return
		}
		t.out = h
		w.running[h] = t
		if w.inOrder {
			w.slots[t.key] = t
		}
		w.times = append(w.times, decided)
		w.send(false, func() {
			if n.token == token && n.alive {
				n.counts[h], n.stood[h] = t.key, w.now
				delete(n.asked, h)
			}
		})
		w.works(t, h)
	})
}

// insertBy is how long the row of a hand-out may be on its way. The store refuses it later: who
// does not hear of it knows when it will not come any more.
const insertBy = 20

// next is the first task in order that may go out, as far as the keeper has counted.
func (w *limitedQueue) next(n *keptNode) *keptTask {
	if w.plan.running > 0 && len(n.counts) >= w.plan.running {
		w.counted.full++
		return nil
	}
	perKey := map[int]int{}
	for _, key := range n.counts {
		perKey[key]++
	}
	for _, t := range w.tasks {
		if t.final || t.out != 0 || t.due > w.now || w.perKey > 0 && perKey[t.key] >= w.perKey {
			continue
		}
		if id, begun := n.slots[t.key]; w.inOrder && begun && id != t.id {
			continue
		}
		return t
	}
	return nil
}

// fills takes one out of the bucket, if it is there.
func (w *limitedQueue) fills(n *keptNode) bool {
	if w.every == 0 {
		return true
	}
	n.level = min(n.level+w.now-n.filled, w.burst*w.every)
	n.filled = w.now
	if n.level < w.every {
		return false
	}
	n.level -= w.every
	return true
}

// works lets a worker run a task and report it to any node; or its worker dies, and it is lost once
// it has been silent for long.
func (w *limitedQueue) works(t *keptTask, h int) {
	takes := int64(1 + w.luck.IntN(40))
	lost := !w.quiet && w.chance(6)
	if lost {
		takes = 60
		w.counted.lost++
		if w.flaw == lostAtOnce {
			for _, n := range w.nodes {
				delete(n.counts, h)
			}
		}
	}
	w.mail = append(w.mail, keptMail{w.now + takes, func() { // recorded, by the hand-out's key
		delete(w.running, h)
		t.out = 0
		t.attempts++
		if t.final = !lost && (t.attempts > 4 || w.chance(2)); !t.final {
			t.due = w.now + int64(w.luck.IntN(50))
		}
		if t.final || w.flaw == slotOfAttempt {
			delete(w.slots, t.key)
		}
		final := t.final
		for _, n := range w.nodes { // whoever records it tells the keeper
			w.send(false, func() {
				if _, known := n.counts[h]; known && n.alive {
					w.forget(n, h)
					if final && n.slots[t.key] == t.id || w.flaw == slotOfAttempt {
						delete(n.slots, t.key)
					}
				}
			})
		}
	}})
}

// check holds the store's rows against the plan, at every instant.
func (w *limitedQueue) check() {
	perKey, begun := map[int]int{}, map[int]int{}
	for _, t := range w.running {
		if perKey[t.key]++; w.perKey > 0 && perKey[t.key] > w.perKey {
			w.breach = fmt.Sprintf("%d of key %d run", perKey[t.key], t.key)
		}
	}
	if w.plan.running > 0 && len(w.running) > w.plan.running {
		w.breach = fmt.Sprintf("%d run", len(w.running))
	}
	for _, t := range w.tasks {
		if w.inOrder && !t.final && (t.out != 0 || t.attempts > 0) {
			if begun[t.key]++; begun[t.key] > 1 {
				w.breach = fmt.Sprintf("%d of key %d are begun", begun[t.key], t.key)
			}
		}
	}
}

// checkRate holds the hand-outs that the store took against the rate, in every window.
func (w *limitedQueue) checkRate() {
	slices.Sort(w.times)
	for i, from := range w.times {
		for j := i; j < len(w.times) && w.every > 0; j++ {
			most := w.burst + (w.times[j]-from)/w.every + 1
			if int64(j-i+1) > most {
				w.breach = fmt.Sprintf("%d hand-outs from %d to %d", j-i+1, from, w.times[j])
				return
			}
		}
	}
}

var plans = map[string]plan{
	"running":  {running: 4},
	"per key":  {running: 9, perKey: 2},
	"in order": {running: 9, perKey: 1, inOrder: true},
	"rate":     {every: 20, burst: 10},
	"one":      {running: 1},
	"all":      {running: 6, perKey: 1, inOrder: true, every: 4, burst: 3},
}

// A queue's limits hold at every instant, whatever becomes of its keepers, and when trouble ends
// everything becomes final.
func TestKeptQueuesRunNoMoreThanTheyMay(t *testing.T) {
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			takeovers, refused, seeds := 0, 0, 150
			if testing.Short() {
				seeds = 30
			}
			for seed := range uint64(seeds) {
				w := play(seed, p, noFlaw)
				if w.breach != "" {
					t.Fatalf("seed %d: at %d: %s", seed, w.now, w.breach)
				}
				takeovers += w.counted.takeovers
				refused += w.counted.refused
			}
			if takeovers < 2*seeds || refused == 0 {
				t.Errorf("%d keepers, %d rows refused: nothing went wrong", takeovers, refused)
			}
		})
	}
}

// Each rule of the protocol is needed: without it some seed breaks a limit, or stands still.
func TestWithoutARuleLimitsDoNotHold(t *testing.T) {
	for f, p := range map[flaw]string{
		noFence: "running", noReading: "running", earlyReading: "running", fullBucket: "rate",
		lostAtOnce: "per key", countedLate: "running", slotOfAttempt: "in order", noSlotKey: "in order",
		neverAgain: "one",
	} {
		t.Run(string(f), func(t *testing.T) {
			for seed := range uint64(400) {
				if w := play(seed, plans[p], f); w.breach != "" {
					t.Logf("seed %d: at %d: %s", seed, w.now, w.breach)
					return
				}
			}
			t.Errorf("no seed shows it")
		})
	}
}
