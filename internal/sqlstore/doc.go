// Package sqlstore keeps tasks in tables: batch, task and step are inserted once and only deleted; span is the one hot table that
// changes. It is a room of the house that decides nothing: each method is one short transaction that checks its right again, as
// internal/storetest/contract.go promises. This is the store on SQLite: one file, one process.
//
//	 Submit                         Take, Give, Free                    Settle, Act
//	   |                                  |                                 |
//	   v                                  v                                 v
//	batch (id: queue, rank, due)    span (id: batch, lo..hi, seq0,    step (batch, n, seq: outcome, what follows)
//	   | 1..n                             holder, token)                 its key is the fence: one outcome per hand-out
//	task (batch, n: stage, context) <-----| a run of tasks              running (batch, n, seq: token of an old hand-out)
//	task_key (queue, key)                                               blob, log, log_size (batch, n, ...)
//
//	lease (name: holder, token, until)    queue (name: configuration)    stat (queue, minute: differences)
//
// # Writing
//
// One goroutine, the writer, owns the only connection that writes. Calls wait in a bounded line; whatever waits when a transaction
// ends goes into the next one, so concurrent calls share an fsync (write.go). An operation that fails is rolled back with its
// companions, which then run again without it; so operations are closures that may run twice and set their answers anew. A call may be
// abandoned until it begins and not after. Transactions that changed nothing cost no fsync.
//
// What is inserted by the hundred goes through statements of 64, 8 and 1 rows, kept prepared (insert.go). Settle reads each span and
// batch of its reports once, decides in Go, and lets the primary key of step refuse what somebody else has recorded (settle.go).
//
// # Counting
//
// Each transaction adds what it changed to stat: one row per queue and minute. Deletions count negatively, in the row of minute 0 into
// which old minutes are added up, so the sums over a queue are exactly what the tables hold. That makes counts cheap: final states
// come from the sums, and only tasks of spans that somebody holds or held are looked at one by one (count.go).
//
// # Trouble
//
// A full disk refuses what does not fit and changes nothing; a reserve is kept from submissions so that what runs can end
// (rows.ErrFull). After a failed write or fsync, damage, or a file that vanished, shrank or was replaced, nothing works any more and
// the process must stop (rows.ErrBroken). PATH.lock keeps a second process out and remembers the identity of the database, so that
// a missing or foreign file is refused, with a sentence that says what to do, and never served as an empty store (file.go).
//
// Large values stand in files of their own (package blob). A blob is on the disk before the row that refers to it; Prune removes those
// whose row never came.
package sqlstore
