// Package store holds the store's types: what its transactions are given and what they answer.
// Pure: no I/O, no clock.
//
// Packages sqlite and postgres below this one keep the tables, and package storetest holds both to
// one contract (contract/contract.go says what each call promises).
//
// Times are microseconds since 1970 UTC, by the store's clock. The tables behind these values are
// described in docs/DESIGN.md; in short:
//
//	batch    insert-only     what the tasks of one gathered submission share: queue, rank, due
//	task     insert-only     (batch, n): stage, context, key
//	step     insert-only     (batch, n, seq): the outcome of one hand-out, and what follows from it;
//	                         plain outcomes may stand together in a mark (package pack)
//	span     mutable         a run lo..hi of one batch's tasks: holder, token
//	running  insert/delete   hand-outs older than about a second
//	lease    mutable         a right that ends by itself: name, holder, token, until, value
//	expiry   mutable         when to look for tasks of a batch that nobody has begun in time
//	wait     mutable         what a blocked task waits for: the step at its seq ends the wait
//	signal   insert-only     what was sent; it ends one wait at most
//	change   insert/delete   an address at which somebody has to look
//	child_batch  insert-only whose children the tasks of a batch are
//	child_count  mutable     how the children of one run of a task stand
//	dependency   mutable     a task that another one waits for, and how it ended
//
// A task belongs to the span whose seq0 equals the base of the task's newest step (no step: 0), as
// long as that step is not final (base = Final).
package store

import (
	"errors"

	"github.com/rotahq/rota/task"
)

// Errors that a store answers with. Everything else means: nothing was changed, and the text says
// why.
var (
	// ErrUnknown: the commit may or may not have happened. Repeat the same call with the same ids.
	ErrUnknown = task.ErrOutcomeUnknown
	// ErrFull: no room on the disk; nothing was changed.
	ErrFull = task.ErrFull
	// ErrNotFound: no such task, queue or lease.
	ErrNotFound = task.ErrNotFound
	// ErrConflict: the thing is not in a state that allows it.
	ErrConflict = task.ErrConflict
	// ErrStale: somebody else changed what a change was made from; nothing was changed. Make it
	// again from what stands.
	ErrStale = errors.New("changed meanwhile")
	// ErrBroken: the store can't be trusted any more (failed fsync, damaged or vanished file). The
	// process must stop.
	ErrBroken = errors.New("store is broken")
	// ErrBusy: too much waits already; nothing was changed. Try again in a moment.
	ErrBusy error = unavailable("overloaded")
	// ErrDraining: the node is to take no tasks; nothing was changed.
	ErrDraining error = unavailable("node is draining, ask another one")
	// ErrNotYet: the node has not looked at the others since it joined; nothing was changed. Try
	// again in a moment.
	ErrNotYet error = unavailable(
		"this node has just joined, and has not looked at the others yet")
	// ErrHeld: another node holds the task, and has not given it up; nothing was changed. Try again
	// in a moment.
	ErrHeld error = unavailable("it has not given it up yet, try again in a moment")
	// ErrOutOfReach: no connection to the store is to be had, or this node is no member of it now;
	// nothing was changed.
	ErrOutOfReach error = unavailable("store is out of reach")
	// ErrClosed: the store was closed.
	ErrClosed error = unavailable("store is closed")
)

// unavailable is an error that is a task.ErrUnavailable, too.
type unavailable string

func (u unavailable) Error() string { return string(u) }

// Is tells whether target is what all of them are.
func (u unavailable) Is(target error) bool { return target == task.ErrUnavailable }

// InlineLimit is the size in bytes up to which a context or result stands in its row.
const InlineLimit = 4096

// LogLineMin is how many bytes a line of a log counts at least, so that blank ones are bounded,
// too.
const LogLineMin = 4

// Value is a context or a result: nil for none, JSON text kept byte for byte, or, when it begins
// with a NUL (which no JSON text does), the name of the blob that holds the text.
type Value []byte

// Ref makes the value that refers to a blob.
func Ref(blob string) Value { return append(Value{0}, blob...) }

// Blob is the name of the blob that v refers to, and whether it refers to one.
func (v Value) Blob() (name string, ok bool) {
	if len(v) == 0 || v[0] != 0 {
		return "", false
	}
	return string(v[1:]), true
}

// Holder is who may hold spans: a node under one membership lease. A node that starts again has
// another token, so it never mistakes its predecessor's spans for its own.
type Holder struct {
	Node  string
	Token int64
}
