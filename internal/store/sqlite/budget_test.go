package sqlite

import (
	"math"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// commits counts what do costs.
func (c *client) commits(do func()) int64 {
	before := c.Commits()
	do()
	return c.Commits() - before
}

func TestLoneTaskCostsTwoCommits(t *testing.T) {
	c := join(t, open(t, Config{}))
	if got := c.commits(func() { c.settle(c.submit(c.batch(1, 1, true))) }); got != 2 {
		t.Errorf("got %d, want 2: submit and settle", got)
	}
}

func TestTasksThatComeTogetherShareTwoCommits(t *testing.T) {
	c := join(t, open(t, Config{}))
	if got := c.commits(func() { c.settle(c.submit(c.batch(500, 100, true))) }); got != 2 {
		t.Errorf("500 tasks at a time: got %d, want 2", got)
	}
}

func TestIdleNodeWritesOneRowABeat(t *testing.T) {
	c := join(t, open(t, Config{}))
	c.submit(c.batch(10, 10, true))
	c.prune() // the history notes once a minute how many tasks wait
	ctx := t.Context()
	lease := store.Lease{Name: "node/a", Token: c.holder.Token}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if got := c.commits(func() {
			_, err := c.Renew(ctx, []store.Lease{lease}, time.Hour)
			do(err)
		}); got != 1 {
			t.Errorf("renewal: got %d commits, want 1", got)
		}
		got := c.commits(func() {
			_, err := c.Free(ctx, c.holder, math.MaxInt64)
			do(err)
			_, err = c.Prune(ctx, 1000)
			do(err)
			_, err = c.Sync(ctx, store.SyncRequest{Holder: c.holder})
			do(err)
			_, err = c.Held(ctx, c.holder, nil)
			do(err)
			_, err = c.Take(ctx, store.TakeRequest{Holder: c.holder, Queue: "q", Limit: 10})
			do(err)
			_, err = c.Settle(ctx, store.Settlement{})
			do(err)
			do(c.Give(ctx, store.GiveRequest{Holder: c.holder}))
			do(c.Check(ctx))
		})
		if got != 0 {
			t.Errorf("the rest of an idle beat: got %d commits, want none", got)
		}
	}
}
