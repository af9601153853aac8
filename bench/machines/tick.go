package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/RussellLuo/timingwheel"

	"github.com/rotahq/rota/tick"
)

const (
	// of silence; longer than any measurement, even on a machine that is starved
	limit   = 5 * time.Minute
	timeout = 10 * time.Minute // of work that ends in time
	farAway = 30 * time.Minute // nothing comes due while an idle process is watched
)

func nothing() {}

// tickFigures compare timers, of which n stand around. The wheel's cannot be moved: they are
// stopped and made anew.
func tickFigures(n int) []*figure {
	scattered := n*618/1000 | 1 // a step through the timers that no processor foresees
	deadlines := func(what string, tick, runtime, wheel func() state) *row {
		return &row{what: what, contenders: []*contender{
			{name: "rota/tick", start: tick}, {name: "time.Timer", start: runtime},
			{name: "timingwheel", start: wheel},
		}}
	}
	memory := deadlines("a pending timer", tickPending(n), timePending(n), wheelPending(n))
	memory.probe = func(_ config, start func() state) (bytes, _ float64) {
		return heldBy(start) / float64(n), 0
	}
	idle := deadlines(thousands(n)+" timers pending, none due", tickPending(n), timePending(n),
		wheelPending(n))
	idle.probe = shareOfCore
	return []*figure{
		{
			pkg: "tick", name: "tick-reset",
			title: fmt.Sprintf("A deadline is moved 5 minutes ahead, %s timers pending",
				thousands(n)), unit: "ns of CPU",
			rows: []*row{
				deadlines("one timer, again and again", tickReset(n, 0, 0), timeReset(n, 0, 0),
					wheelReset(n, 0, 0)),
				deadlines("one timer, each time for longer", tickReset(n, 0, 1), timeReset(n, 0, 1),
					wheelReset(n, 0, 1)),
				deadlines("all in turn", tickReset(n, 1, 0), timeReset(n, 1, 0),
					wheelReset(n, 1, 0)),
				deadlines("all in any order", tickReset(n, scattered, 0),
					timeReset(n, scattered, 0), wheelReset(n, scattered, 0)),
			},
		},
		{
			pkg: "tick", name: "tick-timeout",
			title: fmt.Sprintf("Work ends in time: a timer is made and stopped, %s pending",
				thousands(n)), unit: "ns of CPU",
			rows: []*row{
				deadlines("make and stop", tickAfterStop(n), timeAfterStop(n), wheelAfterStop(n)),
			},
		},
		{pkg: "tick", name: "tick-memory",
			title: "Memory of a pending timer and the pointer to it, its function not counted",
			unit:  "bytes", rows: []*row{memory}},
		{pkg: "tick", name: "tick-idle", title: "An idle process", unit: "% of a core",
			rows: []*row{idle}},
	}
}

// startTick gives a running clock and what ends it.
func startTick() (clock *tick.Clock, stop func()) {
	clock = tick.New(tick.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { clock.Run(ctx) })
	return clock, func() {
		cancel()
		running.Wait()
	}
}

func startWheel() (wheel *timingwheel.TimingWheel, stop func()) {
	// tick's beat, and the width of its levels
	wheel = timingwheel.NewTimingWheel(10*time.Millisecond, 64)
	wheel.Start()
	return wheel, wheel.Stop
}

// fill makes the timers that stand around, a microsecond apart.
func fill[T any](n int, first time.Duration, after func(time.Duration, func()) T) []T {
	timers := make([]T, n)
	for i := range timers {
		timers[i] = after(first+time.Duration(i)*time.Microsecond, nothing)
	}
	return timers
}

func stopAll(timers []*time.Timer) {
	for _, t := range timers {
		t.Stop()
	}
}

// The loops of the contenders are written out, so that each calls its own methods with nothing in
// between. A loop goes through the timers by steps, and moves each deadline further away than the
// one before, or not.

func tickReset(n, step int, further time.Duration) func() state {
	return func() state {
		clock, stop := startTick()
		timers, i, d := fill(n, limit, clock.After), 0, limit
		return state{stop: stop, do: func(times int) {
			for range times {
				timers[i].Reset(d)
				d += further
				if i += step; i >= n {
					i -= n
				}
			}
		}}
	}
}

func timeReset(n, step int, further time.Duration) func() state {
	return func() state {
		timers, i, d := fill(n, limit, time.AfterFunc), 0, limit
		return state{stop: func() { stopAll(timers) }, do: func(times int) {
			for range times {
				timers[i].Reset(d)
				d += further
				if i += step; i >= n {
					i -= n
				}
			}
		}}
	}
}

func wheelReset(n, step int, further time.Duration) func() state {
	return func() state {
		wheel, stop := startWheel()
		timers, i, d := fill(n, limit, wheel.AfterFunc), 0, limit
		return state{stop: stop, do: func(times int) {
			for range times {
				timers[i].Stop()
				timers[i] = wheel.AfterFunc(d, nothing)
				d += further
				if i += step; i >= n {
					i -= n
				}
			}
		}}
	}
}

func tickAfterStop(n int) func() state {
	return func() state {
		clock, stop := startTick()
		fill(n, farAway, clock.After)
		return state{stop: stop, do: func(times int) {
			for range times {
				clock.After(timeout, nothing).Stop()
			}
		}}
	}
}

func timeAfterStop(n int) func() state {
	return func() state {
		timers := fill(n, farAway, time.AfterFunc)
		return state{stop: func() { stopAll(timers) }, do: func(times int) {
			for range times {
				time.AfterFunc(timeout, nothing).Stop()
			}
		}}
	}
}

func wheelAfterStop(n int) func() state {
	return func() state {
		wheel, stop := startWheel()
		fill(n, farAway, wheel.AfterFunc)
		return state{stop: stop, do: func(times int) {
			for range times {
				wheel.AfterFunc(timeout, nothing).Stop()
			}
		}}
	}
}

// The pending states hold on to their timers, and have nothing to do.

func tickPending(n int) func() state {
	return func() state {
		clock, stop := startTick()
		timers := fill(n, farAway, clock.After)
		return state{stop: func() { stop(); runtime.KeepAlive(timers) }}
	}
}

func timePending(n int) func() state {
	return func() state {
		timers := fill(n, farAway, time.AfterFunc)
		return state{stop: func() { stopAll(timers) }}
	}
}

func wheelPending(n int) func() state {
	return func() state {
		wheel, stop := startWheel()
		timers := fill(n, farAway, wheel.AfterFunc)
		return state{stop: func() { stop(); runtime.KeepAlive(timers) }}
	}
}

// heldBy is the memory that a state takes.
func heldBy(start func() state) float64 {
	before := held()
	s := start()
	after := held()
	s.stop()
	return float64(after - before)
}

// held is the memory that is in use on the heap after a collection; the second one frees what the
// first has swept.
func held() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// shareOfCore is the CPU time that goes by while nothing happens.
func shareOfCore(c config, start func() state) (percent, _ float64) {
	s := start()
	defer s.stop()
	runtime.GC()
	time.Sleep(c.idle / 60) // for what the start has left to do
	cpu, begin := processorTime(), time.Now()
	time.Sleep(c.idle)
	return 100 * float64(processorTime()-cpu) / float64(time.Since(begin)), 0
}
