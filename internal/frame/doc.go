// Package frame is the binary form of the hot calls (submit, hold, report, beat) on a stream,
// shared by server and client as package wire is for their JSON. Pure: no I/O, no clock.
// docs/stream.md describes it byte for byte.
//
// # Messages
//
// A message is a request's id, a [Kind] and a body. It travels in one or more pieces of at most
// [MaxPiece] bytes, each behind a [Header]; all but the last say that more of it follows, and
// pieces of other messages may stand between them, so that a long message holds up no short one.
//
// # Bodies
//
// Numbers are varints, as package encoding/binary writes them, signed ones in zigzag. A text is its
// length and its bytes. A list begins with its length; its elements begin with a number whose bits
// say which of their fields follow, so that what is usual costs nothing: the queue and the stage of
// the task before, the id behind the one before. Of a hand-out's token only what differs from the
// one before is written. Contexts and results stand as they are.
//
// A beat comes once in seconds: its body is the JSON of package wire.
//
// # What is accepted
//
// What package wire would accept with the same meaning, and nothing else: texts are UTF-8 without
// NUL, contexts and results one JSON value each, lists no longer than there. Errors are wire's,
// with the places that the same fault has in JSON: a [wire.Error].
//
// # Memory
//
// As in package wire, contexts and results are parts of the body, and strings copies. What a list
// takes is bounded by what its elements bring: at most [ItemCost] bytes for each, beside the bytes
// of the body; [Items] says how many there will be, before anything is read. Only children in reports
// are counted by whoever has read them.
package frame
