package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("away")

// source answers with how often it was asked.
type source struct {
	asked atomic.Int32
	hangs atomic.Bool
	fails atomic.Bool
}

func (s *source) ask(ctx context.Context) (int32, error) {
	n := s.asked.Add(1)
	switch {
	case s.hangs.Load():
		<-ctx.Done()
		return 0, ctx.Err()
	case s.fails.Load():
		return 0, errAway
	case n == 1: // it takes a moment, so that who does not wait does not have it
		time.Sleep(time.Millisecond)
	}
	return n, nil
}

func TestWhatIsKnownComesInTimeAndSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		v := New(Config[int32]{Ask: s.ask, Fresh: time.Second})
		defer v.Close()
		first := time.Now()
		if got, fresh := v.Get(0); fresh || !got.At.IsZero() {
			t.Errorf("before anything is known: %+v, %v", got, fresh)
		}
		synctest.Wait()
		for range 9 {
			if got, fresh := v.Get(time.Second); !fresh || got.Value != 1 || !got.At.Equal(first) {
				t.Errorf("fresh: %+v, %v", got, fresh)
			}
			time.Sleep(100 * time.Millisecond)
		}
		s.hangs.Store(true)
		time.Sleep(time.Second)
		for range 30 { // one question at a time is given up after five seconds
			began := time.Now()
			got, fresh := v.Get(150 * time.Millisecond)
			if time.Since(began) != 150*time.Millisecond || fresh || got.Value != 1 ||
				!got.At.Equal(first) {
				t.Errorf("after %v: %+v, %v", time.Since(began), got, fresh)
			}
		}
		if s.asked.Load() != 2 {
			t.Errorf("asked %d times", s.asked.Load())
		}
		time.Sleep(6 * time.Second)
		if got, _ := v.Get(0); got.Value != 1 || !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Errorf("given up: %+v", got)
		}
		synctest.Wait() // the question that this asked hangs, too
		s.hangs.Store(false)
		s.fails.Store(true)
		time.Sleep(6 * time.Second) // the question that hangs is given up by then
		if got, fresh := v.Get(time.Second); !fresh || got.Value != 1 ||
			!errors.Is(got.Err, errAway) {
			t.Errorf("failed: %+v, %v", got, fresh)
		}
		s.fails.Store(false)
		if got, fresh := v.Get(time.Second); !fresh || got.Value != s.asked.Load() ||
			got.Err != nil || !got.At.Equal(time.Now()) {
			t.Errorf("answered again: %+v, %v", got, fresh)
		}
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.hangs.Store(true)
		v := New(Config[int32]{Ask: s.ask})
		v.Get(0)
		v.Close()
		if got, fresh := v.Get(time.Hour); fresh || s.asked.Load() != 1 || !got.At.IsZero() {
			t.Errorf("after Close: %+v, %v, asked %d times", got, fresh, s.asked.Load())
		}
	})
}

func TestAskingTakesABoundedShareOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		v := New(Config[int]{
			Ask: func(context.Context) (int, error) {
				asked++
				time.Sleep(time.Second)
				return asked, nil
			}, Fresh: time.Second, Rest: 20,
		})
		defer v.Close()
		for range 1000 {
			v.Get(time.Hour)
			time.Sleep(100 * time.Millisecond)
		}
		if asked > 6 { // a second each, in a hundred seconds
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestOnlyTheFirstWaitForAnAnswerThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.hangs.Store(true)
		v := New(Config[int32]{Ask: s.ask})
		defer v.Close()
		for i, want := range []time.Duration{
			time.Second, 0, 0, // of the question that is given up after five seconds
		} {
			began := time.Now()
			v.GetSoon(time.Second)
			if got := time.Since(began); got != want {
				t.Errorf("caller %d waited %v, want %v", i, got, want)
			}
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		if v.GetSoon(time.Second); time.Since(began) != time.Second || s.asked.Load() != 2 {
			t.Errorf("the next question: waited %v, asked %d times", time.Since(began),
				s.asked.Load())
		}
	})
}

func TestAnAnswerThatIsStaleIsNotFreshHoweverYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		var least atomic.Int32
		v := New(Config[int32]{
			Ask: s.ask, Fresh: time.Hour, Stale: func(n int32) bool { return n < least.Load() },
		})
		defer v.Close()
		for _, want := range []int32{1, 1, 2, 2} {
			least.Store(want)
			if got, fresh := v.Get(time.Second); !fresh || got.Value != want {
				t.Errorf("what may be %d at least: %+v, %v", want, got, fresh)
			}
		}
	})
}
