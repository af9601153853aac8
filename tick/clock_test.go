package tick

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// beats is a clock under test whose time is set by hand.
type beats struct {
	*Clock
	now time.Time
}

func newBeats() *beats {
	b := &beats{New(Config{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.Beat(b.now)
	return b
}

func (b *beats) pass(d time.Duration) {
	b.now = b.now.Add(d)
	b.Beat(b.now)
}

func TestTimerFiresOnceAtItsDeadline(t *testing.T) {
	for _, d := range []time.Duration{1, 4999999, 5000000, 5000001, time.Second, 20 * time.Second,
		time.Hour, 1000 * time.Hour, 1 << 60} {
		b, calls := newBeats(), 0
		b.After(d, func() { calls++ })
		if b.pass(d - 1); calls != 0 {
			t.Errorf("After(%v) fired early", d)
		}
		if b.pass(1); calls != 1 {
			t.Errorf("After(%v) did not fire in time", d)
		}
		if b.pass(d); calls != 1 {
			t.Errorf("After(%v) fired again", d)
		}
	}
}

func TestDurationsCountFromTheFirstBeat(t *testing.T) {
	c, calls := New(Config{}), 0
	c.After(time.Second, func() { calls++ })
	now := time.Now()
	if c.Beat(now); calls != 0 {
		t.Error("fired before its second began")
	}
	if c.Beat(now.Add(time.Second)); calls != 1 {
		t.Error("did not fire")
	}
}

func TestNoDurationMeansTheNextBeat(t *testing.T) {
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		b, calls := newBeats(), 0
		var timer *Timer
		timer = b.After(d, func() {
			calls++
			timer.Reset(d)
		})
		for beat := 1; beat <= 3; beat++ {
			if b.pass(0); calls != beat {
				t.Fatalf("After(%v) and its Resets fired %d times in %d beats", d, calls, beat)
			}
		}
	}
}

func TestOverflowingDurationsWaitForEver(t *testing.T) {
	b, calls := newBeats(), 0
	b.pass(time.Hour)
	timer := b.After(math.MaxInt64, func() { calls++ })
	timer.Reset(math.MaxInt64)
	b.Every(math.MaxInt64, func() { calls++ })
	if b.pass(250 * 365 * 24 * time.Hour); calls != 0 {
		t.Error("a deadline overflowed")
	}
	if !timer.Stop() {
		t.Error("the timer is not pending")
	}
}

func TestEveryDoesNotDriftAndLateBeatsCallOnce(t *testing.T) {
	b := newBeats()
	var at []time.Duration
	begin := b.now
	b.Every(10*time.Second, func() { at = append(at, b.now.Sub(begin)) })
	for _, d := range []time.Duration{10, 13, 3, 4, 25, 4, 1, 10} {
		b.pass(d * time.Second)
	}
	want := []time.Duration{
		10 * time.Second, 23 * time.Second, 30 * time.Second, 55 * time.Second, 60 * time.Second,
		70 * time.Second,
	}
	if !slices.Equal(at, want) {
		t.Errorf("called at %v, want %v", at, want)
	}
}

func TestEveryNothingMeansEveryBeat(t *testing.T) {
	b, calls := newBeats(), 0
	b.Every(0, func() { calls++ })
	for range 3 {
		b.pass(time.Second)
	}
	if calls != 3 {
		t.Errorf("%d calls in 3 beats", calls)
	}
}

func TestStopAndResetSayWhetherTheTimerWasPending(t *testing.T) {
	b, calls := newBeats(), 0
	timer := b.After(time.Second, func() { calls++ })
	if !timer.Stop() || timer.Stop() {
		t.Error("a pending timer stops exactly once")
	}
	if timer.Reset(time.Second) || !timer.Reset(2*time.Second) {
		t.Error("Reset must start a stopped timer, then move it")
	}
	if b.pass(2 * time.Second); calls != 1 {
		t.Errorf("%d calls", calls)
	}
	if timer.Stop() || timer.Reset(time.Second) {
		t.Error("a fired timer is not pending")
	}
	if b.pass(time.Second); calls != 2 {
		t.Errorf("%d calls after a Reset of a fired timer", calls)
	}
	if (*Timer)(nil).Stop() {
		t.Error("nil was pending")
	}
}

func TestStoppedAndFiredTimersLeaveNothingBehind(t *testing.T) {
	b := newBeats()
	durations := []time.Duration{0, time.Second, time.Minute, time.Hour}
	for _, d := range durations {
		b.After(d, func() {}).Stop()
	}
	if first, ok := b.wheel.first(); ok || b.Pending() != 0 {
		t.Errorf("%d timers, the first at %v, are left of those that were stopped", b.Pending(),
			time.Duration(first))
	}
	for _, d := range durations {
		b.After(d, func() {})
	}
	if n := b.Pending(); n != len(durations) {
		t.Errorf("Pending() = %d, want %d", n, len(durations))
	}
	b.pass(time.Hour)
	if first, ok := b.wheel.first(); ok || b.Pending() != 0 {
		t.Errorf("%d timers, the first at %v, are left of those that fired", b.Pending(),
			time.Duration(first))
	}
}

func TestCallbacksMayStopAndMoveAnyTimer(t *testing.T) {
	b := newBeats()
	var got []string
	var self, other *Timer
	self = b.Every(time.Second, func() {
		got = append(got, "self")
		if len(got) == 2 {
			self.Stop()
			other.Reset(time.Second)
			b.After(3*time.Second, func() { got = append(got, "new") })
		}
	})
	other = b.After(time.Hour, func() { got = append(got, "other") })
	for range 6 {
		b.pass(time.Second)
	}
	if want := []string{"self", "self", "other", "new"}; !slices.Equal(got, want) {
		t.Errorf("called %v, want %v", got, want)
	}
}

func TestStopInTheSameBeatStillPrevents(t *testing.T) {
	b, calls := newBeats(), 0
	var twins [2]*Timer
	for i := range twins {
		twins[i] = b.After(time.Second, func() {
			calls++
			twins[1-i].Stop()
		})
	}
	if b.pass(time.Second); calls != 1 {
		t.Errorf("%d of two timers that stop each other fired", calls)
	}
}

func TestPanicsAreReportedAndHarmNobody(t *testing.T) {
	var reported []any
	c := New(Config{Panic: func(v any, stack []byte) {
		if len(stack) == 0 {
			t.Error("no stack")
		}
		reported = append(reported, v)
	}})
	calls, now := 0, time.Now()
	c.Beat(now)
	c.Every(time.Second, func() { panic("ouch") })
	c.Every(time.Second, func() { calls++ })
	c.Beat(now.Add(time.Second))
	c.Beat(now.Add(2 * time.Second))
	if calls != 2 || !slices.Equal(reported, []any{"ouch", "ouch"}) {
		t.Errorf("%d calls beside the panics %v", calls, reported)
	}
}

func TestNoFunctionIsRefusedAtOnce(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	New(Config{}).After(time.Second, nil)
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	b, calls := newBeats(), 0
	b.pass(time.Hour)
	b.pass(-time.Minute)
	b.After(time.Second, func() { calls++ })
	b.pass(time.Minute)
	if calls != 0 {
		t.Error("the duration counted from an earlier now")
	}
	if b.pass(time.Second); calls != 1 {
		t.Error("did not fire")
	}
}

func TestLateIsHowLongAfterItsDeadlineATimerIsCalled(t *testing.T) {
	b := newBeats()
	var late []time.Duration
	b.After(2*time.Second, func() { late = append(late, b.Late()) })
	b.pass(2 * time.Second)
	b.After(time.Second, func() { late = append(late, b.Late()) })
	b.pass(4 * time.Second)
	b.Every(10*time.Second, func() { late = append(late, b.Late()) })
	b.pass(35 * time.Second) // stands for the calls at 10, 20 and 30
	b.pass(5 * time.Second)
	if want := []time.Duration{0, 3 * time.Second, 25 * time.Second, 0}; !slices.Equal(late, want) {
		t.Errorf("late by %v, want %v", late, want)
	}
	b.After(0, func() { panic("ouch") })
	b.report = func(any, []byte) {}
	if b.pass(time.Second); b.Late() != 0 {
		t.Errorf("Late() = %v though nothing is called", b.Late())
	}
}

func TestLeftIsTheTimeToTheDeadline(t *testing.T) {
	b := newBeats()
	once, again := b.After(time.Minute, func() {}), b.Every(time.Hour, func() {})
	check := func(timer *Timer, want time.Duration, pending bool) {
		t.Helper()
		if left, ok := timer.Left(); left != want || ok != pending {
			t.Errorf("Left() = %v, %v, want %v, %v", left, ok, want, pending)
		}
	}
	b.pass(20 * time.Second)
	check(once, 40*time.Second, true)
	once.Reset(2 * time.Minute)
	check(once, 2*time.Minute, true)
	once.Reset(-1)
	check(once, 0, true)
	b.pass(10 * time.Second)
	check(once, 0, false)
	check(again, time.Hour-30*time.Second, true)
	b.pass(time.Hour)
	check(again, time.Hour-30*time.Second, true)
	again.Stop()
	check(again, 0, false)
}

func TestBeatsDoNotMix(t *testing.T) {
	var refused []any
	c := New(Config{Panic: func(v any, _ []byte) { refused = append(refused, v) }})
	now, calls := time.Now(), 0
	c.After(0, func() { c.Beat(now) })
	c.After(0, func() { calls++ })
	if c.Beat(now); len(refused) != 1 || calls != 1 {
		t.Errorf("a Beat within a Beat: refusals %v, %d calls", refused, calls)
	}
	c.After(0, func() { calls++ })
	if c.Beat(now); calls != 2 {
		t.Error("the clock stands still after a refused Beat")
	}
}

func TestACallbackThatEndsItsGoroutineHarmsNoOtherTimer(t *testing.T) {
	b := newBeats()
	once, again := 0, 0
	b.Every(time.Second, func() { again++ })
	for range 3 {
		b.After(time.Second, func() { runtime.Goexit() })
		b.After(time.Second, func() { once++ })
	}
	pass := func() {
		again = 0
		var beat sync.WaitGroup
		beat.Go(func() { b.pass(time.Second) })
		beat.Wait()
	}
	for range 4 { // each Goexit ends a beat
		pass()
	}
	if pass(); once != 3 || again != 1 || b.Pending() != 1 {
		t.Errorf("%d timers called, the recurring one %d times, %d pending", once, again,
			b.Pending())
	}
}

func TestEveryBeatThatFitsADurationWillDo(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 2, 3, 7, 10, 100 * time.Microsecond,
		math.MaxInt64} {
		c := New(Config{Beat: d})
		if c.grain < 1 || c.slack < 0 || d > 1 && 2*c.grain+c.slack > d {
			t.Errorf("Beat %v gives a grain of %v and a slack of %v", d, c.grain, c.slack)
		}
		calls, now := 0, time.Now()
		c.Beat(now)
		c.After(time.Hour, func() { calls++ })
		if c.Beat(now.Add(time.Hour - 1)); calls != 0 {
			t.Errorf("Beat %v: fired early", d)
		}
		if c.Beat(now.Add(time.Hour)); calls != 1 {
			t.Errorf("Beat %v: did not fire", d)
		}
	}
}
