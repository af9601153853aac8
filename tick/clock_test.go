package tick

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleClock() {
	clock := New(Config{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.Beat(now) // in a program: go clock.Run(ctx)

	silence := clock.After(15*time.Second, func() { fmt.Println("worker lost") })
	clock.Every(10*time.Second, func() { fmt.Println("ten seconds") })

	clock.Beat(now.Add(10 * time.Second))
	silence.Reset(15 * time.Second) // it said something
	clock.Beat(now.Add(20 * time.Second))
	clock.Beat(now.Add(25 * time.Second))
	// Output:
	// ten seconds
	// ten seconds
	// worker lost
}

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
	for _, d := range []time.Duration{1, 4999999, 5000000, 5000001, time.Second, 20 * time.Second, time.Hour, 1000 * time.Hour, 1 << 60} {
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
	want := []time.Duration{10 * time.Second, 23 * time.Second, 30 * time.Second, 55 * time.Second, 60 * time.Second, 70 * time.Second}
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
	if first, ok := b.wheel.first(); ok {
		t.Errorf("a stopped timer is filed at %v", time.Duration(first))
	}
	for _, d := range durations {
		b.After(d, func() {})
	}
	b.pass(time.Hour)
	if first, ok := b.wheel.first(); ok {
		t.Errorf("a fired timer is filed at %v", time.Duration(first))
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

// naive is the definition of a clock: a list of deadlines, read at every beat.
type naive struct {
	now    int64
	timers []naiveTimer
}

type naiveTimer struct {
	pending    bool
	due, every int64
	calls      int
}

func (n *naive) beat(now int64) {
	n.now = now
	for i := range n.timers {
		t := &n.timers[i]
		if !t.pending || t.due > now {
			continue
		}
		t.calls++
		t.pending = t.every > 0
		for t.pending && t.due <= now {
			t.due += t.every
		}
	}
}

func TestEveryHistoryAgreesWithAList(t *testing.T) { rapid.Check(t, agreesWithAList) }

func FuzzEveryHistoryAgreesWithAList(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreesWithAList)) }

func agreesWithAList(t *rapid.T) {
	var (
		b       = newBeats()
		model   naive
		timers  []*Timer
		calls   []int
		lengths = rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(0, 50).Draw(t, "bits")).Draw(t, "d"))
		})
		some = func(t *rapid.T) int {
			if len(timers) == 0 {
				t.Skip("no timer")
			}
			return rapid.IntRange(0, len(timers)-1).Draw(t, "timer")
		}
	)
	t.Repeat(map[string]func(*rapid.T){
		"after": func(t *rapid.T) {
			d, i := lengths.Draw(t, "d"), len(timers)
			calls = append(calls, 0)
			timers = append(timers, b.After(d, func() { calls[i]++ }))
			model.timers = append(model.timers, naiveTimer{pending: true, due: model.now + int64(d)})
		},
		"every": func(t *rapid.T) {
			d, i := max(lengths.Draw(t, "d"), 1<<40), len(timers)
			calls = append(calls, 0)
			timers = append(timers, b.Every(d, func() { calls[i]++ }))
			model.timers = append(model.timers, naiveTimer{pending: true, due: model.now + int64(d), every: int64(d)})
		},
		"reset": func(t *rapid.T) {
			i, d := some(t), lengths.Draw(t, "d")
			if was := timers[i].Reset(d); was != model.timers[i].pending {
				t.Fatalf("Reset of %d = %v", i, was)
			}
			model.timers[i].pending, model.timers[i].due = true, model.now+int64(d)
		},
		"stop": func(t *rapid.T) {
			i := some(t)
			if was := timers[i].Stop(); was != model.timers[i].pending {
				t.Fatalf("Stop of %d = %v", i, was)
			}
			model.timers[i].pending = false
		},
		"beat": func(t *rapid.T) {
			d := lengths.Draw(t, "d")
			b.pass(d)
			model.beat(model.now + int64(d))
		},
		"beat at a deadline": func(t *rapid.T) {
			i := some(t)
			if d := model.timers[i].due - model.now; model.timers[i].pending && d > 0 {
				b.pass(time.Duration(d - 1))
				model.beat(model.now + d - 1)
				b.pass(1)
				model.beat(model.now + 1)
			}
		},
		"": func(t *rapid.T) {
			for i, m := range model.timers {
				if calls[i] != m.calls {
					t.Fatalf("timer %d was called %d times, want %d", i, calls[i], m.calls)
				}
			}
		},
	})
}
