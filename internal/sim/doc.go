// Package sim is the simulation of the whole house, tests only: several nodes, workers and people
// as ordinary goroutines in a synctest bubble, one store (the reference model), and one bus between
// them that one seed rules.
//
// # How a run goes
//
//	submitters   meddler    workers                 nodes                    store
//	(person)     (person)   (hand: worker.Worker)   (node: scheduler,        (model.Model,
//	    |            |          |                    dispatch.Dispatcher)     perhaps a planted bug)
//	    +------------+----------+--------------------------+----------------------+
//	                                      bus
//
// Everything that leaves a process is a message on the bus: calls of workers and people to nodes,
// calls of nodes to the store, their answers, its hints of what others did (in two worlds of
// three), the nodes' checks of one another, and the alarm clocks that begin a node's rounds. The
// bus waits until every goroutine in the bubble is blocked (synctest.Wait), sorts what was posted
// meanwhile by what it says, draws a fate for each message from its luck, and lets the next one
// arrive. So one thing happens at a time, each in an instant of its own, and a run hangs on nothing
// but its seed: the same seed leaves the same trace, to the nanosecond.
//
// # What goes wrong
//
// Messages are lost, late, or doubled; the store fails before the call, or after it (done, and the
// answer says unknown); it hangs, and its clock jumps; machines are killed, stopped in order,
// paused as by SIGSTOP, cut off in one direction or both; a second process of a node is started
// beside one that is paused; members are taken for dead while they live; tasks kill the processes
// that touch them. The store's clock may be up to an hour from everybody else's, and people drain
// nodes and workers, forced or not, and pause queues. There are three kinds of weather:
//
//	safety     any of it, at rates that differ from seed to seed (none at all included); then it ends
//	liveness   some of it; then one node, one worker and the store are healthy, and the rest is broken for good
//	calm       nodes die or are stopped, one after the other, and nothing else happens
//
// # What is checked
//
// After every act that may change facts, the ledger holds the facts in the store against what
// submitters, workers and meddlers know by themselves; it never asks a node. (Owners of claimed
// keys tell of it themselves.) Names are those of docs/DESIGN.md:
//
//	I1   what was acknowledged is stored, and stays: tasks, outcomes, cancellations
//	I2   one accepted outcome per hand-out; steps are only added; a final state stays (a replay aside); no action is done twice
//	I3   tokens only grow: of leases; of hand-outs, where the newer wins, and none goes out twice. Nothing is taken without a lease, nor
//	     given back that was taken again
//	I6   the times of two owners of a claimed key never overlap, and in the end every key has one. Nobody ends the membership of a
//	     process that is alive before its lease is over
//	I7   the store has what was submitted, each once, and nothing else; so, too, one final notice for each death in a queue that names a
//	     queue for them, and none otherwise; notices do not die
//	I8   contexts come byte for byte, in every stage
//	I9   no worker gets more than it asked for
//	I11  what is not final belongs to a span; when trouble ends, everything becomes final within minutes
//	I12  what a handler's own transaction wrote stands if and only if the outcome stands that it gave to it
//
// In one world of three, tasks have until an instant to be begun (ADR 51), and then also: a task of
// which a hand-out was written down never expires, nor one that its holder has handed out, nor any
// before its instant; an expired task does nothing more; when trouble ends, what is not begun in
// time expires within a lease and a few beats; and who waits for a task hears of its end.
//
// Also: no step without somebody who said or asked so; a refused report does not stand; a node is
// only told that its membership is gone when it is; in calm weather, no report of a live worker is
// refused that its node had time to write down, nothing is stamped by another clock than the
// store's, and what was drained or paused anywhere goes out nowhere.
//
// Counters of what should happen sometimes (a stale report is refused, a span is taken over, …)
// fail the test when a case never came up. A bank of planted bugs, most of them flaws that the
// protocol's rules mend, shows that the ledger sees them.
//
// In another world of three, a queue has limits (ADR 53), and then also: no more of its hand-outs
// are written down than may run, and none begins faster than its rate says, whatever happens; no
// task of it leaves a node whose hand-out is not written down.
//
// In every second world stages wait for signals (docs/waiting.md), and then also: who waits is not
// handed out; a wait ends once, by a signal that was sent to its address and ended no other one, or
// when its time is over, and not before; and a hand-out tells which, at each attempt.
//
// In every second world tasks have children, two generations deep (ADR 59), and then also: children
// stand if, and only if, the outcome does that submitted them; none is added to what is over; a
// wait for them ends when all have ended, or the first has died, and tells them as they are; and
// only a parent that ended badly takes along what has not begun, but orphans.
//
// # When a seed fails
//
// The test prints the command that runs it again with its whole trace, and keeps the seed, with the
// end of the trace, in testdata; from then on it is run first. Seeds there outlive their bugs as
// long as runs of the same seed resemble each other; what they found has tests of its own in the
// room that was mended.
//
// # Limits
//
// A bubble can't tell a goroutine that waits for a lock from one that works. So no lock may be held
// during a call over the bus. Workers add luck of their own to pauses after failed or quick calls;
// their doors to the nodes repeat and wait for them instead. A pause holds a machine's messages and
// alarm clocks; timers inside its processes go on.
package sim
