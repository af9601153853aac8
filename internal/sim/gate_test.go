package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// In one world of three, a queue has limits (ADR 53): few of its tasks run at a time, and in some
// of these worlds few begin in a second. The ledger watches that its rows are never more, and that
// nobody is given one of its tasks whose row does not stand.

// gated is the queue with limits.
const gated = "b"

// gates tells whether the world has such a queue.
func (w *world) gates() bool { return w.seed%3 == 1 }

// limitQueue makes up the limits, where the queue has them from the start.
func (w *world) limitQueue(q *task.Queue) {
	if w.late() {
		return
	}
	luck := w.luckOf("gate")
	q.MaxRunning = 1 + luck.IntN(3)
	if luck.IntN(2) == 0 {
		q.Rate = task.Rate{Count: 2 + luck.Int64N(3), Per: time.Second}
		q.Burst = luck.IntN(4)
	}
	if luck.IntN(2) == 0 {
		q.PerKey.MaxRunning = 1
	}
	q.Fair = luck.IntN(2) == 0
	// where keys do not go in order, spans with tasks of several may be handed out as they are
	if q.PerKey.MaxRunning == 0 && w.luckOf("keys").IntN(3) > 0 {
		q.PerKey.MaxRunning = 2
	}
	w.ledger.gate = *q
}

// groupKeys are those of tasks, whatever their queue.
var groupKeys = []string{"", "x", "y", "x"}

func (d *storeDoor) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	ids := make([]task.ID, len(r.Rows))
	for i := range r.Rows {
		ids[i] = r.Rows[i].ID
	}
	return ask(ctx, d, fmt.Sprintf("begin %v", ids), true, ids,
		func(ctx context.Context) (store.Begun, error) {
			lives, before := d.world.ledger.lives(r.Holder), d.world.ledger.rows()
			d.world.ledger.keysOf(&r)
			got, err := d.Store.Begin(ctx, r)
			if err == nil {
				d.world.ledger.begun(lives, before, &got)
			}
			return got, err
		}, func(got store.Begun) string { return fmt.Sprint(got.LeaseGone, got.Rows) })
}

func (d *storeDoor) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	type answer struct {
		now   int64
		gates []store.Gate
	}
	got, err := ask(ctx, d, fmt.Sprintf("gates %v", queues), false, nil,
		func(ctx context.Context) (a answer, err error) {
			a.now, a.gates, err = d.Store.Gates(ctx, queues...)
			return a, err
		}, func(a answer) string { return fmt.Sprint(a.gates) })
	return got.now, got.gates, err
}

func (d *storeDoor) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	type answer struct {
		page []task.StageContext
		next int32
	}
	got, err := ask(ctx, d, fmt.Sprintf("contexts of %v from %d", q.ID, q.From), false, nil,
		func(ctx context.Context) (a answer, err error) {
			a.page, a.next, err = d.Store.Contexts(ctx, q)
			return a, err
		}, func(a answer) string { return fmt.Sprint(len(a.page), a.next) })
	return got.page, got.next, err
}

func (d *storeDoor) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, gates []store.KeyGate, err error) {
	type answer struct {
		now   int64
		gates []store.KeyGate
	}
	got, err := ask(ctx, d, fmt.Sprintf("gates of keys %v of %s", keys, queue), false, nil,
		func(ctx context.Context) (a answer, err error) {
			a.now, a.gates, err = d.Store.KeyGates(ctx, queue, keys)
			return a, err
		}, func(a answer) string { return fmt.Sprint(a.gates) })
	return got.now, got.gates, err
}

func (d *storeDoor) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	return ask(ctx, d, "take what runs", false, nil,
		func(ctx context.Context) (store.Taken, error) {
			lives := d.world.ledger.lives(h)
			got, err := d.Store.TakeRunning(ctx, h, limit)
			d.world.ledger.taken(h, lives, got.Spans)
			if len(got.Spans) > 0 {
				d.world.sometimes("what a dead node had handed out was taken for its limit")
			}
			return got, err
		}, func(got store.Taken) string { return heldText(got.Spans) })
}

// tellEnded tells the other nodes that tasks of queues with limits have ended.
func (w *world) tellEnded(from *process, queues []string) {
	if from.dead() {
		return
	}
	for _, queue := range slices.Clone(queues) {
		w.tell(from, fmt.Sprintf("ended in %s at %v", queue, from), func(n *peer) {
			n.HearEnded(queue)
		})
	}
}

// tellChanged tells the other nodes that the limits of a queue have changed.
func (w *world) tellChanged(from *process) {
	if from.dead() {
		return
	}
	w.tell(from, fmt.Sprintf("limits changed at %v", from), func(n *peer) { n.HearChanged() })
}

// rows are the hand-outs of the queue with limits that are written down.
func (l *ledger) rows() map[task.ID]bool {
	page, _, err := l.facts.Tasks(l.ctx, store.Filter{Queue: gated, State: task.Running},
		task.ID{}, 1<<20)
	if err != nil {
		l.world.breach("list what runs of %s: %v", gated, err)
	}
	rows := map[task.ID]bool{}
	for _, v := range page {
		rows[v.ID] = true
	}
	return rows
}

// begun looks at hand-outs that have just begun.
func (l *ledger) begun(lives bool, before map[task.ID]bool, got *store.Begun) {
	w := l.world
	if !lives && !got.LeaseGone {
		w.breach("gate: a node without a lease was let begin %v", got.Rows)
	}
	after := l.rows()
	fresh := 0
	for id := range after {
		if !before[id] {
			fresh++
		}
	}
	if most := l.gate.MaxRunning; most > 0 && fresh > 0 && len(after) > most {
		w.breach("gate: %d tasks of %s run, at most %d may", len(after), gated, most)
	}
	if slices.Contains(got.Rows, store.HeldBack) {
		w.sometimes("a limit held a hand-out back")
	}
	if slices.Contains(got.Rows, store.Void) {
		w.sometimes("a hand-out that was to begin was none")
	}
	l.keysBegun(got, before)
	now := w.storeNow()
	for id := range after {
		if !before[id] {
			l.began = append(l.began, now)
			l.beganInOrder(id)
			l.beganUnpaused(id, now)
		}
	}
	if l.gate.Rate == (task.Rate{}) || w.jumped != 0 {
		return
	}
	burst := int64(l.gate.Burst)
	if burst == 0 {
		burst = l.gate.Rate.Count
	}
	for i, from := range l.began {
		window := now - from
		n := int64(len(l.began) - i)
		if most := burst + window*l.gate.Rate.Count/l.gate.Rate.Per.Microseconds() + 1; n > most {
			w.breach("gate: %d tasks of %s began within %dµs, at most %d may", n, gated, window,
				most)
		}
	}
}

// keysBegun looks at what runs of each key. What ran before there was a limit may be more, of which
// none begins then.
func (l *ledger) keysBegun(got *store.Begun, before map[task.ID]bool) {
	page, _, err := l.facts.Tasks(l.ctx, store.Filter{Queue: gated, State: task.Running},
		task.ID{}, 1<<20)
	if err != nil {
		l.world.breach("list what runs of %s: %v", gated, err)
	}
	run, fresh := map[string]int{}, map[string]bool{}
	for _, v := range page {
		if v.GroupKey != "" {
			run[v.GroupKey]++
			fresh[v.GroupKey] = fresh[v.GroupKey] || !before[v.ID]
		}
	}
	for key, n := range run {
		most := l.gate.PerKey.MaxRunning
		if most == 0 || n <= most {
			continue
		}
		if fresh[key] || !l.world.late() {
			l.world.breach("gate: %d tasks of key %q of %s run, at most %d may", n, key, gated, most)
		} else {
			l.world.sometimes("more of a key ran than a late limit lets begin")
		}
	}
	for _, g := range got.Keys {
		if g.Paused > got.Now && slices.Contains(got.Rows, store.HeldBack) {
			l.world.sometimes("a hand-out was held back while a key was paused")
		}
		if g.Full() && slices.Contains(got.Rows, store.HeldBack) {
			l.world.sometimes("a hand-out was held back while a key was full")
		}
	}
}

// beganInOrder looks whether a task that has just begun was next of its key: the one before it is
// over, and none that was submitted along with it and stands in front of it is ready.
func (l *ledger) beganInOrder(id task.ID) {
	w := l.world
	key := l.keyOf(id)
	if !l.gate.PerKey.InOrder() || key == "" {
		return
	}
	if before, known := l.owners[key]; known && before != id {
		if s := l.stood(before); s.Found && !s.Final && l.keyOf(before) == key {
			w.breach("order: %v of key %q began before %v was over", id, key, before)
		}
		ready, _, err := l.facts.Tasks(l.ctx, store.Filter{Queue: gated, State: task.Ready},
			task.ID{}, 1<<20)
		if err != nil {
			w.breach("list what is ready of %s: %v", gated, err)
		}
		for _, v := range ready {
			if v.GroupKey == key && v.ID.Batch == id.Batch && v.ID.N < id.N &&
				l.stood(v.ID).Seq == 0 && l.stood(id).Seq == 0 {
				w.breach("order: %v of key %q began before %v", id, key, v.ID)
			}
		}
	} else if known {
		w.sometimes("a task that had its key began again")
	}
	l.owners[key] = id
}

func (l *ledger) stood(id task.ID) store.Stood {
	list, err := l.facts.Stand(l.ctx, []task.ID{id})
	if err != nil {
		l.world.breach("read where %v stands: %v", id, err)
		return store.Stood{}
	}
	return list[0]
}

// keyOf is the group key that a task of the queue with limits has now.
func (l *ledger) keyOf(id task.ID) string {
	v, err := l.facts.Task(l.ctx, id)
	if err != nil { // it is gone
		return ""
	}
	return v.GroupKey
}

// given looks at a task of the queue with limits that leaves a node: its row stands, or it is over.
func (l *ledger) gateOf(node *process, h *task.Handout, seq int32) {
	if !l.world.gates() || h.Queue != gated {
		return
	}
	l.world.sometimes("a task of a queue with limits was handed out")
	stood, err := l.facts.Stand(l.ctx, []task.ID{h.ID})
	if err != nil {
		l.world.breach("read where %v stands: %v", h.ID, err)
		return
	}
	if s := stood[0]; s.Found && !s.Final && s.Seq == seq && s.Running == nil &&
		(!l.world.late() || l.gate.MaxRunning > 0 && l.lives(s.Owner.Holder)) {
		l.world.breach("gate: %v handed out %v, which had not begun", node, h.ID)
	}
}

// keysOf looks whether hand-outs of the queue with limits that are to begin say the keys of their
// tasks, where it goes by keys. Who asks again asks as before, whatever was edited since.
func (l *ledger) keysOf(r *store.BeginRequest) {
	if !l.world.gates() || !l.gate.ByKeys() {
		return
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Queue != gated || row.Key == l.keyOf(row.ID) {
			continue
		}
		l.world.breach("gate: %v of key %q is to begin as one of key %q", row.ID, l.keyOf(row.ID),
			row.Key)
	}
}

// gateBugs are wrong programs about limits.
func gateBugs() []bug {
	return []bug{
		{name: "who backs off leaves its key", mode: safety, store: func(p *planted) {
			p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				for i := range r.Rows {
					p.Model.ForgetOwner(r.Rows[i].Queue, r.Rows[i].Key)
				}
				return p.Model.Begin(ctx, r)
			}
		}},
		{name: "limits are each node's own", mode: safety, from: 1, store: func(p *planted) {
			p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				var kept []task.ID
				held, err := p.Model.Held(ctx, r.Holder, nil)
				if err != nil {
					return store.Begun{}, err
				}
				for _, sp := range held {
					for _, l := range sp.Tasks {
						if l.Running != nil {
							kept = append(kept, task.ID{Batch: sp.Batch, N: l.N})
						}
					}
				}
				q := p.world.ledger.gate
				others := len(p.world.ledger.rows()) - len(kept)
				return p.limitedTo(ctx, q.MaxRunning+max(others, 0), r)
			}
		}},
		{name: "who was asked before is not counted", mode: safety, store: func(p *planted) {
			p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				return p.limitedTo(ctx, p.world.ledger.gate.MaxRunning+1, r)
			}
		}},
		{name: "what ran before counts for no key", mode: safety, store: func(p *planted) {
			p.begin = p.keysOfThoseAsked
		}},
		{name: "the store says that what it held back begins", mode: safety,
			store: func(p *planted) {
				p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
					got, err := p.Model.Begin(ctx, r)
					for i := range got.Rows {
						got.Rows[i] = store.Begins
					}
					return got, err
				}
			}},
		{name: "a rate begins anew with each call", mode: safety, store: func(p *planted) {
			p.begin = func(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
				if _, err := p.Model.ChangeQueue(ctx, gated, func(q *task.Queue, _ bool) error {
					q.Rate, q.Burst = task.Rate{}, 0
					return nil
				}); err != nil {
					return store.Begun{}, err
				}
				return p.Model.Begin(ctx, r)
			}
		}},
	}
}

// keysOfThoseAsked lets hand-outs begin as if what ran before each key was limited counted for no
// key.
func (p *planted) keysOfThoseAsked(
	ctx context.Context, r store.BeginRequest,
) (got store.Begun, err error) {
	l := p.world.ledger
	if l.gate.PerKey.MaxRunning == 0 {
		return p.Model.Begin(ctx, r)
	}
	uncounted := 0
	for id := range l.rows() {
		if l.earlier[id] && l.keyOf(id) == r.Rows[0].Key {
			uncounted++
		}
	}
	to := func(n int) {
		if err == nil {
			_, err = p.Model.ChangeQueue(ctx, gated, func(q *task.Queue, _ bool) error {
				q.PerKey.MaxRunning = n
				return nil
			})
		}
	}
	to(l.gate.PerKey.MaxRunning + uncounted)
	if err == nil {
		got, err = p.Model.Begin(ctx, r)
	}
	to(l.gate.PerKey.MaxRunning)
	return got, err
}

// limitedTo lets hand-outs begin as if the queue had another limit.
func (p *planted) limitedTo(
	ctx context.Context, n int, r store.BeginRequest,
) (got store.Begun, err error) {
	to := func(n int) {
		if err == nil {
			_, err = p.Model.ChangeQueue(ctx, gated, func(q *task.Queue, _ bool) error {
				q.MaxRunning = n
				return nil
			})
		}
	}
	to(n)
	if err == nil {
		got, err = p.Model.Begin(ctx, r)
	}
	to(p.world.ledger.gate.MaxRunning)
	return got, err
}
