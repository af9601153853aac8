// Package waiting plays the protocol of tasks that wait for tasks (docs/waiting.md), tests only:
// the statements of its transactions, by many processes that one seed lets go on, one statement at
// a time, each of which may be its process's last. It shows that the protocol holds before the
// stores follow it, and which of its rules are needed.
//
// # How a play goes
//
//	people, submitters    workers, judges      takers, lookers, freers    play_test.go
//	        |                    |                        |
//	        v                    v                        v
//	   act_test.go         settle_test.go            look_test.go         the protocol
//	        |                    |                        |
//	        +--------------------+------------------------+
//	                             v
//	                       store_test.go       rows, versions, locks
//	                             |
//	                      ledger_test.go       what has to hold, after each commit
//
// The store is one with many writers, as PostgreSQL is (READ COMMITTED): a statement sees what was
// committed when it began; a row that is written, or asked for, is locked until its transaction
// ends; who inserts a row that somebody else inserts just now waits. In one play of seven it has
// one writer, as SQLite.
//
// A play is a while of trouble, then calm. In trouble nodes die at any statement, lose their
// membership and go on all the same; reports are repeated; hand-outs are judged lost while their
// workers live; people cancel, edit and replay anything, send signals twice, submit tasks that wait
// for any other; retention deletes what is over. In calm all nodes take, look and give back until
// nothing is left to do.
//
// # What is checked
//
// After each commit the ledger holds what stands against the invariants W1 to W12 of
// docs/waiting.md, which it derives from steps and batches alone. In the end everything is over,
// and nobody waits. A deadlock is a breach.
//
// Bugs can be planted (waiting_test.go lists them): each leaves out one rule. A test shows that
// each is found, and so that the rule is needed. Races that luck hardly ever hits are played in
// every order of their statements (orders_test.go).
//
// # What is left out
//
// Packs and marks, ranks, group keys, limits, expiry (what expires counts as dead here), blobs, and
// that nodes hear of each other: docs/waiting.md says how they go together.
package waiting
