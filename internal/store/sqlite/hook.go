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

// ChangeHook changes a hook, or creates it. See contract.Hooks.
func (s *eventCalls) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (changed store.Changed[store.Hook], err error) {
	err = s.write(ctx, func(t *tx) error {
		h := store.Hook{Name: name}
		stands, err := scanOne(t.conn, scanHook, &h, findHook, name)
		if err == nil {
			err = change(&h, stands)
		}
		if err != nil {
			return err
		}
		h.Name = name
		shown, secret, err := h.Columns()
		if err == nil {
			_, err = t.exec(putHook, name, string(shown), string(secret))
		}
		changed = store.Changed[store.Hook]{Is: h, Created: !stands}
		return err
	})
	if err != nil {
		return store.Changed[store.Hook]{}, fmt.Errorf("change hook %q: %w", name, err)
	}
	return changed, nil
}

// Hooks lists all hooks, by name.
func (s *eventCalls) Hooks(ctx context.Context) (list []store.Hook, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		list, err = scanAll(c, scanHook, allHooks)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	return list, nil
}

// DeleteHook forgets a hook.
func (s *eventCalls) DeleteHook(ctx context.Context, name string) error {
	if err := s.forgetConf(ctx, deleteHook, name); err != nil {
		return fmt.Errorf("delete hook %q: %w", name, err)
	}
	return nil
}
