package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What a queue with limits hands out, the store is asked about before anybody sees it: it alone
// knows what runs at all nodes (store.Begin, ADR 53). What it holds back is ready again. So that
// few are tried in vain, each node keeps in mind how many the store may let begin.

// gates ask the store about queues with limits: which of their hand-outs may begin, and how they
// and their group keys stand beside their limits.
type gates struct {
	*core
	reloads *reloads // read where tasks stand whose hand-outs are void
}

// gate is what this node knows of how a queue stands beside its limits.
type gate struct {
	limited bool // it has limits, or each of its group keys has: the store is asked
	own     bool // it has limits as a whole
	// room is how many more hand-outs the store may let begin. It is advice: where it is too much,
	// the store holds back the rest; where it is too little, the next round looks.
	room   int
	asking int // hand-outs of which the store is being asked
	known  admission.Gate
	alarm  bool // the moment is watched when the rate allows one
}

// unknownRoom stands for the room of a queue of which the store was not asked yet.
const unknownRoom = 1 << 20

// gateEvery is at least between two looks whether a rate allows more: what comes meanwhile begins
// together.
const gateEvery = 10 * time.Millisecond

// shut tells whether nothing of the queue is to be handed out now, as the store would hold it back.
func (g *gate) shut() bool { return g.limited && g.room <= 0 }

// near tells whether the limits leave less room than a whole answer of tasks: what is held ahead
// then would be wanted elsewhere.
func (g *gate) near() bool { return g.limited && g.room < limits.MaxHold }

// within is how many of n tasks may be handed out.
func (g *gate) within(n int) int {
	if !g.limited {
		return n
	}
	return max(min(n, g.room), 0)
}

// handed notes a hand-out.
func (g *gate) handed() {
	if g.own {
		g.room--
	}
}

// probe lets one be tried of which nothing is known.
func (g *gate) probe() { g.room = max(g.room, 1) }

// setConf gives the queue a configuration.
func (q *queue) setConf(conf task.Queue) {
	before, after := admission.LimitsOf(&q.conf), admission.LimitsOf(&conf)
	byKeys := q.conf.PerKey != conf.PerKey || q.conf.Fair != conf.Fair ||
		q.conf.KeyRules != conf.KeyRules
	q.conf = conf
	q.gate.limited, q.gate.own = admission.Limited(&conf), !after.None()
	if before != after || byKeys {
		q.gate.room = unknownRoom
	}
	if byKeys {
		q.ready.arrange(q.memory, &conf)
		q.lap = lap{waiting: q.lap.waiting}
		q.signPassed() // by other keys, or by none
	}
}

// isNotAsked notes that the store will not be asked about a hand-out: it is none.
func (h *handed) isNotAsked() {
	if h.limited && h.current() {
		h.was.asked = false
		if h.was.queue.gate.own {
			h.was.queue.gate.room++
		}
		h.was.addRoom(1)
	}
}

// letBegin asks the store which hand-outs of queues with limits may begin. It keeps those, and
// those of other queues. of is of which queues the store was asked, and held whether any hand-out
// was held back. Whoever calls it lets these queues give back what is left, see giveLeft.
func (gs *gates) letBegin(
	list []handed, tasks []task.Handout, room func(int64) bool,
) (_ []handed, _ []task.Handout, of []*queue, held bool) {
	var asked []*item
	for i := range list {
		if list[i].limited {
			asked = append(asked, list[i].was)
		}
	}
	if len(asked) == 0 {
		return list, tasks, nil, false
	}
	begun := gs.begin(asked, false)
	kept := make([]handed, 0, len(list))
	told := make([]task.Handout, 0, len(list))
	for i := range list {
		// the task of one that is held back may be another's by now: nothing of it is read here
		if h := &list[i]; !h.limited || begun[h.was] {
			kept = append(kept, *h)
			told = append(told, tasks[i])
		} else if h.room > 0 {
			room(-h.room)
		}
	}
	return kept, told, touchedBy(asked), len(kept) < len(list)
}

// begin asks the store which hand-outs may begin, and says so of each; again = not for the first
// time. Of what it does not answer the next rounds ask again.
func (gs *gates) begin(asked []*item, again bool) (begun map[*item]bool) {
	gs.mu.Lock()
	req, asked := gs.mem.beginRows(asked, again, time.Now())
	gs.release()
	if len(asked) == 0 {
		return nil
	}
	var got store.Begun
	err := gs.again(func() (err error) {
		got, err = gs.store.Begin(gs.ctx, req)
		return err
	})
	if err == nil && got.LeaseGone {
		err = errLeaseGone
	}
	if err != nil && !errors.Is(err, store.ErrOutOfReach) {
		gs.log.Warn("ask whether hand-outs may begin", "error", err)
	}
	gs.mu.Lock()
	begun, outdated := gs.mem.begun(asked, req, got, err == nil, time.Now())
	if again {
		giveLeft(touchedBy(asked), time.Now())
	}
	gs.release()
	gs.reloads.reload(outdated)
	return begun
}

// beginRows are the rows of hand-outs of which the store is to be asked, and their items. Those of
// a queue that goes by keys whose keys are not known, as it does so only since they were chosen,
// are taken back: asked again they are not, as their rows may stand.
func (m *memory) beginRows(
	list []*item, again bool, now time.Time,
) (req store.BeginRequest, asked []*item) {
	req.Holder = m.conf.Holder
	var apart []handed
	for _, it := range list {
		if ls := it.queue.ready.lanes; ls != nil && ls.isApart(it.span) && !again {
			h := it.handed()
			h.isNotAsked()
			apart = append(apart, h)
			continue
		}
		it.asking(1)
		asked = append(asked, it)
		req.Rows = append(req.Rows, store.Begin{
			Queue: it.queue.name, Key: it.key(), Running: it.running(),
			Unique: it.unique,
		})
	}
	unhand(apart, now)
	return req, asked
}

// begun takes in which hand-outs begin. What is held back is ready again; where no row could be
// written it is to be read where the task stands. An answer that did not come may have written
// rows, which count: so their hand-outs stay what they are until it is known.
func (m *memory) begun(
	asked []*item, req store.BeginRequest, got store.Begun, answered bool, now time.Time,
) (begun map[*item]bool, outdated []*item) {
	for _, it := range asked {
		if it.asking(-1); !answered {
			it.queue.gate.room = 0
			it.shutLane()
		}
	}
	for i := range got.Gates {
		m.queue(got.Gates[i].Queue).see(&got.Gates[i].Gate, got.Now, now)
	}
	begun = make(map[*item]bool, len(asked))
	var held []handed
	var behind []*item
	for i, it := range asked {
		begun[it] = false
		switch {
		case it.place != out || it.token.Seq != req.Rows[i].Seq: // it was dropped with its span
		case !answered:
			m.askLater(it)
		case got.Rows[i] == store.HeldBack:
			it.asked = false
			held = append(held, it.handed())
		case got.Rows[i] == store.Behind:
			it.asked = false
			held = append(held, it.handed())
			it.span.behind = true
			behind = append(behind, it)
		case got.Rows[i] == store.Void:
			it.asked = false
			it.settle()
			it.worker.changed()
			outdated = append(outdated, it)
		default:
			begun[it] = true
			it.begins(now)
		}
	}
	makeReady(held, now)
	for i := range got.Keys { // what was held back has its lane again
		m.queue(got.Keys[i].Queue).seeKey(&got.Keys[i], got.Now, now)
	}
	for _, it := range behind {
		it.shutLane()
		m.giveAtOnce()
	}
	for _, q := range touchedBy(asked) {
		q.handOut(now)
		q.takeSoon(now)
	}
	return begun, outdated
}

// askAgain asks about hand-outs of which the store has not answered whether they began. Those that
// did are given back: who was to get them was told of nothing.
func (gs *gates) askAgain(now time.Time) {
	gs.mu.Lock()
	gs.mem.giveUpAgain(now)
	asked := gs.mem.takeUnanswered()
	gs.release()
	if len(asked) == 0 {
		return
	}
	begun := gs.begin(asked, true)
	gs.mu.Lock()
	defer gs.release()
	for _, it := range asked {
		if begun[it] {
			it.giveUp(now)
		}
	}
}

// giveUp ends a hand-out that began, and that its worker was not told of: its row must not stay.
func (it *item) giveUp(now time.Time) {
	if it.place == out && it.row {
		it.queue.memory.endLater(it)
		it.end(task.KindRelease, "", now)
	}
}

// counts tells whether the hand-out has a row that counts against limits.
func (it *item) counts() bool { return it.row && it.queue.gate.limited }

// giveUpAgain ends hand-outs that were given up, where the store failed.
func (lo *leftovers) giveUpAgain(now time.Time) {
	lo.untold = slices.DeleteFunc(lo.untold, func(h handed) bool {
		return h.was.token != h.token || h.was.place != out && h.was.place != settling
	})
	for _, h := range lo.untold {
		if h.current() {
			h.was.end(task.KindRelease, "", now)
		}
	}
}

// begins notes that the store lets a hand-out begin.
func (it *item) begins(now time.Time) {
	it.asked, it.row = false, true
	it.owns = it.queue.conf.PerKey.InOrder() && it.key() != ""
	if !now.Before(it.until) { // its alarm rang while the store was asked
		it.watchDeadline(0)
	}
}

// sweep has the row of a hand-out swept that somebody else ended, should one stand.
func (it *item) sweep() {
	if (it.queue.gate.limited || it.unique) && (it.row || it.asked) {
		it.queue.memory.sweepLater(store.Watch{ID: it.id, Seq: it.seq})
	}
}

// see takes in how the queue stands beside its limits.
func (q *queue) see(g *admission.Gate, storeNow int64, now time.Time) {
	q.gate.known = *g
	q.gate.room = g.Left(unknownRoom, storeNow) - q.gate.asking
	held := g.Held(storeNow)
	if q.gate.room > 0 || held.Until == 0 || q.gate.alarm || q.memory.closed {
		return
	}
	q.gate.alarm = true
	wait := max(fromNow(now, storeNow, held.Until).Sub(now), gateEvery)
	q.memory.ask(alarm{what: opening, queue: q, wait: wait})
}

// opens lets as many be tried as the rate has room for by now, if others took nothing since.
func (q *queue) opens(now time.Time) {
	q.gate.alarm = false
	left := q.gate.known.Left(unknownRoom, q.memory.clock.read(now)) - q.gate.asking
	q.gate.room = max(q.gate.room, left, 1)
	q.match(now)
}

// lookAtGates asks how those queues stand beside their limits of which workers here wait for tasks
// that the limits hold back, as far as is known: word of what has ended elsewhere may be lost.
func (gs *gates) lookAtGates(ctx context.Context, now time.Time) error {
	gs.mu.Lock()
	names := gs.mem.queues.shutGates(gs.mem.turns, now)
	gs.release()
	if len(names) == 0 {
		return nil
	}
	at, gates, err := gs.store.Gates(ctx, names...)
	if err != nil {
		return fmt.Errorf("look at the limits of %d queues: %w", len(names), err)
	}
	gs.mu.Lock()
	defer gs.release()
	gs.mem.queues.sawGates(names, gates, at, now)
	return nil
}

// sawGates takes in how queues stand beside their limits. One of which nothing is said has none.
func (qs queues) sawGates(names []string, gates []store.Gate, storeNow int64, now time.Time) {
	said := make(map[string]*store.Gate, len(gates))
	for i := range gates {
		said[gates[i].Queue] = &gates[i]
	}
	for _, name := range names {
		q := qs[name]
		if q == nil || !q.gate.shut() {
			continue
		}
		if g := said[name]; g != nil {
			q.see(&g.Gate, storeNow, now)
		} else {
			q.gate.room = unknownRoom
		}
		q.match(now)
	}
}

// shutGates names queues that their limits hold back and that workers wait for, or asked for in the
// last minute, at most lookAtOnce of them; others in the next round.
func (qs queues) shutGates(turns uint32, now time.Time) []string {
	var names []string
	for name, q := range qs {
		asked := q.waiting.Len() > 0 || now.Sub(q.wanted) < time.Minute
		if q.gate.shut() && asked && !q.conf.Paused {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > lookAtOnce {
		from := int(turns) * lookAtOnce % len(names)
		names = append(names[from:], names[:from]...)[:lookAtOnce]
	}
	return names
}

// placeFree notes that a hand-out of a queue has ended that counted against its limit, or its
// key's: this node may hand out others, and so may the other nodes. s is the task, nowhere = it is
// not held here; over says that it is over, too.
func (m *memory) placeFree(name string, s spot, over bool, now time.Time) *queue {
	q := m.queues[name]
	if q == nil || q.conf.MaxRunning == 0 && q.conf.PerKey.MaxRunning == 0 {
		return nil
	}
	if q.conf.MaxRunning > 0 { // advice: who retries had no place
		q.gate.room = max(q.gate.room, 0) + 1
	}
	if over || !q.conf.PerKey.InOrder() {
		key, known := "", false
		if s.span != nil {
			key, known = s.span.keyOf(s.cell.n)
		}
		q.keyFree(key, known, now)
	}
	m.do.ends(name)
	return q
}

// HearEnded takes in that tasks of a queue with limits ended at another node.
func (gs *gates) HearEnded(queue string) {
	gs.mu.Lock()
	defer gs.release()
	if q := gs.mem.queues[queue]; q != nil {
		now := time.Now()
		q.gate.probe()
		q.keysFreed(now)
		q.match(now)
	}
}

// takeRunning takes what dead nodes handed out of queues with limits: while it counts there may be
// no room for anything else, so that nobody would take it for the sake of others.
func (gs *gates) takeRunning(ctx context.Context) error {
	gs.mu.Lock()
	limited := gs.mem.queues.anyLimited()
	gs.release()
	if !limited || gs.conf.Reach() != nil {
		return nil
	}
	got, err := gs.store.TakeRunning(ctx, gs.conf.Holder, judgedAtOnce)
	if err != nil {
		gs.note(err)
		return err
	}
	now := time.Now()
	gs.mu.Lock()
	defer gs.release()
	for i := range got.Spans {
		if sp := &got.Spans[i]; !gs.mem.closed && !gs.mem.isLate(&sp.Span) {
			q := gs.mem.queue(sp.Queue)
			gs.mem.loadSpan(q, sp, got.Now, now)
			q.match(now)
		}
	}
	return nil
}

func (qs queues) anyLimited() bool {
	for _, q := range qs {
		if q.gate.limited {
			return true
		}
	}
	return false
}
