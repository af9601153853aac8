package pool

import (
	"context"
	"testing"
)

func newLanes(b *testing.B, n int) *Pool {
	p, err := New(Config{Runners: n})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

// BenchmarkRun runs an empty function on one of eight lanes, for one caller and for 64.
func BenchmarkRun(b *testing.B) {
	ctx := context.Background()
	b.Run("1", func(b *testing.B) {
		p := newLanes(b, 8)
		b.ReportAllocs()
		for b.Loop() {
			p.Run(ctx, 100, nothing)
		}
	})
	b.Run("64", func(b *testing.B) {
		p := newLanes(b, 8)
		b.ReportAllocs()
		b.SetParallelism(32) // × 2 processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Run(ctx, 100, nothing)
			}
		})
	})
	b.Run("64 on channels", func(b *testing.B) {
		work, done := make(chan chan struct{}), make(chan struct{})
		for range 8 {
			go func() {
				for {
					select {
					case c := <-work:
						nothing(ctx)
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

// BenchmarkRunLargePool is the pick among 10,000 runners, and the way there and back.
func BenchmarkRunLargePool(b *testing.B) {
	p, ctx := newLanes(b, 10_000), context.Background()
	for b.Loop() {
		p.Run(ctx, 100, nothing)
	}
}
