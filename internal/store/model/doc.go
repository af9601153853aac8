// Package model is the stores' contract (package contract) as a simple program: maps, one lock, and
// a linear scan for every question. Stores are compared with it, and it is the store of tests of the
// rooms above, where it keeps everything in memory.
//
// One file has one noun, as the contract's interfaces do: model.go has what all files share and
// what is submitted, spans.go who has which tasks, steps.go what becomes of them, waiting.go,
// children.go and depend.go what tasks wait for, begin.go, bykey.go and keyrule.go the limits,
// jobs.go and jobseats.go jobs and their workers, schedules.go and fires.go what is due when. A
// [Model] is one type, as a store is: what one noun does in a transaction changes what others have.
//
// It decides in code of its own, never by package rules, which both SQL stores share: a mistake
// there is to be a difference from here. So it must be plain enough to be believed when it is read
// beside the contract.
//
// Its tests run the suite (package storetest) on it, and plant bugs in it (bugs_*_test.go): a wrong
// model must break the claim that says so, and leave another trace on a walk (package walk). They
// are here and not with the suite because what they break is between the model's own maps.
package model
