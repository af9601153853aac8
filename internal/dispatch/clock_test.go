package dispatch

import (
	"context"
	"fmt"
	"sync"
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

// apart runs a story on nodes whose clocks are an hour behind the store's, and an hour ahead of it.
func apart(
	t *testing.T, story func(t *testing.T, houses map[string]*house, storeNow func() time.Time),
) {
	t.Helper()
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprintf("store %v ahead", ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// a bubble's first time is the earliest that a task may have
				time.Sleep(24 * time.Hour)
				now := func() time.Time { return time.Now().Add(ahead) }
				store := model.New(now)
				houses := map[string]*house{"a": openAs(t, store, "a"), "b": openAs(t, store, "b")}
				story(t, houses, now)
				for _, h := range houses {
					h.close()
				}
			})
		})
	}
}

// after wants worker v at a node to get a task after a time, to a beat.
func (h *house) after(wait time.Duration) task.Handout {
	h.t.Helper()
	begin := time.Now()
	got := h.one("v")
	if took := time.Since(begin); took < wait || took > wait+2*time.Second {
		h.t.Errorf("it came after %v, want %v", took, wait)
	}
	return got
}

// about wants a time that was stored to be the store's.
func about(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if got.Sub(want).Abs() > time.Second {
		t.Errorf("%s is stored as %v, want about %v", what, got, want)
	}
}

func TestTasksAreDueByTheStoresClockWhateverTheNodes(t *testing.T) {
	apart(t, func(t *testing.T, houses map[string]*house, storeNow func() time.Time) {
		a, b := houses["a"], houses["b"]
		id := a.many(1)[0] // nobody waits here, so it is free in the store
		about(t, "created", a.view(id).Created, storeNow())
		about(t, "due", a.view(id).Due, storeNow())
		b.report("v", b.after(0), task.Finish(nil), task.Recorded)
		about(t, "started", a.view(id).Steps[0].Started, storeNow())
		about(t, "finished", a.view(id).Steps[0].Finished, storeNow())
		a.submit(task.Submission{Queue: "q", Delay: 20 * time.Second})
		b.report("v", b.after(20*time.Second), task.Finish(nil), task.Recorded)
		a.submit(task.Submission{Queue: "q", Due: storeNow().Add(30 * time.Second)})
		b.report("v", b.after(30*time.Second), task.Finish(nil), task.Recorded)
	})
}

func TestBackOffsLastAsLongAtTheNodeThatTakesOver(t *testing.T) {
	apart(t, func(t *testing.T, houses map[string]*house, storeNow func() time.Time) {
		a, b := houses["a"], houses["b"]
		a.many(1)
		a.report("w", a.one("w"), task.RetryAfter(30*time.Second, errHiccup), task.Recorded)
		// a gives back what nobody waits for there
		b.report("v", b.after(30*time.Second), task.RetryAfter(90*time.Second, errHiccup),
			task.Recorded)
		time.Sleep(time.Minute)
		// it moved into a span of its own
		a.report("v", a.after(30*time.Second), task.Finish(nil), task.Recorded)
	})
}

func TestWhatIsReadAgainSleepsNoLonger(t *testing.T) {
	apart(t, func(t *testing.T, houses map[string]*house, storeNow func() time.Time) {
		a := houses["a"]
		a.many(1)
		x := a.one("w")
		houses["b"].report("w", x, task.RetryAfter(20*time.Second, errHiccup), task.Recorded)
		a.d.Hear("", []task.ID{x.ID}) // so a reads where it stands
		synctest.Wait()
		a.after(20 * time.Second)
	})
}

func TestActionsAndHandOutsAreStampedByTheStoresClock(t *testing.T) {
	apart(t, func(t *testing.T, houses map[string]*house, storeNow func() time.Time) {
		a, b := houses["a"], houses["b"]
		id := a.submit(task.Submission{Queue: "q", Delay: time.Hour})[0]
		if err := a.d.Act(a.ctx, task.KindMoved, "me", id); err != nil {
			t.Fatal(err)
		}
		begun, at := b.after(0), storeNow()
		time.Sleep(3 * time.Second) // its row is written
		stood, err := a.store.Stand(a.ctx, []task.ID{id})
		if err != nil || stood[0].Running == nil {
			t.Fatalf("%+v, %v", stood, err)
		}
		about(t, "started", time.UnixMicro(stood[0].Running.Started), at)
		about(t, "until", time.UnixMicro(stood[0].Running.Until), at.Add(limits.DefaultTimeout))
		b.report("v", begun, task.Finish(nil), task.Recorded)
	})
}

func TestClockThatJumpsIsFollowedWithTheNextBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		h := open(t, model.New(now))
		defer h.close()
		for _, by := range []time.Duration{3 * time.Second, -4 * time.Second} {
			jump.Add(int64(by))
			time.Sleep(1100 * time.Millisecond)
			if off := h.d.ClockOffset(); off != -time.Duration(jump.Load()) {
				t.Errorf("%v after a jump by %v", off, by)
			}
			about(t, "created", h.view(h.many(1)[0]).Created, now())
		}
	})
}

// The store's clock read some time between the asking and the answer, so what is known is never off
// by more than the trip took.
func FuzzStoreClockIsKnownToATrip(f *testing.F) {
	f.Add(uint32(10), uint32(3), int32(500), uint32(2000), uint32(1999), int32(-700))
	f.Fuzz(func(t *testing.T, trip1, read1 uint32, offset1 int32, trip2, read2 uint32,
		offset2 int32) {
		var c storeClock
		at := time.Unix(1_800_000_000, 0)
		for _, x := range []struct {
			trip, read uint32
			offset     int32
		}{{trip1, read1, offset1}, {trip2, read2, offset2}} {
			asked := at.Add(time.Second)
			at = asked.Add(time.Duration(x.trip) * time.Microsecond)
			read := asked.Add(time.Duration(min(x.read, x.trip)) * time.Microsecond)
			offset := int64(x.offset) * 1000
			c.hear(asked, at, read.UnixMicro()+offset)
			if off := c.read(at) - at.UnixMicro() - offset; off > int64(x.trip) ||
				off < -int64(x.trip) {
				t.Fatalf("off by %d µs after a trip of %d", off, x.trip)
			}
		}
		was := c
		c.hear(at.Add(-time.Second), at.Add(-time.Millisecond), 0)
		if c != was {
			t.Fatal("an answer that came late was heard")
		}
	})
}

// slowBeat is a store whose first beat takes a second before the store's clock is read, and one
// after it, as when it comes to a loaded machine.
type slowBeat struct {
	contract.Store
	before, after time.Duration
	once          sync.Once
}

func (s *slowBeat) Beat(
	ctx context.Context, own []store.Lease, ttl time.Duration, words ...string,
) (got store.Beat, err error) {
	first := false
	s.once.Do(func() { first = true })
	if first {
		time.Sleep(s.before)
	}
	got, err = s.Store.Beat(ctx, own, ttl, words...)
	if first {
		time.Sleep(s.after)
	}
	return got, err
}

func TestTaskIsReadyOnceItsSubmissionIsAnsweredHoweverSlowTheBeat(t *testing.T) {
	for _, slow := range []*slowBeat{{before: time.Second}, {after: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			slow.Store = model.New(time.Now)
			h := open(t, slow)
			defer h.close()
			h.many(1)
			if got := h.hold("w", 1); len(got) != 1 {
				t.Errorf("%v before the beat, %v after it: a poll got nothing", slow.before,
					slow.after)
			}
		})
	}
}

func TestSlowAnswerMovesNothingThatItAllows(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	c := storeClock{at: at, store: 5000}
	c.hear(at, at.Add(10*time.Millisecond), 7000)
	if got := c.read(at.Add(10 * time.Millisecond)); got != 15_000 {
		t.Errorf("the store's clock reads %d, want 15000 as before", got)
	}
}

func TestStepOfTheStoresClockIsRemembered(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	hour := time.Hour.Microseconds()
	var c storeClock
	hear := func(after time.Duration, store int64) {
		c.hear(at.Add(after), at.Add(after), store)
	}
	hear(0, 100)
	if c.steady != 100 || c.late != 0 {
		t.Errorf("at first: steady since %d, late by %d", c.steady, c.late)
	}
	hear(time.Second, 100+1e6+4e6) // nothing worth speaking of
	if c.steady != 100 || c.late != 0 {
		t.Errorf("after a drift: steady since %d, late by %d", c.steady, c.late)
	}
	hear(2*time.Second, 6e6+100+hour)
	if c.steady != 6e6+100+hour || c.late != hour {
		t.Errorf("after a step forward: steady since %d, late by %d", c.steady, c.late)
	}
	hear(3*time.Second, 7e6+100)
	if c.steady != 7e6+100 || c.late != 0 {
		t.Errorf("after the step back: steady since %d, late by %d", c.steady, c.late)
	}
}
