// Package chaos holds rota against real processes and real faults, tests only: three nodes and ten
// workers, a PostgreSQL primary with a synchronous standby, submitters at every node, and a script
// that kills, stops and cuts off any of them, two at a time.
//
//	make chaos                           # ten failovers, an absent database, commits on one disk, dying nodes, two minutes of faults in pairs
//	make chaos RUN=Pairs FOR=2h SEED=7   # the pairs of a seed that it printed, and more of them
//	make chaos RUN=Failovers FAILOVERS=100
//	make chaos RUN=Schedules FOR=10m
//
// # Who stands where
//
//	submitters                        workers (10 processes)
//	    |        \                   /        |
//	  node a      node b       node c         |      rota serve, one process each; others reach a node
//	    |           |            |  <-- front --+    through its front, a proxy
//	  link a      link b       link c                proxies, two for each node: one for each database server
//	    |    \   /    |    \  /  |
//	    primary  ------>  standby                    what the primary acknowledges, the standby has
//
// Eight workers are the Go library in a process of its own, two are `rota worker` with a command.
//
// # What goes wrong
//
// Nodes and workers are killed and started again, or stopped for longer than their leases and
// silences last; the database is killed, stopped, or fails over to its standby, and gets a new
// standby, now and then after commits were let through that the standby did not have; a node is cut
// off from the database or from its peers: connections end, hang, hang in one direction only, or
// are slow. A fault that is over is repaired as a person or an init system would do it.
//
// # What is checked
//
// Everybody writes into ledgers, and waits for the disk before he goes on: submitters what they ask
// for and what was acknowledged, workers which hand-outs they begin and which reports were
// accepted. When the faults are over everything must become final soon. Then what stands in the
// database is written down as well, and check compares. It is a function of files, with a test of
// its own in which the ledgers lie. It looks at one part of the tasks at a time, so its memory is
// bounded however long the run.
//
// Two queues have limits, of a queue and of its keys and of keys in order, and few keys, so that
// what waits is mostly held back by them: never do more run than may, and tasks of a key in order
// go one after another, whoever dies or is cut off meanwhile.
//
// Some tasks spawn others with an outcome, and go on when these are over: the outcome stands with
// all of its children or none of them does, however often a hand-out is lost meanwhile, and the
// next stage begins behind the last of them and is told how they ended. Others wait for a signal,
// or until its time is over: an acknowledged signal ends the wait, one that nobody sent does not.
//
// # Schedules
//
// Three nodes fire some dozens of schedules while two of the nodes at a time are killed, stopped or
// cut off from the database, and people change, pause and run the schedules by way of any. Then
// each schedule's rows are held against the multiples of seconds at which it was due, through
// everything that it was (due_test.go): one row for each, and one task for each row that says so.
package chaos
