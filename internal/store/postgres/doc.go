// Package postgres keeps tasks in tables of PostgreSQL, which many nodes share: batch, pack and
// step are inserted once and only retention changes them, mark is only added to; span is the one hot
// table that changes. It is a room of
// the house that decides nothing: each method is one short transaction that checks its right again,
// as internal/store/contract/contract.go promises. The tables are those of package sqlite, which
// keeps them in a file for one node.
//
//	 Submit                         Take, Give, Free                    Settle, Act
//	   |                                  |                                 |
//	   v                                  v                                 v
//	batch (id: queue, rank, due)    span (id: batch, lo..hi, seq0,    step (batch, n, seq: outcome, what follows)
//	   | 1..n                             holder, token)                 its key is the fence: one outcome per hand-out
//	pack (batch, lo: 64 tasks) <----------| a run of tasks              running (batch, n, seq: token of an old hand-out)
//	task_key (queue, key), keyed                                        blob, log, log_size, edit (batch, n, ...)
//	                                                                    mark (batch, lo: how 64 tasks ended at their first hand-out)
//
//	lease (name: holder, token, until)    queue (name: configuration)    stat (queue: differences)
//	gate (queue: what may begin)          bucket, key_rule, key_owner (queue, key: the same of a key)
//	event (seq: what happened)            notifier (name: who is told)   large (name: a long text)
//	expiry (batch: when to look for tasks that nobody has begun in time)    hook (name: what others call)
//
//	wait (batch, n: what a task waits for)    signal (address, key: what was sent)    change (address: look there)
//	child_batch (batch: whose children its tasks are)    child_count (batch, n, run: how the children of a task stand)
//	dependency (batch, n, i: a task that another one waits for)    unseen (id: an end that may have come unseen)
//
//	history (minutes, at, worker, queue, stage: what was done)    history_change (what is not in it yet)
//
//	job_group (name: id, configuration, version)    seat (worker: node, capacity, used)
//	   | 1..n                                             | 1..n
//	job (grp, job: load, spec, version)             assignment (grp, job, worker: replica, token, state, version)
//
//	schedule (name: id, specification, version, cursor)     calendar (name: days)
//	   | 1..n                            | 1..n
//	era (schedule, version: what it was) fire (schedule, at: what came of a due time, and its task)
//
// # Parts
//
// [Store] is put together of parts, one for each noun. Each stands at the head of a file, with a
// comment that says what it keeps and which tables are its own; a table's owner is the part whose
// rules its rows follow, and who else writes it does so in the owner's way. A part embeds database,
// by which it makes its trips (tx.go), and names the parts that it calls. A transaction (tx) knows
// the database alone, so what it does with rows anybody may have it do.
//
//	part          head           what it does                                    which parts it calls
//	database      database.go    trips, the clock, who the store is, span ids
//	schema        migrate.go     makes the tables, before there is a Store
//	hints         notices.go     tells other nodes, and hears them
//	values        blobs.go       large contexts and results
//	partitioning  partition.go   makes partitions
//	submissions   submit.go      inserts tasks                                   hints, values, partitioning
//	spans         take.go        who holds which tasks, and what of them runs    hints
//	gates         begin.go       which tasks of queues with limits begin         hints
//	steps         settle.go      what becomes of tasks: reports and actions      hints, values, partitioning, submissions
//	waiting       look.go        ends waits, cancels children                    hints
//	leases        lease.go       memberships, claims, chores
//	queues        queue.go       configurations of queues                        values, gates
//	views         view.go        tasks and lists of them, as people read them    values
//	logs          log.go         logs of tasks and jobs
//	events        event.go       what happened
//	notifiers     notifier.go    who is told of it
//	hooks         hook.go        what other programs call
//	jobs          job.go         groups, jobs, seats, assignments                hints
//	schedules     schedule.go    schedules, calendars, fires                     hints, submissions
//	statistics    stat.go        counts of tasks, and the history
//	upkeep        prune.go       deletes what is kept no longer                  values, partitioning, gates, queues, events,
//	                                                                             jobs, schedules, statistics
//
// Store embeds the parts, so a method of a part is one of the Store. It embeds database besides:
// selectors of the shallowest depth win, so s.write is that one, and not one of twenty. Two parts
// may have a method of the same name as long as nobody asks a Store for it.
//
// # Transactions
//
// All run at READ COMMITTED and keep five rules. Rows are inserted in the order of their keys. Only
// settlements wait for spans, in the order of ids; whoever deletes, frees or gives back passes over
// what is locked (SKIP LOCKED), and tries again a beat later. A holder's write shares the row of
// its lease (FOR KEY SHARE): renewing it goes on, ending it waits. Facts are read by a later
// statement than the one that may have waited for a lock. A part of a statement that locks rows, or
// ends after so many, is materialised: a join may look at the other side of it again and again, and
// then it would find the next ones. After an unknown commit the same statement is repeated with the
// same ids.
//
// Statements travel together: what needs no answer in between goes in one trip (tx.go), and a trip
// without BEGIN is a transaction of its own. So Submit and Settle take one trip as a rule. They try
// what holds nearly always, that no batch stands already and that all reports are good, and look
// closer only when the database says no (submit.go, settle.go). Take needs two, because of the
// fourth rule (take.go).
//
// Rows go in as columns: one array for each, which unnest joins to rows again (columns.go); of the
// packs of tasks each row gets its part of such arrays, a thousand tasks to a statement (pack.go).
// Span ids are handed out by the block, so that they are known before the trip.
//
// # Packs
//
// The tasks of a batch stand in packs, up to 64 in a row, and are written once (pack.go). Who reads
// many reads packs; other statements ask the functions tasks(batch, low, high) and task(batch, n),
// which show tasks as rows and are no more than a part of the statement that asks. A row never
// outgrows its page, so a task is read at the cost of one. keyed says which tasks have a key.
//
// Retention takes tasks out of their packs, and what they had with them; survivors of a partition
// take their packs along (prune.go, retire.go). Who deletes a task locks its pack, who acts on one
// shares the lock (fact.go). A store of an earlier version is put into packs when it is opened
// (repack.go).
//
// # Marks
//
// The tasks of a batch with the numbers lo to lo + 63, lo a multiple of 64, are a pack. When a
// settlement has four or more plain outcomes of one pack (done, of the first hand-out, what
// pack.Fits takes), they go into one row of mark, which has a bit for each of the pack's numbers and
// their outcomes in its body. Everything else is a step.
//
// The outcome of a task at seq 0 stands either in a mark, with its bit set, or as a step: never in
// both, and never twice. At seq 1 and on the key of step is the fence alone. Whoever reads a task
// reads its newest step; if there is none and its bit is set, the mark's entry is that step: seq 0,
// final, attempt 1, of the stage for which the task was submitted. The view outcome shows all.
//
// What keeps the two apart is an advisory lock on the pack, which writes nothing to the disk:
//
//	who adds to a mark                has the lock alone, and then looks whether steps stand at seq 0;
//	                                  the bits must be clear (settlemark.go)
//	who inserts a step at seq 0       shares the lock, and then looks at the mark: settlements,
//	(settle.go, act.go, finish)       actions, the function finish
//
// Who wants packs alone never waits for them: those that others use get steps instead. And it asks
// for them when all is done that may wait for anybody. So whoever waits for a pack waits for one
// commit of a settlement, and a handler's transaction that has called finish and stays open holds
// up nobody but its own task. Shared locks are asked for in the order of packs, and as many as 256 by
// one transaction: who needs more, or finds the server's lock table full, locks all packs by one lock,
// which those who write marks share. Then it waits for their commits, and what they have to record
// meanwhile becomes steps. A server whose lock table is full of others' locks refuses what it must;
// settlements do with the one lock.
//
// A mark goes with the last of its pack's tasks; the bits of tasks that go before stay. When a whole
// partition goes, marks are judged by their last outcome.
//
// Nodes of the version before packs and marks are out of the cluster when the tables have changed:
// their memberships are ended, so they open the store again, which refuses them, and end; who does
// not gets no other lease (lease_knows_marks), and finds no table of tasks. Steps that stood then
// stay.
//
// # Waits
//
// A task that waits for a signal is in a span of its own whose rank and due time are never, and has
// a row of wait, which says at which seq the step stands that ends the wait (waiting.go, signal.go,
// look.go; docs/waiting.md says why). Whoever ends a wait, or an action that comes in its way, locks
// that row before anything but packs, and reads how the task stands in a later statement: so those
// who want the same come one after the other, and whoever comes second finds what the first has
// made of the task. Settlements insert waits and lock none.
//
// Locks are taken in the order packs, child counts, waits, signals, dependencies, spans, steps (by inserting
// them), running rows, keys, and within each in the order of keys. An action whose task begins to wait between the two
// statements begins anew, as it would lock a wait behind a span. A queue's tasks are deleted waits
// first.
//
// Settlements and signals insert a row of change in the transaction that may end a wait, and a look
// deletes it before it reads anything else: what is committed by then it sees, and what is
// committed later has left another change.
//
// # Children
//
// Who submits children (Report.Spawn, Submission.Under), and who ends some, inserts a row of change
// for each parent, with their number, at the address of the parent and its run, which child_batch
// has. Nothing else of the parent is touched, so those who end children of one parent wait for
// nobody. A look deletes such rows and adds them to child_count, behind the lock of the parent's pack;
// then it locks the wait, and reads in a later statement what is counted and what changes stand by
// then: so the look behind the last end sees all of them, and no look wakes too early (counted.go,
// look.go).
//
// A settlement asks for parents where a final report's batch has store.ChildBit in its id, and for
// children where a report ends badly. Both go in the same trip. Who adds children to a hand-out has
// its running row for himself, or else the span that gives the right; whoever ends a hand-out deletes
// the one and shares the other (under.go). What a worker's transaction ends the function finish
// counts.
//
// A task that ended badly leaves a change at which looks cancel its children, piece by piece, each
// in a transaction of its own (fall.go). What is over stays while its parent goes on (waitedfor.go).
//
// # Dependencies
//
// A task that waits for others has a row of dependency for each; it is parked with its batch, and
// leaves the span when it is woken, or acted upon. Who ends tasks asks by one statement, behind the
// one that says so, for which of them others wait, and leaves changes at their ends. A look notes
// how they ended, behind the locks of who waits, and reads in a later statement who waits for
// nobody any more. An end by a transaction that could not see who waits is found by looks that come
// back until no such transaction is in progress (afterend.go says why that is enough).
//
// # Keys
//
// Who has the row of a queue's gate lets its tasks begin, one after the other (begin.go). What is
// said of single keys stands in key_rule, and in the queue's row whether there is any; who writes
// rules, deletes those of pauses that are over, or changes limits locks the queue's row, and then
// the gate (keyrule.go). Settlements that hold keys lock the queue's row last of all, and no gate:
// who has that may wait for a running row that they have deleted.
//
// Rounds write rows down of whose keys they know nothing, where a span has tasks of several. Who
// counts by keys looks those up, and who lets tasks begin keeps them first; it waits for no row that
// somebody else has locked (keygate.go).
//
// # Jobs
//
// Who changes a group, its jobs or its assignments locks its row first and gives what changed the
// group's next version: versions are in the order of commits, so readers go on from the one that
// they know. Locks are taken in one order by all: groups by id, the lease that gives the right,
// seats by worker, and the row of job_head. What may change package rules/assign decides: one trip
// locks and reads what a call concerns, another writes back what changed (jobassign.go). What a
// deleted group leaves is nobody's, because its id is never used again, and Prune deletes it by and
// by.
//
// # Schedules
//
// Who fires schedules locks their rows, in the order of names, reads what has a row already, and
// writes the fires, the cursors and the tasks in a second trip: 500 schedules at a time cost no
// more trips than one. Who changes schedules or calendars locks the row of schedule_head before, so
// that changes wait for one another and look at all that they concern. Fires and eras carry the id
// of their schedule, as jobs that of their group. Fires are locked after tasks and schedules, in
// the order of their keys.
//
// # Time
//
// The store's clock is the database's (the function micros); a test gives another. batch, pack,
// keyed, mark and step are partitioned by batch id, which is time-ordered. Partitions are made ahead,
// and dropped when all of theirs is over, after what is not has moved into small ones (partition.go,
// retire.go). What somebody does meanwhile to tasks that are over puts that off (overtaken.go).
//
// # Counting
//
// Each transaction inserts what it changed into stat, a row for each queue; nobody waits for
// anybody. Once a minute the rows of a queue are added up to one, in pieces: so counting reads what
// came in the last minute and a row for each queue, and a minute costs what was done in it
// (stat.go). The sums over a queue are exactly what the tables hold, which makes counts cheap
// (count.go).
//
// What happened by the minute and by the hour is history: with stat each transaction inserts what
// it changed into history_change, one row, and every few seconds one node at a time adds these rows
// up (history.go).
//
// # Hints
//
// Nodes tell one another by NOTIFY, after the commit and together, what is ready, whose tasks were
// touched and which groups changed (notices.go). Hints may be lost: looking again every beat is the
// truth.
//
// # Trouble
//
//	what happens                                         what the caller gets
//	the server refuses a statement, or is away           an error; nothing was changed
//	the connection is lost while a commit is on its way  store.ErrUnknown: repeat with the same ids
//	the wait for a synchronous standby is cancelled      store.ErrUnknown, though PostgreSQL calls it a success with a warning
//	the disk is full                                     store.ErrFull; it recovers by itself
//	a lock, or a statement, takes too long               store.ErrBusy; nothing was changed
//	a failover                                           an error or two; then connections to the new primary
//	a former primary, or another cluster, answers        it is refused, with a sentence that says what to do (connect.go)
//
// A transaction that has begun runs to its end, whatever becomes of the caller's context, within
// Config.Timeout. What is done to leases ends by its context's deadline: it is asked again anyway,
// on another connection.
//
// Reads see commits that no standby has yet, and that a failover may take back. Those by which a
// node decides what it keeps, forgets or lets run (Stand, Board, Changes), and answers that
// something stood already, or that what is to be deleted is gone, go with a write: see confirm.
// Configurations are read without.
//
// A pooler that hands connections out by the transaction (PgBouncer) works with Config.Pooler:
// nothing is kept in a session then, and each transaction has its settings from its first trip.
package postgres
