// Package firing is the room of schedules: at each of their due times it submits a task, once,
// whoever lives and whoever dies.
//
// # The cursor
//
// A schedule's row has a cursor: its first due time that is not handled. Firing is one transaction
// that writes a row for every due time that the cursor passes over, submits the tasks of those that
// are fired, and moves the cursor on, if it still stands where the transaction's author saw it and
// the schedule is still the version that he read. So every due time is handled once, none is left
// out, and each leaves a row that says what came of it, whichever nodes fire, however many, and
// wherever one of them dies. Package internal/store has the tables.
//
//	                        on time; a misfire that is to be made up for
//	                      ┌──────────────────────────────────────────────> fired
//	                      │                                                  ^
//	cursor ─── due ───────┤ earlier tasks are not final, and it is to wait   │ they are; a backfill;
//	                      ├────────────────────────────────────> queued ─────┤ the one it follows ended
//	                      │ paused, or not to overlap                        │ well after all
//	                      ├────────────────────────────────────> skipped ────┤
//	                      │ too late                                         │
//	                      └────────────────────────────────────> missed ─────┘
//
// # A node
//
// Nothing of schedules is kept in memory. Each beat, and when its alarm rings, a node reads which
// are due (one look at an index), decides about those that are its own, purely (decide.go), and
// fires them in transactions of about a thousand rows. The alarm is set for the next due time
// within two beats. What others changed meanwhile is refused by the store, and read again.
//
// Claims share out the work and do nothing else: a node claims schedules by name while there are
// few, 256 shards of them, by a hash, when there are many. The node that has the chores fires what
// lies about for three beats, whosever it is.
//
// # The watcher
//
// Where somebody wants to know what becomes of a task its fire is watched: because tasks of the
// schedule are not to overlap, or others follow it, or there are to be events. The watcher looks
// every beat at the open fires of the node's schedules and at how their tasks stand. It adds the
// events (each has a key made of the facts), fires the followers (a row at the same due time), and
// only then closes the fire. All before the closing does nothing the second time, so a watcher that
// dies on the way is followed by one that does it all again. Last it fires what waits for its turn,
// in its order, as far as earlier tasks are final: such a row is open itself until it is fired.
//
// A schedule that follows several takes their fires turn by turn (join.go, relate.go); its row holds
// the turn, under a compare-and-set on its newest one. A death that stops a schedule pauses it in
// the transaction that closes the fire (stop.go). docs/followers.md has every step.
//
// # Edits
//
// An edit is made by whichever node is asked. What is due by then is first handled by what the
// schedule was; then the new version takes its place, if the cursor and the version are still those
// that were read. What the schedule was stays as an era, so that an audit knows what was to be
// when.
//
// # Parts
//
// The Firer is made of parts around one core, which has the store and the timetables. A part has a
// field for each other part that it needs; none needs itself by way of others.
//
//	claims     which schedules this node fires (claim.go)
//	reads      schedules as the store has them, with what decisions need (read.go)
//	writes     what comes of due times, and the tasks that are fired (fire.go); needs reads
//	checker    what is wrong with edits (check.go); needs reads
//	edits      what people make of schedules (edit.go); needs checker, reads, writes and claims
//	views      what people see: lists, runs, audits, previews (list.go); needs reads and claims
//	byHand     fires that people ask for (outofband.go); needs reads, writes and edits
//	followers  fires that follow others (follow.go, join.go); needs reads and writes
//	watcher    what becomes of tasks, and the end of fires (watch.go, stop.go); needs all but views
//	           and byHand
//
// The Firer itself runs the rounds, and has the alarm.
//
// # What always holds
//
//   - A due time has one row, and a fired row has one task: PK (schedule, at), and the task in the
//     same transaction.
//   - No due time before the cursor lacks a row. More than a thousand missed in a row share one,
//     which says how many they are.
//   - Nothing is fired before its time by the store's clock: a node whose idea of it runs ahead is
//     refused.
//   - Editing, pausing or deleting at the very due time gives none or one task.
//   - Waiting due times of a schedule are fired in their order.
//   - No more of its tasks are unfinished than Parallel allows, but for those that were started by
//     hand: the transaction that fires counts them.
//   - What a fire of a parent calls for is done once: no two rows of a follower take the same one.
//
// # When something breaks
//
//	the owner dies            another claims the schedule, or the chores find it: late by a lease at most
//	every node is down        what was missed is handled at the next start as misfire and its window say
//	the outcome is unknown    the same again: what was done is refused
//	the store's clock jumps   forward: what is passed over is late; back: nothing is due a second time
//	a queue refuses the task  the due time is skipped, with the reason; what it was to replace is
//	                          cancelled by then
package firing
