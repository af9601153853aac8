package pool

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCapacityMakesCallersWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Slots: 1, MaxWaiting: 3})
		var order []int
		var calls sync.WaitGroup
		call := func(ctx context.Context, i int, d time.Duration) {
			calls.Go(func() {
				err := b.Run(ctx, 1, func(context.Context) error {
					order = append(order, i)
					time.Sleep(d)
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		impatient, leave := context.WithCancel(t.Context())
		call(t.Context(), 0, 10*time.Second)
		call(t.Context(), 1, time.Second)
		call(t.Context(), 2, time.Second)
		call(impatient, 3, time.Second)
		call(t.Context(), 4, time.Second)
		if err := b.Run(t.Context(), 1, nothing); err != ErrBusy {
			t.Errorf("a fourth waiting caller: %v", err)
		}
		leave()
		calls.Wait()
		if want := []int{0, 1, 2, 4}; !slices.Equal(order, want) {
			t.Errorf("ran in order %v, want %v", order, want)
		}
		if want := []int{0, 1, 1, 1}; !slices.Equal(b.starts, want) {
			t.Errorf("ran on %v, want %v: who waits goes where there is room first", b.starts, want)
		}
		b.mustBeIdle(t)
	})
}

func TestWhoLeavesTheQueueLetsTheNextIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Slots: 1})
		go b.Run(t.Context(), 1, func(context.Context) error { time.Sleep(time.Hour); return nil })
		synctest.Wait()
		impatient, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go b.RunEach(impatient, 2, 1, func(context.Context, int) error {
			t.Error("ran without two places")
			return nil
		})
		synctest.Wait()
		begin := time.Now()
		if err := b.Run(t.Context(), 1, nothing); err != nil || time.Since(begin) != time.Second {
			t.Errorf("Run() = %v after %v", err, time.Since(begin))
		}
	})
}

func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLanes(t, Config{Runners: 1})
		begin := time.Now()
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				p.Run(t.Context(), 1, func(context.Context, Lane) error {
					time.Sleep(time.Second)
					return nil
				})
			})
		}
		synctest.Wait()
		ctx, leave := context.WithTimeoutCause(t.Context(), time.Second/2, errOuch)
		defer leave()
		if err := p.Run(ctx, 1, noop); err != errOuch {
			t.Errorf("who left the queue got %v", err)
		}
		calls.Wait()
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("three seconds of work on one lane took %v", d)
		}
	})
}

func TestAHeadStartPutsTheHeavierFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Slots: 1, HeadStart: time.Second})
		release := b.hold(t, 1)
		var order []float64
		var calls sync.WaitGroup
		for _, load := range []float64{5, 1, 8.5, 9, 6.5, 1e9, 17.5} {
			calls.Go(func() {
				b.Run(t.Context(), load, func(context.Context) error {
					order = append(order, load)
					return nil
				})
			})
			time.Sleep(2 * time.Second) // so it takes 2 of load more to pass the one before
		}
		release()
		calls.Wait()
		if want := []float64{1e9, 17.5, 5, 8.5, 9, 1, 6.5}; !slices.Equal(order, want) {
			t.Errorf("ran in order %v, want %v", order, want)
		}
	})
}

func TestWhoNeedsMuchIsNotPassedByForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Capacity: 10})
		release := b.hold(t, 5)
		var order []float64
		var calls sync.WaitGroup
		for _, load := range []float64{10, 1} { // the second would have room at once
			calls.Go(func() {
				b.Run(t.Context(), load, func(context.Context) error {
					order = append(order, load)
					return nil
				})
			})
			synctest.Wait()
		}
		if b.View().Waiting != 2 {
			t.Errorf("%d wait", b.View().Waiting)
		}
		release()
		if calls.Wait(); !slices.Equal(order, []float64{10, 1}) {
			t.Errorf("ran in order %v", order)
		}
	})
}

func TestWhoNeedsAStuckRunnerHoldsUpNobodyAndIsServedFirstAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 3, Slots: 1})
		begin := time.Now()
		var order []string
		var calls sync.WaitGroup
		note := func(what string, took time.Duration) {
			calls.Go(func() {
				err := b.RunEach(t.Context(), len(what), 1, func(_ context.Context, i int) error {
					if i == 0 {
						b.notes.Lock()
						order = append(order, what)
						b.notes.Unlock()
					}
					time.Sleep(took)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		note("a", 2*time.Minute)
		limit := Limit{Timeout: time.Second}
		go b.RunLimited(t.Context(), 1, limit, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		synctest.Wait()
		note("bbb", time.Second) // waits before anything is stuck
		note("c", time.Second)
		time.Sleep(time.Second)
		if synctest.Wait(); b.View().Runners[1].State != Stuck || len(order) != 2 ||
			order[1] != "c" || b.View().Waiting != 1 {
			t.Errorf("when one is stuck, %v ran and %d wait", order, b.View().Waiting)
		}
		note("e", time.Second) // not behind those who wait for what is stuck
		note("dd", time.Second)
		calls.Wait()
		if want := []string{"a", "c", "e", "bbb", "dd"}; !slices.Equal(order, want) ||
			time.Since(begin) != 2*time.Minute+2*time.Second {
			t.Errorf("ran in order %v, want %v, in %v", order, want, time.Since(begin))
		}
	})
}

func TestWhoNeedsAnEjectedRunnerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]Config{
			"places":   {Runners: 3, Slots: 1},
			"capacity": {Runners: 3, Slots: 1, Capacity: 1, Weights: []float64{9, 1, 1}},
		} {
			c.Eject, c.Penalty = 1, time.Minute
			b := newBench(t, c)
			b.Run(t.Context(), 1, ouch)
			begin := time.Now()
			served := make(chan time.Duration, 1)
			go func() {
				if c.Capacity > 0 {
					b.Run(t.Context(), 9, nothing)
				} else {
					b.RunEach(t.Context(), 3, 1, func(context.Context, int) error { return nil })
				}
				served <- time.Since(begin)
			}()
			synctest.Wait()
			if err := b.Run(t.Context(), 1, nothing); err != nil || time.Since(begin) != 0 {
				t.Errorf("%s: Run() = %v after %v", name, err, time.Since(begin))
			}
			if d := <-served; d != time.Minute {
				t.Errorf("%s: the ejected runner was given its probe after %v", name, d)
			}
		}
	})
}

func TestNobodyWaitsWhereNobodyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Slots: 1, MaxWaiting: -1})
		defer b.hold(t, 1)()
		if err := b.Run(t.Context(), 1, nothing); err != ErrBusy {
			t.Errorf("Run() = %v", err)
		}
	})
}

// A caller whose context ends at the moment of being served does not run, and the place goes to the
// next.
func TestAPlaceThatComesTooLateGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // the select draws
			b := newBench(t, Config{Runners: 1, Slots: 1})
			release := b.hold(t, 1)
			ctx, leave := context.WithCancelCause(t.Context())
			var ran bool
			late := make(chan error, 1)
			go func() {
				late <- b.Run(ctx, 1, func(context.Context) error { ran = true; return nil })
			}()
			synctest.Wait()
			leave(errOuch)
			release()
			switch err := <-late; {
			case err == nil != ran:
				t.Fatalf("it ran: %v; Run() = %v", ran, err)
			case err != nil && err != errOuch:
				t.Fatal(err)
			}
			if err := b.Run(t.Context(), 1, nothing); err != nil {
				t.Fatal(err)
			}
			b.mustBeIdle(t)
		}
	})
}
