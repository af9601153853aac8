package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
)

const (
	notifierColumns = `name, shown, secret, delivered, failing, told, trouble`

	// lockNotifier makes a notifier or locks the one that stands, whoever else does at the same
	// time.
	lockNotifier = `INSERT INTO rota.notifier AS n (` + notifierColumns + `)
SELECT $1, '{}', '[]', last, 0, false, '' FROM rota.event_head ON CONFLICT (name)
DO UPDATE SET trouble = n.trouble
RETURNING ` + notifierColumns + `, xmax = 0`
	updateNotifier  = `UPDATE rota.notifier SET shown = $2, secret = $3 WHERE name = $1`
	allNotifiers    = `SELECT ` + notifierColumns + ` FROM rota.notifier ORDER BY name`
	deleteNotifier  = `DELETE FROM rota.notifier WHERE name = $1 RETURNING name`
	advanceNotifier = `UPDATE rota.notifier
SET delivered = $3, failing = $4, told = $5, trouble = $6 WHERE name = $1 AND delivered = $2
RETURNING name`
)

// scanNotifier reads a notifier, and what comes after it.
func scanNotifier(r row, more ...any) (n store.Notifier, err error) {
	var shown, secret string
	p := &n.Served
	err = r.Scan(append([]any{&n.Name, &shown, &secret, &p.Delivered, &p.Failing, &p.Told,
		&p.Trouble}, more...)...)
	if err == nil {
		err = n.SetColumns([]byte(shown), []byte(secret))
	}
	return n, err
}

// notifiers keeps who is told of events, and how far each has come. The table notifier is its own.
type notifiers struct{ *database }

// ChangeNotifier changes a notifier, or creates it. See contract.Notifiers.
func (s *notifiers) ChangeNotifier(
	ctx context.Context, name string, change store.Change[store.Notifier],
) (changed store.Changed[store.Notifier], err error) {
	changed, err = changeConf(ctx, s.database, lockNotifier, name, scanNotifier, change,
		func(was, is *store.Notifier) (query, error) {
			is.Name, is.Served = name, was.Served
			shown, secret, err := is.Columns()
			return tell(updateNotifier, name, string(shown), string(secret)), err
		})
	if err != nil {
		return store.Changed[store.Notifier]{}, fmt.Errorf("change notifier %q: %w", name, err)
	}
	return changed, nil
}

// Notifiers lists all notifiers, by name.
func (s *notifiers) Notifiers(ctx context.Context) (list []store.Notifier, err error) {
	err = s.glance(ctx, ask(allNotifiers, func(r row) error {
		n, err := scanNotifier(r)
		list = append(list, n)
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("list notifiers: %w", err)
	}
	return list, nil
}

// DeleteNotifier forgets a notifier.
func (s *notifiers) DeleteNotifier(ctx context.Context, name string) error {
	if err := s.forgetConf(ctx, deleteNotifier, name); err != nil {
		return fmt.Errorf("delete notifier %q: %w", name, err)
	}
	return nil
}

// Advance moves a notifier on from where it still stands. See contract.Notifiers.
func (s *notifiers) Advance(
	ctx context.Context, name string, from int64, to store.Progress,
) (ok bool, err error) {
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
