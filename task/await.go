package task

import (
	"encoding/json"
	"time"
)

// Await is what a task waits for before a stage begins: a signal or its children, for so long at
// most. A task that waits is in nobody's hands; its state is Blocked.
type Await struct {
	Signal string // its name; "" = Children
	// Key is what whoever sends the signal names, too: any text, as an order's number. "" = the
	// signal is sent to this very task, by its id.
	Key string
	// Children makes the task wait for those that it has submitted, with this outcome and before;
	// "" = it waits for Signal.
	Children ChildrenEnd
	Timeout  time.Duration // the wait is over after it, whatever has not come; 0 = never
	Else     string        // the stage that begins then; "" = that which waits
}

// Signal is what ended a task's wait, as the hand-out of the stage that waited tells it.
type Signal struct {
	Name    string
	Payload json.RawMessage // as it was sent, byte for byte; nil = none
	By      string          // who sent it, by the server's word; "" = it does not know
	At      time.Time       // when it was sent
}

// SignalRequest is a signal to send: to a task, or to whoever waits for its name and key, now or
// while it is kept.
type SignalRequest struct {
	Task ID // zero = to whoever waits for Name and Key
	Name string
	// Key of a signal to a task makes it count once, however often it is sent; "" = each counts. Of
	// one to whoever waits it is what the task names as Await.Key, and it makes it count once, too.
	Key     string
	Payload json.RawMessage // one JSON value of at most 64 KiB; nil = none
	// Keep is how long a signal that nobody waits for yet stands, at least a second; 0 = 24 hours.
	// One to a task stands as long as the task.
	Keep time.Duration
}

// SignalReceipt answers a SignalRequest.
type SignalReceipt struct {
	Delivered bool // it has ended a wait; else it stands until somebody waits for it
	Repeated  bool // it had been sent before, and counts once
}

// Awaits is what a blocked task waits for, as it stands.
type Awaits struct {
	Others bool      // other tasks that have to end (View.After); nothing else is said then
	Signal string    // "" = children
	First  bool      // of children: the first that is dead or expired ends the wait, too
	Key    string    // "" = the signal is sent to the task
	Until  time.Time // zero = for ever
	Else   string    // the stage that begins at Until; "" = that which waits
}

// NextOn is Next with a wait for a signal or for children in between: the stage that follows begins
// once they have come, or is a.Else when they have not come in time. The hand-out tells which:
// Handout.Signal, Handout.Children, Handout.TimedOut.
func NextOn(a Await, stage string, context any) Outcome { return on(a, Next(stage, context)) }

// NextOn is Next with a wait in between, as the function of this name has it.
func (t Type[A]) NextOn(a Await, args A) Outcome { return on(a, t.Next(args)) }

// on is an outcome with a wait, unless it became a failure.
func on(a Await, o Outcome) Outcome {
	if o.Kind == KindNext {
		o.Await = &a
	}
	return o
}
