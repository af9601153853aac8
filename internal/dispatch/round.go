package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

const (
	configEvery = 20 * time.Second // queues' configurations are read again
	youngFor    = time.Second      // a hand-out older than this gets a running row
	doubtRounds = 5                // after an error of the store, spans whose answer was lost are looked for in so many rounds
	calmRounds  = 5                // else only in one of so many
	strayRounds = 3                // a held span that memory misses for so many rounds has lost its answer
	forgetAfter = time.Hour        // workers not heard of, and queues nobody asked for
	forgetSoon  = time.Minute      // the same, while there are more of them than manyNames
	manyNames   = 20_000
)

// Round does what a beat does: judge the silent, write down what runs, find what lost answers left behind, give back what
// nobody waits for. Every round looks at everything again, so a lost hint costs at most a beat.
func (d *Dispatcher) Round(ctx context.Context, now time.Time) error {
	var errs []error
	errs = append(errs, d.inquire(ctx, now))
	d.turn(now)
	d.reload(d.takeUnsure())
	errs = append(errs, d.vouch(ctx), d.deleteSpent(ctx), d.sync(ctx, now), d.recover(ctx, now), d.giveBack(ctx, now))
	d.mu.Lock()
	due := now.Sub(d.configRead) >= configEvery
	d.mu.Unlock()
	if due {
		errs = append(errs, d.reloadQueues(ctx), d.recallWorkers(ctx))
	}
	err := errors.Join(errs...)
	d.note(err)
	return err
}

// turn is the part of a round that needs no store.
func (d *Dispatcher) turn(now time.Time) {
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if !d.lastRound.IsZero() && now.Sub(d.lastRound) > 3*d.conf.Beat+time.Second {
		d.log.Warn("this process was stopped for a while: no worker is judged yet", "for", now.Sub(d.lastRound))
		d.pardon(now)
	}
	d.lastRound = now
	d.heed(d.conf.Working == nil || d.conf.Working(), now, &a)
	d.judge(now)
	forget := forgetAfter
	if len(d.workers)+len(d.queues) > manyNames { // somebody makes names up
		forget = forgetSoon
	}
	for _, name := range slices.Sorted(maps.Keys(d.queues)) {
		q := d.queues[name]
		q.pace, q.handed = q.handed, 0
		if d.demand(q, now) > 0 && now.Sub(q.looked) >= d.conf.Look {
			q.sign()
		}
		d.match(q, now, &a)
		if !q.stored && q.waiting.Len() == 0 && len(q.ready.entries) == 0 && !q.taking && now.Sub(q.looked) > forget {
			delete(d.queues, name)
		}
	}
	for name, w := range d.workers {
		if len(w.out) == 0 && len(w.waiting) == 0 && w.lease.Token == 0 && now.Sub(w.seen) > forget {
			delete(d.workers, name)
		}
	}
}

// heed takes in whether the node is to take tasks. When it no longer is, who waits here goes home, to ask another node.
func (d *Dispatcher) heed(working bool, now time.Time, a *answers) {
	if working == !d.draining {
		return
	}
	d.draining = !working
	for _, w := range d.workers {
		if working {
			d.matchWorker(w, now, a)
		} else {
			w.dismiss()
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
	sortRunning(req.Insert)
	slices.SortFunc(req.Watch, func(a, b rows.Watch) int { return a.ID.Compare(b.ID) })
	got, err := d.store.Sync(ctx, req)
	if err != nil {
		return fmt.Errorf("write down what runs: %w", err)
	}
	if got.LeaseGone {
		return nil
	}
	watched := make(map[task.ID]int32, len(req.Watch))
	for _, w := range req.Watch {
		watched[w.ID] = w.Seq
	}
	var outdated []*item
	d.mu.Lock()
	for i := range inserted {
		if inserted[i].current() {
			inserted[i].item.row = true
		}
	}
	for _, id := range got.Settled {
		if it := d.items[id]; it != nil && it.place == out && it.seq == watched[id] { // else it went on meanwhile, by itself
			d.settle(it)
			it.worker.changed()
			outdated = append(outdated, it)
		}
	}
	d.mu.Unlock()
	d.reload(outdated)
	return nil
}

// reload reads again where tasks stand whose outcome was decided elsewhere. They are settling, and stay so until it is known.
func (d *Dispatcher) reload(items []*item) {
	if len(items) == 0 {
		return
	}
	ids, seqs := make([]task.ID, len(items)), make([]int32, len(items))
	d.mu.Lock()
	for i, it := range items {
		ids[i], seqs[i] = it.id, it.seq
	}
	d.mu.Unlock()
	stood, err := d.store.Stand(d.ctx, ids)
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if err != nil {
		d.note(err)
		d.log.Warn("read where tasks stand", "error", err)
		d.unsure = append(d.unsure, items...) // the next round asks again
		return
	}
	for i, it := range items {
		if it.place == settling && it.seq == seqs[i] && d.items[it.id] == it { // else it went on meanwhile, by itself
			d.replace(it, &stood[i], now, &a)
		}
	}
}

// replace makes of a settling item what the store says of its task.
func (d *Dispatcher) replace(it *item, s *rows.Stood, now time.Time, a *answers) {
	if s.Final {
		d.tellWatchers(it.id)
	}
	if !s.Found || s.Final || s.Owner.ID != it.span.ID {
		d.forget(it)
		return
	}
	if s.Owner.Holder != it.span.Holder || s.Owner.Token != it.span.Token { // somebody took it over: none of its tokens is good any more
		d.dropSpan(it.span)
		return
	}
	it.place = gone // a pointer to it may stand in a heap: what follows is a new item
	it.timer.Stop()
	fresh := d.newItem(it.queue, it.span, &s.Loaded)
	d.items[it.id] = &fresh
	it.span.idle++
	it.span.under--
	d.enter(&fresh, s.Running, s.Due, micros(now), now)
	d.match(it.queue, now, a)
}

// takeUnsure takes the items that could not be read.
func (d *Dispatcher) takeUnsure() []*item {
	d.mu.Lock()
	defer d.mu.Unlock()
	items := d.unsure
	d.unsure = nil
	return items
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
		it.timer.Stop()
		delete(d.items, it.id)
	}
}

// recover finds spans that the store says this node holds and that memory misses: the answer to the submission or take that
// got them was lost. They must be missed for some rounds, because answers on their way are not lost. While the store answers, nothing is
// lost, and it looks seldom.
func (d *Dispatcher) recover(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	if d.rounds++; d.rounds%calmRounds != 0 && len(d.strays) == 0 && d.doubts.Add(-1) < 0 {
		d.mu.Unlock()
		return nil
	}
	known := make([]int64, 0, len(d.spans)+len(d.spent))
	for id := range d.spans {
		known = append(known, id)
	}
	known = append(known, d.spent...)
	d.mu.Unlock()
	held, err := d.store.Held(ctx, d.conf.Holder, known)
	if err != nil {
		return fmt.Errorf("read held spans: %w", err)
	}
	var a answers
	d.mu.Lock()
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
		if missed[s.ID] = d.strays[s.ID] + 1; missed[s.ID] >= strayRounds {
			d.log.Info("found a span whose answer was lost", "span", s.ID, "tasks", len(s.Tasks))
			delete(missed, s.ID)
			d.found[s.ID] = s.Token
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
// rows for their hand-outs, whose tokens stay good. Until the store has said yes, nothing of them goes out any more.
func (d *Dispatcher) giveBack(ctx context.Context, now time.Time) error {
	req := rows.GiveRequest{Holder: d.conf.Holder}
	var giving []*span
	d.mu.Lock()
	for _, sp := range d.sortedSpans() {
		q := d.queue(sp.Queue)
		wanted := !q.conf.Paused && !d.draining && now.Sub(q.wanted) <= d.conf.GiveAfter
		if sp.idle == 0 || wanted || d.anySettling(sp) {
			continue
		}
		d.collectGive(sp, &req)
		d.park(sp)
		giving = append(giving, sp)
	}
	d.mu.Unlock()
	if len(giving) == 0 {
		return nil
	}
	sortRunning(req.Running)
	err := d.give(ctx, req)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sp := range giving {
		if err != nil {
			d.reopen(sp)
			continue
		}
		d.dropSpan(sp)
		d.sign(d.queue(sp.Queue), 0, 0, now)
	}
	if err != nil {
		return fmt.Errorf("give spans back: %w", err)
	}
	return nil
}

// give writes down what runs, then gives spans back. In this order, because a store gives nothing back for a node whose lease has
// expired, and does not say so: then the rounds find the spans again, and must see what runs.
func (d *Dispatcher) give(ctx context.Context, req rows.GiveRequest) error {
	if len(req.Running) > 0 {
		got, err := d.store.Sync(ctx, rows.SyncRequest{Holder: req.Holder, Insert: req.Running})
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
func (d *Dispatcher) park(sp *span) {
	sp.giving = true
	for n := sp.Lo; n <= sp.Hi; n++ {
		if it := d.items[task.ID{Batch: sp.Batch, N: n}]; it != nil && it.span == sp && it.place == ready {
			it.place = parked
			sp.under--
			sp.parked = append(sp.parked, it)
		}
	}
}

// reopen lets a span's tasks out again that was not given back after all.
func (d *Dispatcher) reopen(sp *span) {
	sp.giving = false
	waiting := sp.parked
	sp.parked = nil
	for _, it := range waiting {
		if it.place == parked {
			d.enqueue(it)
		}
	}
}

func (d *Dispatcher) sortedSpans() []*span {
	list := make([]*span, 0, len(d.spans))
	for _, sp := range d.spans {
		list = append(list, sp)
	}
	slices.SortFunc(list, func(a, b *span) int { return cmp.Compare(a.ID, b.ID) })
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
	sortRunning(req.Running)
	return req
}
