package model

import (
	"context"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Families implements [contract.Views].
func (m *Model) Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	list := make([]store.Family, len(q.IDs))
	room, after := q.Children, q.After
	for i, id := range q.IDs {
		f := m.tasks[id]
		if f == nil || f.removed() {
			continue
		}
		_, s := f.newest()
		is := &list[i]
		is.Task, is.Finished = m.view(f, q.Live, now), instant(s.Finished)
		is.Began = is.Task.Started
		if after > 0 {
			is.Task.After = m.seen(f)
			after -= len(is.Task.After)
		}
		for _, seq := range f.seqs() {
			if s := f.steps[seq]; seq >= f.run() && s.Started > 0 {
				is.Began = instant(s.Started)
				break
			}
		}
		if c := m.children(store.ChildrenOf(id, f.run())); c.Total > 0 {
			is.Task.Children = &c
		}
		for id, child := range m.tasks {
			if p := m.family.parents[id.Batch]; p.of == f.id() && p.run == f.run() &&
				!child.removed() {
				is.Children = append(is.Children, id)
			}
		}
		slices.SortFunc(is.Children, task.ID.Compare)
		if is.Children = is.Children[:min(len(is.Children), room)]; len(is.Children) == 0 {
			is.Children = nil
		}
		room -= len(is.Children)
	}
	return list, nil
}
