// Package task holds the vocabulary of finite work, and nothing else: no I/O, no clock, no luck.
//
// A task is made of stages. A worker is handed one stage at a time (a [Handout]), does it, and says
// what became of it (an [Outcome] inside a [Report]). Each hand-out has a sequence number of its
// own, and one step, the record of what became of it, ever stands at that number. What follows a
// step depends on nothing but the task, the outcome and the queue's limits:
//
//	            submit
//	               |
//	               v        due
//	+---------> waiting ---------> ready <----------------+
//	|                                | hand out           |
//	| retry, snooze (delay > 0)      v                    | next, release,
//	+---------------------------- running ----------------+ lost (no delay)
//	                                 |
//	       +------------------+------+-----------+
//	       v                  v                  v
//	     done      dead (fail, or out        cancelled
//	                of attempts)
//	                    |
//	                    +--> replayed: begins at attempt 1 again
//
// Rank is the order inside a queue: the due time minus the priority, so priority is a head start in
// seconds and nothing starves. Back-off grows by a factor up to a maximum, and its jitter
// is a hash of the task's identity, so a replay of the same history gives the same times
// ([Backoff.Delay]).
package task
