package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// giveBack frees the spans of queues that nobody waits for, so that other nodes' workers get them.
// Whole spans, with running rows for their hand-outs, whose tokens stay good. Until the store has
// said yes, nothing of them goes out any more.
func (d *Dispatcher) giveBack(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	req, giving := d.mem.beginGive(now)
	d.release()
	if len(giving) == 0 {
		return nil
	}
	err := d.give(ctx, req)
	d.mu.Lock()
	defer d.release()
	d.mem.endGive(giving, err == nil, now)
	if err != nil {
		return fmt.Errorf("give spans back: %w", err)
	}
	return nil
}

// beginGive says which spans are to be given back, and keeps their tasks from going out.
func (m *memory) beginGive(now time.Time) (req store.GiveRequest, giving []*span) {
	req.Holder = m.conf.Holder
	stale := m.staleSpans(now)
	for _, sp := range m.sortedSpans() {
		q := m.queue(sp.Queue)
		wanted := !q.conf.Paused && !m.draining && now.Sub(q.wanted) <= m.conf.GiveAfter &&
			!stale[sp]
		if sp.idle == 0 || wanted || sp.anySettling() {
			continue
		}
		sp.collectGive(&req)
		sp.park()
		giving = append(giving, sp)
	}
	sortRunning(req.Running)
	return req, giving
}

// endGive forgets spans that were given back, or lets their tasks out again.
func (m *memory) endGive(giving []*span, given bool, now time.Time) {
	for _, sp := range giving {
		if !given {
			sp.reopen()
			continue
		}
		sp.drop()
		if sp.left > sp.idle {
			m.gave[sp.ID] = sighting{sp.Token, now}
		}
		m.queue(sp.Queue).signAt(sp.Rank, 0, 0, now)
	}
}

// givenAtOnce is how many spans one round gives back because nobody here had room for their tasks,
// though others are served.
const givenAtOnce = 256

// staleSpans are spans with tasks that nobody here had room for since GiveAfter, though they are
// next by their rank: other nodes may be handing out later ones meanwhile. Where workers wait
// elsewhere it is those that nobody here has room for now.
func (m *memory) staleSpans(now time.Time) map[*span]bool {
	var stale map[*span]bool
	limit := uint32(m.conf.GiveAfter / m.conf.Beat)
	for _, q := range m.queues {
		old := func(e *entry) bool { return !e.void() && m.turns-e.round > limit }
		if q.idleElsewhere(now) {
			old = func(e *entry) bool { return !e.void() }
		}
		if e := q.ready.first(); e == nil || !old(e) || q.mustTake() {
			continue
		}
		for i := range q.ready.entries {
			if e := &q.ready.entries[i]; old(e) && len(stale) < givenAtOnce {
				if stale == nil {
					stale = map[*span]bool{}
				}
				stale[e.span] = true
			}
		}
	}
	return stale
}

// idleElsewhere tells whether tasks of q that nobody here has room for had better go to other nodes
// now.
func (q *queue) idleElsewhere(now time.Time) bool {
	return !q.busy() && q.ready.first() != nil && q.roomElsewhere(now) && q.workersRoom() == 0
}

// giveSoon gives back, beside the rounds, what nobody here has room for while workers wait
// elsewhere.
func (q *queue) giveSoon(now time.Time) {
	if q.memory.handing || q.memory.closed || q.memory.stopping || !q.idleElsewhere(now) ||
		q.mustTake() {
		return
	}
	q.memory.handing, q.memory.do.give = true, true
}

// giveNow gives back beside the rounds.
func (d *Dispatcher) giveNow(ctx context.Context) {
	d.note(d.giveBack(ctx, time.Now()))
	d.mu.Lock()
	d.mem.handing = false
	d.release()
}

// give writes down what runs, then gives spans back. In this order, because a store gives nothing
// back for a node whose lease has expired, and does not say so: then the rounds find the spans
// again, and must see what runs.
func (d *Dispatcher) give(ctx context.Context, req store.GiveRequest) error {
	if len(req.Running) > 0 {
		got, err := d.store.Sync(ctx, store.SyncRequest{Holder: req.Holder, Insert: req.Running})
		if err == nil && got.LeaseGone {
			err = errLeaseGone
		}
		if err != nil {
			return fmt.Errorf("write down what runs: %w", err)
		}
	}
	return d.again(func() error { return d.store.Give(ctx, req) })
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

func (m *memory) sortedSpans() []*span {
	list := make([]*span, 0, len(m.spans))
	for _, sp := range m.spans {
		list = append(list, sp)
	}
	slices.SortFunc(list, func(a, b *span) int { return cmp.Compare(a.ID, b.ID) })
	return list
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

// collectGive adds a span and its hand-outs to a request.
func (sp *span) collectGive(req *store.GiveRequest) {
	req.Spans = append(req.Spans, sp.Taking())
	due, rank := int64(math.MaxInt64), int64(math.MaxInt64) // the least of the idle ones
	for s := range sp.live() {
		if s.plain(ready) {
			due, rank = min(due, sp.due()), min(rank, sp.Rank)
			continue
		}
		switch it := s.item(); it.place {
		case out:
			if it.asked {
				due, rank = min(due, it.due()), min(rank, it.rank)
			} else if !it.row {
				req.Running = append(req.Running, it.running())
			}
		case ready, parked, asleep:
			due, rank = min(due, it.due()), min(rank, it.rank)
		}
	}
	switch {
	case due == math.MaxInt64:
		due, rank = sp.Due, sp.Rank
	case sp.Seq0 == 0: // what is between them is the tasks' head start
		rank = due - (sp.Due - sp.Rank)
	}
	req.Orders = append(req.Orders, store.Move{Rank: rank, Due: due})
}

// allToGive is everything that is left when the node stops.
func (m *memory) allToGive() store.GiveRequest {
	req := store.GiveRequest{Holder: m.conf.Holder}
	for _, sp := range m.sortedSpans() {
		sp.collectGive(&req)
	}
	sortRunning(req.Running)
	return req
}
