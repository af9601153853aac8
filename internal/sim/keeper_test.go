package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/keeper"
	"github.com/rotahq/rota/task"
)

// The protocol of ADR 52, limits of a queue, played before it is built: nodes, a store, and
// messages between them that come late, in any order, or never. One act happens at a time, drawn
// from a seed; a tick is a microsecond.
//
// A queue that has limits is kept by one node at a time, by a claim. Only its keeper hands its
// tasks out, by what it has in memory, which is the real one; but each hand-out is a row before
// anybody sees it, and the store takes the row only from who has the claim at that moment.

// limits are those of a queue; every = ticks for each hand-out, 0 = as many as you like.
func limits(running, perKey int, every, burst int64) keeper.Limits {
	l := keeper.Limits{Running: running, Key: keeper.KeyLimits{Running: perKey}}
	if every > 0 {
		l.Rate = keeper.Rate{Count: 1, Per: time.Duration(every) * time.Microsecond, Burst: burst}
	}
	return l
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
	passingLook   flaw = "a look does not wait for what is being written"
	turnOfAttempt flaw = "a task gives its key up while it waits for its next attempt"
	noTurnKey     flaw = "the store takes rows whichever task has its key's turn"
	neverAgain    flaw = "a keeper does not look at its rows again"
)

// limitedQueue is the world: the store's rows, the nodes, and what is under way between them.
type limitedQueue struct {
	keeper.Limits
	flaw
	luck  *rand.Rand
	now   int64
	tasks []*keptTask
	// rows of the store
	claim   int64 // the token of the keeper; it only grows
	locked  bool  // by a hand-out that is being written
	keeper  int
	until   int64
	running map[keeper.Handout]*keptTask
	turns   map[string]*keptTask // the task of a key that was begun and is not final, if in order

	nodes   []*keptNode
	mail    []keptMail
	handed  int32   // hand-outs so far
	times   []int64 // when hand-outs that the store took were decided
	breach  string
	quiet   bool // nothing goes wrong any more
	counted struct{ takeovers, refused, full, lost int }
}

type keptTask struct {
	id       task.ID
	key      string
	attempts int
	due      int64
	out      keeper.Handout // its hand-out, zero = none
	final    bool
}

// keptNode is a node; *keeper.Keeper is nil until it has read the rows.
type keptNode struct {
	id    int
	alive bool
	until int64 // it stands still until then
	renew int64 // when it asks for the claim, or renews it
	token int64 // of the claim, as far as it knows; 0 = it is no keeper
	*keeper.Keeper
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

func play(seed uint64, l keeper.Limits, f flaw) *limitedQueue {
	w := &limitedQueue{
		Limits: l, flaw: f, luck: rand.New(rand.NewPCG(seed, 1)),
		running: map[keeper.Handout]*keptTask{}, turns: map[string]*keptTask{},
	}
	for i := range 3 {
		w.nodes = append(w.nodes, &keptNode{id: i, alive: true})
	}
	for i := range 25 {
		w.tasks = append(w.tasks, &keptTask{
			id: task.ID{Batch: 1, N: int32(i)}, key: strconv.Itoa(w.luck.IntN(6)),
		})
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
			w.breach = fmt.Sprintf("task %v of key %s is not final", t.id, t.key)
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
	case n.Keeper == nil:
	case w.chance(4) && w.flaw != neverAgain:
		w.looks(n)
	default:
		w.handOut(n)
	}
}

// store lets something happen at the store, unless it is lost on the way. With a lock it waits for
// what is being written under the claim.
func (w *limitedQueue) store(lock bool, what func()) {
	w.send(false, func() { w.whenFree(lock, what) })
}

func (w *limitedQueue) whenFree(lock bool, what func()) {
	if lock && w.locked {
		w.mail = append(w.mail, keptMail{w.now + 1, func() { w.whenFree(lock, what) }})
		return
	}
	what()
}

// claims takes the claim, or renews it. A claim that is over is anybody's, under a greater token.
func (w *limitedQueue) claims(n *keptNode) {
	token := n.token
	early, turns := w.rows()
	w.store(true, func() {
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
			n.token, n.Keeper = got, nil
			since := w.now
			if w.flaw == fullBucket {
				since -= 1000
			}
			w.reads(n, got, keeper.New(w.Limits, since), func() ([]keeper.Row, []keeper.Turn) {
				switch rows, now := w.rows(); w.flaw {
				case noReading:
					return nil, now
				case earlyReading:
					return early, turns
				default:
					return rows, now
				}
			})
		})
	})
}

// rows is what stands in the store.
func (w *limitedQueue) rows() (rows []keeper.Row, turns []keeper.Turn) {
	for h, t := range w.running {
		rows = append(rows, keeper.Row{Handout: h, Key: t.key})
	}
	for key, t := range w.turns {
		turns = append(turns, keeper.Turn{Key: key, ID: t.id})
	}
	return rows, turns
}

// reads lets a new keeper count what runs. Its buckets are empty by then: whatever its predecessor
// handed out it did before the claim changed hands.
func (w *limitedQueue) reads(
	n *keptNode, token int64, k *keeper.Keeper, rows func() ([]keeper.Row, []keeper.Turn),
) {
	w.store(false, func() {
		rows, turns := rows()
		w.send(false, func() {
			if n.token != token || n.Keeper != nil { // it has asked twice
				return
			}
			k.Read(rows, turns, w.now)
			n.Keeper = k
		})
	})
	// an answer that is lost is asked for again: the next round finds it not ready
	w.send(true, func() {
		if n.token == token && n.Keeper == nil && n.alive {
			w.reads(n, token, k, rows)
		}
	})
}

// looks reads which of the rows that a keeper counts are no more: reports went to other nodes, and
// what those told it may have been lost. What may still come counts.
func (w *limitedQueue) looks(n *keptNode) {
	token, look := n.token, keeper.Look{Asked: w.now}
	w.store(w.flaw != passingLook, func() {
		look.At = w.now
		look.Rows, look.Turns = w.rows()
		w.send(false, func() {
			if n.token == token && n.alive {
				n.Looked(look, w.now)
			}
		})
	})
}

// handOut decides one hand-out in a keeper's memory, and has its row written. Only then does a
// worker see it.
func (w *limitedQueue) handOut(n *keptNode) {
	t := w.next(n)
	if t == nil {
		return
	}
	w.handed++
	h, token, decided := keeper.Handout{ID: t.id, Seq: w.handed}, n.token, w.now
	by := decided + insertBy
	if w.flaw != countedLate {
		n.Begin(h, t.key, decided, by)
	}
	w.store(true, func() {
		turn := w.turns[t.key]
		switch {
		case w.flaw != noFence && (w.claim != token || w.now > by),
			t.final, t.out != keeper.Handout{}, // the key of what stands there refuses it
			turn != nil && turn != t && w.flaw != noTurnKey:
			w.counted.refused++
			w.send(false, func() {
				if n.token == token {
					n.Gone(h)
				}
			})
			return
		}
		w.locked = true // until it is committed; nobody sees it before
		takes := int64(w.luck.IntN(2))
		if w.chance(8) {
			takes += int64(w.luck.IntN(insertBy))
		}
		w.mail = append(w.mail, keptMail{w.now + takes, func() {
			w.locked = false
			t.out = h
			w.running[h] = t
			if w.Key.Running == 1 {
				w.turns[t.key] = t
			}
			w.times = append(w.times, decided)
			w.send(false, func() {
				if n.token == token && n.alive {
					if w.flaw == countedLate {
						n.Begin(h, t.key, decided, by)
					}
					n.Stands(h, w.now)
				}
			})
			w.works(t, h)
		}})
	})
}

// insertBy is how long the row of a hand-out may be on its way. The store refuses it later: who
// does not hear of it knows when it will not come any more.
const insertBy = 20

// next is the first task in order that may go out, as far as the keeper has counted.
func (w *limitedQueue) next(n *keptNode) *keptTask {
	if n.Room(1, w.now) == 0 {
		w.counted.full++
		return nil
	}
	for _, t := range w.tasks {
		if !t.final && t.out == (keeper.Handout{}) && t.due <= w.now &&
			n.May(t.id, t.key, w.now).OK() {
			return t
		}
	}
	return nil
}

// works lets a worker run a task and report it to any node; or its worker dies, and it is lost once
// it has been silent for long.
func (w *limitedQueue) works(t *keptTask, h keeper.Handout) {
	takes := int64(1 + w.luck.IntN(80))
	lost := !w.quiet && w.chance(6)
	if lost {
		takes = 100
		w.counted.lost++
		if w.flaw == lostAtOnce {
			for _, n := range w.keepers() {
				n.Ended(h, false, w.now)
			}
		}
	}
	w.mail = append(w.mail, keptMail{w.now + takes, func() { // recorded, by the hand-out's key
		delete(w.running, h)
		t.out = keeper.Handout{}
		t.attempts++
		if t.final = !lost && (t.attempts > 4 || w.chance(2)); !t.final {
			t.due = w.now + int64(w.luck.IntN(50))
		}
		over := t.final || w.flaw == turnOfAttempt
		if over {
			delete(w.turns, t.key)
		}
		for _, n := range w.keepers() { // whoever records it tells the keeper
			w.send(false, func() {
				if n.alive && n.Keeper != nil {
					n.Ended(h, over, w.now)
				}
			})
		}
	}})
}

// keepers are the nodes that think they keep the queue.
func (w *limitedQueue) keepers() []*keptNode {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *keptNode) bool {
		return n.Keeper == nil
	})
}

// check holds the store's rows against the plan, at every instant.
func (w *limitedQueue) check() {
	perKey, begun := map[string]int{}, map[string]int{}
	for _, t := range w.running {
		if perKey[t.key]++; w.Key.Running > 0 && perKey[t.key] > w.Key.Running {
			w.breach = fmt.Sprintf("%d of key %s run", perKey[t.key], t.key)
		}
	}
	if w.Running > 0 && len(w.running) > w.Running {
		w.breach = fmt.Sprintf("%d run", len(w.running))
	}
	for _, t := range w.tasks {
		if w.Key.Running == 1 && !t.final && (t.out != keeper.Handout{} || t.attempts > 0) {
			if begun[t.key]++; begun[t.key] > 1 {
				w.breach = fmt.Sprintf("%d of key %s are begun", begun[t.key], t.key)
			}
		}
	}
}

// checkRate holds the hand-outs that the store took against the rate, in every window.
func (w *limitedQueue) checkRate() {
	if w.Rate.Count == 0 {
		return
	}
	slices.Sort(w.times)
	for i, from := range w.times {
		for j := i; j < len(w.times); j++ {
			most := w.Rate.Burst + (w.times[j]-from)/w.Rate.Per.Microseconds() + 1
			if int64(j-i+1) > most {
				w.breach = fmt.Sprintf("%d hand-outs from %d to %d", j-i+1, from, w.times[j])
				return
			}
		}
	}
}

var limited = map[string]keeper.Limits{
	"running":  limits(4, 0, 0, 0),
	"per key":  limits(9, 2, 0, 0),
	"in order": limits(9, 1, 0, 0),
	"rate":     limits(0, 0, 20, 10),
	"one":      limits(1, 0, 0, 0),
	"all":      limits(6, 1, 4, 3),
}

// A queue's limits hold at every instant, whatever becomes of its keepers, and when trouble ends
// everything becomes final.
func TestKeptQueuesRunNoMoreThanTheyMay(t *testing.T) {
	for name, l := range limited {
		t.Run(name, func(t *testing.T) {
			takeovers, refused, seeds := 0, 0, 150
			if testing.Short() {
				seeds = 30
			}
			for seed := range uint64(seeds) {
				w := play(seed, l, noFlaw)
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

// The key of a turn's row is a net: keepers that count as they should never need it. It stands
// where a keeper has an error.
func TestOrderHoldsByWhatKeepersCount(t *testing.T) {
	for seed := range uint64(100) {
		if w := play(seed, limited["in order"], noTurnKey); w.breach != "" {
			t.Fatalf("seed %d: at %d: %s", seed, w.now, w.breach)
		}
	}
}

// Each rule of the protocol is needed: without it some seed breaks a limit, or stands still.
func TestWithoutARuleLimitsDoNotHold(t *testing.T) {
	for f, p := range map[flaw]string{
		noFence: "running", noReading: "running", earlyReading: "running", fullBucket: "rate",
		lostAtOnce: "per key", countedLate: "running", turnOfAttempt: "in order",
		neverAgain: "one", passingLook: "running",
	} {
		t.Run(string(f), func(t *testing.T) {
			for seed := range uint64(1000) {
				if w := play(seed, limited[p], f); w.breach != "" {
					t.Logf("seed %d: at %d: %s", seed, w.now, w.breach)
					return
				}
			}
			t.Errorf("no seed shows it")
		})
	}
}
