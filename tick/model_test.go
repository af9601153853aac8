package tick

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

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
			return time.Duration(rapid.Int64Range(0,
				1<<rapid.IntRange(0, 50).Draw(t, "bits")).Draw(t, "d"))
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
			model.timers = append(model.timers, naiveTimer{
				pending: true, due: model.now + int64(d),
			})
		},
		"every": func(t *rapid.T) {
			d, i := max(lengths.Draw(t, "d"), 1<<40), len(timers)
			calls = append(calls, 0)
			timers = append(timers, b.Every(d, func() { calls[i]++ }))
			model.timers = append(model.timers, naiveTimer{
				pending: true, due: model.now + int64(d), every: int64(d),
			})
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
			pending := 0
			for i, m := range model.timers {
				if calls[i] != m.calls {
					t.Fatalf("timer %d was called %d times, want %d", i, calls[i], m.calls)
				}
				left, ok := timers[i].Left()
				if ok != m.pending || ok && int64(left) != m.due-model.now {
					t.Fatalf("timer %d: Left() = %v, %v, want %v, %v", i, left, ok,
						time.Duration(m.due-model.now), m.pending)
				}
				if m.pending {
					pending++
				}
			}
			if n := b.Pending(); n != pending {
				t.Fatalf("Pending() = %d, want %d", n, pending)
			}
		},
	})
}

func TestEveryHistoryOfARunningClockIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// of a *testing.T it would ask the deadline, which a bubble has not
		rapid.Check(struct{ testing.TB }{t}, inTime)
	})
}

func FuzzEveryHistoryOfARunningClockIsInTime(f *testing.F) {
	check := rapid.MakeFuzz(inTime)
	f.Fuzz(func(t *testing.T, input []byte) {
		synctest.Test(t, func(t *testing.T) { check(t, input) })
	})
}

// inTime holds a running clock to its law in real time: a duration counts from the very moment at
// which it is given, and what is due is called then, or up to one beat later. When callbacks
// dawdle, only that nothing comes early.
func inTime(t *rapid.T) {
	type expected struct {
		timer   *Timer
		pending bool
		due     time.Time
		every   time.Duration
	}
	var (
		c       = New(Config{Beat: beat})
		dawdle  = rapid.Bool().Draw(t, "dawdle")
		mu      sync.Mutex
		timers  []*expected
		running sync.WaitGroup
		lengths = rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(1,
				1<<rapid.IntRange(16, 36).Draw(t, "bits")).Draw(t, "d"))
		})
	)
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() { c.Run(ctx) })
	defer running.Wait()
	defer stop()
	synctest.Wait()

	call := func(e *expected) func() {
		return func() {
			mu.Lock()
			defer mu.Unlock()
			late := time.Since(e.due)
			switch {
			case !e.pending:
				t.Errorf("a timer was called that is not pending")
			case late < 0 || !dawdle && late > beat:
				t.Errorf("a timer was called %v after its deadline", late)
			}
			e.pending = e.every > 0
			for e.pending && !e.due.After(time.Now()) {
				e.due = e.due.Add(e.every)
			}
		}
	}
	some := func(t *rapid.T) *expected {
		if len(timers) == 0 {
			t.Skip("no timer")
		}
		return timers[rapid.IntRange(0, len(timers)-1).Draw(t, "timer")]
	}
	t.Repeat(map[string]func(*rapid.T){
		"after": func(t *rapid.T) {
			d := lengths.Draw(t, "d")
			e := &expected{pending: true, due: time.Now().Add(d)}
			e.timer = c.After(d, call(e))
			timers = append(timers, e)
		},
		"reset": func(t *rapid.T) {
			e, d := some(t), lengths.Draw(t, "d")
			mu.Lock()
			defer mu.Unlock()
			e.pending, e.due = true, time.Now().Add(d)
			e.timer.Reset(d)
		},
		"stop": func(t *rapid.T) {
			e := some(t)
			mu.Lock()
			defer mu.Unlock()
			e.timer.Stop()
			e.pending = false
		},
		"crowd": func(t *rapid.T) { // asks until the clock keeps the time
			timer := c.After(time.Hour, func() {})
			defer timer.Stop()
			for range 2 {
				for range crowd {
					timer.Left()
				}
				synctest.Wait()
			}
		},
		"pass": func(t *rapid.T) {
			time.Sleep(lengths.Draw(t, "d"))
			synctest.Wait()
		},
		"dawdle": func(t *rapid.T) {
			if !dawdle {
				t.Skip("callbacks are quick")
			}
			d := lengths.Draw(t, "d")
			c.After(0, func() { time.Sleep(d) })
		},
		"": func(t *rapid.T) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range timers {
				if late := time.Since(e.due); e.pending && !dawdle && late > beat {
					t.Fatalf("a timer is %v late", late)
				}
			}
		},
	})
}
