// Package rules decides what both SQL stores decide, once: they load rows, let a rule of this
// package say what follows, and write that down.
//
//	internal/store/sqlite            this package                    internal/store/sqlite
//	internal/store/postgres                                          internal/store/postgres
//
//	load: the rows that the    ->    rule: values in, values out  ->  write: insert and update
//	call concerns, under lock        (no I/O, no clock, no SQL)       what the rule answered
//
// A rule knows the types of internal/store and nothing of SQL. What it promises is part of the
// stores' contract (internal/store/contract): the rule's own tests are tables of rows and answers,
// and the contract's suite shows that each store loads what the rule needs and writes what it says.
//
// The reference model (internal/store/model) must never use this package. It decides the same
// questions in code of its own, so that a mistake in a rule is a difference between model and
// stores, which the suite finds, and not a mistake that all three share.
//
// To add a rule: find what both stores decide in a transaction; make a struct of what they have
// loaded by then; write the function; let both load, ask and write; and where they differed before,
// write the claim of the contract that says which was right.
//
// # Fires
//
// [Fires] decides a call of Fire: which of its parts are done, what rows they write, and where the
// cursors stand then. See store.Firing for what is asked, and contract.Schedules for the promise.
//
// # Tasks
//
// [Fact] is a task as its newest step left it: where it stands, when it may run, what nodes are told
// of it. [Act] decides what cancelling, moving, replaying and removing make of it.
//
// # Limits
//
// [Expired] says which free spans of a batch have tasks that nobody has begun in time, and when to
// look at the batch again. [Fact.Limit] is when a task expires.
//
// # Below
//
// Two packages below this one are rules, too: assign says who may be assigned where, and retain how
// many rows retention deletes at a time.
package rules
