package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// reload reads again where tasks stand whose outcome was decided elsewhere. They are settling, and
// stay so until it is known.
func (d *Dispatcher) reload(items []*item) {
	if len(items) == 0 {
		return
	}
	ids, seqs := make([]task.ID, len(items)), make([]int32, len(items))
	d.mu.Lock()
	for i, it := range items {
		ids[i], seqs[i] = it.id, it.seq
	}
	d.release()
	stood, err := d.store.Stand(d.ctx, ids)
	d.mu.Lock()
	defer d.release()
	if err != nil {
		d.note(err)
		d.log.Warn("read where tasks stand", "error", err)
		d.unresolved = append(d.unresolved, items...) // the next round asks again
		return
	}
	d.replaceAll(items, seqs, stood, time.Now())
}

// replaceAll makes of settling items what the store says of their tasks. seqs are those that they
// had when it was asked.
func (d *Dispatcher) replaceAll(items []*item, seqs []int32, stood []store.Stood, now time.Time) {
	for i, it := range items {
		if it.place == settling && it.seq == seqs[i] && d.items[it.id] == it {
			// else it went on meanwhile, by itself
			d.replace(it, &stood[i], now)
		}
	}
}

// replace makes of a settling item what the store says of its task.
func (d *Dispatcher) replace(it *item, s *store.Stood, now time.Time) {
	if s.Final {
		d.tellWatchers(it.id)
	}
	if !s.Found || s.Final || s.Owner.ID != it.span.ID {
		d.forget(it)
		return
	}
	if s.Owner.Holder != it.span.Holder || s.Owner.Token != it.span.Token {
		// somebody took it over: none of its tokens is good any more
		d.dropSpan(it.span)
		return
	}
	it.place = gone // a pointer to it may stand in a heap: what follows is a new item
	d.stopAlarm(it)
	fresh := d.newItem(it.queue, it.span, &s.Loaded)
	d.items[it.id] = &fresh
	it.span.idle++
	it.span.under--
	d.enter(&fresh, s.Running, s.Due, d.clock.read(now), now)
	d.match(it.queue, now)
}

// takeUnresolved takes the items that could not be read.
func (d *Dispatcher) takeUnresolved() []*item {
	items := d.unresolved
	d.unresolved = nil
	return items
}

// reloadSoon reads off the lock where tasks stand of which somebody says that they were touched.
// What a worker has it keeps until that is known to be true.
func (d *Dispatcher) reloadSoon(items ...*item) {
	var given []handed
	var others []*item
	for _, it := range items {
		switch it.place {
		case settling, gone:
			continue
		case out:
			given = append(given, handed{
				item: it, token: it.token, Handout: task.Handout{ID: it.id},
			})
			continue
		case ready:
			it.span.idle--
		case parked, asleep:
			it.span.idle--
			it.span.under++
		}
		it.place = settling
		others = append(others, it)
	}
	if len(given)+len(others) > 0 && !d.stopping {
		d.do.reloads = append(d.do.reloads, reloading{given, others})
	}
}

// verify reads whether hand-outs still stand, and brings memory to where the tasks are of those
// that do not. What can't be read now is found by the next rounds.
func (d *Dispatcher) verify(list []handed) {
	if len(list) == 0 {
		return
	}
	ids := make([]task.ID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	stood, err := d.store.Stand(d.ctx, ids)
	if err != nil {
		d.note(err)
		return
	}
	d.mu.Lock()
	defer d.release()
	d.replaceTouched(list, stood, time.Now())
}

// replaceTouched takes those hand-outs from their workers that no longer stand in the store.
func (d *Dispatcher) replaceTouched(list []handed, stood []store.Stood, now time.Time) {
	for i := range list {
		h, key := &list[i], keyOf(list[i].ID, list[i].token)
		if !h.current() || key.stands(&stood[i]) {
			// it went on meanwhile, by itself, or was not touched after all
			continue
		}
		d.settle(h.item)
		d.changed(h.item.worker)
		d.replace(h.item, &stood[i], now)
	}
}

// dropSpan forgets a span without deleting it: the rounds find it held by this node and read it
// anew.
func (d *Dispatcher) dropSpan(sp *span) {
	if d.spans[sp.ID] != sp { // given back and taken again meanwhile
		return
	}
	delete(d.spans, sp.ID)
	for n := sp.Lo; n <= sp.Hi; n++ {
		it := d.items[task.ID{Batch: sp.Batch, N: n}]
		if it == nil || it.span != sp {
			continue
		}
		d.takeBack(it)
		it.place = gone
		d.stopAlarm(it)
		delete(d.items, it.id)
	}
}

// recover finds spans that the store says this node holds and that memory misses: the answer to the
// submission or take that got them was lost. They must be missed for some rounds, because answers
// on their way are not lost. While the store answers, nothing is lost, and it looks seldom.
func (d *Dispatcher) recover(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	if d.rounds++; d.rounds%calmRounds != 0 && len(d.unmatched) == 0 && d.doubts.Add(-1) < 0 {
		d.release()
		return nil
	}
	known := d.knownSpans()
	d.release()
	held, err := d.store.Held(ctx, d.conf.Holder, known)
	if err != nil {
		return fmt.Errorf("read held spans: %w", err)
	}
	d.mu.Lock()
	found := d.noteHeld(held, now)
	d.release()
	for _, s := range found {
		d.log.Info("found a span whose answer was lost", "span", s.ID, "tasks", len(s.Tasks))
	}
	return nil
}

// knownSpans are the spans that memory holds, or is about to have deleted.
func (d *Dispatcher) knownSpans() []int64 {
	known := make([]int64, 0, len(d.spans)+len(d.spent))
	for id := range d.spans {
		known = append(known, id)
	}
	return append(known, d.spent...)
}

// noteHeld takes into memory what the store says that this node holds and that memory has missed
// for some rounds. It answers what that was.
func (d *Dispatcher) noteHeld(held []store.HeldSpan, now time.Time) (found []*store.HeldSpan) {
	missed := make(map[int64]int, len(held))
	spent := make(map[int64]bool, len(d.spent))
	for _, id := range d.spent {
		spent[id] = true
	}
	for i := range held {
		s := &held[i]
		if d.spans[s.ID] != nil || spent[s.ID] {
			continue
		}
		if missed[s.ID] = d.unmatched[s.ID] + 1; missed[s.ID] >= unmatchedRounds {
			found = append(found, s)
			delete(missed, s.ID)
			d.recovered[s.ID] = sighting{s.Token, now}
			q := d.queue(s.Queue)
			d.loadSpan(q, s, d.clock.read(now), now)
			d.match(q, now)
		}
	}
	d.unmatched = missed
	return found
}
