// Package wire is the JSON of the hot calls (submit, hold, report, beat, log), written by hand and
// shared by server and client, so that both sides agree on one text. Pure: no I/O, no clock.
//
// Every message has an Append, which writes it behind a byte slice, and a Parse, its inverse.
// Bodies of other calls go through [Strict], which gives encoding/json the same strictness; there a
// [Nullable] may be null.
//
// # What is accepted
//
// Requests are read strictly: one JSON value in valid UTF-8 and nothing behind it; known names
// only, in exact case, each once; the right types, and null is none of them; nothing nested deeper
// than 1,000. Integers are digits: 1.0 and 1e3 are refused. Escapes in strings are decoded; half a
// surrogate pair and NUL, which databases cannot keep, are refused. Answers are read leniently in
// one respect: unknown names are skipped, since fields may be added.
//
// Contexts and results are opaque. They must be one JSON value and are kept byte for byte from its
// first to its last character: duplicate names, 1e400 and half surrogate pairs inside are nobody's
// business here. null and absent are both nil.
//
// # Errors
//
// An [Error] names the place and what would be right ("body.tasks[3].queue: expected a string").
// The parsers keep no path while they read: a fault is an offset, and the place is found by reading
// once more. Whether names, sizes and combinations make sense is decided elsewhere
// (task.Submission.Check).
//
// # Memory
//
// A parsed context or result is a part of the body that was given: the body must not be written to
// afterwards, and it lives as long as one of them. Strings are copies, many of them into one block
// of at most 4 KiB, and equal to the string of the element before they are that string. Lists grow
// with what is really there and are refused beyond the limits of package task.
package wire
