package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// locked is a store in which somebody else has the rows of the spans for a while: then it writes
// nothing down, and says so.
type locked struct {
	contract.Store
	is atomic.Bool
}

func (l *locked) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	if !l.is.Load() {
		return l.Store.Sync(ctx, r)
	}
	var missing []task.ID
	for i := range r.Insert {
		missing = append(missing, r.Insert[i].ID)
	}
	r.Insert = nil
	got, err := l.Store.Sync(ctx, r)
	got.Missing = missing
	return got, err
}

// A hand-out whose row could not be written is not taken for written down: should the node die, the
// next one would hand it out a second time.
func TestHandOutsWithoutARowAreWrittenDownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &locked{Store: model.New(time.Now)}
		h := open(t, l)
		defer h.close()
		row := func(id task.ID) *store.Running {
			stood, err := l.Stand(h.ctx, []task.ID{id})
			if err != nil {
				t.Fatal(err)
			}
			return stood[0].Running
		}
		l.is.Store(true)
		h.many(1)
		x := h.one("w")
		h.beat("w", "i", 1, x)
		time.Sleep(5 * time.Second)
		h.beat("w", "i", 1, x)
		if got := row(x.ID); got != nil {
			t.Fatalf("a row stands: %+v", got)
		}
		l.is.Store(false)
		time.Sleep(5 * time.Second)
		if got := row(x.ID); got == nil || got.Worker != "w" {
			t.Errorf("its row: %+v", got)
		}
		h.report("w", x, task.Finish(nil), task.Recorded)
	})
}

// A limit holds at a node once what runs there is written down, so that it counts.
func TestLimitIsNotFollowedWhileRowsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &locked{Store: model.New(time.Now)}
		h := open(t, l)
		defer h.close()
		h.many(2)
		h.one("w")
		l.is.Store(true)
		q := limits.DefaultQueue("q")
		q.MaxRunning = 1
		if _, err := l.ChangeQueue(h.ctx, "q", store.Whole(q)); err != nil {
			t.Fatal(err)
		}
		if err := h.d.goBy(h.ctx); err == nil {
			t.Error("it follows")
		}
		l.is.Store(false)
		if err := h.d.goBy(h.ctx); err != nil {
			t.Error(err)
		}
	})
}
