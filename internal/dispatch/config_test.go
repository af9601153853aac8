package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

// meanwhile is a store on which something happens between a read of the queues and its answer.
type meanwhile struct {
	contract.Store
	happens chan func() // of size 1
}

func (m *meanwhile) Queues(ctx context.Context) ([]task.Queue, error) {
	list, err := m.Store.Queues(ctx)
	select {
	case f := <-m.happens:
		f()
	default:
	}
	return list, err
}

// overtaken has a change of node a's made, and heard by node b, while an answer is on its way to b
// that does not have it yet. Shortly after that came in, check tells what b goes by.
func overtaken(t *testing.T, change func(a *house), check func(b *house)) {
	synctest.Test(t, func(t *testing.T) {
		db, slow := model.New(time.Now), &meanwhile{happens: make(chan func(), 1)}
		b := openAs(t, db, "b", func(c *Config) {
			slow.Store = c.Store.(settleDoor)
			c.Store, c.Changed = slow, func() {}
		})
		a := openAs(t, db, "a", func(c *Config) { c.Changed = b.d.HearChanged })
		defer b.close()
		defer a.close()
		a.many(1)
		if err := a.d.PauseQueue(a.ctx, "q", true); err != nil {
			t.Fatal(err)
		}
		came := make(chan struct{})
		slow.happens <- func() {
			change(a)
			close(came)
		}
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Fatal("b has not read the configurations")
		}
		check(b)
	})
}

// The answer to a read of the configurations may be older than word of a change that came before
// it: then they are read again a beat later.
func TestAChangeDuringAReadOfConfigurationsIsFollowedABeatLater(t *testing.T) {
	overtaken(t, func(a *house) {
		if err := a.d.PauseQueue(a.ctx, "q", false); err != nil {
			a.t.Error(err)
		}
		time.Sleep(1500 * time.Millisecond) // b's next beat hears of it
	}, func(b *house) {
		time.Sleep(2 * time.Second)
		if b.d.queueConf("q").Paused {
			b.t.Error("b still goes by a pause that was ended seconds ago")
		}
	})
}

// An answer that another one has overtaken changes nothing: a limit that was answered holds.
func TestAnAnswerThatWasOvertakenTakesNoLimitBack(t *testing.T) {
	overtaken(t, func(a *house) {
		a.limit(1, task.Rate{}, 0) // answered when b goes by it, by another read
	}, func(b *house) {
		time.Sleep(time.Millisecond)
		if n := b.d.queueConf("q").MaxRunning; n != 1 {
			b.t.Errorf("b goes by a limit of %d, and has said that it goes by one of 1", n)
		}
	})
}

// A node that could not write down what runs, or tell that it goes by a change, does so in its next
// round: who has set limits waits no longer, and is told of nobody.
func TestANodeFollowsInItsNextRoundWhereTheStoreFailed(t *testing.T) {
	for _, verb := range []string{"Sync", "AcquireAll"} {
		t.Run(verb, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *house) {
				b.many(1)
				time.Sleep(2500 * time.Millisecond)
				run := b.one("w")
				failed := b.door.BeforeNext(verb, func() error { return store.ErrBusy })
				set := time.Now()
				changed, err := a.d.ChangeQueue(a.ctx, "q", func(q *task.Queue, _ bool) error {
					q.MaxRunning = 1
					return nil
				})
				if err != nil || len(changed.Unheard) > 0 {
					t.Errorf("not heard by %v, %v", changed.Unheard, err)
				}
				if took := time.Since(set); took > 3*time.Second {
					t.Errorf("answered after %v", took)
				}
				<-failed
				b.done("w", run)
			})
		})
	}
}

// What is submitted to a queue just after it was deleted in the store is of a new queue of that
// name: memory must not forget it with the old one.
func TestWhatIsSubmittedAsAQueueIsDeletedIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		old := h.many(3)
		h.keep("v", 1)
		var next []task.ID
		h.door.AfterNext("DeleteQueue", func(err error) error {
			h.beat("w", "1", 1)
			got := make(chan []task.Handout)
			go func() { got <- h.holdFor("w", 1, time.Second) }()
			time.Sleep(time.Millisecond)
			next = h.many(1)
			if list := <-got; len(list) != 1 || list[0].ID != next[0] {
				t.Errorf("handed out: %v, want %v", list, next)
			}
			return err
		})
		if err := h.d.DeleteQueue(h.ctx, "q", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // a round deletes what is spent
		h.d.mu.Lock()
		if h.d.mem.has(old[0]) || h.d.mem.has(old[1]) || h.d.mem.has(old[2]) {
			t.Error("tasks that were deleted are still in memory")
		}
		h.d.mu.Unlock()
		h.beat("w", "2", 1) // it lost the task
		if got := h.holdFor("w", 1, 10*time.Second); len(got) != 1 || got[0].ID != next[0] {
			t.Errorf("a second attempt has %v, want %v; it is %s", got, next, h.view(next[0]).State)
		}
	})
}

// A queue of very many tasks is deleted in pieces, for minutes: nobody who changes another one
// waits for that, and what is said of its name meanwhile holds.
func TestDeletionOfAQueueHoldsUpNoChange(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.many(1)
		h.submit(task.Submission{Queue: "other"})
		h.door.AfterNext("DeleteQueue", func(err error) error {
			time.Sleep(time.Minute)
			return err
		})
		deleted := make(chan error, 1)
		go func() { deleted <- h.d.DeleteQueue(h.ctx, "q", true) }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := h.d.PauseQueue(h.ctx, "other", true); err != nil {
			t.Fatal(err)
		}
		h.limit(1, task.Rate{}, 0)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("two changes took %v", took)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if n := h.d.queueConf("q").MaxRunning; n != 1 {
			t.Errorf("a limit that was set after the deletion is %d here", n)
		}
	})
}
