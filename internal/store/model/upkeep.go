package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Free implements [contract.Upkeep].
func (m *Model) Free(ctx context.Context, self store.Holder, judge int64) (freed int, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	over := map[string]bool{} // memberships, by holder
	for _, l := range m.leases {
		self := l.Name == store.MembershipPrefix+self.Node && l.Token == self.Token
		over[l.Holder] = over[l.Holder] || !self && l.Until != 0 && l.Until <= now &&
			l.Name == store.MembershipOf(l.Holder)
	}
	for _, name := range slices.Sorted(maps.Keys(m.leases)) { // the order of their new tokens
		l := m.leases[name]
		expired := now <= judge &&
			(l.Until != 0 && l.Until <= now || l.Until == store.WhileMember && over[l.Holder])
		if expired && (name != store.MembershipPrefix+self.Node || l.Token != self.Token) {
			l.Token, l.Until = m.number(), 0 // ended once and for all: idle rounds change nothing
			m.leases[name] = l
		}
	}
	return m.freeEnded(now), nil
}

// FreeEnded implements [contract.Upkeep].
func (m *Model) FreeEnded(ctx context.Context) (freed int, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	return m.freeEnded(now), nil
}

// freeEnded frees what no lease holds any more. The lock is held.
func (m *Model) freeEnded(now int64) (freed int) {
	for _, sp := range m.spans {
		if sp.Holder == (store.Holder{}) {
			continue
		}
		l, ok := m.leases[store.MembershipPrefix+sp.Holder.Node]
		if !ok || l.Token != sp.Holder.Token {
			sp.Holder = store.Holder{}
			sp.Deaths++
			freed++
		}
	}
	m.orphanSeats(now)
	return freed
}

// drop forgets a task and all that belongs to it alone.
func (m *Model) drop(f *fact) {
	id := f.id()
	m.forgetChild(f)
	delete(m.tasks, id)
	m.dropUnique(id)
	m.dropOwner(id)
	m.forgetWaiting(id)
	delete(m.logs, id)
	maps.DeleteFunc(m.running, func(h hand, _ store.Running) bool { return h.id == id })
	values := []store.Value{f.Context}
	for _, s := range f.steps {
		values = append(values, s.Context, s.Result)
	}
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			delete(m.blobs, name)
		}
	}
}

// Prune implements [contract.Upkeep].
func (m *Model) Prune(ctx context.Context, limit int) (pruned int, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for _, f := range m.sortedTasks() {
		if pruned < limit && m.outlived(f, now) {
			m.drop(f)
			pruned++
		}
	}
	for k, v := range m.keys {
		if pruned < limit && v.until <= now {
			delete(m.keys, k)
			pruned++
		}
	}
	for k, u := range m.uniques {
		if pruned < limit && u.until != 0 && u.until <= now {
			delete(m.uniques, k)
			pruned++
		}
	}
	pruned += m.pruneKeyRules(now, limit-pruned)
	pruned += m.pruneSignals(now, limit-pruned)
	pruned += m.pruneEvents(now, limit-pruned)
	pruned += m.pruneJobs(now, limit-pruned)
	pruned += m.pruneSchedules(now, limit-pruned)
	if now >= m.kept+time.Minute.Microseconds() {
		m.sampleHistory(now)
	}
	m.behind = pruned >= limit
	return pruned, nil
}

// Retention implements [contract.Upkeep]: a call of Prune leaves something only when it reached its
// limit.
func (m *Model) Retention() store.Retention {
	m.mu.Lock()
	defer m.mu.Unlock()
	return store.Retention{Behind: m.behind}
}

// outlived tells whether retention no longer keeps a task.
func (m *Model) outlived(f *fact, now int64) bool {
	state := m.state(f, nil, now)
	if !state.Final() || m.waitedFor(f) || m.neededBy(f.id()) {
		return false
	}
	q, ok := m.queues[f.batch.Queue]
	if !ok {
		q = limits.DefaultQueue(f.batch.Queue)
	}
	keep := q.Retention
	if (state == task.Dead || state == task.Expired) && !f.removed() {
		keep = q.DeadKept
	}
	_, s := f.newest()
	return s.Finished+keep.Microseconds() <= now
}

// Check implements [contract.Upkeep]: a model is never full nor broken.
func (m *Model) Check(ctx context.Context) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}
