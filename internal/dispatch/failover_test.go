package dispatch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// primary is a store whose database fails over in a moment: until it has, reads tell of an outcome
// that nobody was told of and that goes with the old primary.
type primary struct {
	contract.Store
	settled task.ID // by an outcome that is seen, and will not have been
	synced  bool    // a sync is to say so
	stale   bool    // a report is to be too late for it
}

func (l *primary) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	of := func(w store.Watch) bool { return w.ID == l.settled }
	if !l.synced || !slices.ContainsFunc(r.Watch, of) {
		return l.Store.Sync(ctx, r)
	}
	l.synced = false
	r.Insert = slices.DeleteFunc(r.Insert, func(row store.Running) bool {
		return row.ID == l.settled
	})
	got, err := l.Store.Sync(ctx, r)
	got.Settled = append(got.Settled, l.settled)
	return got, err
}

func (l *primary) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	if !l.stale || len(s.Reports) == 0 {
		return l.Store.Settle(ctx, s)
	}
	l.stale = false
	verdicts := slices.Repeat([]task.Status{task.Stale}, len(s.Reports))
	return store.Settled{Now: time.Now().UnixMicro(), Verdicts: verdicts}, nil
}

// A worker keeps what a sync says is settled until that is certain, or the task would go out again
// with the token that it has.
func TestWorkerKeepsWhatWasSettledOnALostPrimary(t *testing.T) {
	onPrimary(t, func(h *house, l *primary) {
		l.settled = h.many(1)[0]
		x := h.one("w")
		l.synced = true
		if got := h.holdFor("v", 1, 10*time.Second); l.synced || len(got) != 0 {
			t.Fatalf("another worker gets %+v while one has %+v; a sync lied: %t",
				got, x, !l.synced)
		}
		h.report("w", x, task.Finish(nil), task.Recorded)
	})
}

// A worker whose report came too late for an outcome that then is none has no part in what follows.
func TestReportThatWasTooLateOnALostPrimaryLeavesItsTokenToNobody(t *testing.T) {
	onPrimary(t, func(h *house, l *primary) {
		h.many(1)
		x := h.one("w")
		l.stale = true
		h.report("w", x, task.Finish(nil), task.Stale)
		y := h.one("v")
		h.report("w", x, task.Finish(nil), task.Stale)
		h.report("v", y, task.Finish(nil), task.Recorded)
	})
}

// What memory has lost sight of goes out again, but never with a token that a worker has had.
func TestSpanThatIsFoundAgainGoesOutWithANewToken(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		x := h.one("w")
		h.d.mu.Lock()
		h.d.mem.find(id).span.drop()
		h.d.mu.Unlock()
		y := h.one("v")
		if y.ID != x.ID || y.Token == x.Token {
			t.Fatalf("after %+v another worker gets %+v", x, y)
		}
		h.report("w", x, task.Finish(nil), task.Stale)
		h.report("v", y, task.Finish(nil), task.Recorded)
	})
}

// onPrimary runs a story on a node whose store fails over.
func onPrimary(t *testing.T, story func(h *house, l *primary)) {
	synctest.Test(t, func(t *testing.T) {
		l := &primary{Store: model.New(time.Now)}
		h := open(t, l)
		defer h.close()
		story(h, l)
	})
}

// Whoever asks for what there is not has been answered: no answer is missed for that.
func TestWhatThereIsNotIsNoLostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		for range 30 {
			_, err := h.d.Task(h.ctx, task.ID{Batch: 1 << 40}, 0)
			if !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := h.door.Calls("Held"); n > 30/calmRounds+1 {
			t.Errorf("lost answers were looked for %d times in 30 rounds", n)
		}
		h.report("w", h.one("w"), task.Finish(nil), task.Recorded)
	})
}
