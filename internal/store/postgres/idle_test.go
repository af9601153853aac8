//go:build unix

package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
)

// A node that has nothing to do writes nothing but the renewal of what it holds: no transaction has
// a number, no log is written.
func TestIdleNodeWritesOnlyItsRenewal(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	// nobody else writes
	server := pgtest.Start(t, pgtest.Config{Settings: []string{"autovacuum = off"}})
	c := join(t, open(t, Config{DSN: server.Database(t), Now: clock.Now, NoNotify: true}))
	known := []int64{c.submit(c.batch(10, 10, true))[0].ID}
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const newest = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"free", func() error { _, err := c.Free(ctx, c.holder, math.MaxInt64); return err }},
		{"prune", func() error { _, err := c.Prune(ctx, 1000); return err }},
		{"sync", func() error {
			_, err := c.Sync(ctx, store.SyncRequest{Holder: c.holder})
			return err
		}},
		{"held", func() error { _, err := c.Held(ctx, c.holder, known); return err }},
		{"take", func() error {
			_, err := c.Take(ctx, store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 10})
			return err
		}},
		{"settle", func() error { _, err := c.Settle(ctx, store.Settlement{}); return err }},
		{"give", func() error { return c.Give(ctx, store.GiveRequest{Holder: c.holder}) }},
		{"check", func() error { return c.Check(ctx) }},
	} {
		do(part.do()) // the first time there may be something to do
		before := c.count(newest)
		for range 3 {
			do(part.do())
		}
		if n := c.count(newest) - before; n != 0 {
			t.Errorf("%s, with nothing to do: %d transactions wrote", part.name, n)
		}
	}
	before := c.count(newest)
	_, err := c.Renew(ctx, []store.Lease{{Name: "node/a", Token: c.holder.Token}}, time.Hour)
	do(err)
	if n := c.count(newest) - before; n != 1 {
		t.Errorf("with a renewal: %d transactions wrote, want 1", n)
	}
}
