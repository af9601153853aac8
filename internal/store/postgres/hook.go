package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
)

const (
	// lockHook makes a hook or locks the one that stands, whoever else does at the same time.
	lockHook = `INSERT INTO rota.hook AS h (name, shown, secret) VALUES ($1, '{}', '[]')
ON CONFLICT (name) DO UPDATE SET shown = h.shown
RETURNING name, shown, secret, xmax = 0`
	updateHook = `UPDATE rota.hook SET shown = $2, secret = $3 WHERE name = $1`
	allHooks   = `SELECT name, shown, secret FROM rota.hook ORDER BY name`
	deleteHook = `DELETE FROM rota.hook WHERE name = $1 RETURNING name`
)

// scanHook reads a hook, and what comes after it.
func scanHook(r row, more ...any) (h store.Hook, err error) {
	var shown, secret string
	err = r.Scan(append([]any{&h.Name, &shown, &secret}, more...)...)
	if err == nil {
		err = h.SetColumns([]byte(shown), []byte(secret))
	}
	return h, err
}

// hooks keeps what other programs call. The table hook is its own.
type hooks struct{ *database }

// ChangeHook changes a hook, or creates it. See contract.Hooks.
func (s *hooks) ChangeHook(
	ctx context.Context, name string, change store.Change[store.Hook],
) (changed store.Changed[store.Hook], err error) {
	changed, err = changeConf(ctx, s.database, lockHook, name, scanHook, change,
		func(_, is *store.Hook) (query, error) {
			is.Name = name
			shown, secret, err := is.Columns()
			return tell(updateHook, name, string(shown), string(secret)), err
		})
	if err != nil {
		return store.Changed[store.Hook]{}, fmt.Errorf("change hook %q: %w", name, err)
	}
	return changed, nil
}

// Hooks lists all hooks, by name.
func (s *hooks) Hooks(ctx context.Context) (list []store.Hook, err error) {
	err = s.glance(ctx, ask(allHooks, func(r row) error {
		h, err := scanHook(r)
		list = append(list, h)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	return list, nil
}

// DeleteHook forgets a hook.
func (s *hooks) DeleteHook(ctx context.Context, name string) error {
	if err := s.forgetConf(ctx, deleteHook, name); err != nil {
		return fmt.Errorf("delete hook %q: %w", name, err)
	}
	return nil
}
