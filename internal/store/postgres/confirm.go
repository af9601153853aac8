package postgres

import (
	"context"
	"errors"

	"github.com/rotahq/rota/internal/store"
)

// confirm goes with a transaction that answers with what it found and may write nothing. What it
// found may stand on the primary's disk only: its commit was cancelled while it waited for the
// standby, or the primary has crashed since. A lock is a write, so the commit waits for the
// standby, which then has all that was written before.
const confirm = `SELECT FROM rota.store WHERE one = 1 FOR KEY SHARE`

// confirmed returns when the standby has what was read before: see confirm. It goes with reads from
// which a node concludes what it keeps, forgets or lets run: a failover must not take that back,
// and give the same version to something else. Who reads asks again anyway.
func (d *database) confirmed(ctx context.Context) error {
	return d.writeWithin(ctx, func(ctx context.Context, t *tx) error {
		return t.finish(ctx, tell(confirm))
	})
}

// confirmedGone is the error of a deletion. That there was nothing to delete is confirmed first:
// who repeats a deletion, because its outcome was unknown, would be told that it is gone, and a
// failover would bring it back.
func (d *database) confirmedGone(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		if e := d.confirmed(ctx); e != nil {
			return e
		}
	}
	return err
}
