// Package caller asks a store as a node does, in tests of stores. The claims (package storetest)
// and the walks (package walk) share it, so that both report an outcome alike and read an answer
// alike:
//
//   - A [Handout] is one task in a worker's hands. It makes what a dispatcher makes of it: the row
//     that is written down, and the report of its outcome.
//   - A [Mirror] reads on in the changes of a group of jobs; [Seen] changes a schedule as it was
//     seen.
//   - texts.go has texts that a store must give back byte for byte.
//   - tell.go tells answers as text, without what differs from store to store.
//
// It decides nothing that a store decides, and knows no store.
package caller
