// Package pool runs functions on n runners, each on the one that is least loaded at that moment.
//
//	p, err := pool.New(pool.Config{Runners: 4})
//	sum, err := pool.Do(ctx, p, 100, func(ctx context.Context) (int, error) { … })
//	err = p.Close()
//
// A [Runner] is a place to run: by default a lane, which runs one function after the other on its callers'
// goroutines; a child process or a remote worker is one as well. A load is what a function is expected to
// cost, in any unit, as long as it is the same for all.
//
// What holds:
//
//   - A function goes to a runner of least load; among equals to the one picked longest ago, so short
//     functions one after the other, or functions of load 0, go round (package balance).
//   - A runner's load is the sum of the loads of what it runs and of what waits for its turn there, and exactly
//     0 when there is nothing. It is given back when the function returns, fails or panics, and not before: a
//     function that hangs beyond its timeout keeps its load, so that its runner gets less of what follows.
//   - A runner that fails does not attract work by being free again so soon: the load of the failed function
//     goes on counting for a while, longer with every failure in a row ([Config].Penalty). A success ends that.
//     When all fail, all count alike, and the work goes on.
//   - Errors of the function reach the caller as they are; a panic does as a [*PanicError].
//   - After Close nothing starts, and what has started is waited for.
//
// Waiting has an end: the context's. It is bounded when [Config] sets Capacity (how much each runner takes at
// a time; further callers wait, first come first served, and go to whichever runner has room first) and
// MaxWaiting (how many may).
//
// A call costs O(log n) for n runners, one pick and one give-back under the pool's lock. A call with a timeout
// starts a goroutine of its own, since a function that hangs cannot be left in any other way.
package pool
