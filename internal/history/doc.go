// Package history is what stores remember of what queues, their stages and workers did, by the
// minute and by the hour: how many tasks came and how they ended, how long they waited and ran.
//
// It works in three steps, and is the same for every store:
//
//	Changes   what one transaction changed. It is written as one row, in that transaction, so
//	          history says what the facts say; a transaction that never was leaves nothing.
//	Fold      adds up the rows of many transactions, every few seconds: one row for each minute and
//	          one for each hour of the store as a whole, of each queue, each stage and each worker
//	          that did something.
//	Answer    puts rows together to the periods that somebody asks for.
//
// Everything that is counted here can be found out anew from the facts, the tasks and their steps,
// as long as those are kept: an attempt counts as started in the minute in which it was handed out,
// once it has an outcome, and that outcome in the minute in which it was recorded.
//
// The package is pure: time comes in with what is counted, and it reads and writes nothing.
package history
