package dispatch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// leftovers are what answers that were lost, or came to nothing, may have left in the store: the
// rounds look for it.
type leftovers struct {
	rounds    int           // in which spans were to be looked for
	unmatched map[int64]int // rounds in a row since which a held span was not in memory
	// found by a round because their answer seemed lost: it may come yet
	recovered  map[int64]sighting
	gave       map[int64]sighting // that this node itself gave back while tasks of theirs ran
	unresolved []*item            // settling: where they stand could not be read
	unanswered []*item            // out, and asked: the store did not say whether they began
	untold     []handed           // that began, and that no worker was told of: they are to end
	// hand-outs that began perhaps in the very moment in which somebody else ended them: a row that
	// nobody deletes would count against a limit. The next round has such rows swept.
	litter []store.Watch
}

// isLate tells whether an answer that brings a span came so late that a round has found the span
// before: it may be over by now.
func (lo *leftovers) isLate(sp *store.Span) bool {
	return lo.recovered[sp.ID].token >= sp.Token
}

// forgetOld forgets spans whose answers no longer come.
func (lo *leftovers) forgetOld(now time.Time) {
	old := func(_ int64, f sighting) bool { return now.Sub(f.at) > forgetAfter }
	maps.DeleteFunc(lo.recovered, old)
	maps.DeleteFunc(lo.gave, old)
}

// reloads read in the store where tasks stand, and bring memory there.
type reloads struct{ *core }

// reload reads again where tasks stand whose outcome was decided elsewhere. They are settling, and
// stay so until it is known.
func (rs *reloads) reload(items []*item) {
	if len(items) == 0 {
		return
	}
	ids, seqs := make([]task.ID, len(items)), make([]int32, len(items))
	rs.mu.Lock()
	for i, it := range items {
		ids[i], seqs[i] = it.id, it.seq
	}
	rs.release()
	stood, err := rs.store.Stand(rs.ctx, ids)
	rs.mu.Lock()
	defer rs.release()
	if err != nil {
		rs.note(err)
		rs.log.Warn("read where tasks stand", "error", err)
		rs.mem.unresolved = append(rs.mem.unresolved, items...) // the next round asks again
		return
	}
	rs.mem.replaceAll(items, seqs, stood, time.Now())
}

// replaceAll makes of settling items what the store says of their tasks. seqs are those that they
// had when it was asked.
func (m *memory) replaceAll(items []*item, seqs []int32, stood []store.Stood, now time.Time) {
	for i, it := range items {
		if it.place == settling && it.seq == seqs[i] && it.cell.item == it {
			// else it went on meanwhile, by itself
			m.replace(it, &stood[i], now)
		}
	}
}

// replace makes of a settling item what the store says of its task.
func (m *memory) replace(it *item, s *store.Stood, now time.Time) {
	if s.Final {
		m.watchers.tell(it.id, &m.do)
	}
	if !s.Found || s.Final || s.Owner.ID != it.span.ID {
		it.sweep()
		it.forget()
		return
	}
	if s.Owner.Holder != it.span.Holder || s.Owner.Token != it.span.Token {
		// somebody took it over: none of its tokens is good any more
		it.span.drop()
		return
	}
	it.place = gone // a pointer to it may stand in a heap: what follows is a new item
	it.stopAlarm()
	fresh := it.queue.newItem(it.span, &s.Loaded)
	spot{it.span, it.cell}.become(fresh)
	it.span.idle++
	it.span.under--
	fresh.enter(s.Running, s.Due, m.clock.read(now), now)
	fresh.span.letNext()
	it.queue.match(now)
}

// takeUnresolved takes the items that could not be read.
func (lo *leftovers) takeUnresolved() []*item {
	items := lo.unresolved
	lo.unresolved = nil
	return items
}

// reloadSoon reads off the lock where tasks stand of which somebody says that they were touched.
// What a worker has it keeps until that is known to be true.
func (m *memory) reloadSoon(items ...*item) {
	var given []handed
	var others []*item
	for _, it := range items {
		switch it.place {
		case settling, gone:
			continue
		case out:
			given = append(given, it.handed())
			continue
		case ready:
			it.span.idle--
		case parked, asleep:
			it.span.idle--
			it.span.under++
		}
		m.expiring.remove(it)
		it.place = settling
		others = append(others, it)
	}
	if len(given)+len(others) > 0 && !m.stopping {
		m.do.reloads = append(m.do.reloads, reloading{given, others})
	}
}

// verify reads whether hand-outs still stand, and brings memory to where the tasks are of those
// that do not. What can't be read now is found by the next rounds.
func (rs *reloads) verify(list []handed) {
	if len(list) == 0 {
		return
	}
	ids := make([]task.ID, len(list))
	for i := range list {
		ids[i] = list[i].id()
	}
	stood, err := rs.store.Stand(rs.ctx, ids)
	if err != nil {
		rs.note(err)
		return
	}
	rs.mu.Lock()
	defer rs.release()
	rs.mem.replaceTouched(list, stood, time.Now())
}

// replaceTouched takes those hand-outs from their workers that no longer stand in the store.
func (m *memory) replaceTouched(list []handed, stood []store.Stood, now time.Time) {
	for i := range list {
		h, key := &list[i], keyOf(list[i].id(), list[i].token)
		if !h.current() || key.stands(&stood[i]) {
			// it went on meanwhile, by itself, or was not touched after all
			continue
		}
		h.was.settle()
		h.was.worker.changed()
		m.replace(h.was, &stood[i], now)
	}
}

// drop forgets a span without deleting it: the rounds find it held by this node and read it
// anew.
func (sp *span) drop() {
	if sp.memory.spans[sp.ID] != sp { // given back and taken again meanwhile
		return
	}
	delete(sp.memory.spans, sp.ID)
	sp.memory.index.remove(sp)
	for s := range sp.live() {
		it := s.unqueued()
		it.takeBack()
		it.place = gone
		it.stopAlarm()
	}
}

// recover finds spans that the store says this node holds and that memory misses: the answer to the
// submission or take that got them was lost. They must be missed for some rounds, because answers
// on their way are not lost. While the store answers, nothing is lost, and it looks seldom.
func (ts *transfers) recover(ctx context.Context, now time.Time) error {
	ts.mu.Lock()
	if ts.mem.rounds++; ts.mem.rounds%calmRounds != 0 && len(ts.mem.unmatched) == 0 &&
		ts.doubts.Add(-1) < 0 {
		ts.release()
		return nil
	}
	known := ts.mem.knownSpans()
	ts.release()
	defer ts.loads.begin()()
	held, err := ts.store.Held(ctx, ts.conf.Holder, known)
	if err != nil {
		return fmt.Errorf("read held spans: %w", err)
	}
	ts.mu.Lock()
	found := ts.mem.noteHeld(held, now)
	ts.release()
	for _, s := range found {
		ts.log.Info("found a span whose answer was lost", "span", s.ID, "tasks", len(s.Tasks))
	}
	return nil
}

// knownSpans are the spans that memory holds, or is about to have deleted.
func (hs *holdings) knownSpans() []int64 {
	known := make([]int64, 0, len(hs.spans)+len(hs.spent))
	for id := range hs.spans {
		known = append(known, id)
	}
	for _, s := range hs.spent {
		known = append(known, s.Span)
	}
	return known
}

// noteHeld takes into memory what the store says that this node holds and that memory has missed
// for some rounds. It answers what that was.
func (m *memory) noteHeld(held []store.HeldSpan, now time.Time) (found []*store.HeldSpan) {
	missed := make(map[int64]int, len(held))
	spent := make(map[int64]bool, len(m.spent))
	for _, s := range m.spent {
		spent[s.Span] = true
	}
	for i := range held {
		s := &held[i]
		if m.spans[s.ID] != nil || spent[s.ID] {
			continue
		}
		if missed[s.ID] = m.unmatched[s.ID] + 1; missed[s.ID] >= unmatchedRounds {
			found = append(found, s)
			delete(missed, s.ID)
			m.recovered[s.ID] = sighting{s.Token, now}
			q := m.queue(s.Queue)
			m.loadSpan(q, s, m.clock.read(now), now)
			q.match(now)
		}
	}
	m.unmatched = missed
	return found
}
