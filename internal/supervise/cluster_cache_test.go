package supervise

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// clockOnly is a store in which there is nothing but the time.
type clockOnly struct {
	Reader
	ahead time.Duration
}

func (c *clockOnly) Board(context.Context, int64) (store.Board, error) {
	return store.Board{Seats: store.Seats{Now: time.Now().Add(c.ahead).UnixMicro(), Version: 1}},
		nil
}

// Whoever has not come back by then had no chance to.
func TestBoardBeginsToCountAnewAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beat = time.Second
		db := &clockOnly{}
		b := NewClusterCache(db, beat)
		look := func() int64 {
			if err := b.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b.clock.store
		}
		begun := look()
		for _, pause := range []time.Duration{beat, 2 * beat, 3 * beat} {
			if time.Sleep(pause); look() == begun || b.steady != begun {
				t.Errorf("after %v without news: steady since %d, want %d", pause, b.steady, begun)
			}
		}
		time.Sleep(3*beat + time.Millisecond)
		if now := look(); b.steady != now {
			t.Errorf("after a gap: steady since %d, want %d", b.steady, now)
		}
		time.Sleep(beat)
		db.ahead = time.Hour
		if now := look(); b.steady != now {
			t.Errorf("after a jump of the store's clock: steady since %d, want %d", b.steady, now)
		}
	})
}

// hangs is a store that answers nothing until the caller gives up.
type hangs struct{ Reader }

func (hangs) Board(ctx context.Context, _ int64) (store.Board, error) {
	<-ctx.Done()
	return store.Board{}, ctx.Err()
}

// The scheduler lists the groups between its renewals: it must not wait for a look that has no
// deadline.
func TestLookEndsWithItsContextWhileAnotherHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewClusterCache(hangs{}, time.Second)
		endless, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Look(endless) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := b.Names(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the look that hung: %v", err)
		}
	})
}

// hangsReading says when somebody reads a group, and answers when he leaves.
type hangsReading struct {
	hangs
	begun chan struct{}
}

func (h hangsReading) Changes(ctx context.Context, _ string, _ int64) (store.Changes, error) {
	h.begun <- struct{}{}
	<-ctx.Done()
	return store.Changes{}, ctx.Err()
}

// A round has a deadline: it must not wait for the caller of a call who reads the same group, and
// has none. (No bubble: there nothing moves on while somebody waits for a mutex.)
func TestCatchEndsWithItsContextWhileAnotherHangs(t *testing.T) {
	h := hangsReading{begun: make(chan struct{}, 2)}
	b := NewClusterCache(h, time.Second)
	b.groups["g"] = store.Group{Version: 1}
	catch := func(ctx context.Context) chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := b.Catch(ctx, "g", true)
			ended <- err
		}()
		return ended
	}
	endless, stop := context.WithCancel(t.Context())
	first := catch(endless)
	<-h.begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	second := catch(over)
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case err := <-first:
		t.Fatalf("the reader that hangs ended with %v", err)
	case <-time.After(20 * time.Second):
		t.Error("it waits for who hangs")
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the reader that hung: %v", err)
	}
}

// A caller who leaves takes nobody along: who shared his look looks.
func TestLookThatWasGivenUpIsNoAnswerForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewClusterCache(hangs{}, time.Second)
		var stops []context.CancelFunc
		var ends []chan error
		for range 3 {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			stops = append(stops, stop)
			ends = append(ends, ended)
			go func() { ended <- b.Look(ctx) }()
			synctest.Wait()
		}
		for i := range stops { // the first looks, the second looks for itself and the third
			stops[i]()
			if err := <-ends[i]; !errors.Is(err, context.Canceled) {
				t.Errorf("look %d: %v", i, err)
			}
			synctest.Wait()
			for k := i + 1; k < len(ends); k++ {
				if len(ends[k]) > 0 {
					t.Errorf("look %d ended with look %d: %v", k, i, <-ends[k])
					return
				}
			}
		}
	})
}
