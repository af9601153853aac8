// Package walk asks a store at random, and writes down a line for each answer: the trace. All of it
// is drawn from one seed, so two stores that keep the contract (package contract) leave the same
// trace. One of the two is the model; [Compare] says where they part, and how to replay it. A walk
// may come by what no scene of storetest thinks of.
//
// [Trace] (trace.go) takes the steps, with what all of them share, and learns from the answers
// alone. It watches the stores' invariants, too. One file has one noun: tasks.go what is submitted,
// taken and settled, act.go what people ask for, jobs.go and schedules.go what has luck of its own;
// audit.go reads everything and holds it against the invariants.
//
// A new call of the contract needs a step here. It has luck of its own, or none, if walks are to go
// where they went: which seeds show which planted bug is written down (internal/findings). Numbers
// that a store chooses are told by names in the order in which they appear, or not at all.
package walk
