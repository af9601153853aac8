package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// queue is what is kept of the named queue, made when it is first spoken of.
func (m *memory) queue(name string) *queue {
	q := m.queues[name]
	if q == nil {
		q = &queue{
			memory: m, name: name, conf: limits.DefaultQueue(name), behind: noRank,
			sooner: noRank, offered: noRank,
		}
		m.queues[name] = q
	}
	return q
}

// wants tells whether somebody with room waits for tasks of q: who has none is last.
func (q *queue) wants() bool {
	first := q.waiting.Min()
	return first != nil && first.Value.slots() > 0
}

// demand is how many more tasks of q this node should hold ready: as many as the waiting workers
// have room for, and a little ahead under load, so that the store works while the workers do.
func (q *queue) demand(now time.Time) int {
	slots := 0
	for place := range q.waiting.All() {
		w := place.Value.worker
		// a worker with two holds has its room only once
		room := max(min(place.Value.slotsOf(q, now), place.Value.room()-w.counted), 0)
		w.counted += room
		if slots += room; slots >= q.memory.conf.Ahead {
			break
		}
	}
	for place := range q.waiting.All() {
		place.Value.worker.counted = 0
	}
	if q.wants() {
		q.wanted = now
	}
	if now.Sub(q.wanted) > q.memory.conf.GiveAfter || q.full() {
		return 0
	}
	have := 0
	if !q.mustTake() { // else none of them is next
		have = q.ready.usable()
	}
	if q.gate.near() { // what may begin is next to nothing, so none is held ahead
		return min(q.memory.conf.Ahead, q.gate.within(slots)) - have
	}
	ahead := max(q.pace, q.handed) / 4
	if !q.busy() && q.roomElsewhere(now) { // who waits there can begin them now
		ahead = 0
	}
	return min(q.memory.conf.Ahead, slots+ahead) - have
}

// mustTake tells whether the first ready task must wait, because one of an earlier rank may be
// ready in the store: rank decides over memory and store. It does so as long as memory has room for
// what is ready later; then memory goes first.
func (q *queue) mustTake() bool {
	if q.ready.lanes != nil { // what the store may have is of other keys, perhaps
		return false
	}
	e := q.ready.first()
	return e != nil && e.rank > q.behind && !q.full()
}

// takeSoon starts a take when q has demand and the store may have something. A take for a trickle
// waits until the demand is worth a transaction, unless nothing is ready at all.
func (q *queue) takeSoon(now time.Time) {
	q.signLow()
	if q.taking || !q.look || q.conf.Paused || q.memory.shut() || now.Before(q.givenUp) {
		return
	}
	n := q.demand(now)
	have := q.ready.usable()
	want := n + have
	if n <= 0 || have > 0 && n < have && !q.mustTake() {
		if !q.wantsOthers(now) {
			return
		}
		n = others
	}
	if q.ready.lanes != nil && q.ready.lanes.short {
		n, want = max(n, others), have+others // so that there is enough of the others only
	}
	if now.Before(q.reserve) {
		if n = min(n, q.share); n == 0 {
			return
		}
		q.share -= n
	}
	q.taking = true
	q.sooner = noRank
	q.took = make(chan struct{})
	q.memory.do.takes = append(q.memory.do.takes, taking{
		queue: q, signs: q.signs,
		TakeRequest: store.TakeRequest{
			Holder: q.memory.conf.Holder, Queue: q.name, Limit: n,
			Keys: q.byKeys(n, want, now),
		},
	})
}

// take asks the store for ready tasks of a queue.
func (ts *transfers) take(t taking) {
	defer ts.loads.begin()()
	got, err := ts.store.Take(ts.ctx, t.TakeRequest)
	ts.note(err)
	if err == nil && got.LeaseGone {
		err = errLeaseGone
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrOutOfReach) {
		ts.log.Warn("take", "queue", t.Queue, "error", err)
	}
	ts.mu.Lock()
	defer ts.release()
	if now := time.Now(); err != nil {
		t.queue.tookNothing(now)
	} else {
		ts.mem.took(t, got, now)
	}
}

// tookNothing notes that a take failed. What an unknown outcome left held is found by the round;
// until the store answers, memory goes on by itself.
func (q *queue) tookNothing(now time.Time) {
	q.endTake(now)
	q.behind = noRank
	q.lap.nothing = false
	q.handOut(now)
}

// endTake lets the next take of q begin.
func (q *queue) endTake(now time.Time) {
	q.taking, q.looked = false, now
	q.memory.do.ended = append(q.memory.do.ended, q.took)
}

// took brings into memory what a take answered.
func (m *memory) took(t taking, got store.Taken, now time.Time) {
	q, count := t.queue, 0
	q.endTake(now)
	for i := range got.Spans {
		count += int(got.Spans[i].Hi-got.Spans[i].Lo) + 1
		if sp := &got.Spans[i]; !m.isLate(&sp.Span) {
			// else this answer came so late that the span may be over already
			m.loadSpan(q, sp, got.Now, now)
		}
	}
	q.setTurns(&got)
	for _, id := range got.Owners {
		if it := m.item(id); it != nil {
			q.isNext(id, it.key())
		}
	}
	q.behind = noRank
	switch {
	case t.Keys != nil:
		q.wentOn(&t, &got, now)
	case count < t.Limit || !got.More:
		q.backlog = false
		q.look = q.signs != t.signs
	default:
		q.behind = got.NextRank
	}
	// by what this answer says, whatever came since: signs without end must not keep everything
	// waiting
	q.handOut(now)
	q.behind = min(q.behind, q.sooner)
	if got.NextDue > 0 {
		q.lookAgain(got.NextDue, fromNow(now, got.Now, got.NextDue), now)
	}
	q.match(now)
	if q.goesOn(&t, &got) {
		q.takeSoon(now)
	}
}

// loadSpan takes a span into memory as the store describes it.
func (m *memory) loadSpan(q *queue, hs *store.HeldSpan, storeNow int64, now time.Time) {
	if known := m.spans[hs.ID]; known != nil {
		if known.Token >= hs.Token {
			return
		}
		known.drop() // it was free meanwhile
	}
	sp := &span{
		memory: m, Span: hs.Span, queue: q, cells: make([]cell, len(hs.Tasks)), unchecked: true,
		returned: m.comesBack(&hs.Span),
	}
	sp.keys = hs.Keys
	if len(hs.Tasks) > 0 {
		sp.priority = time.Duration(hs.Tasks[0].HeadStart) * time.Microsecond
		sp.parent = hs.Tasks[0].Parent
	}
	var odd []int
	for i := range hs.Tasks {
		c, l := &sp.cells[i], &hs.Tasks[i]
		c.n, c.place = l.N, gone
		if old := m.item(task.ID{Batch: hs.Batch, N: l.N}); old != nil {
			if old.seq > l.Seq {
				// it moved while this was on its way, and was taken with its new span
				continue
			}
			old.forget() // a newer owner: what is known here of the task is outdated
		}
		sp.left++
		if sp.isPlain(l) {
			c.place, c.stage, c.context = ready, l.Stage, l.Context
			continue
		}
		spot{sp, c}.become(q.newItem(sp, l))
		odd = append(odd, i)
	}
	m.keep(sp)
	for _, i := range odd {
		sp.cells[i].item.enter(hs.Tasks[i].Running, hs.Tasks[i].Due, storeNow, now)
	}
}

// keep takes a span into memory whose cells are made: its plain tasks are ready, none of the others
// is anywhere yet.
func (m *memory) keep(sp *span) {
	m.spans[sp.ID] = sp
	delete(m.unmatched, sp.ID)
	sp.idle = sp.left
	if sp.left == 0 { // all of it lives in other spans, and is found there
		sp.forget()
		return
	}
	m.index.add(sp)
	for i := range sp.cells {
		if sp.cells[i].place == ready {
			sp.under++
		}
	}
	sp.queue.ready.pushRun(sp)
}

// newItem makes an item of a task that the store described.
func (q *queue) newItem(sp *span, l *store.Loaded) *item {
	it := &item{
		id: task.ID{Batch: sp.Batch, N: l.N}, span: sp, queue: q,
		priority: time.Duration(l.HeadStart) * time.Microsecond,
		stage:    l.Stage, seq: l.Seq, attempt: l.Attempt, base: l.Base, context: l.Context,
		contextSeq: l.ContextSeq, contextBy: l.ContextBy, maxAttempts: l.MaxAttempts,
		timeout: l.Timeout, meta: l.Meta, expires: l.Expires, unique: l.Unique, woken: l.Woken,
		after: l.After,
	}
	it.unchecked = len(l.Context) > 0
	it.rank = progress.RankNow(sp.Rank, sp.Seq0, l.Seq, l.Due, it.priority, l.Attempt)
	return it
}

// enter puts an item where it belongs: with the worker that still has it, asleep until it is due,
// or ready.
func (it *item) enter(running *store.Running, due, storeNow int64, now time.Time) {
	switch {
	case running == nil && it.queue.memory.edits.hold(it):
	case running != nil:
		it.resume(running, storeNow, now)
	case due > storeNow:
		it.sleep(fromNow(now, storeNow, due).Sub(now))
	default:
		it.enqueue()
	}
}

// enqueue makes an item ready, or parks it when its span is being given back, or hands out one task
// at a time and one is under way.
func (it *item) enqueue() {
	sp := it.span
	it.watchExpiry()
	if sp.giving || sp.poisonous() && sp.under > 0 {
		it.place = parked
		sp.parked = append(sp.parked, it)
		return
	}
	sp.under++
	it.queue.ready.push(it)
}

// ended notes that one of a span's tasks is no longer under way.
func (sp *span) ended() {
	sp.under--
	sp.letNext()
}

// letNext lets the next of a poisonous span out when none of its tasks is under way.
func (sp *span) letNext() {
	for len(sp.parked) > 0 && sp.under == 0 && !sp.giving {
		next := sp.parked[0]
		if sp.parked = sp.parked[1:]; next.place == parked {
			next.enqueue()
		}
	}
}

// sleep keeps an item in the clock for a while.
func (it *item) sleep(wait time.Duration) {
	it.place = asleep
	it.queue.memory.ask(alarm{what: nap, item: it, wait: wait})
}

// resume takes up a hand-out that outlived the holder of its span: the token that its worker has
// stays good.
func (it *item) resume(r *store.Running, storeNow int64, now time.Time) {
	m := it.queue.memory
	w := m.worker(r.Worker, now)
	it.place, it.worker, it.incarnation, it.row, it.written = out, w, r.Incarnation, true, true
	it.expires = 0
	token := task.Token{Span: r.Span, SpanToken: r.Token, Seq: r.Seq}
	it.token = m.seals.Seal(token, it.id, r.Worker)
	it.started, it.until = fromNow(now, storeNow, r.Started), fromNow(now, storeNow, r.Until)
	it.span.idle--
	it.span.under++
	w.give(it)
	if !it.span.returned {
		// it spoke to the node that is no more; what was heard of it here before says nothing
		w.excused = now
	}
	if r.Incarnation != "" {
		w.beats = true // it did, so its silence means something
	}
	it.watchDeadline(it.until.Sub(now))
	if w.incarnation != "" && r.Incarnation != "" && r.Incarnation != w.incarnation {
		it.end(task.KindLost, "its worker started again", now)
	}
}

// forget drops an item whose fate is decided elsewhere.
func (it *item) forget() {
	if it.place == gone {
		return
	}
	it.takeBack()
	was := it.place
	it.place = gone
	it.stopAlarm()
	if it.cell.item == it {
		it.cell.item, it.cell.place = nil, gone
	}
	sp := it.span
	sp.left--
	if was == ready || was == parked || was == asleep {
		sp.idle--
	}
	if was != parked && was != asleep {
		sp.ended()
	}
	if sp.left == 0 {
		sp.forget()
	}
}

// forget drops a span of which nothing is left; the next settlement deletes it in the store, if
// none did yet. Where the next task of its key waits for that, it is deleted at once.
func (sp *span) forget() {
	m := sp.memory
	if m.holds(sp) {
		m.letGo(sp)
		switch {
		case sp.deleted:
		case sp.key() != "" && sp.queue.conf.PerKey.InOrder() && !m.closed:
			m.blocked(sp)
		default:
			m.deleteLater(sp.Taking())
		}
	}
}
