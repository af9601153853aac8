package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ChangeKey implements [contract.Queues].
func (m *Model) ChangeKey(ctx context.Context, c store.KeyChange) (store.KeyRule, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.KeyRule{}, err
	}
	defer m.mu.Unlock()
	if _, ok := m.queues[c.Queue]; !ok {
		return store.KeyRule{}, store.ErrNotFound
	}
	r := m.keyRules[key{c.Queue, c.Key}]
	stood := r.Stands()
	if r.Paused <= now || c.Resume {
		r.Paused = 0
	}
	switch {
	case c.Pause == store.Forever:
		r.Paused = store.Never
	case c.Pause > 0:
		r.Paused = now + c.Pause.Microseconds()
	}
	if held := now + c.Hold.Microseconds(); c.Hold > 0 && held > r.Paused {
		r.Paused = held
	}
	if c.Weight != nil {
		r.Weight = *c.Weight
	}
	if r.Stands() && !stood && m.standingRules(c.Queue) == store.MaxKeyRules {
		return store.KeyRule{}, store.ErrKeyRules
	}
	r.Queue, r.Key = c.Queue, c.Key
	m.setKeyRule(r, now)
	return r, nil
}

func (m *Model) standingRules(queue string) (n int) {
	for at, r := range m.keyRules {
		if at.queue == queue && r.Stands() {
			n++
		}
	}
	return n
}

// setKeyRule keeps a rule, or forgets one that says nothing.
func (m *Model) setKeyRule(r store.KeyRule, now int64) {
	m.keyRules[key{r.Queue, r.Key}] = r
	if r.Paused == 0 && r.Weight == 0 {
		delete(m.keyRules, key{r.Queue, r.Key})
	}
	m.noteKeyRules(r.Queue, now)
}

// noteKeyRules notes in the configuration of a queue whether any of its keys has a rule.
func (m *Model) noteKeyRules(queue string, now int64) {
	q := m.queues[queue]
	q.KeyRules = false
	for at := range m.keyRules {
		q.KeyRules = q.KeyRules || at.queue == queue
	}
	m.changeBucket(&q, now)
	m.queues[queue] = q
}

// holdKey pauses the key of a task that a report was about.
func (m *Model) holdKey(f *fact, hold time.Duration, now int64) {
	name := f.override().GroupKey
	if _, ok := m.queues[f.batch.Queue]; !ok || hold == 0 || name == "" {
		return
	}
	r := m.keyRules[key{f.batch.Queue, name}]
	r.Queue, r.Key = f.batch.Queue, name
	r.Paused = max(r.Paused, now+hold.Microseconds())
	m.setKeyRule(r, now)
}

// pruneKeyRules forgets pauses that are over.
func (m *Model) pruneKeyRules(now int64, limit int) (pruned int) {
	over := func(a key) bool { r := m.keyRules[a]; return r.Weight == 0 && r.Paused <= now }
	byEnd := func(a, b key) int {
		return cmp.Or(cmp.Compare(m.keyRules[a].Paused, m.keyRules[b].Paused),
			cmp.Compare(a.queue, b.queue), cmp.Compare(a.key, b.key))
	}
	for _, at := range slices.SortedFunc(maps.Keys(m.keyRules), byEnd) {
		if pruned < limit && over(at) {
			pruned++
			delete(m.keyRules, at)
			m.noteKeyRules(at.queue, now)
		}
	}
	return pruned
}

// turnOf is how many tasks a turn of a key has.
func (m *Model) turnOf(queue, name string) int {
	r := m.keyRules[key{queue, name}]
	return max(r.Weight, 1)
}

// pausedKeys counts the keys of a queue that are paused.
func (m *Model) pausedKeys(queue string, now int64) (n int) {
	for at, r := range m.keyRules {
		if at.queue == queue && r.Paused > now && n < 1000 {
			n++
		}
	}
	return n
}

// Keys implements [contract.Views].
func (m *Model) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return store.KeyUses{}, err
	}
	defer m.mu.Unlock()
	uses := map[string]*store.KeyUse{}
	of := func(name string) *store.KeyUse {
		if uses[name] == nil {
			uses[name] = &store.KeyUse{KeyRule: store.KeyRule{Queue: queue, Key: name}}
		}
		return uses[name]
	}
	for at, r := range m.keyRules {
		if at.queue == queue && (r.Paused > now || r.Weight > 0) {
			if r.Paused <= now {
				r.Paused = 0
			}
			of(at.key).KeyRule = r
		}
	}
	for _, f := range m.tasks {
		if f.batch.Queue != queue {
			continue
		}
		name := f.override().GroupKey
		switch state := m.state(f, nil, now); {
		case name == "":
		case state == task.Running:
			of(name).Running++
		case state == task.Ready:
			of(name).Ready++
		}
	}
	answer := store.KeyUses{Now: now}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		answer.Keys = append(answer.Keys, *uses[name])
	}
	slices.SortStableFunc(answer.Keys, func(a, b store.KeyUse) int {
		return cmp.Compare(b.Ready+b.Running, a.Ready+a.Running)
	})
	return answer, nil
}
