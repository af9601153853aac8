package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

const (
	notifierColumns = `name, shown, secret, delivered, failing, told, trouble`
	allNotifiers    = `SELECT ` + notifierColumns + ` FROM notifier ORDER BY name`
	findNotifier    = `SELECT ` + notifierColumns + ` FROM notifier WHERE name = ?`
	putNotifier     = `REPLACE INTO notifier (` + notifierColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?)`
	deleteNotifier  = `DELETE FROM notifier WHERE name = ?`
	advanceNotifier = `UPDATE notifier SET delivered = ?3, failing = ?4, told = ?5, trouble = ?6
WHERE name = ?1 AND delivered = ?2`
)

func scanNotifier(st *sqlite.Stmt) (store.Notifier, error) {
	n := store.Notifier{Name: st.ColumnText(0), Served: store.Progress{
		Delivered: st.ColumnInt64(3), Failing: st.ColumnInt64(4), Told: st.ColumnBool(5),
		Trouble: st.ColumnText(6),
	}}
	return n, n.SetColumns([]byte(st.ColumnText(1)), []byte(st.ColumnText(2)))
}

// ChangeNotifier changes a notifier, or creates it. See contract.Notifiers.
func (s *eventCalls) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (changed store.Changed[store.Notifier], err error) {
	err = s.write(ctx, func(t *tx) error {
		n := store.Notifier{Name: name}
		stands, err := scanOne(t.conn, scanNotifier, &n, findNotifier, name)
		if err == nil && !stands {
			_, err = t.one(newestEvent, func(st *sqlite.Stmt) {
				n.Served.Delivered = st.ColumnInt64(0)
			})
		}
		p := n.Served
		if err == nil {
			err = change(&n, stands)
		}
		if err != nil {
			return err
		}
		n.Name, n.Served = name, p
		shown, secret, err := n.Columns()
		if err == nil {
			_, err = t.exec(putNotifier, name, string(shown), string(secret), p.Delivered,
				p.Failing, p.Told, p.Trouble)
		}
		changed = store.Changed[store.Notifier]{Is: n, Created: !stands}
		return err
	})
	if err != nil {
		return store.Changed[store.Notifier]{}, fmt.Errorf("change notifier %q: %w", name, err)
	}
	return changed, nil
}

// Notifiers lists all notifiers, by name.
func (s *eventCalls) Notifiers(ctx context.Context) (list []store.Notifier, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		list, err = scanAll(c, scanNotifier, allNotifiers)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	return list, nil
}

// DeleteNotifier forgets a notifier.
func (s *eventCalls) DeleteNotifier(ctx context.Context, name string) error {
	if err := s.forgetConf(ctx, deleteNotifier, name); err != nil {
		return fmt.Errorf("delete notifier %q: %w", name, err)
	}
	return nil
}

// forgetConf runs a statement that deletes the configuration of a name; store.ErrNotFound.
func (s *eventCalls) forgetConf(ctx context.Context, query, name string) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.exec(query, name)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}

// Advance moves a notifier on from where it still stands. See contract.Notifiers.
func (s *eventCalls) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (ok bool, err error) {
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
