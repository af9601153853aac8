package pgstore

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/rows"
)

const (
	insertNotifier = `INSERT INTO rota.notifier (name, shown, secret, delivered, failing, told, trouble)
SELECT $1, $2, $3, last, 0, false, '' FROM rota.event_head ON CONFLICT (name) DO NOTHING RETURNING name`
	updateNotifier  = `UPDATE rota.notifier SET shown = $2, secret = $3 WHERE name = $1`
	allNotifiers    = `SELECT name, shown, secret, delivered, failing, told, trouble FROM rota.notifier ORDER BY name`
	deleteNotifier  = `DELETE FROM rota.notifier WHERE name = $1 RETURNING name`
	advanceNotifier = `UPDATE rota.notifier SET delivered = $3, failing = $4, told = $5, trouble = $6 WHERE name = $1 AND delivered = $2 RETURNING name`
)

// PutNotifier creates or changes a notifier. See the contract, storetest.Notifiers.
func (s *Store) PutNotifier(ctx context.Context, n rows.Notifier) (created bool, err error) {
	shown, secret, err := n.Columns()
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			created = false
			err := t.run(ctx, ask(insertNotifier, func(row) error { created = true; return nil }, n.Name, string(shown), string(secret)))
			switch {
			case err != nil:
				return err
			case created:
				return t.finish(ctx)
			}
			return t.finish(ctx, tell(updateNotifier, n.Name, string(shown), string(secret)))
		})
	}
	if err != nil {
		return false, fmt.Errorf("put notifier %q: %w", n.Name, err)
	}
	return created, nil
}

// Notifiers lists all notifiers, by name.
func (s *Store) Notifiers(ctx context.Context) (list []rows.Notifier, err error) {
	err = s.glance(ctx, ask(allNotifiers, func(r row) error {
		var n rows.Notifier
		var shown, secret string
		p := &n.Served
		if err := r.Scan(&n.Name, &shown, &secret, &p.Delivered, &p.Failing, &p.Told, &p.Trouble); err != nil {
			return err
		}
		err := n.SetColumns([]byte(shown), []byte(secret))
		list = append(list, n)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	return list, nil
}

// DeleteNotifier forgets a notifier.
func (s *Store) DeleteNotifier(ctx context.Context, name string) error {
	stood := false
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		stood = false
		return t.finish(ctx, ask(deleteNotifier, func(row) error { stood = true; return nil }, name))
	})
	if err == nil && !stood {
		err = rows.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete notifier %q: %w", name, err)
	}
	return nil
}

// Advance moves a notifier on from where it still stands. See the contract, storetest.Notifiers.
func (s *Store) Advance(ctx context.Context, name string, from int64, to rows.Progress) (ok bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		ok = false
		return t.finish(ctx, ask(advanceNotifier, func(row) error { ok = true; return nil },
			name, from, to.Delivered, to.Failing, to.Told, printable(to.Trouble)))
	})
	if err != nil {
		return false, fmt.Errorf("advance notifier %q: %w", name, err)
	}
	return ok, nil
}
