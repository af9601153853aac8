package sqlstore

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/rows"
)

const (
	insertNotifier = `INSERT INTO notifier (name, shown, secret, delivered, failing, told, trouble)
SELECT ?, ?, ?, last, 0, 0, '' FROM event_head WHERE true ON CONFLICT (name) DO NOTHING`
	updateNotifier  = `UPDATE notifier SET shown = ?2, secret = ?3 WHERE name = ?1`
	allNotifiers    = `SELECT name, shown, secret, delivered, failing, told, trouble FROM notifier ORDER BY name`
	deleteNotifier  = `DELETE FROM notifier WHERE name = ?`
	advanceNotifier = `UPDATE notifier SET delivered = ?3, failing = ?4, told = ?5, trouble = ?6 WHERE name = ?1 AND delivered = ?2`
)

// PutNotifier creates or changes a notifier. See the contract, storetest.Notifiers.
func (s *Store) PutNotifier(ctx context.Context, n rows.Notifier) (created bool, err error) {
	shown, secret, err := n.Columns()
	if err == nil {
		err = s.write(ctx, func(t *tx) error {
			inserted, err := t.exec(insertNotifier, n.Name, string(shown), string(secret))
			if created = inserted > 0; err == nil && !created {
				_, err = t.exec(updateNotifier, n.Name, string(shown), string(secret))
			}
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("put notifier %q: %w", n.Name, err)
	}
	return created, nil
}

// Notifiers lists all notifiers, by name.
func (s *Store) Notifiers(ctx context.Context) (list []rows.Notifier, err error) {
	err = s.read(ctx, func(c *conn) error {
		var bad error
		list = nil
		err := c.each(allNotifiers, func(st *sqlite.Stmt) bool {
			n := rows.Notifier{Name: st.ColumnText(0), Served: rows.Progress{
				Delivered: st.ColumnInt64(3), Failing: st.ColumnInt64(4), Told: st.ColumnBool(5), Trouble: st.ColumnText(6),
			}}
			bad = n.SetColumns([]byte(st.ColumnText(1)), []byte(st.ColumnText(2)))
			list = append(list, n)
			return bad == nil
		})
		if err == nil {
			err = bad
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	return list, nil
}

// DeleteNotifier forgets a notifier.
func (s *Store) DeleteNotifier(ctx context.Context, name string) error {
	err := s.write(ctx, func(t *tx) error {
		n, err := t.exec(deleteNotifier, name)
		if err == nil && n == 0 {
			err = rows.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete notifier %q: %w", name, err)
	}
	return nil
}

// Advance moves a notifier on from where it still stands. See the contract, storetest.Notifiers.
func (s *Store) Advance(ctx context.Context, name string, from int64, to rows.Progress) (ok bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		n, err := t.exec(advanceNotifier, name, from, to.Delivered, to.Failing, to.Told, to.Trouble)
		ok = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("advance notifier %q: %w", name, err)
	}
	return ok, nil
}
