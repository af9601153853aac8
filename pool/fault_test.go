package pool

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFailingRunnerDoesNotAttractWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 4})
		broken := true
		call := func() int {
			n := len(b.starts)
			b.Run(t.Context(), 10, func(context.Context) error {
				if broken && b.starts[n] == 2 {
					return errOuch // at once
				}
				time.Sleep(10 * time.Millisecond)
				return nil
			})
			return b.starts[n]
		}
		const second = 1000
		count := func(calls int) (n int) {
			for range calls {
				if call() == 2 {
					n++
				}
			}
			return n
		}
		if n := count(10 * second / 10); n > 4 { // probed after 1, 3, 7 seconds
			t.Errorf("the failing runner got %d of 1000 functions", n)
		}
		broken = false
		time.Sleep(time.Minute)
		if n := count(100); n < 24 || n > 26 {
			t.Errorf("mended, it got %d of 100 functions", n)
		}
		broken = true
		if n := count(100); n != 1 {
			t.Errorf("broken again, it got %d of 100 functions", n)
		}
	})
}

func TestASuccessEndsThePenaltyAndItsGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Penalty: time.Minute})
		b.Run(t.Context(), 10, ouch)
		b.Run(t.Context(), 10, nothing)
		if p := b.all[0].penalty; p != 0 {
			t.Errorf("penalty %g after a success", p)
		}
		b.Run(t.Context(), 10, ouch)
		time.Sleep(time.Minute) // as long as after a first failure
		if synctest.Wait(); b.View().Runners[0].Until != (time.Time{}) {
			t.Error("the penalty grew over a success")
		}
	})
}

func TestWhenAllFailTheWorkGoesOnEvenly(t *testing.T) {
	b := newBench(t, Config{Runners: 4})
	for range 400 {
		if err := b.Run(t.Context(), 10, ouch); err != errOuch {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		n := 0
		for _, s := range b.starts {
			if s == i {
				n++
			}
		}
		if n != 100 {
			t.Errorf("runner %d got %d of 400", i, n)
		}
	}
}

func TestFaultsInARowEjectARunnerUntilAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 3, Penalty: time.Second, Eject: 3})
		broken := true
		run := func() {
			b.Run(t.Context(), 0, func(context.Context) error { // of load 0: they would go round
				if broken && b.starts[len(b.starts)-1] == 1 {
					return errOuch
				}
				return nil
			})
		}
		count := func() (n int) {
			b.starts = nil
			for range 30 {
				run()
			}
			for _, s := range b.starts {
				if s == 1 {
					n++
				}
			}
			return n
		}
		state := func(want State, reason string) {
			t.Helper()
			synctest.Wait()
			if v := b.View().Runners[1]; v.State != want || v.Reason() != reason {
				t.Errorf("%v, %q", v.State, v.Reason())
			}
		}
		at := func(d time.Duration) string {
			return ", until " + time.Now().Add(d).Format(time.TimeOnly)
		}
		if n := count(); n != 3 {
			t.Errorf("it was given %d functions to fail with", n)
		}
		state(Ejected, "3 faults in a row, the last: ouch"+at(4*time.Second))
		time.Sleep(4*time.Second - 1)
		if n := count(); n != 0 {
			t.Errorf("ejected, it was given %d functions", n)
		}
		time.Sleep(time.Nanosecond)
		state(Probing, "3 faults in a row, the last: ouch")
		if n := count(); n != 1 {
			t.Errorf("its probe was %d functions", n)
		}
		state(Ejected, "4 faults in a row, the last: ouch"+at(8*time.Second))
		time.Sleep(8 * time.Second)
		synctest.Wait()
		broken = false
		if n := count(); n != 10 {
			t.Errorf("mended, it was given %d functions of 30", n)
		}
		state(Open, "")
	})
}

func TestAProbeIsOneFunctionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Eject: 1})
		b.Run(t.Context(), 1, ouch)
		time.Sleep(time.Second)
		synctest.Wait()
		defer b.hold(t, 1, 1, 1, 1)()
		if got := b.loads(); got[0] != 1 || got[1] != 3 {
			t.Errorf("loads %v", got)
		}
	})
}

func TestWhoWaitsIsServedWhenAnEjectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 2, Slots: 1, Eject: 1, Penalty: time.Minute})
		b.Run(t.Context(), 1, ouch)
		defer b.hold(t, 1)()
		begin := time.Now()
		if err := b.Run(t.Context(), 1, nothing); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("Run() = %v after %v", err, time.Since(begin))
		}
	})
}

func TestAFaultOfMostIsNobodysFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 4, Eject: 1})
		states := func() (list []State) {
			for _, r := range b.View().Runners {
				list = append(list, r.State)
			}
			return list
		}
		for i, want := range [][]State{
			{Ejected, Open, Open, Open},
			{Ejected, Ejected, Open, Open},
			{Open, Open, Open, Open},
		} {
			b.Run(t.Context(), 1, ouch)
			if got := states(); !slices.Equal(got, want) {
				t.Errorf("after %d faults: %v", i+1, got)
			}
		}
		b.Run(t.Context(), 1, ouch)
		for range 100 {
			b.Run(t.Context(), 1, ouch)
		}
		b.RunEach(t.Context(), 2, 1, func(context.Context, int) error { return nil })
		if got := states(); !slices.Contains(got, Ejected) || !slices.Contains(got, Open) {
			t.Errorf("two have recovered: %v", got)
		}
	})
}

func TestOnlyFaultsSpeakAgainstARunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Fault: func(err error) bool {
			if err == errExited {
				panic("what is that?")
			}
			return err != errOuch
		}})
		faults := func() int { return b.View().Runners[0].Faults }
		if b.Run(t.Context(), 1, ouch); faults() != 0 {
			t.Error("what is no fault was counted")
		}
		if b.Run(t.Context(), 1, func(context.Context) error { panic("ouch") }); faults() != 1 {
			t.Error("a panic is no fault")
		}
		if b.Run(t.Context(), 1, func(context.Context) error { return errExited }); faults() != 2 {
			t.Error("a Fault that panics lost the fault")
		}
		if b.Run(t.Context(), 1, ouch); faults() != 0 {
			t.Error("the runner did what it was told, and is still at fault")
		}
		b.mustBeIdle(t)

		lanes := newLanes(t, Config{Runners: 1})
		if lanes.Run(t.Context(), 1, func(context.Context, Lane) error {
			return errOuch
		}); lanes.View().Runners[0].Faults != 0 {
			t.Error("a lane is at fault")
		}
	})
}

func TestAFaultThatEndsItsGoroutineLosesNoCapacity(t *testing.T) {
	b := newBench(t, Config{Runners: 1, Fault: func(error) bool { runtime.Goexit(); return false }})
	var caller sync.WaitGroup
	caller.Go(func() { b.Run(t.Context(), 1, ouch) })
	caller.Wait()
	if r := b.View().Runners[0]; r.Running != 0 || r.Faults != 1 {
		t.Fatalf("%+v", r)
	}
	b.mustBeIdle(t)
}

func TestPenaltiesCanBeTurnedOff(t *testing.T) {
	b := newBench(t, Config{Runners: 3, Penalty: -1, Eject: 1})
	for range 10 {
		if b.Run(t.Context(), 1, ouch); b.View().Runners[0].State != Open {
			t.Errorf("runner 0: %+v", b.View().Runners[0])
		}
	}
	for i, r := range b.View().Runners {
		if r.State != Open || r.Picks < 3 || r.Faults < 3 || !r.Until.IsZero() {
			t.Errorf("runner %d: %+v", i, r)
		}
	}
}

func TestTheLongestPenaltyDoesNotOverflow(t *testing.T) {
	b := newBench(t, Config{Runners: 3, Penalty: math.MaxInt64, Eject: 1})
	for range 20 {
		b.all[0].faults = 100
		b.blame(b.all[0], 1, errOuch)
		if d := time.Until(b.View().Runners[0].Until); d < 100*365*24*time.Hour {
			t.Fatalf("a penalty of %v", d)
		}
	}
	b.trust(b.all[0])
}

// How a function ends whose context has ended says nothing: neither that the runner works, nor that
// it does not.
func TestWhatEndsAfterItsContextLeavesFaultsAsTheyAre(t *testing.T) {
	b := newBench(t, Config{Runners: 1, Eject: -1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Run(t.Context(), 1, ouch)
	b.Run(ctx, 1, func(context.Context) error { cancel(); return errOuch })
	if v := b.View().Runners[0]; v.Faults != 1 {
		t.Errorf("%d faults", v.Faults)
	}
}

func TestAPenaltyIsForgivenWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Runners: 1, Penalty: time.Minute})
		b.Run(t.Context(), 5, ouch)
		forgiven := func() bool { return b.View().Runners[0].Until.IsZero() }
		if b.forgive(b.all[0]); forgiven() { // as a timer does that could not be reset in time
			t.Error("it was forgiven early")
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); !forgiven() {
			t.Error("it was not forgiven")
		}
	})
}
