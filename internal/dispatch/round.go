package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// queues' configurations are read again, whatever was heard of them
	configEvery = 20 * time.Second
	youngFor    = time.Second // a hand-out older than this gets a running row
	// after an error of the store, spans whose answer was lost are looked for in so many rounds
	doubtRounds = 5
	calmRounds  = 5 // else only in one of so many
	// a held span that memory misses for so many rounds has lost its answer
	unmatchedRounds = 3
	// workers not heard of, queues nobody asked for, answers that no longer come
	forgetAfter = time.Hour
	forgetSoon  = time.Minute // the same, while there are more of them than manyNames
	manyNames   = 20_000
)

// Round does what a beat does: judge the silent, write down what runs, find what lost answers left
// behind, give back what nobody waits for. Every round looks at everything again, so a lost hint
// costs at most a beat.
func (d *Dispatcher) Round(ctx context.Context, now time.Time) error {
	var errs []error
	errs = append(errs, d.inquire(ctx, now))
	d.turn(now)
	errs = append(errs, d.look(ctx, now))
	d.mu.Lock()
	unresolved := d.mem.takeUnresolved()
	d.release()
	d.reload(unresolved)
	d.askAgain(now)
	errs = append(errs, d.lookAtGates(ctx, now), d.lookAtKeys(ctx, now))
	errs = append(errs, d.reportAlive(ctx), d.deleteSpent(ctx), d.sync(ctx, now),
		d.recover(ctx, now),
		d.giveBack(ctx, now))
	d.mu.Lock()
	due := d.mem.areDue(now)
	d.release()
	if due {
		errs = append(errs, d.follow(ctx))
	}
	err := errors.Join(errs...)
	d.note(err)
	return err
}

// turn is the part of a round that needs no store.
func (d *Dispatcher) turn(now time.Time) {
	d.mu.Lock()
	defer d.release()
	stood := d.mem.begin(now)
	d.mem.waits.pieces = 0
	d.mem.waits.lookAround()
	d.mem.heed(d.conf.Working == nil || d.conf.Working(), now)
	if d.conf.Jobs != nil {
		d.mem.workers.askPatience(now, d.conf.Jobs.Patience)
	}
	spared, active := d.mem.judge(now, time.Now())
	d.mem.workers.takeAway(d.mem.clock.read(now), now)
	d.mem.expiring.expireDue(now)
	d.mem.matchAll(now)
	d.mem.announce(now)
	d.mem.forgetOld(now)
	if stood > 0 {
		d.log.Warn("rounds stood still: the store is slow, or this process was stopped",
			"for", stood.Round(time.Millisecond).String())
	}
	if spared > 0 {
		d.log.Error("many workers are silent at once: waiting for one more limit", "silent",
			spared, "workers", active)
	}
}

// begin begins a round. After a time in which there was none workers get one more limit; stood says
// how long that was.
func (m *memory) begin(now time.Time) (stood time.Duration) {
	if !m.lastRound.IsZero() && now.Sub(m.lastRound) > 3*m.conf.Beat+time.Second {
		stood = now.Sub(m.lastRound)
		m.workers.pardon(now)
	}
	m.lastRound = now
	m.turns++
	return stood
}

// forgetAge is after how long what nobody spoke of is forgotten.
func (m *memory) forgetAge() time.Duration {
	if len(m.workers)+len(m.queues) > manyNames { // somebody makes names up
		return forgetSoon
	}
	return forgetAfter
}

// matchAll lets every queue hand out and take, and begins its count of the next beat.
func (m *memory) matchAll(now time.Time) {
	forget := m.forgetAge()
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		q := m.queues[name]
		q.pace, q.handed = q.handed, 0
		q.ready.tidy()
		if q.wants() {
			q.wanted = now
		}
		q.match(now)
		if !q.stored && q.waiting.Len() == 0 && q.ready.count() == 0 && !q.taking &&
			now.Sub(q.looked) > forget {
			delete(m.queues, name)
		}
	}
}

// forgetOld forgets spans and workers of which nothing was heard for long.
func (m *memory) forgetOld(now time.Time) {
	forget := m.forgetAge()
	m.leftovers.forgetOld(now)
	for name, w := range m.workers {
		if w.hands() == 0 && len(w.waiting) == 0 && !w.drained && now.Sub(w.seen) > forget {
			delete(m.workers, name)
		}
	}
}

// heed takes in whether the node is to take tasks. When it no longer is, who waits here goes home,
// to ask another node.
func (m *memory) heed(working bool, now time.Time) {
	if working == !m.draining {
		return
	}
	m.draining = !working
	for _, name := range slices.Sorted(maps.Keys(m.workers)) {
		w := m.workers[name]
		if working {
			w.match(now)
		} else {
			w.dismiss()
		}
	}
}

// sync writes down the hand-outs that are no longer young, so that their tokens survive this node,
// and learns what others settled.
func (d *Dispatcher) sync(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	litter := d.mem.litter
	req, inserted := d.mem.beginSync(now)
	d.release()
	if len(req.Watch) == 0 {
		return nil
	}
	got, err := d.store.Sync(ctx, req)
	d.mu.Lock()
	if err != nil || got.LeaseGone {
		d.mem.sweepLater(litter...)
	}
	d.release()
	if err != nil {
		return fmt.Errorf("write down what runs: %w", err)
	}
	if got.LeaseGone {
		return nil
	}
	d.mu.Lock()
	outdated := d.mem.endSync(req, inserted, got)
	d.release()
	d.verify(outdated)
	return nil
}

// beginSync lists the hand-outs that are no longer young, and the rows that they lack.
func (m *memory) beginSync(now time.Time) (req store.SyncRequest, inserted []handed) {
	req.Holder = m.conf.Holder
	req.Watch, m.litter = m.litter, nil
	for _, w := range m.workers {
		for _, p := range slices.Clone(w.parcels) {
			if now.Sub(p.started) >= youngFor {
				w.lookInto(p)
			}
		}
		for _, it := range w.out {
			if now.Sub(it.started) < youngFor || it.asked {
				continue
			}
			if it.lacksRow() {
				req.Insert = append(req.Insert, it.running())
				inserted = append(inserted, it.handed())
			}
			req.Watch = append(req.Watch, store.Watch{ID: it.id, Seq: it.seq})
		}
	}
	sortRunning(req.Insert)
	slices.SortFunc(req.Watch, func(a, b store.Watch) int { return a.ID.Compare(b.ID) })
	return req, inserted
}

// endSync notes which rows stand now, and answers what others are said to have settled: workers
// keep it until it is known to be true, as a failover may take back what was seen.
func (m *memory) endSync(
	req store.SyncRequest, inserted []handed, got store.Synced,
) (outdated []handed) {
	watched := make(map[task.ID]int32, len(req.Watch))
	for _, w := range req.Watch {
		watched[w.ID] = w.Seq
	}
	m.wroteDown(inserted, got.Missing)
	for _, id := range got.Settled {
		if it := m.item(id); it != nil && it.place == out && it.seq == watched[id] {
			// else it went on meanwhile, by itself
			outdated = append(outdated, it.handed())
		}
	}
	return outdated
}
