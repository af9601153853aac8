package model

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// ChangeHook implements [contract.Hooks].
func (m *Model) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (store.Changed[store.Hook], error) {
	if _, err := m.begin(ctx); err != nil {
		return store.Changed[store.Hook]{}, err
	}
	defer m.mu.Unlock()
	h, stands := m.hooks[name]
	if h = cloneHook(h); !stands {
		h.Name = name
	}
	if err := change(&h, stands); err != nil {
		return store.Changed[store.Hook]{}, fmt.Errorf("change hook %q: %w", name, err)
	}
	h.Name = name
	m.hooks[name] = cloneHook(h)
	return store.Changed[store.Hook]{Is: h, Created: !stands}, nil
}

func cloneHook(h store.Hook) store.Hook {
	h.Headers, h.Meta, h.Secrets = slices.Clone(h.Headers), maps.Clone(h.Meta),
		slices.Clone(h.Secrets)
	return h
}

// Hooks implements [contract.Hooks].
func (m *Model) Hooks(ctx context.Context) ([]store.Hook, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []store.Hook
	for _, name := range slices.Sorted(maps.Keys(m.hooks)) {
		list = append(list, cloneHook(m.hooks[name]))
	}
	return list, nil
}

// DeleteHook implements [contract.Hooks].
func (m *Model) DeleteHook(ctx context.Context, name string) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, stands := m.hooks[name]; !stands {
		return fmt.Errorf("hook %q: %w", name, store.ErrNotFound)
	}
	delete(m.hooks, name)
	return nil
}
