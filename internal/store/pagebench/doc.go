// Package pagebench measures what people read of a store with many tasks: lists by every filter,
// counts, one task and what is around it, statistics. It is for the stores' own benchmarks:
//
//	go test ./internal/store/sqlite -run '^$' -bench Pages -benchtime 1x
//
// [Fill] (fill.go, and fillpast.go for what is over) makes such a store, by the calls that nodes
// make: an installation that has been working for six days. [Run] (pages.go) reads it and tells how
// long each read took, as a table. It knows what Fill made by name: a store that was kept from one
// run to the next is filled anew when the names change.
package pagebench
