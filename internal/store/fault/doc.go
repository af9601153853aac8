// Package fault is the store as one node reaches it, for tests of what uses a store: a [Door], which
// can be cut off and restored, fails, is slow, counts its calls, and stays shut when its node is
// dead.
//
// A call fails in two ways: it did nothing and says so ([Before]); or it was done, and the answer
// was lost ([After]), which a caller learns as store.ErrUnknown and must repeat. Whoever gets both
// right loses nothing and does nothing twice, whenever a node or its database dies. There may be no
// answer at all, too ([Hang]).
//
// Which calls fail says a function of their verbs ([Door.Fail]; [Each], [Nth]), or for all writes
// together a [Plan] ([New]): [Script] lists the first ones, [Seeded] draws them. A node that dies
// between two of its writes is told by [Door.CrashAt]. A story may do something right before a call
// or right after it, when nobody knows of it yet ([Door.Before], [Door.After]).
//
// Each call of the contract (package contract) stands here once, as a method of Door. A new one
// needs a line, in the file of its noun; a test finds the one that has none.
package fault
