package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseWaitsJoinsErrorsAndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		errs := []error{errors.New("first"), nil, errors.New("third")}
		p, err := New(Config{Runners: 3}, func(i int) (*seat, error) {
			return &seat{bench: b, i: i, err: errs[i]}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var ran atomic.Int32
		go p.RunEach(t.Context(), 3, 1, func(context.Context, *seat, int) error {
			time.Sleep(time.Minute)
			ran.Add(1)
			return nil
		})
		synctest.Wait()
		waited := make(chan error, 1)
		go func() {
			waited <- p.Run(t.Context(), 1, func(context.Context, *seat) error { return nil })
		}()
		synctest.Wait()
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := p.Close(); !errors.Is(err, errs[0]) || !errors.Is(err, errs[2]) {
					t.Errorf("Close() = %v", err)
				}
				if ran.Load() != 3 || time.Since(begin) != time.Minute {
					t.Error("Close did not wait")
				}
			})
		}
		if err := <-waited; err != ErrClosed || time.Since(begin) != 0 {
			t.Errorf("who waited got %v after %v", err, time.Since(begin))
		}
		closers.Wait()
		if slices.Sort(b.closed); !slices.Equal(b.closed, []int{0, 1, 2}) {
			t.Errorf("closed %v", b.closed)
		}
	})
}

func TestCloseEndsPenalties(t *testing.T) {
	b := newBench(t, Config{Runners: 1, Penalty: time.Hour})
	b.Run(t.Context(), 1, ouch)
	if b.Close(); b.all[0].timer.Stop() || !b.View().Runners[0].Until.IsZero() {
		t.Error("one goes on after the end of the pool")
	}
}
