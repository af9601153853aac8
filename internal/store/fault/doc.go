// Package fault makes writes fail, for tests of what uses a store. A write fails in two ways: it did
// nothing and says so ([Before]); or it was done, and the answer was lost ([After]), which a caller
// learns as store.ErrUnknown and must repeat. Whoever gets both right loses nothing and does nothing
// twice, whenever a node or its database dies.
//
// [New] wraps a whole store, by a [Plan] that says which write fails how: [Script] lists the first
// ones, [Seeded] draws them. Tests that make the store's calls through a door of their own use the
// Faults alone, by the name of the call.
//
// Each new write of the contract (package contract) needs a method here, or it never fails.
package fault
