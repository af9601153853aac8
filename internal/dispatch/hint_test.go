package dispatch

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

func TestHintsAreHeardAtOnce(t *testing.T) {
	town(t, func(t *testing.T, store contract.Store, houses map[string]*house) {
		a, b := houses["a"], houses["b"]
		got := make(chan []task.Handout, 1)
		go func() { got <- b.holdFor("w", 1, 10*time.Second) }()
		time.Sleep(1500 * time.Millisecond) // its rounds look now and then
		ids := a.submit(task.Submission{Queue: "q"})
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("b knew without a hint")
		}
		b.d.Hear("another", nil)
		synctest.Wait()
		if len(got) > 0 {
			t.Error("b looked for another queue's hint")
		}
		b.d.Hear("", nil) // whichever queue it is
		synctest.Wait()
		if len(got) == 0 {
			t.Fatal("b did not look")
		}
		begun := (<-got)[0]

		// b holds it; a settles it; b learns by a hint, and a caller that waits there too.
		final := make(chan task.View, 1)
		go func() {
			v, err := b.d.Task(b.ctx, ids[0], time.Minute)
			if err != nil {
				t.Error(err)
			}
			final <- v
		}()
		synctest.Wait()
		a.report("w", begun, task.Finish(nil), task.Recorded)
		begin := time.Now()
		b.d.Hear("", ids)
		if v := <-final; v.State != task.Done || time.Since(begin) > 0 {
			t.Errorf("the caller learns %s after %v", v.State, time.Since(begin))
		}
		b.d.Hear("nobody-knows-it", []task.ID{{Batch: 1, N: 1}}) // hints may be wrong
		synctest.Wait()
		b.empty()
	}, "a", "b")
}

func TestHintThatIsWrongTakesNothingFromItsWorker(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		x := h.one("w") // so young that the store does not know of it
		h.d.Hear("", []task.ID{id})
		synctest.Wait()
		h.nothing()
		h.report("w", x, task.Finish(nil), task.Recorded)
		h.empty()
	})
}

func TestHintBesideAReportDoesNotHandItsTaskOutAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		id := h.many(1)[0]
		x := h.one("w")
		asked := h.door.BeforeNext("Stand", func() error {
			time.Sleep(time.Second)
			return nil
		})
		settled := h.door.BeforeNext(settleReports, func() error {
			time.Sleep(5 * time.Second) // the hint is looked into meanwhile
			return nil
		})
		h.d.Hear("", []task.ID{id})
		h.report("w", x, task.Finish(nil), task.Recorded)
		<-asked
		<-settled
		h.nothing()
		h.empty()
	})
}

func TestTaskThatIsLookedIntoCanBeShown(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(2)
		// when it is answered, nobody waits any more
		h.door.AfterNext("Take", func(err error) error {
			time.Sleep(1500 * time.Millisecond)
			return err
		})
		if got := h.holdFor("w", 2, time.Second); len(got) != 0 {
			t.Fatalf("got %d", len(got))
		}
		time.Sleep(time.Second)
		shown := make(chan struct{})
		h.door.AfterNext("Stand", func(err error) error {
			defer close(shown)
			h.state(ids[0], task.Ready)
			return err
		})
		h.d.Hear("", ids[:1])
		<-shown
		h.one("w")
		h.one("w")
	})
}

func TestHintOfManyTasksCostsOneLook(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		ids := h.many(50)
		got := h.holdFor("w", 50, time.Second)
		var looks atomic.Int32
		h.door.After("Stand", func(err error) error {
			looks.Add(1)
			return err
		})
		h.d.Hear("", append(ids, ids...))
		synctest.Wait()
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
		for _, x := range got {
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
		h.empty()
	})
}
