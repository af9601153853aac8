// Package keeper decides which tasks of a queue that has limits may begin now: how many at a time,
// in all and of each key, how fast, and in which order the tasks of a key.
//
// One node keeps such a queue, by a claim, and hands all of its tasks out, so all of this is
// decided in one memory, a [Keeper]. It is pure: no clock, no store, no lock. Its owner is the one
// who asks the store, and tells it what came of it:
//
//	k := keeper.New(limits, now)             // after the node got the claim: buckets begin empty
//	k.Read(rows, turns, now)                 // what runs by then, whoever handed it out
//	if k.May(id, key, now).OK() {            // a task that is ready
//		k.Begin(h, key, now, now+insertBy)   // it counts from here on
//		...                                  // the store writes its row, or refuses it:
//		k.Stands(h, now)                     // only now a worker sees it
//		k.Gone(h)                            // or: it never will
//	}
//	k.Ended(h, over, now)                    // whoever recorded its outcome says so
//	k.Looked(look, now)                      // and once in every beat, as that word may be lost
//
// ADR 52 has the rows, what each crash leaves, and why each rule is needed; internal/sim plays this
// very code against stores that lose answers and nodes that stand still.
package keeper
