// Package storetest shows that a store keeps its contract: the claims (claims_*.go) are scenes, one
// for each promise, that say what is done to a fresh store and what it must answer. With them go
// random walks (walks.go), on which a store must answer what the model answers.
//
// A store's own tests call [Run] with a function that opens it, and with model.Reference. To add a
// claim begin with suite.go, which has what all scenes share, and with the claims of a noun nearby;
// then plant the bug that it is to find in the model (model/bugs_*_test.go).
//
// Read about the stores' tests in this order:
//
//	contract   what a store promises: interfaces and prose
//	storetest  a scene for each promise, and all that a store must pass: [Run]
//	walk       random steps, after which a store is compared with the model
//	model      the contract as a simple program; its tests plant bugs that the two above find
//	caller     what scenes and walks share: what asks a store as a node does
//	fault      writes that fail in both ways
//	pagebench  what people read of a store with many tasks, and how long it takes
package storetest
