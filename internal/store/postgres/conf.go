package postgres

import (
	"context"

	"github.com/rotahq/rota/internal/store"
)

// changeConf changes the configuration of a name, or makes it. lock reads it and makes what is not
// there, save is what keeps it as it is to be.
func changeConf[T any](
	ctx context.Context, d *database, lock, name string, scan func(row, ...any) (T, error),
	change store.Change[T], save func(was, is *T) (query, error),
) (changed store.Changed[T], err error) {
	err = d.write(ctx, func(ctx context.Context, t *tx) error {
		err := t.run(ctx, ask(lock, func(r row) (err error) {
			changed.Is, err = scan(r, &changed.Created)
			return err
		}, name))
		was := changed.Is
		if err == nil {
			err = change(&changed.Is, !changed.Created)
		}
		if err != nil {
			return err
		}
		saving, err := save(&was, &changed.Is)
		if err != nil {
			return err
		}
		return t.finish(ctx, saving)
	})
	return changed, err
}

// forgetConf runs a statement that deletes the configuration of a name and returns something of it;
// store.ErrNotFound.
func (d *database) forgetConf(ctx context.Context, text, name string) error {
	stood := false
	err := d.write(ctx, func(ctx context.Context, t *tx) error {
		stood = false
		return t.finish(ctx, ask(text, func(row) error {
			stood = true
			return nil
		}, name))
	})
	if err == nil && !stood {
		err = d.confirmedGone(ctx, store.ErrNotFound)
	}
	return err
}
