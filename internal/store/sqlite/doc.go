// Package sqlite keeps tasks in tables: batch, pack and step are inserted once and only deleted;
// span is the one hot table that changes. It is a room of the house that decides nothing: each
// method is one short transaction that checks its right again, as
// internal/store/contract/contract.go promises. This is the store on SQLite: one file, one
// process.
//
//	 Submit                         Take, Give, Free                    Settle, Act
//	   |                                  |                                 |
//	   v                                  v                                 v
//	batch (id: queue, rank, due)    span (id: batch, lo..hi, seq0,    step (batch, n, seq: outcome, what follows)
//	   | 1..n                             holder, token)                 its key is the fence: one outcome per hand-out
//	pack (batch, lo: 64 tasks) <----------| a run of tasks              mark (batch, lo: which of a pack are plainly done)
//	keyed (key, batch, n)                                               running (batch, n, seq: token of an old hand-out)
//	task_key (queue, key)                                               blob, log, log_size, edit (batch, n, ...)
//
//	lease (name: holder, token, until)    queue (name: configuration)    stat (queue: counts)
//
//	expiry (batch: when to look for tasks that nobody has begun in time, see expiry.go)
//
//	history (minutes, at, worker, queue, stage: what was done)    history_change (what is not in it yet)
//
//	job_group (name: id, configuration, version)    seat (worker: node, capacity, used)
//	   | 1..n                                             | 1..n
//	job (grp, job: load, spec, version)             assignment (grp, job, worker: replica, token, state, version)
//
//	schedule (id: name, spec, version, next)    calendar (id: name, days)
//	   | 1..n                                         | of a version of a schedule
//	fire (schedule, at: outcome, task, open)    era (schedule, version: spec, since, until)
//
// # Parts
//
// The database (database.go, write.go) is what opens, locks, checks, reads and writes the file; it
// does not know what the tables mean. Store is made of parts over it, one for each noun, of which
// each keeps some tables and can be read alone: its struct says which. A part has its calls, which
// open a transaction or read a snapshot, and the few other parts that it calls, in this direction
// only:
//
//	spanCalls, stepCalls, queueCalls, viewCalls    ->  valueCalls
//	historyCalls                                   ->  viewCalls
//	upkeepCalls  ->  valueCalls, queueCalls, eventCalls, jobCalls, scheduleCalls, historyCalls
//	limitCalls, waitCalls, leaseCalls, logCalls, eventCalls, jobCalls, scheduleCalls  ->  none
//
// A conn is a connection, a tx an open write transaction; both have the verbs of statements and
// nothing of any noun. What is read of a noun is a value over a conn (c.spans() is a spanReads),
// what is written one over a tx (t.spans() is a spanWrites). Such a value is one pointer and costs
// nothing. A tx reads as its conn does; where it has writes of the same noun, those come first, and
// t.conn.spans() has the reads. Reads ask those that stand before them: members (packs, marks and
// steps), then facts, then children, waits, limits and expiries, then spans and views. Writes of
// one noun may ask for those of any other: who writes a step makes spans, ends waits and counts
// children with it, in one transaction.
//
// # Writing
//
// One goroutine, the writer, owns the only connection that writes. Calls wait in a bounded line;
// whatever waits when a transaction ends goes into the next one, so concurrent calls share an fsync
// (write.go). An operation that fails is rolled back with its companions, which then run again
// without it; so operations are closures that may run twice and set their answers anew. A call may
// be abandoned until it begins and not after. Transactions that changed nothing cost no fsync.
//
// What is inserted by the hundred goes through statements of 256, 32, 4 and 1 rows, kept prepared
// (insert.go). Settle reads each span and batch of its reports once, decides in Go, and lets the
// primary key of step refuse what somebody else has recorded (settle.go).
//
// # Packs and marks
//
// A row for each task and one for each outcome would be the larger part of what a task costs. So
// up to 64 tasks of a batch stand in one row, and plain outcomes (done, at the first hand-out,
// without much of a result) that come together for one pack stand in its mark: package pack says
// what the bytes are, pack.go and mark.go read and write them. All that is unusual has a step, as
// if there were no marks: the outcome of a first hand-out stands in a mark, with its bit set, or as
// a step, never in both. There is one writer, so it is enough to look: record looks at both.
//
// A task, with what became of it, is a member of its pack: members reads a run of them, fact one.
// Lists ask SQL first, which can look into bodies by functions (functions.go). Retention takes
// tasks out of packs, and deletes a pack and its mark with the last one (drop.go). Tasks of a file
// that was made before version 16 move into packs when it is opened, in pieces (repack.go).
//
// # Counting
//
// Each transaction adds what it changed to stat, which has a row for each queue. Deletions count
// negatively, so the sums are exactly what the tables hold. That makes counts cheap: final states
// come from the sums, and only tasks of spans that somebody holds or held are looked at one by one
// (count.go).
//
// What happened by the minute and by the hour is history: each transaction inserts what it changed
// into history_change, one row, and every few seconds Prune adds these rows up (history.go).
//
// # Waits and children
//
// A task that waits belongs to a free span that no take finds, and has a row of wait, which names
// an address: of signals, or of its children (waiting.go). Whose children the tasks of a batch are
// stands in child_batch; who ends one adds it to child_count in the same transaction, and leaves a
// change at the address if that ends the wait (children.go). A task that ended badly leaves one at
// which looks cancel its children, in pieces (fall.go).
//
// # Jobs
//
// Whatever changes a group, its jobs or its assignments takes the group's next version along, so
// readers go on from the version that they know. What may change package rules/assign decides: a
// call reads the rows that it concerns, lets them be changed there and writes back what did
// (jobassign.go). What a deleted group leaves is nobody's, because its id is never used again, and
// Prune deletes it by and by.
//
// # Schedules
//
// Fire is Submit with rows beside it: it compares the cursors of its schedules, writes a row for
// each due time, moves the cursors and inserts the tasks by the code of Submit, all in one
// operation. A fire of which something is to come has its schedule's name in the column open: so
// who watches finds it by an index, in the order of names, and a deleted schedule has none. What a
// deleted schedule leaves is nobody's, as with groups. Days are kept as long as a schedule or what
// one was has them, whatever their calendar says by now (schedulechange.go).
//
// # The log
//
// What was committed last stands in SQLite's log, PATH-wal, until it is moved into the file. That
// the log is missing says nothing: SQLite deletes it with the last connection, of this program or
// another. So each transaction that changes something counts itself, in the row of table store
// (commits), and the lock file notes the count after the commit and before anybody is answered. The
// log is emptied in two moves (wal.go): first everything but a last commit that changes the count
// alone, then that one page. So the count in the file without its log is that of a state which the
// file has completely. The row also says how many commits there were when the log was last emptied:
// the log goes on from there.
//
// With F the commits that the file alone has, A those of the file with its log, E the row's count
// at the last emptying, and L what the lock file notes, a process that dies leaves:
//
//	it dies                                         F            A        L
//	when the lock file is new, or gone              any          any      none
//	between commits                                 E <= F <= A  n        n
//	between a commit and its note                   E <= F <= A  n + 1    n
//	while everything but the count is moved         E <= F < A   n + 1    n + 1
//	between the moves                               n            n + 1    n + 1
//	after the second move; after a clean end        n + 1        n + 1    n + 1
//	broken: it leaves the log as it is              E <= F <= A  n        n
//	any of them, then another program moves the     A            A        as it was
//	log into the file and deletes it
//
// All of these open. What is refused, before SQLite may write to any of the files:
//
//	A < L            the log was deleted, cut or emptied, or an older copy of the file was put here
//	F > A            the log is older than the file: SQLite would put old pages into it
//	F < E            the log is newer than the file: pages between them are missing
//	another identity in the file alone: a log of another database; in both: another database
//
// A file in which SQLite's own move was cut off may be unreadable alone; then A decides. Tables of
// before version 5 do not count: their lock file says "open" or "closed", and one that says open,
// without a log, is refused, since nobody knows.
//
// # Trouble
//
// A full disk refuses what does not fit and changes nothing; a reserve is kept from submissions so
// that what runs can end (store.ErrFull). After a failed write or fsync, damage, or a file that
// vanished, shrank or was replaced, nothing works any more and the process must stop
// (store.ErrBroken); its files stay as they are. PATH.lock keeps a second process out and remembers
// the identity of the database, so that a missing or foreign file is refused, with a sentence that
// says what to do and loses nothing, and never served as an empty store (file.go). A file with two
// names (hard links) is refused, since lock and log stand beside one name only; on Linux the file
// itself is locked, too, because a mount can give it a second name that cannot be counted.
//
// Large values stand in files of their own (package blob). A blob is on the disk before the row
// that refers to it; Prune removes those whose row never came.
package sqlite
