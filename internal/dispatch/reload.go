package dispatch

import (
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

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
		rs.mem.readLater(items)
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
	if s.Owner.Holder != it.span.Holder || s.Owner.Token != it.span.Token ||
		s.Running == nil && it.given() && it.seq == s.Seq {
		// somebody took it over: none of its tokens is good any more; or an outcome was seen that a
		// failover took back, and the worker's token must go to nobody else
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
	if !sp.memory.holds(sp) { // given back and taken again meanwhile
		return
	}
	sp.memory.letGo(sp)
	for s := range sp.live() {
		it := s.unqueued()
		it.takeBack()
		it.place = gone
		it.stopAlarm()
	}
}
