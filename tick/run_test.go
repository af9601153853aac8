package tick

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const beat = 10 * time.Millisecond

// run runs a new clock until the bubble's test ends.
func run(t *testing.T) *Clock {
	c := New(Config{Beat: beat})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	synctest.Wait()
	return c
}

// keep makes a clock keep the time as if very many asked for it, or stops that.
func keep(c *Clock, on bool) {
	c.mu.Lock()
	c.keep = 1
	if on {
		c.keep = math.MaxInt
	}
	c.mu.Unlock()
	c.wake()
	synctest.Wait()
}

// lateness waits for a timer and tells by how much it missed the end of d from now.
func lateness(d time.Duration, start func(f func())) time.Duration {
	begin, done := time.Now(), make(chan time.Duration)
	start(func() { go func(now time.Time) { done <- now.Sub(begin) - d }(time.Now()) })
	return <-done
}

func TestRunIsNeverEarlyAndAtMostOneBeatLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		keep(c, true)
		for i := range 600 {
			if i == 300 {
				keep(c, false) // from here on the clock sleeps between timers
			}
			time.Sleep(time.Duration(i) * 777 * time.Microsecond) // out of step with the beat
			d := time.Duration(i%300*i%300) * 123457
			var timer *Timer
			late := lateness(d, func(f func()) { timer = c.After(d, f) })
			if late < 0 || late > beat {
				t.Fatalf("After(%v) was %v late", d, late)
			}
			time.Sleep(time.Duration(i) * 333 * time.Microsecond)
			late = lateness(d, func(f func()) {
				timer.f = f
				timer.Reset(3*d + time.Minute)
				timer.Reset(d)
			})
			if late < 0 || late > beat {
				t.Fatalf("Reset(%v) was %v late", d, late)
			}
		}
	})
}

func TestANearerTimerWakesTheSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		far := c.After(time.Hour, func() {})
		time.Sleep(10 * time.Minute)
		for name, start := range map[string]func(f func()){
			"After": func(f func()) { c.After(2*time.Second, f) },
			"Reset": func(f func()) { far.f = f; far.Reset(2 * time.Second) },
		} {
			time.Sleep(time.Minute + 1234567)
			if late := lateness(2*time.Second, start); late < 0 || late > beat {
				t.Errorf("%s was %v late", name, late)
			}
		}
	})
}

func TestNothingInSightMeansNoBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		looks := func() int64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.wheel.now
		}
		before := looks()
		time.Sleep(time.Hour)
		if looks() != before {
			t.Error("an empty clock beats")
		}

		var calls atomic.Int32
		silence := c.After(15*time.Minute, func() { calls.Add(1) })
		for range 100 { // a heartbeat per minute
			time.Sleep(time.Minute)
			before := looks()
			silence.Reset(15 * time.Minute)
			time.Sleep(time.Second)
			if looks() != before {
				t.Fatal("a heartbeat wakes the clock")
			}
		}
		if time.Sleep(15 * time.Minute); calls.Load() != 1 {
			t.Errorf("the silence was found %d times", calls.Load())
		}
	})
}

func TestWhereManyAskTheTimeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		far := c.After(time.Hour, func() {})
		kept := func() bool {
			synctest.Wait()
			return c.next.Load() != asleep
		}
		for range 5 * crowd {
			time.Sleep(time.Millisecond)
			far.Reset(time.Hour)
		}
		if kept() {
			t.Error("the time is kept for a few")
		}
		for range 3 * busy {
			time.Sleep(c.grain)
			for range 2 {
				for range crowd {
					far.Reset(time.Hour)
				}
				synctest.Wait()
			}
			if !kept() {
				t.Fatal("the time is not kept for many")
			}
		}
		looks := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.keep
		}
		before := looks()
		if c.After(time.Second, func() {}).Stop(); looks() != before {
			t.Error("a nearer timer wakes a clock that is awake")
		}
		if time.Sleep(busy * c.grain); kept() {
			t.Error("the time is kept for nobody")
		}
		c.Every(0, func() {})
		if time.Sleep(beat); !kept() {
			t.Error("the time is not kept though the clock looks at it at every grain")
		}
	})
}

func TestDurationsGivenDuringLongCallsCountFromTheMomentTheyAreGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		keep(c, true)
		c.After(0, func() { time.Sleep(time.Second) })
		time.Sleep(time.Second - time.Millisecond)
		if late := lateness(50*time.Millisecond, func(f func()) {
			c.After(50*time.Millisecond, f)
		}); late < 0 || late > beat {
			t.Errorf("late by %v", late)
		}
	})
}

func TestANearTimerCostsOneWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 50 {
			c, fired := New(Config{Beat: beat}), false
			c.Beat(time.Now())
			c.After(beat+time.Duration(i)*3333*time.Microsecond, func() { fired = true })
			wait, _ := c.rest()
			time.Sleep(wait)
			if c.round(); !fired {
				t.Fatalf("timer %d has not fired after %v", i, wait)
			}
		}
	})
}

func TestNothingIsLeftOfADeadlineThatIsPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := run(t).After(time.Second, func() {})
		time.Sleep(time.Second + 1) // the clock has not looked yet
		if left, pending := timer.Left(); left != 0 || !pending {
			t.Errorf("Left() = %v, %v", left, pending)
		}
	})
}

// TestALookAtManyTimersLendsTheLock asks for the lock while the clock visits timers that have all
// moved away.
func TestALookAtManyTimersLendsTheLock(t *testing.T) {
	b := newBeats()
	timers := make([]*Timer, 100*batch)
	for i := range timers {
		timers[i] = b.After(time.Second, func() {})
	}
	var asking sync.WaitGroup
	var lent atomic.Bool
	asking.Go(func() {
		for !lent.Load() { // for ever, were it not
			b.mu.Lock()
			if b.wheel.reached != [levels]uint64{} {
				lent.Store(true)
			}
			b.mu.Unlock()
			runtime.Gosched()
		}
	})
	for !lent.Load() {
		for _, timer := range timers {
			timer.Reset(time.Minute)
		}
		b.pass(time.Minute - 1)
	}
	asking.Wait()
}

func TestBeatBesideRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t)
		defer func() {
			if recover() == nil {
				t.Error("accepted")
			}
		}()
		c.Beat(time.Now())
	})
}

func TestPendingTimersSurviveFromRunToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fired := New(Config{}), 0
		runFor := func(d time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			if err := c.Run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c.After(90*time.Second, func() { fired++ })
		c.keep = math.MaxInt
		runFor(time.Minute)
		c.keep = 0
		time.Sleep(20 * time.Second)
		// while nothing runs: counts from here all the same
		c.After(time.Second, func() { fired++ })
		time.Sleep(time.Second - 2)
		if runFor(1); fired != 0 {
			t.Error("fired early")
		}
		if runFor(beat); fired != 1 {
			t.Error("a timer from between two Runs is late")
		}
		if runFor(9 * time.Second); fired != 2 {
			t.Error("a timer from the first Run is late")
		}
	})
}

func TestASecondRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := run(t).Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestACancelledRunStopsBeforeItSleeps(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c := New(Config{})
	if err := c.Run(ctx); err != nil {
		t.Errorf("Run() = %v", err)
	}
	c.After(time.Second, func() {}) // counts from a clock that no longer runs
}

// TestConcurrentMovesLoseNoTimer lets many goroutines start, move and stop timers while the clock
// beats. Each timer ends with a short Reset or a Stop, and exactly those that were Reset must have
// fired since.
func TestConcurrentMovesLoseNoTimer(t *testing.T) {
	const goroutines, timers, moves = 8, 20, 400
	c := New(Config{Beat: 200 * time.Microsecond})
	ctx, stop := context.WithCancel(t.Context())
	var clock, movers, calls sync.WaitGroup
	clock.Go(func() { c.Run(ctx) })
	defer clock.Wait()
	defer stop()
	for g := range goroutines {
		movers.Go(func() {
			for i := range timers {
				var last atomic.Bool
				calls.Add(1)
				timer := c.After(time.Microsecond, func() {
					if last.Swap(false) {
						calls.Done()
					}
				})
				for move := range moves {
					switch (g + i + move) % 5 {
					case 0:
						timer.Stop()
					case 1:
						timer.Reset(time.Hour)
					default:
						timer.Reset(time.Duration(move%40) * 50 * time.Microsecond)
					}
				}
				last.Store(true)
				timer.Reset(time.Millisecond)
			}
		})
	}
	movers.Wait()
	calls.Wait() // for ever, were one lost
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.wheel.first(); ok {
		t.Errorf("something is still filed, at %v", time.Duration(first))
	}
}

// TestADeadlineThatMovesWhileItsTimerIsFiledIsNotLost moves deadlines away and near again just when
// the clock visits them.
func TestADeadlineThatMovesWhileItsTimerIsFiledIsNotLost(t *testing.T) {
	b := newBeats()
	var mover sync.WaitGroup
	done := make(chan struct{})
	mover.Go(func() {
		defer close(done)
		var fired atomic.Int64
		timer := b.After(time.Hour, func() { fired.Add(1) })
		for i := range 20_000 {
			timer.Reset(2 * b.grain)
			for range i % 64 {
				timer.Left()
			}
			timer.Reset(1000 * time.Hour)
			before := fired.Load()
			timer.Reset(2 * b.grain)
			for fired.Load() == before { // for ever, were it lost
				runtime.Gosched()
			}
		}
	})
	for {
		select {
		case <-done:
			mover.Wait()
			return
		default:
			b.pass(b.grain)
			runtime.Gosched()
		}
	}
}

func TestNothingIsCalledOnceTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		c := New(Config{})
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		c.After(time.Second, func() { t.Error("called") })
		time.Sleep(time.Minute)
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}
