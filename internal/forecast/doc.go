// Package forecast says how many workers queues and groups of jobs need: for a queue, the least
// number with which 95 of 100 tasks wait less than a target; for a group, how many more it takes so
// that n workers, whichever they are, can die at once with a place left for every replica.
//
//	Past     what came to each queue and how long it ran, minute by minute, for an hour
//	Facts    that, the tasks that are ready, and the workers that take them, at one moment
//	Keys     what a queue's group keys let begin of what is ready
//	Model    the queues put together that share workers; Queue answers for one and a target
//	Groups   what groups need now, and when their demand, growing as it did, needs more
//
// # The model of a queue
//
// The past hour is played again with c slots (a slot runs one task at a time). Two things make a
// task wait, and the longer of the two waits counts:
//
//   - Work that piles up over minutes. Minute by minute, what came is added to the work not done
//     yet, and what c slots can do in a minute is taken off (a fluid, or Lindley's recursion). It
//     sees rush hours and overload, whatever the shape of the day.
//   - Chance within a minute. Tasks wait when all slots happen to be taken. Its mean, given that a
//     task waits, is the one of Allen and Cunneen (Allen, Probability, Statistics and Queueing
//     Theory, 1978): E[S] (ca² + cs²) / (2 c (1 − ρ)). The probability that it waits is Erlang's C
//     formula, beyond 256 slots the limit of Halfin and Whitt (Operations Research 29, 1981); where
//     tasks come in bursts of b, that for c/b slots. The wait of those that wait is taken to be
//     exponential.
//
// How bursty arrivals are is the variance of the counts of minutes over their mean (the index of
// dispersion): 1 where tasks come independently of each other, b where they come in bursts of b. It
// is measured between neighbouring minutes, so that the rush hour itself counts as no burst. The
// tasks of one burst wait for each other, too. What the counts of minutes do not show, tasks that
// come at each full minute for instance, shows in how long tasks waited while there was room for
// all: Record.bursts.
//
// # Group keys
//
// Tasks may wait for their keys instead of slots: see Keys. What is ready counts as far as keys let
// it be done within DrainWithin. What came counts as far as keys let it begin: what came lately and
// has neither ended, nor runs, nor may begin, waits for its key (Queue.through). How long tasks
// waited says nothing of bursts then.
//
// docs/forecast.md shows how far the model is off, found by simulating queues task by task.
//
// The package is pure: the same facts give the same answer.
package forecast
