package pool

import (
	"context"
	"fmt"
	"testing"
)

func newLanes(tb testing.TB, c Config) *Pool[Lane] {
	p, err := Lanes(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.Close() })
	return p
}

func noop(context.Context, Lane) error { return nil }

func TestRunDoesNotAllocate(t *testing.T) {
	p := newLanes(t, Config{Runners: 8})
	if n := testing.AllocsPerRun(100, func() { p.Run(t.Context(), 100, noop) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRun runs an empty function on one of eight lanes.
func BenchmarkRun(b *testing.B) {
	ctx := context.Background()
	b.Run("one caller", func(b *testing.B) {
		p := newLanes(b, Config{Runners: 8})
		b.ReportAllocs()
		for b.Loop() {
			p.Run(ctx, 100, noop)
		}
	})
	b.Run("64 callers", func(b *testing.B) {
		p := newLanes(b, Config{Runners: 8})
		b.ReportAllocs()
		b.SetParallelism(32) // × 2 processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Run(ctx, 100, noop)
			}
		})
	})
	b.Run("64 callers on channels", func(b *testing.B) {
		work, done := make(chan chan struct{}), make(chan struct{})
		for range 8 {
			go func() {
				for {
					select {
					case c := <-work:
						noop(ctx, 0)
						c <- struct{}{}
					case <-done:
						return
					}
				}
			}()
		}
		defer close(done)
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			c := make(chan struct{}, 1)
			for pb.Next() {
				work <- c
				<-c
			}
		})
	})
}

// BenchmarkPick is the pick among n busy runners and the way back: another's load is given back
// each time.
func BenchmarkPick(b *testing.B) {
	for _, choice := range []Choice{LeastLoaded, TwoChoices, Weighted} {
		for _, n := range []int{8, 10_000} {
			b.Run(fmt.Sprintf("%v/%d", choice, n), func(b *testing.B) {
				p := newPlaces(Config{Runners: n, Choice: choice, Slots: -1}.withDefaults())
				stays, at := make([]stay, n), make([]*place, 1)
				for i := range stays {
					p.take(b.Context(), float64(i*37%100), at)
					stays[i] = stay{at: at[0], load: float64(i * 37 % 100)}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s := &stays[i%n]
					p.pick(100, at)
					p.give(s, nil, false)
					*s = stay{at: at[0], load: 100}
				}
			})
		}
	}
}
