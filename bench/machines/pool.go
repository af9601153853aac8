package main

import (
	"context"
	"sync"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	concpool "github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/rotahq/rota/pool"
)

// poolFigures compare calls: an empty function is run by one of so many lanes, and the caller waits
// until it has returned, which is what rota's pool.Run does by itself. For the others the function
// tells its caller by a channel that the caller has for all its calls: for pond, too, since the
// tasks for which it waits by itself (Submit) take seven times as long.
func poolFigures() []*figure {
	calls := func(what string, lanes, callers int) *row {
		r := &row{what: what}
		for _, c := range []struct {
			name string
			run  func(lanes int) (caller func() (call func()), stop func())
		}{
			{"rota/pool", rotaPool}, {"bare channel", barePool}, {"ants", antsPool},
			{"pond", pondPool}, {"conc", concPool}, {"errgroup", errgroupPool},
		} {
			r.contenders = append(r.contenders, &contender{name: c.name, start: func() state {
				caller, stop := c.run(lanes)
				return state{stop: stop, do: func(n int) { callFrom(callers, n, caller) }}
			}})
		}
		return r
	}
	return []*figure{{
		pkg: "pool", name: "pool-run", title: "An empty function is run by a pool, and waited for",
		unit: "ns of CPU",
		rows: []*row{
			calls("8 lanes, 1 caller", 8, 1),
			calls("8 lanes, 64 callers", 8, 64),
			calls("10,000 lanes, 1 caller", 10_000, 1),
		},
	}}
}

// callFrom makes n calls, shared out among so many callers, and waits for all.
func callFrom(callers, n int, caller func() func()) {
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			call := caller()
			for range (n + i) / callers {
				call()
			}
		})
	}
	running.Wait()
}

// The contenders, each in the way that costs it least. What they are given is fixed, so an error is
// a bug of this program.

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func rotaPool(lanes int) (func() func(), func()) {
	p, err := pool.Lanes(pool.Config{Runners: lanes})
	must(err)
	ctx, f := context.Background(), func(context.Context, pool.Lane) error { return nil }
	return func() func() {
		return func() { must(p.Run(ctx, 1, f)) }
	}, func() { must(p.Close()) }
}

// barePool is what one writes by hand: goroutines that read functions from a channel.
func barePool(lanes int) (func() func(), func()) {
	functions := make(chan func())
	var running sync.WaitGroup
	for range lanes {
		running.Go(func() {
			for f := range functions {
				f()
			}
		})
	}
	return waiting(func(f func()) { functions <- f }), func() { close(functions); running.Wait() }
}

func antsPool(lanes int) (func() func(), func()) {
	p, err := ants.NewPool(lanes)
	must(err)
	return waiting(func(f func()) { must(p.Submit(f)) }), p.Release
}

func pondPool(lanes int) (func() func(), func()) {
	p := pond.NewPool(lanes)
	return waiting(func(f func()) { must(p.Go(f)) }), p.StopAndWait
}

func concPool(lanes int) (func() func(), func()) {
	p := concpool.New().WithMaxGoroutines(lanes)
	return waiting(p.Go), p.Wait
}

func errgroupPool(lanes int) (func() func(), func()) {
	var g errgroup.Group
	g.SetLimit(lanes)
	return waiting(func(f func()) {
		g.Go(func() error { f(); return nil })
	}), func() { must(g.Wait()) }
}

// waiting makes callers of something that starts functions and doesn't wait for them.
func waiting(start func(func())) func() func() {
	return func() func() {
		done := make(chan struct{}, 1)
		f := func() { done <- struct{}{} }
		return func() {
			start(f)
			<-done
		}
	}
}
