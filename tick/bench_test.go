package tick

import (
	"runtime"
	"testing"
	"time"
)

// pending are the timers that stand around while one is measured.
const pending = 1_000_000

// running gives a running clock.
func running(b *testing.B) *Clock {
	c, done := New(Config{}), make(chan struct{})
	go func() {
		defer close(done)
		c.Run(b.Context())
	}()
	b.Cleanup(func() { <-done })
	return c
}

// BenchmarkHeartbeat moves each of a million deadlines in turn, as messages of that many workers
// do: one after the other as they stand in memory, and in any order, when what counts is memory.
func BenchmarkHeartbeat(b *testing.B) {
	for _, order := range []struct {
		name string
		step int // coprime to pending
	}{{"in order", 1}, {"scattered", 618_033}} {
		b.Run("tick "+order.name, func(b *testing.B) {
			c := running(b)
			timers := make([]*Timer, pending)
			for i := range timers {
				timers[i] = c.After(15*time.Second+time.Duration(i)*time.Microsecond, func() {})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + order.step) % pending {
				timers[i].Reset(15 * time.Second)
			}
		})
		b.Run("time "+order.name, func(b *testing.B) {
			timers := make([]*time.Timer, pending)
			for i := range timers {
				timers[i] = time.AfterFunc(15*time.Second+time.Duration(i)*time.Microsecond,
					func() {})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + order.step) % pending {
				timers[i].Reset(15 * time.Second)
			}
			b.StopTimer()
			for _, t := range timers {
				t.Stop()
			}
		})
	}
}

// BenchmarkReset moves one and the same deadline: a connection on which much is said.
func BenchmarkReset(b *testing.B) {
	b.Run("tick", func(b *testing.B) {
		t := running(b).After(time.Hour, func() {})
		b.ReportAllocs()
		for b.Loop() {
			t.Reset(time.Hour)
		}
	})
	b.Run("time", func(b *testing.B) {
		t := time.AfterFunc(time.Hour, func() {})
		defer t.Stop()
		b.ReportAllocs()
		for b.Loop() {
			t.Reset(time.Hour)
		}
	})
}

// BenchmarkAfterStop is work that ends in time, a million deadlines pending.
func BenchmarkAfterStop(b *testing.B) {
	b.Run("tick", func(b *testing.B) {
		c := running(b)
		for i := range pending {
			c.After(time.Hour+time.Duration(i)*time.Microsecond, func() {})
		}
		b.ReportAllocs()
		for b.Loop() {
			c.After(10*time.Minute, func() {}).Stop()
		}
	})
	b.Run("time", func(b *testing.B) {
		timers := make([]*time.Timer, pending)
		for i := range timers {
			timers[i] = time.AfterFunc(time.Hour+time.Duration(i)*time.Microsecond, func() {})
		}
		b.ReportAllocs()
		for b.Loop() {
			time.AfterFunc(10*time.Minute, func() {}).Stop()
		}
		b.StopTimer()
		for _, t := range timers {
			t.Stop()
		}
	})
}

// BenchmarkPending measures what a pending timer weighs, its function not counted.
func BenchmarkPending(b *testing.B) {
	c, f := New(Config{}), func() {}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var timers uint64
	before := heap()
	for b.Loop() {
		c.After(time.Hour, f)
		timers++
	}
	b.ReportMetric(float64(heap()-before)/float64(timers), "B/timer")
	runtime.KeepAlive(c)
}

// BenchmarkFire is a beat at which n timers come due.
func BenchmarkFire(b *testing.B) {
	const n = 10_000
	c, f, now := New(Config{}), func() {}, time.Now()
	c.Beat(now)
	for range n {
		c.Every(time.Second, f)
	}
	for b.Loop() {
		now = now.Add(time.Second)
		c.Beat(now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/timer")
}
