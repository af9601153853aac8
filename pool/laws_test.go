package pool

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// After any history all capacity is back, and at any moment what a pool derives agrees with what it
// counts.
func TestNoHistoryLosesCapacity(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { live(t, rand.New(rand.NewPCG(seed, 0))) })
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func FuzzNoHistoryLosesCapacity(f *testing.F) {
	f.Fuzz(func(t *testing.T, seed, stream uint64) {
		synctest.Test(t, func(t *testing.T) { live(t, rand.New(rand.NewPCG(seed, stream))) })
	})
}

// live draws a pool and calls of every kind, length and end.
func live(t *testing.T, luck *rand.Rand) {
	c := Config{
		Runners: 1 + luck.IntN(4), Choice: Choice(luck.IntN(3)), Slots: luck.IntN(4) - 1,
		Eject:      1 + luck.IntN(3),
		MaxWaiting: luck.IntN(6) - 1, HeadStart: time.Duration(luck.IntN(2)) * time.Second,
	}
	if luck.IntN(2) == 0 {
		c.Capacity = float64(5 + luck.IntN(20))
	}
	if luck.IntN(2) == 0 {
		for range c.Runners {
			c.Weights = append(c.Weights, []float64{0.5, 1, 2, 3}[luck.IntN(4)])
		}
	}
	b := newBench(t, c)
	var calls sync.WaitGroup
	for range 1 + luck.IntN(40) {
		call := b.draw(t, luck)
		calls.Go(call)
		time.Sleep(time.Duration(luck.IntN(1500)) * time.Millisecond)
		synctest.Wait()
		b.mustAddUp(t)
	}
	if luck.IntN(3) == 0 {
		calls.Go(func() { b.Close() })
	}
	calls.Wait()
	time.Sleep(10 * time.Minute) // longer than any penalty
	synctest.Wait()
	b.mustBeIdle(t)
	b.mustAddUp(t)
	for i, at := range b.all {
		if b.takes(at) < 1 || !at.open {
			t.Errorf("runner %d takes nothing any more: %+v", i, b.View().Runners[i])
		}
	}
	if b.room != c.Runners || b.running != 0 || b.waiting.Len() != 0 {
		t.Errorf("%d of %d have room, %d run, %d wait", b.room, c.Runners, b.running,
			b.waiting.Len())
	}
}

// draw is one call.
func (b *bench) draw(t *testing.T, luck *rand.Rand) func() {
	load, k := float64(luck.IntN(100))/10, 1+luck.IntN(b.Len())
	d := time.Duration(luck.IntN(5)) * time.Second
	end := []func(context.Context) error{
		nothing, nothing, ouch, ouch, func(context.Context) error {
			panic("ouch")
		}, func(context.Context) error { runtime.Goexit(); return nil },
	}[luck.IntN(6)]
	f := func(ctx context.Context) error { time.Sleep(d); return end(ctx) }
	limit := Limit{Timeout: time.Duration(luck.IntN(3)) * time.Second}
	patience := time.Duration(1+luck.IntN(10)) * time.Second
	return func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if p := b.Limited(limit); k > 1 {
			p.RunEach(ctx, k, load, func(ctx context.Context, _ *seat, _ int) error {
				return f(ctx)
			})
		} else {
			p.Run(ctx, load, func(ctx context.Context, _ *seat) error { return f(ctx) })
		}
	}
}

// mustAddUp checks what the pool derives against what it counts.
func (b *bench) mustAddUp(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	room, running, able, suspects := 0, 0, 0, 0
	for i, at := range b.all {
		open := at.running < b.takes(at)
		if open {
			room++
		}
		if b.takes(at) > 0 {
			able++
		}
		if b.suspect(at) {
			suspects++
		}
		running += at.running
		switch {
		case at.running > at.slots, at.load > at.capacity+1e-9:
			t.Errorf("runner %d runs %d functions of load %g", i, at.running, at.load)
		case at.load < -1e-9, at.running == 0 &&
			at.load != 0, at.left < 0, at.left > at.running, at.claimed:
			t.Errorf("runner %d runs %d functions with load %g, %d left", i, at.running, at.load,
				at.left)
		case (at.penalty > 0) && at.until.IsZero(), !at.until.IsZero() &&
			at.until.Before(time.Now()):
			t.Errorf("runner %d has penalty %g until %v", i, at.penalty, at.until)
		case at.open != open:
			t.Errorf("runner %d runs %d of %d functions, open: %v", i, at.running, b.takes(at),
				at.open)
		}
		if b.conf.Choice == TwoChoices {
			continue
		}
		if rank := at.ranked.Load(); open && math.Abs(rank-at.order(b.conf.Choice)) > 1e-9 ||
			!open && !math.IsInf(rank, 1) {
			t.Errorf("runner %d of order %g stands at %g, open: %v", i, at.order(b.conf.Choice),
				rank, open)
		}
	}
	if room != b.room || running != b.running || able != b.able || suspects != b.suspects {
		t.Errorf("counted %d with room, %d running, %d able, %d suspects; there are %d, %d, %d, %d",
			b.room, b.running, b.able, b.suspects, room, running, able, suspects)
	}
	first := b.waiting.Min()
	if first != nil && b.hasRoom(len(first.Value.places), first.Value.load) {
		t.Error("a caller waits though there is room for it")
	}
	for m := range b.waiting.All() {
		fits, aside := b.willFit(len(m.Value.places), m.Value.load), math.IsInf(m.Load(), 1)
		if aside && fits || !aside && !fits && m == first {
			t.Errorf(
				"a caller waits for %d places of load %g, which %d runners will have: %v; aside: %v",
				len(m.Value.places), m.Value.load, able, fits, aside,
			)
		}
	}
}
