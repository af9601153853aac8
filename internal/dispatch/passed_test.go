package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// The places that outcomes leave free cause no looks into the store where nothing of their keys can
// be there: neither when the last take left nothing, nor when memory has enough of them.
func TestOutcomesOfKeysAskForNothingThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		tasks int
		most  int // takes
	}{
		"all of it is here":    {200, 20},
		"some is in the store": {600, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &counted{Store: model.New(time.Now)}
				h := openAs(t, db, "n", func(cf *Config) { cf.Ahead = 50 })
				defer h.close()
				h.perKey(4)
				h.keyed("a", c.tasks)
				for left := c.tasks; left > 0; {
					got := h.holdFor("w", 20, time.Second)
					if len(got) == 0 {
						t.Fatalf("%d are left", left)
					}
					time.Sleep(20 * time.Millisecond)
					h.done("w", got...)
					left -= len(got)
				}
				if db.takes > c.most {
					t.Errorf("%d takes for %d tasks", db.takes, c.tasks)
				}
			})
		})
	}
}

// A place that becomes free while a take is under way, which found its key full, is used when the
// take is answered.
func TestAPlaceThatIsFreedDuringATakeIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := model.New(time.Now)
		db := &lateTakes{Store: model}
		a := openAs(t, db, "a")
		defer a.close()
		b := openAs(t, model, "b") // it tells the other one nothing
		defer b.close()
		a.set(func(q *task.Queue) { q.PerKey.MaxRunning, q.Fair = 2, true })
		if _, err := a.d.ChangeKey(a.ctx, store.KeyChange{ // so that takes sort
			Queue: "q", Key: "y", Weight: new(2),
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		got := a.waits("w", 2)
		a.ofKeys("x", "x")
		first := <-got
		next := a.waits("w", 2)
		b.ofKeys("x")
		db.late.Store(true)
		for end := time.Now().Add(20 * time.Second); db.late.Load(); { // its next look
			if time.Sleep(10 * time.Millisecond); time.Now().After(end) {
				t.Fatal("it does not look")
			}
		}
		a.done("w", first[0])
		at := time.Now()
		if got := <-next; len(got) != 1 || time.Since(at) > time.Second {
			t.Errorf("%d tasks after %v", len(got), time.Since(at))
		} else {
			a.done("w", first[1], got[0])
		}
	})
}

// lateTakes answers the next take that leaves something sorted half a second late.
type lateTakes struct {
	contract.Store
	late atomic.Bool
}

func (l *lateTakes) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	got, err := l.Store.Take(ctx, r)
	if got.Left && l.late.CompareAndSwap(true, false) {
		time.Sleep(500 * time.Millisecond)
	}
	return got, err
}
