package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Begin implements [Steps].
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
		gate := m.gate(queue)
		void := 0 // places that a row would have had
		for _, i := range rows[queue] {
			u := r.Rows[i].Running
			at := hand{u.ID, u.Seq}
			old, stands := m.running[at]
			switch {
			case stands && (old.Span != u.Span || old.Token != u.Token):
				answer.Rows[i] = store.Void
				continue
			case !stands && gate.Left(void+1, now) <= void:
				answer.Rows[i] = store.HeldBack
				continue
			}
			delete(m.running, at)
			m.writeDown(r.Holder, []store.Running{u})
			if _, written := m.running[at]; !written {
				if answer.Rows[i] = store.Void; stands {
					m.running[at] = old
				} else {
					void++
				}
				continue
			}
			if !stands {
				gate.Admit(1, now)
			}
		}
		if q, ok := m.limited(queue); ok {
			gate.Admit(void, now) // what they took of a rate is lost
			gate.Running = m.gate(q.Name).Running
			m.buckets[queue] = gate.Bucket
			answer.Gates = append(answer.Gates, store.Gate{Queue: queue, Gate: gate})
		}
	}
	return answer, nil
}

// limited is the configuration of a queue that has limits.
func (m *Model) limited(name string) (task.Queue, bool) {
	q, ok := m.queues[name]
	limits := admission.LimitsOf(&q)
	return q, ok && !limits.None()
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

// Gates implements [Views].
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
			gates = append(gates, store.Gate{Queue: name, Gate: m.gate(name)})
		}
	}
	return now, gates, nil
}

// changeBucket keeps what a queue has left of its rate, which is to be configured so.
func (m *Model) changeBucket(q *task.Queue, now int64) {
	before := m.queues[q.Name]
	was, is := admission.LimitsOf(&before), admission.LimitsOf(q)
	if _, kept := m.buckets[q.Name]; is.None() {
		delete(m.buckets, q.Name)
	} else if !kept || was.Rate != is.Rate {
		m.buckets[q.Name] = admission.Bucket{At: now}
	}
}

// TakeRunning implements [Spans].
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
