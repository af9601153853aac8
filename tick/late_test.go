package tick

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsEarlyThoughTheClockIsLate stands in for Run on a starved machine, which wakes its
// goroutine late, and each time a duration is given just before that.
func TestNothingIsEarlyThoughTheClockIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 100 * time.Millisecond
		c := New(Config{Beat: beat})
		c.Beat(time.Now())
		check := func(what string, i int, given time.Time) func() {
			return func() {
				if early := d - time.Since(given); early > 0 {
					t.Errorf("%s %d is %v early", what, i, early)
				}
			}
		}
		moved := c.After(d, func() { t.Error("a timer is called that was Reset just before") })
		var recurring []*Timer
		for i := range 500 {
			late := time.Duration(i%7) * beat / 30 // within the slack
			if i%3 == 0 {
				late = time.Duration(i*i*7919%1000) * time.Millisecond
			}
			c.lateRound(late)
			c.After(d, check("After", i, time.Now()))
			moved.Reset(d)
			recurring = append(recurring, c.Every(d, check("Every", i, time.Now())))
			if i >= 10 {
				recurring[i-10].Stop()
			}
		}
		if len(c.wheel.short) == 0 {
			t.Error("no stall was noticed")
		}
	})
}

// TestNothingIsEarlyOnAMachineThatIsStarved lets more goroutines than there are processors compute
// and give durations, so that the clock's own must wait for its turn. It may be as late as it
// likes.
func TestNothingIsEarlyOnAMachineThatIsStarved(t *testing.T) {
	const timers, d = 2000, 30 * time.Millisecond
	c := New(Config{Beat: time.Millisecond})
	c.Every(0, func() {}) // so that it publishes the time
	ctx, stop := context.WithCancel(t.Context())
	var running, computing, pending sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	defer running.Wait()
	defer stop()
	for range 4 * runtime.GOMAXPROCS(0) {
		computing.Go(func() {
			for range timers {
				pending.Add(1)
				given := time.Now()
				c.After(d, func() {
					defer pending.Done()
					if early := d - time.Since(given); early > 0 {
						t.Errorf("%v early", early)
					}
				})
				for range 10_000 {
					_ = c.grain
				}
			}
		})
	}
	computing.Wait()
	pending.Wait()
}

// lateRound is a round as a starved machine has it: the next one comes so much later than it
// should.
func (c *Clock) lateRound(late time.Duration) {
	c.round()
	c.keep = busy
	wait, _ := c.rest()
	time.Sleep(wait + late)
}

func TestOfTwoResetsToTheSameDeadlineTheLaterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Beat: beat})
		c.resume()
		const d = 100 * time.Millisecond
		var given time.Time
		fired := false
		timer := c.After(time.Hour, func() {
			if fired = true; time.Since(given) < d-c.grain {
				t.Errorf("fired %v after the last Reset to %v", time.Since(given), d-c.grain)
			}
		})
		c.lateRound(0)
		c.lateRound(0)
		timer.Reset(d)
		c.lateRound(beat)
		given = time.Now()
		timer.Reset(d - c.grain)
		for range 100 {
			c.lateRound(0)
		}
		if !fired {
			t.Error("not fired")
		}
	})
}

func TestEveryDoesNotDriftThoughTheClockIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, calls := New(Config{Beat: beat}), 0
		c.resume()
		c.lateRound(0)
		c.lateRound(0)
		every := 25 * c.grain // then deadlines are instants from which durations count
		timer := c.Every(every, func() { calls++ })
		first := timer.due.Load()
		for range 2000 {
			c.lateRound(beat * 3 / 10)
		}
		if drift := (timer.due.Load() - first) % int64(every); drift != 0 || calls == 0 {
			t.Errorf("%d calls, and then a drift of %v", calls, time.Duration(drift))
		}
	})
}

func TestALookThatIsALittleLateIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Beat: beat})
		c.resume()
		for range 10 {
			if c.lateRound(beat / 5); len(c.wheel.short) != 0 {
				t.Fatal("taken for one")
			}
		}
		c.keep = 0
		c.rest()
		time.Sleep(time.Hour) // asleep: whoever gives a duration reads the real clock
		if c.round(); len(c.wheel.short) != 0 {
			t.Error("sleep is taken for a stall")
		}
	})
}

func TestOnlySoManyStallsAreRemembered(t *testing.T) {
	w := wheel{grain: 1}
	for i := range int64(3 * memory) {
		if w.stalled(i, 1); len(w.short) > memory || w.short[uint32(i)] != 1 {
			t.Fatalf("%d stalls are remembered after %d", len(w.short), i+1)
		}
	}
}

// Stalls are found by the lowest 32 bits of the instant of a look. Those of looks 4 ms apart came
// again every 19 hours, and then a timer was late by as much as the clock had once stood still;
// those of looks that are an odd number apart take all values first.
func TestAnOldStallDelaysNoTimer(t *testing.T) {
	for _, beat := range []time.Duration{1, 2, 5, 6, 100 * time.Microsecond, time.Millisecond,
		10 * time.Millisecond, math.MaxInt64} {
		if c := New(Config{Beat: beat}); c.grain%2 != 1 {
			t.Errorf("with a beat of %v looks are %d ns apart", beat, c.grain)
		}
	}
}

func TestAStallAtTheEndOfRunIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fired := New(Config{Beat: beat}), false
		c.resume()
		c.lateRound(time.Second)
		begin := time.Now()
		c.After(2*time.Second, func() {
			if fired = true; time.Since(begin) < 2*time.Second {
				t.Errorf("fired after %v", time.Since(begin))
			}
		})
		c.pause()
		for range 1000 {
			c.lateRound(0)
		}
		if !fired {
			t.Error("not fired")
		}
	})
}

func TestRunGoesOnWhereBeatsWereCenturiesAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Beat: beat})
		c.Beat(time.Time{})
		c.Beat(time.Time{}.Add(time.Hour))
		ctx, stop := context.WithCancel(t.Context())
		c.After(time.Minute, stop)
		begin := time.Now()
		if c.Run(ctx); time.Since(begin) < time.Minute || time.Since(begin) > time.Minute+beat {
			t.Errorf("a minute took %v", time.Since(begin))
		}
	})
}

func TestRunCountsByAClockThatNobodySets(t *testing.T) {
	c := New(Config{})
	begin := time.Now().Add(-time.Hour).Round(0) // as of a file
	c.Beat(begin)
	c.Beat(begin.Add(time.Minute))
	c.resume()
	if c.origin == c.origin.Round(0) {
		t.Errorf("instants are counted from %v", c.origin)
	}
	if d := c.origin.Sub(begin); d < 0 || d > time.Minute {
		t.Errorf("the first beat has moved by %v", d)
	}
}

func TestRunGoesOnWhereBeatsHaveRunAheadOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Beat: beat})
		c.Beat(time.Now())
		c.Beat(time.Now().Add(time.Hour))
		fired := 0
		c.After(time.Minute, func() { fired++ })
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		defer running.Wait()
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if fired != 0 {
			t.Error("a timer from before Run is early")
		}
		late := lateness(time.Minute, func(f func()) { c.After(time.Minute, f) })
		if fired != 1 || late < 0 || late > beat {
			t.Errorf("%d timers from before Run fired; one from within was late by %v", fired, late)
		}
	})
}
