package model

import (
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Begin implements [contract.Steps].
func (m *Model) Begin(ctx context.Context, r store.BeginRequest) (store.Begun, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Begun{}, err
	}
	defer m.mu.Unlock()
	answer := store.Begun{Now: now, LeaseGone: !m.lives(r.Holder, now)}
	if answer.LeaseGone {
		return answer, nil
	}
	queues, rows := r.ByQueue()
	answer.Rows = make([]store.Beginning, len(r.Rows))
	for _, queue := range queues {
		m.beginOf(&r, queue, rows[queue], &answer)
	}
	return answer, nil
}

// beginOf lets hand-outs of one queue begin.
func (m *Model) beginOf(r *store.BeginRequest, queue string, rows []int, answer *store.Begun) {
	now := answer.Now
	gate := m.gate(queue)
	keys := map[string]*store.KeyGate{}
	owned := map[string]int{} // by which of the rows
	for _, i := range rows {  // who is let begin takes his place, row or none
		u := &r.Rows[i]
		if keys[u.Key] == nil {
			keys[u.Key] = m.keyGate(queue, u.Key)
		}
		own := keys[u.Key]
		old, stands := m.running[hand{u.ID, u.Seq}]
		switch {
		case stands && (old.Span != u.Span || old.Token != u.Token):
			answer.Rows[i] = store.Void
		case stands:
		case gate.Left(1, now) == 0 || own != nil && own.Left(1, now) == 0:
			answer.Rows[i] = store.HeldBack
		case own != nil && !m.inTurn(own, u, now, &answer.Rows[i]):
		default:
			gate.Admit(1, now)
			if own != nil {
				own.Admit(1, now)
				if own.Limits.Running == 1 && own.Owner != u.ID {
					own.Owner = u.ID
					owned[u.Key] = i
				}
			}
		}
	}
	unsaid := map[hand]bool{} // begins just now, and its key is not said: the next call counts it
	for _, i := range rows {
		at := hand{r.Rows[i].ID, r.Rows[i].Seq}
		if _, stands := m.running[at]; !stands && r.Rows[i].Key == "" {
			unsaid[at] = true
		}
		if answer.Rows[i] == store.Begins {
			m.beginRow(r.Holder, &r.Rows[i], &answer.Rows[i])
		}
	}
	q, ok := m.limited(queue)
	if !ok {
		return
	}
	gate.Running = m.gate(queue).Running
	m.buckets[queue] = gate.Bucket
	answer.Gates = append(answer.Gates, store.Gate{Queue: queue, Gate: gate})
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if g := keys[name]; g != nil {
			g.Running = m.runningOf(queue, name, q.PerKey.MaxRunning, unsaid)
			m.keyBuckets[key{queue, name}] = g.Bucket
			if i, begun := owned[name]; begun && answer.Rows[i] == store.Begins {
				m.keyOwners[key{queue, name}] = g.Owner
			} else if begun {
				g.Owner = task.ID{}
			}
			answer.Keys = append(answer.Keys, *g)
		}
	}
}

// inTurn tells whether a hand-out may begin for which its key has room, where that goes in order.
func (m *Model) inTurn(g *store.KeyGate, u *store.Begin, now int64, is *store.Beginning) bool {
	if g.Limits.Running != 1 || g.Owner == u.ID && !g.Stopped {
		return true
	}
	if *is = store.HeldBack; g.Owner != (task.ID{}) {
		return false
	}
	first := m.firstOfKey(u.Queue, u.Key, now)
	if first == nil || first.ID == u.Span {
		*is = store.Begins
		return true
	}
	*is = store.Behind
	return false
}

// beginRow writes a hand-out down that was let begin, if it is one.
func (m *Model) beginRow(h store.Holder, u *store.Begin, is *store.Beginning) {
	at := hand{u.ID, u.Seq}
	old, stands := m.running[at]
	delete(m.running, at)
	m.writeDown(h, []store.Running{u.Running})
	if _, written := m.running[at]; written {
		return
	}
	*is = store.Void
	if stands {
		m.running[at] = old
	}
}

// limited is the configuration of a queue that has limits.
func (m *Model) limited(name string) (task.Queue, bool) {
	q, ok := m.queues[name]
	return q, ok && admission.Limited(&q)
}

// gate is how a queue stands beside its limits.
func (m *Model) gate(name string) (g admission.Gate) {
	q, ok := m.limited(name)
	if !ok {
		return g
	}
	g.Limits, g.Bucket = admission.LimitsOf(&q), m.buckets[name]
	for at := range m.running {
		if f := m.tasks[at.id]; f != nil && f.batch.Queue == name &&
			g.Running < q.MaxRunning {
			g.Running++
		}
	}
	return g
}

// Gates implements [contract.Views].
func (m *Model) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	if now, err = m.begin(ctx); err != nil {
		return 0, nil, err
	}
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		if len(queues) > 0 && !slices.Contains(queues, name) {
			continue
		}
		if _, ok := m.limited(name); ok {
			gates = append(gates, store.Gate{
				Queue: name, Gate: m.gate(name), FullKeys: m.fullKeys(name),
				PausedKeys: m.pausedKeys(name, now),
			})
		}
	}
	return now, gates, nil
}

// changeBucket keeps what a queue has left of its rate, which is to be configured so.
func (m *Model) changeBucket(q *task.Queue, now int64) {
	before := m.queues[q.Name]
	was, is := admission.LimitsOf(&before), admission.LimitsOf(q)
	wasOfKey, ofKey := admission.KeyLimitsOf(&before), admission.KeyLimitsOf(q)
	_, kept := m.buckets[q.Name]
	if !admission.Limited(q) {
		delete(m.buckets, q.Name)
		return
	}
	if !kept || was.Rate != is.Rate {
		m.buckets[q.Name] = admission.Bucket{At: now}
	}
	if !kept || wasOfKey.Rate != ofKey.Rate {
		m.since[q.Name] = now
	}
}

// TakeRunning implements [contract.Spans].
func (m *Model) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (store.Taken, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.Taken{}, err
	}
	defer m.mu.Unlock()
	t := store.Taken{Now: now, LeaseGone: !m.lives(h, now)}
	if t.LeaseGone {
		return t, nil
	}
	runs := map[int64]bool{} // free spans
	for at := range m.running {
		f := m.tasks[at.id]
		if f == nil {
			continue
		}
		if _, ok := m.limited(f.batch.Queue); !ok {
			continue
		}
		if sp := m.owner(f); sp != nil && sp.Holder == (store.Holder{}) && at.seq >= sp.Seq0 {
			runs[sp.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		if limit <= 0 {
			t.More = true
			break
		}
		sp := m.spans[id]
		limit -= int(sp.Hi-sp.Lo) + 1
		sp.Holder = h
		sp.Token++
		t.Spans = append(t.Spans, m.load(sp))
	}
	return t, nil
}
