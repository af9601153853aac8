// Package assign decides what may become of assignments and seats: which replica of a job may have
// which worker, and which node a worker beats at. It is part of the rules that both SQL stores
// share (see package rules): pure, no I/O, no clock.
//
// A store reads the rows that a call concerns under the group's lock, puts them on a [Table], lets
// the verbs change them, and writes down what [Table.Close] says has changed:
//
//	rows of a group:            verbs, in one call:          changed rows:
//	jobs, assignments   Put ->  Assign, Observe, Forget  ->  Close: assignments, each with the
//	seats of workers                                         group's next version; Seat.Changed
//
// What always holds, whatever is asked and in whatever order the rows come: a worker has at most
// one replica of a job and no more load than its capacity, a replica is started or runs at one
// worker at most (a second one is only the one that it moves away from), versions only grow, and a
// token is given once. What each verb promises stands in the stores' contract
// (internal/store/contract).
package assign
