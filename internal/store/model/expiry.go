package model

import (
	"cmp"
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// expires is the limit of a task to which nothing but edits has happened; 0 = it has none.
func (f *fact) expires() int64 {
	switch seq, s := f.newest(); {
	case seq < 0:
		return f.Task.Expires(f.batch.Due)
	case s.Override != nil:
		return s.Override.Expires
	}
	return 0
}

// counted is the due time from which a limit counts.
func (f *fact) counted() int64 {
	if seq, s := f.newest(); seq >= 0 {
		return s.Due
	}
	return f.batch.Due
}

// begun tells whether the task was handed out, as far as steps tell.
func (f *fact) begun() bool {
	for _, s := range f.steps {
		if s.Kind < task.KindCancelled || s.Started > 0 {
			return true
		}
	}
	return false
}

// limit is when a task expires unless it is begun before; 0 = never.
func (m *Model) limit(f *fact) int64 {
	seq, _ := f.newest()
	if _, runs := m.running[hand{f.id(), seq + 1}]; runs {
		return 0
	}
	return f.expires()
}

// TakeExpired implements [contract.Spans].
func (m *Model) TakeExpired(
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
	over := map[int64]bool{} // spans
	for _, f := range m.tasks {
		at := m.limit(f)
		if at == 0 {
			continue // before its owner is sought among all spans
		}
		sp := m.owner(f)
		if sp == nil {
			continue
		}
		over[sp.ID] = over[sp.ID] || at <= now && sp.Holder == (store.Holder{})
		if t.NextDue == 0 || at < t.NextDue {
			t.NextDue = at
		}
	}
	list := slices.SortedFunc(func(yield func(*store.Span) bool) {
		for id, is := range over {
			if is && !yield(m.spans[id]) {
				return
			}
		}
	}, func(a, b *store.Span) int {
		return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.ID, b.ID))
	})
	for _, sp := range list {
		if limit <= 0 {
			t.More = true
			break
		}
		limit -= int(sp.Hi-sp.Lo) + 1
		sp.Holder = h
		sp.Token++
		t.Spans = append(t.Spans, m.load(sp))
	}
	return t, nil
}
