package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// transfers move spans between the store and memory: they take what workers here wait for, look
// where there may be some, give back what nobody here waits for, and find what lost answers left.
// They take in what other nodes tell of that.
type transfers struct{ *core }

// giveBack frees the spans of queues that nobody waits for, so that other nodes' workers get them.
// Whole spans, with running rows for their hand-outs, whose tokens stay good; but of a queue with
// limits what runs stays: see rest.go. Until the store has said yes, nothing of them goes out any
// more.
func (ts *transfers) giveBack(ctx context.Context, now time.Time) error {
	ts.mu.Lock()
	req, giving, rests := ts.mem.beginGive(now)
	ts.release()
	var errs []error
	if len(giving) > 0 {
		err := ts.give(ctx, req)
		ts.mu.Lock()
		ts.mem.endGive(giving, err == nil, now)
		ts.release()
		if err != nil {
			errs = append(errs, fmt.Errorf("give spans back: %w", err))
		}
	}
	if len(rests) > 0 {
		errs = append(errs, ts.giveRests(ctx, rests, now))
	}
	return errors.Join(errs...)
}

// giving is memory as it gives spans back to the store.
type giving struct {
	memory  *memory // that it is in
	handing bool    // something is given back beside the rounds
}

// beginGive says which spans are to be given back, and of which the rest, and keeps their tasks
// from going out.
func (gv *giving) beginGive(now time.Time) (req store.GiveRequest, giving []*span, rests []rest) {
	m := gv.memory
	req.Holder = m.conf.Holder
	stale := m.queues.staleSpans(now)
	for _, sp := range m.sortedSpans() {
		q := m.queue(sp.Queue)
		wanted := !q.conf.Paused && !m.draining && now.Sub(q.wanted) <= m.conf.GiveAfter
		apart := q.ready.lanes != nil && q.ready.lanes.isApart(sp) && sp.anyReady()
		if sp.idle == 0 || wanted && !stale[sp] && !sp.behind && !apart || sp.giving ||
			sp.anySettling() {
			continue
		}
		if q.gate.limited && sp.left > sp.idle && !(apart && wanted) {
			if r, found := sp.rest(); found {
				sp.park()
				rests = append(rests, r)
				continue
			}
			if !sp.beginsElsewhere(now) {
				continue
			}
		}
		sp.collectGive(&req)
		sp.park()
		giving = append(giving, sp)
	}
	sortRunning(req.Running)
	return req, giving, rests
}

// endGive forgets spans that were given back, or lets their tasks out again.
func (gv *giving) endGive(giving []*span, given bool, now time.Time) {
	m := gv.memory
	for _, sp := range giving {
		if !given {
			sp.reopen()
			continue
		}
		sp.drop()
		m.queue(sp.Queue).openLane(sp)
		if sp.left > sp.idle {
			m.noteGiven(sp, now)
		}
		m.queue(sp.Queue).signAt(sp.Rank, 0, 0, now)
	}
}

// givenAtOnce is how many spans one round gives back because nobody here had room for their tasks,
// though others are served.
const givenAtOnce = 256

// staleSpans are spans that are to be given back though their queues' tasks are wanted here.
func (qs queues) staleSpans(now time.Time) map[*span]bool {
	var stale map[*span]bool
	for _, q := range qs {
		first := q.ready.first() // from here on heaps stay as they are
		for h, l := range q.ready.heaps() {
			is := q.staleness(first, l, now)
			for i := range h.entries {
				if e := &h.entries[i]; len(stale) < givenAtOnce && is(e, i) && !e.void() {
					if stale == nil {
						stale = map[*span]bool{}
					}
					stale[e.span] = true
				}
			}
		}
	}
	return stale
}

// staleness tells which entries of a heap are of spans to be given back: those with tasks that
// nobody here had room for since GiveAfter, though they are next: other nodes may be handing out
// later ones meanwhile. Where workers wait elsewhere it is those that nobody here has room for now.
// In a queue that goes by keys it is besides, as soon as memory is full of it, what has been shut
// for a whole round.
func (q *queue) staleness(
	first *entry, l *lane, now time.Time,
) func(e *entry, i int) bool {
	m := q.memory
	limit := uint32(m.conf.GiveAfter / m.conf.Beat)
	old := func(e *entry, l *lane) bool {
		since := e.round
		if l != nil {
			since = max(since, l.since)
		}
		return m.turns-since > limit
	}
	var next *lane // that first is of
	if ls := q.ready.lanes; ls != nil {
		switch {
		case l == nil: // apart, see beginGive
			return isNever
		case l.in == &ls.shut && q.full() && m.turns > l.since:
			q.sorts = m.turns + sortFor
			return func(*entry, int) bool { return true }
		case l.in == &ls.shut:
			return isNever
		}
		next = ls.open.list[0]
	}
	switch {
	case first == nil || q.mustTake():
		return isNever
	case q.idleElsewhere(now):
		return func(*entry, int) bool { return true }
	case old(first, next):
		return func(e *entry, _ int) bool { return old(e, l) }
	}
	return isNever
}

func isNever(*entry, int) bool { return false }

// idleElsewhere tells whether tasks of q that nobody here has room for had better go to other nodes
// now.
func (q *queue) idleElsewhere(now time.Time) bool {
	return !q.busy() && q.ready.first() != nil && q.roomElsewhere(now) && q.workersRoom() == 0
}

// giveSoon gives back, beside the rounds, what nobody here has room for while workers wait
// elsewhere; and, once in a round, what is to be sorted by keys.
func (q *queue) giveSoon(now time.Time) {
	m := q.memory
	if m.handing || m.closed || m.stopping {
		return
	}
	apart := q.ready.lanes != nil && q.ready.lanes.apart.count > 0 && q.gaveApart <= m.turns
	if !apart && (!q.idleElsewhere(now) || q.mustTake()) {
		return
	}
	if apart {
		q.gaveApart = m.turns + 1
	}
	m.giveAtOnce()
}

// giveLeft lets queues give back what was held back by their limits, or is left of what was to go
// out. Not before the hold that asked for it waits again, if it does: until then nobody here seems
// to have room.
func giveLeft(queues []*queue, now time.Time) {
	for _, q := range queues {
		q.giveSoon(now)
	}
}

// giveAtOnce gives back what is to be given back, beside the rounds.
func (gv *giving) giveAtOnce() {
	m := gv.memory
	if !gv.handing && !m.closed && !m.stopping {
		gv.handing, m.do.give = true, true
	}
}

// giveNow gives back beside the rounds.
func (ts *transfers) giveNow(ctx context.Context) {
	ts.note(ts.giveBack(ctx, time.Now()))
	ts.mu.Lock()
	ts.mem.handing = false
	ts.release()
}

// give writes down what runs, then gives spans back. In this order, because a store gives nothing
// back for a node whose lease has expired, and does not say so: then the rounds find the spans
// again, and must see what runs.
func (ts *transfers) give(ctx context.Context, req store.GiveRequest) error {
	if len(req.Running) > 0 {
		got, err := ts.store.Sync(ctx, store.SyncRequest{Holder: req.Holder, Insert: req.Running})
		if err == nil && got.LeaseGone {
			err = errLeaseGone
		}
		if err != nil {
			return fmt.Errorf("write down what runs: %w", err)
		}
	}
	return ts.again(func() error { return ts.store.Give(ctx, req) })
}

// park keeps a span's tasks from going out.
func (sp *span) park() {
	sp.giving = true
	for s := range sp.live() {
		if s.place() == ready {
			it := s.unqueued()
			it.place = parked
			sp.under--
			sp.parked = append(sp.parked, it)
		}
	}
}

// reopen lets a span's tasks out again that was not given back after all.
func (sp *span) reopen() {
	sp.giving = false
	waiting := sp.parked
	sp.parked = nil
	for _, it := range waiting {
		if it.place == parked {
			it.enqueue()
		}
	}
}

// anySettling tells whether a task of the span is on its way into the store, or the store is being
// asked about it: then memory is about to know better.
func (sp *span) anySettling() bool {
	for s := range sp.live() {
		if it := s.cell.item; s.place() == settling || it != nil && it.place == out && it.asked {
			return true
		}
	}
	return false
}

// anyReady tells whether a task of the span is ready.
func (sp *span) anyReady() bool {
	for s := range sp.live() {
		if s.place() == ready {
			return true
		}
	}
	return false
}

// collectGive adds a span and its hand-outs to a request.
func (sp *span) collectGive(req *store.GiveRequest) {
	req.Spans = append(req.Spans, sp.Taking())
	req.Orders = append(req.Orders, sp.order(sp.Lo))
	for s := range sp.live() {
		if s.place() != out {
			continue
		}
		if it := s.item(); !it.asked && !it.row {
			req.Running = append(req.Running, it.running())
		}
	}
}

// order is where a span belongs that begins with a number of this one's: the least of what is idle
// in it.
func (sp *span) order(from int32) store.Move {
	due, rank := int64(math.MaxInt64), int64(math.MaxInt64)
	for s := range sp.live() {
		switch it := s.cell.item; {
		case s.cell.n < from:
		case s.plain(ready):
			due, rank = min(due, sp.due()), min(rank, sp.Rank)
		case it != nil && (it.place == out && it.asked || it.place == ready ||
			it.place == parked || it.place == asleep):
			due, rank = min(due, it.due()), min(rank, it.rank)
		}
	}
	switch {
	case due == math.MaxInt64:
		due, rank = sp.Due, sp.Rank
	case sp.Seq0 == 0: // what is between them is the tasks' head start
		rank = due - (sp.Due - sp.Rank)
	}
	return store.Move{Rank: rank, Due: due}
}

// allToGive is everything that is left when the node stops.
func (gv *giving) allToGive() store.GiveRequest {
	req := store.GiveRequest{Holder: gv.memory.conf.Holder}
	for _, sp := range gv.memory.sortedSpans() {
		sp.collectGive(&req)
	}
	sortRunning(req.Running)
	return req
}

// HearWanted takes in a hint from another node: somebody there wants to edit tasks of this node. It
// gives them back, with what else is in their spans, and for a moment takes nothing of their
// queues. What runs of them is written down, so that the other node learns of that.
func (ts *transfers) HearWanted(ids []task.ID) {
	ts.mu.Lock()
	defer ts.release()
	if ts.mem.closed || ts.mem.stopping {
		return
	}
	req, giving := ts.mem.beginGiveWanted(ids, time.Now())
	if len(giving) == 0 {
		return
	}
	ts.work.Go(func() {
		err := ts.give(ts.ctx, req)
		ts.note(err)
		ts.mu.Lock()
		defer ts.release()
		ts.mem.endGive(giving, err == nil, time.Now())
	})
}

// beginGiveWanted says which spans have the tasks, and keeps what is in them from going out. Those
// of which something is on its way into the store are asked for again.
func (gv *giving) beginGiveWanted(
	ids []task.ID, now time.Time,
) (req store.GiveRequest, giving []*span) {
	m := gv.memory
	req.Holder = m.conf.Holder
	for _, id := range ids {
		sp := m.find(id).span
		if sp == nil || sp.giving || sp.anySettling() {
			continue
		}
		sp.collectGive(&req)
		sp.park()
		giving = append(giving, sp)
		if q := sp.queue; !m.closed && q.givenUp.Before(now.Add(wantedFor)) {
			q.givenUp = now.Add(wantedFor)
			m.ask(alarm{what: leftOver, queue: q, wait: wantedFor})
		}
	}
	sortRunning(req.Running)
	return req, giving
}
