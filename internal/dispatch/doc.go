// Package dispatch is the room between the store and the workers: it takes spans of tasks out of
// the store for workers that wait, hands the tasks out, watches over them, and settles what comes
// back.
//
// # The life of one task
//
//	Submit   joins the gather of submissions: one transaction for all that arrived meanwhile. When
//	         workers wait here, the new span is held by this node from the start and its tasks go
//	         straight to them; else it stays free in the store.
//	take     fetches free spans by rank, but only while somebody waits, and only as many tasks as
//	         there is demand for.
//	Hold     gives each ready task to the waiting worker with the most free capacity. A hand-out
//	         has a token (span, span token, seq) and a deadline in the coarse clock.
//	Report   joins the gather of settlements. The pure progress.Decide says what follows; the
//	         store's primary key says whether the report is the one that counts.
//	apply    what was recorded changes memory: the task ends, comes back at its rank, sleeps in the
//	         clock (up to a minute), or has left for a span of its own.
//
// # Memory and what is around it
//
// What the node knows and holds is one struct, memory: queues, spans and their tasks, workers. Its
// verbs, and those of what it is made of, are given what happened and when; they change what is
// remembered and leave behind, as effects, what is to be done: holds to answer, questions to the
// store, alarms to set. They wait for nobody, ask no clock and start nothing, which a test holds
// them to; stories in text, below testdata/memory, tell what they do.
//
// The Dispatcher is what is around it: the lock, the store, the clock, the callers. Each of its
// calls locks memory, lets it do one or two things, and lets the lock go by release, which begins
// what memory wants done. What must be asked of the store is asked between two such calls, so that
// memory may have gone on meanwhile: what comes back is held against what is there by then.
//
// # Parts
//
// The Dispatcher is made of parts around one core, which has the lock, memory and the store. A part
// has a field for each other part that it needs; the core knows of them only the errands that
// release begins.
//
//	views        how things stand: reads of the store, with what only memory knows
//	submissions  tasks and children come into the store
//	transfers    spans come into memory, by takes and hints, and go back
//	handouts     holds wait, and get complete answers; needs gates
//	gates        what has limits begins when the store says so; needs reloads
//	settlements  what became of hand-outs; needs submissions, queueCalls and reloads
//	reloads      where tasks stand that others have touched
//	wakes        tasks that wait go on
//	deadlines    attempts past their limit, and tasks not begun in time, that no node has in memory;
//	             needs settlements and gates
//	actions      what people do to tasks; needs views and reloads
//	queueCalls   configurations, and rules of group keys; follows what other nodes change of them
//	workerCalls  beats, and what operators say of workers; needs settlements
//
// The Dispatcher itself runs the rounds, which call all of them, and opens and closes the house.
//
// Memory has parts, too: each has the fields that its verbs are about, and what holds of them
// stands beside them.
//
//	batchIDs    new ids of batches, and the batches that submissions are sorted into
//	holdings    held spans, where a task is in them, and spent spans to delete
//	expiries    what expires some time
//	waitLooks   what to look at for tasks that wait
//	leftovers   what lost answers left behind in the store
//	giving      spans on their way back to the store
//	otherNodes  what nodes have told each other of room
//	configs     how up to date the configurations of queues are
//	queues, workers, edits, watchers: maps with the verbs that need no more than them
//
// Verbs of memory itself touch several of these.
//
// # Plain tasks
//
// Most tasks are handed out once and soon done. Such a plain task is a cell of its span and no more
// (cell.go); a run of them that is ready is one entry of its queue's heap, what one hold gets of a
// span is one parcel, and one alarm watches its deadline. A task that is tried again, has settings
// of its own or is spoken of by itself becomes an item, and stays one. So there are two ways: the
// quick one of plain tasks (admit, hand out, done) and the other, of items, which knows all cases.
// Whoever asks memory for an item gets one, and need not know what the task was.
//
// # Group keys
//
// A queue may have limits for each group key, or let keys take turns (task.Queue.PerKey, Fair).
// What is ready of it stands in lanes, one for each key that has something ready (lanes.go); its
// takes go by keys, too (takekeys.go). As long as memory has all that is ready, spans may have
// tasks of several keys; else takes sort them by key, and always where keys go in order or weigh:
// what is not sorted is given back then, for the next take to do so. The store decides what begins;
// what is known here of how a key stands beside its limits is advice (keygate.go).
//
// # Children
//
// Outcomes submit children along with them, and running tasks add some (children.go). A task that
// waits, for them or for a signal, is in no node's memory: the store says where its waits may end,
// and the node looks there, and each beat at what is left (waiting.go).
//
// # Tasks that wait for tasks
//
// A submission may say that tasks begin when others have ended, of its own call or such as stand
// (depend.go). They come in batches of their own, which no node holds before the store has woken
// them. Their hand-outs tell what the others left.
//
// # What holds
//
//   - Memory is a cache of facts: everything here can be lost at any moment and is read again from
//     the store by whoever takes the spans next.
//   - Nothing is handed out before its span's holding is committed, nothing is answered before its
//     commit.
//   - A token goes out once. What a round finds held, though memory misses it, goes back to the
//     store: it is taken with the next token before anything of it goes out (ADR 75).
//   - A task in memory is in exactly one place: ready heap, asleep in the clock, out with one
//     worker, or being settled. It is so as a plain task or as an item, never as both.
//   - A worker's load is the number of its hand-outs that it has not reported, counted from them;
//     it never passes the capacity that its beats state, nor, before the first one, what it asks
//     for.
//   - One lock guards all memory (core.mu). It is never held while the store works.
//   - What is written down has the store's time. Clocks of processes only measure how much of it
//     has passed (clock.go).
//   - What operators say at any node, drains and configurations, holds here a beat later: it stands
//     in leases that each beat of the node reads (HearStore).
//   - New tasks go to the nodes whose workers have the most free capacity; what nodes tell each
//     other for that is advice (share.go).
//   - Rank decides over memory and store: a ready task waits for a take while the store may have
//     one of an earlier rank (mustTake).
//   - No attempt is seen to run for more than two beats past its limit, whoever holds its task, or
//     nobody (overdue.go).
//   - A hint takes nothing from a worker: it makes the node look, and what the store says decides
//     (Hear).
//
// # Failure
//
// A store that fails leaves the hand-out as it was: the worker repeats its report. An unknown
// outcome is repeated with the same ids, and what a lost answer left behind in the store is found
// by the round (see Round). A process that was stopped for a while judges no worker until they all
// had time to speak again.
package dispatch
