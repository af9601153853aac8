package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

const (
	configEvery = 20 * time.Second // queues' configurations are read again
	lookEvery   = 5 * time.Second  // the store is asked for a queue that somebody waits for, without any sign
	youngFor    = time.Second      // a hand-out older than this gets a running row
	strayRounds = 3                // a held span that memory misses for so many rounds has lost its answer
	forgetAfter = time.Hour        // workers not heard of, and queues nobody asked for
)

// Round does what a beat does: judge the silent, write down what runs, find what lost answers left behind, give back what
// nobody waits for. Every round looks at everything again, so a lost hint costs at most a beat.
func (d *Dispatcher) Round(ctx context.Context, now time.Time) error {
	d.turn(now)
	var errs []error
	errs = append(errs, d.deleteSpent(ctx), d.sync(ctx, now), d.recover(ctx, now), d.giveBack(ctx, now))
	d.mu.Lock()
	due := now.Sub(d.configRead) >= configEvery
	d.mu.Unlock()
	if due {
		errs = append(errs, d.reloadQueues(ctx))
	}
	err := errors.Join(errs...)
	d.note(err)
	return err
}

// turn is the part of a round that needs no store.
func (d *Dispatcher) turn(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.lastRound.IsZero() && now.Sub(d.lastRound) > 3*d.conf.Beat+time.Second {
		d.log.Warn("this process was stopped for a while: no worker is judged yet", "for", now.Sub(d.lastRound))
		d.pardon(now)
	}
	d.lastRound = now
	d.judge(now)
	for name, q := range d.queues {
		q.pace, q.handed = q.handed, 0
		if d.demand(q, now) > 0 && now.Sub(q.looked) >= lookEvery {
			q.sign()
		}
		d.takeSoon(q, now)
		if !q.stored && q.waiting.Len() == 0 && len(q.ready.entries) == 0 && !q.taking && now.Sub(q.looked) > forgetAfter {
			delete(d.queues, name)
		}
	}
	for name, w := range d.workers {
		if len(w.out) == 0 && len(w.waiting) == 0 && w.lease.Token == 0 && now.Sub(w.seen) > forgetAfter {
			w.silent.Stop()
			delete(d.workers, name)
		}
	}
}

// deleteSpent deletes spent spans that no settlement carried along since the last round.
func (d *Dispatcher) deleteSpent(ctx context.Context) error {
	d.mu.Lock()
	spent := d.spent
	d.spent = nil
	d.mu.Unlock()
	if len(spent) == 0 {
		return nil
	}
	if _, err := d.store.Settle(ctx, rows.Settlement{Spent: spent}); err != nil {
		d.mu.Lock()
		d.spent = append(d.spent, spent...)
		d.mu.Unlock()
		return fmt.Errorf("delete spent spans: %w", err)
	}
	return nil
}

// sync writes down the hand-outs that are no longer young, so that their tokens survive this node, and learns what others settled.
func (d *Dispatcher) sync(ctx context.Context, now time.Time) error {
	req := rows.SyncRequest{Holder: d.conf.Holder}
	var inserted []handed
	d.mu.Lock()
	for _, w := range d.workers {
		for _, it := range w.out {
			if now.Sub(it.started) < youngFor {
				continue
			}
			if !it.row && it.token.SpanToken == it.span.Token && it.token.Span == it.span.ID {
				req.Insert = append(req.Insert, it.running())
				inserted = append(inserted, handed{item: it, token: it.token})
			}
			req.Watch = append(req.Watch, rows.Watch{ID: it.id, Seq: it.seq})
		}
	}
	d.mu.Unlock()
	if len(req.Watch) == 0 {
		return nil
	}
	slices.SortFunc(req.Insert, func(a, b rows.Running) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(req.Watch, func(a, b rows.Watch) int { return a.ID.Compare(b.ID) })
	got, err := d.store.Sync(ctx, req)
	if err != nil {
		return fmt.Errorf("write down what runs: %w", err)
	}
	if got.LeaseGone {
		return nil
	}
	var outdated []*item
	d.mu.Lock()
	for i := range inserted {
		if inserted[i].current() {
			inserted[i].item.row = true
		}
	}
	for _, id := range got.Settled {
		if it := d.items[id]; it != nil && it.place == out {
			d.settle(it)
			it.worker.changed()
			outdated = append(outdated, it)
		}
	}
	d.mu.Unlock()
	d.reload(outdated)
	return nil
}

// reload reads again where tasks stand whose outcome was decided elsewhere. They are being settled, or memory is out of date.
func (d *Dispatcher) reload(items []*item) {
	if len(items) == 0 {
		return
	}
	ids := make([]task.ID, len(items))
	for i, it := range items {
		ids[i] = it.id
	}
	stood, err := d.store.Stand(d.ctx, ids)
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if err != nil { // they stay with nobody until a round reads them: forget them, the span is read again
		d.note(err)
		d.log.Warn("read where tasks stand", "error", err)
		for _, it := range items {
			if it.place != gone {
				d.dropSpan(it.span)
			}
		}
		return
	}
	for i, it := range items {
		if it.place == gone || d.items[it.id] != it {
			continue
		}
		s := &stood[i]
		if s.Final {
			d.tellWatchers(it.id)
		}
		if !s.Found || s.Final || s.Owner.ID != it.span.ID {
			d.forget(it)
			continue
		}
		if it.place == out {
			d.takeBack(it)
		}
		it.timer.Stop()
		it.place = gone // a pointer to it may stand in a heap: what follows is a new item
		fresh := d.newItem(it.queue, it.span, &s.Loaded)
		d.items[it.id] = &fresh
		it.span.idle++
		it.span.under--
		d.enter(&fresh, s.Running, s.Due, micros(now), now)
		d.match(it.queue, now, &a)
	}
}

// reloadSoon reloads an item off the lock. The lock is held.
func (d *Dispatcher) reloadSoon(it *item) {
	switch it.place {
	case out:
		d.takeBack(it)
	case ready:
		it.span.idle--
	case parked, asleep:
		it.span.idle--
		it.span.under++
	}
	it.place = settling
	if !d.stopping {
		d.work.Go(func() { d.reload([]*item{it}) })
	}
}

// dropSpan forgets a span without deleting it: the rounds find it held by this node and read it anew.
func (d *Dispatcher) dropSpan(sp *span) {
	delete(d.spans, sp.ID)
	for n := sp.Lo; n <= sp.Hi; n++ {
		it := d.items[task.ID{Batch: sp.Batch, N: n}]
		if it == nil || it.span != sp {
			continue
		}
		d.takeBack(it)
		it.place = gone
		it.timer.Stop()
		delete(d.items, it.id)
	}
}

// recover finds spans that the store says this node holds and that memory misses: the answer to the submission or take that
// got them was lost. They must be missed for some rounds, because answers on their way are not lost.
func (d *Dispatcher) recover(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	known := make([]int64, 0, len(d.spans)+len(d.spent))
	for id := range d.spans {
		known = append(known, id)
	}
	known = append(known, d.spent...)
	d.mu.Unlock()
	slices.Sort(known)
	held, err := d.store.Held(ctx, d.conf.Holder, known)
	if err != nil {
		return fmt.Errorf("read held spans: %w", err)
	}
	var a answers
	d.mu.Lock()
	missed := make(map[int64]int, len(held))
	for i := range held {
		s := &held[i]
		if d.spans[s.ID] != nil || slices.Contains(d.spent, s.ID) {
			continue
		}
		if missed[s.ID] = d.strays[s.ID] + 1; missed[s.ID] >= strayRounds {
			d.log.Info("found a span whose answer was lost", "span", s.ID, "tasks", len(s.Tasks))
			delete(missed, s.ID)
			q := d.queue(s.Queue)
			d.loadSpan(q, s, micros(now), now)
			d.match(q, now, &a)
		}
	}
	d.strays = missed
	d.mu.Unlock()
	a.send()
	return nil
}

// giveBack frees the spans of queues that nobody waits for, so that other nodes' workers get them. Whole spans, with running
// rows for their hand-outs, whose tokens stay good.
func (d *Dispatcher) giveBack(ctx context.Context, now time.Time) error {
	req := rows.GiveRequest{Holder: d.conf.Holder}
	d.mu.Lock()
	for _, sp := range d.sortedSpans() {
		q := d.queue(sp.Queue)
		if sp.idle == 0 || !q.conf.Paused && now.Sub(q.wanted) <= d.conf.GiveAfter || d.anySettling(sp) {
			continue
		}
		d.collectGive(sp, &req)
		d.dropSpan(sp)
		q.sign()
		q.backlog = true
	}
	d.mu.Unlock()
	if len(req.Spans) == 0 {
		return nil
	}
	if err := d.store.Give(ctx, req); err != nil { // still held: the rounds find them again
		return fmt.Errorf("give spans back: %w", err)
	}
	return nil
}

func (d *Dispatcher) sortedSpans() []*span {
	list := make([]*span, 0, len(d.spans))
	for _, sp := range d.spans {
		list = append(list, sp)
	}
	slices.SortFunc(list, func(a, b *span) int { return int(a.ID - b.ID) })
	return list
}

// anySettling tells whether a task of the span is on its way into the store: then memory is about to know better.
func (d *Dispatcher) anySettling(sp *span) bool {
	for n := sp.Lo; n <= sp.Hi; n++ {
		if it := d.items[task.ID{Batch: sp.Batch, N: n}]; it != nil && it.span == sp && it.place == settling {
			return true
		}
	}
	return false
}

// collectGive adds a span and its hand-outs to a request.
func (d *Dispatcher) collectGive(sp *span, req *rows.GiveRequest) {
	req.Spans = append(req.Spans, sp.ID)
	for n := sp.Lo; n <= sp.Hi; n++ {
		it := d.items[task.ID{Batch: sp.Batch, N: n}]
		if it != nil && it.span == sp && it.place == out && !it.row {
			req.Running = append(req.Running, it.running())
		}
	}
}

// allToGive is everything that is left when the node stops.
func (d *Dispatcher) allToGive() rows.GiveRequest {
	req := rows.GiveRequest{Holder: d.conf.Holder}
	for _, sp := range d.sortedSpans() {
		d.collectGive(sp, &req)
	}
	return req
}
