package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

const (
	allHooks   = `SELECT name, shown, secret FROM hook ORDER BY name`
	findHook   = `SELECT name, shown, secret FROM hook WHERE name = ?`
	putHook    = `REPLACE INTO hook (name, shown, secret) VALUES (?, ?, ?)`
	deleteHook = `DELETE FROM hook WHERE name = ?`
)

func scanHook(st *sqlite.Stmt) (store.Hook, error) {
	h := store.Hook{Name: st.ColumnText(0)}
	return h, h.SetColumns([]byte(st.ColumnText(1)), []byte(st.ColumnText(2)))
}

// ChangeHook changes a hook, or creates it. See the contract, storetest.Hooks.
func (s *Store) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (changed store.Changed[store.Hook], err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		changed, err = t.changeHook(name, change)
		return err
	})
	if err != nil {
		return store.Changed[store.Hook]{}, fmt.Errorf("change hook %q: %w", name, err)
	}
	return changed, nil
}

func (t *tx) changeHook(
	name string, change store.Change[store.Hook],
) (changed store.Changed[store.Hook], err error) {
	h := store.Hook{Name: name}
	var bad error
	stands, err := t.one(findHook, func(st *sqlite.Stmt) { h, bad = scanHook(st) }, name)
	if err == nil {
		err = bad
	}
	if err == nil {
		err = change(&h, stands)
	}
	if err != nil {
		return changed, err
	}
	h.Name = name
	shown, secret, err := h.Columns()
	if err == nil {
		_, err = t.exec(putHook, name, string(shown), string(secret))
	}
	return store.Changed[store.Hook]{Is: h, Created: !stands}, err
}

// Hooks lists all hooks, by name.
func (s *Store) Hooks(ctx context.Context) (list []store.Hook, err error) {
	err = s.read(ctx, func(c *conn) error {
		var bad error
		list = nil
		err := c.each(allHooks, func(st *sqlite.Stmt) bool {
			var h store.Hook
			h, bad = scanHook(st)
			list = append(list, h)
			return bad == nil
		})
		if err == nil {
			err = bad
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	return list, nil
}

// DeleteHook forgets a hook.
func (s *Store) DeleteHook(ctx context.Context, name string) error {
	err := s.write(ctx, func(t *tx) error {
		n, err := t.exec(deleteHook, name)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete hook %q: %w", name, err)
	}
	return nil
}
