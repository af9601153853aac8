package task

import (
	"encoding/json"
	"time"
)

// Await is what a task waits for before a stage begins: a signal, for so long at most. A task that
// waits is in nobody's hands; its state is Blocked.
type Await struct {
	Signal string // its name
	// Key is what whoever sends the signal names, too: any text, as an order's number. "" = the
	// signal is sent to this very task, by its id.
	Key     string
	Timeout time.Duration // the wait is over after it, without a signal; 0 = never
	Else    string        // the stage that begins then; "" = that which waits
}

// Signal is what ended a task's wait, as the hand-out of the stage that waited tells it.
type Signal struct {
	Name    string
	Payload json.RawMessage // as it was sent, byte for byte; nil = none
	By      string          // who sent it, by the server's word; "" = it does not know
	At      time.Time       // when it was sent
}

// Awaits is what a blocked task waits for, as it stands.
type Awaits struct {
	Signal string
	Key    string    // "" = the signal is sent to the task
	Until  time.Time // zero = for ever
	Else   string    // the stage that begins at Until; "" = that which waits
}

// NextOn is Next with a wait for a signal in between: the stage that follows begins once it has
// come, or is a.Else when it has not come in time. The hand-out tells which: Handout.Signal,
// Handout.TimedOut.
func NextOn(a Await, stage string, context any) Outcome { return on(a, Next(stage, context)) }

// NextOn is Next with a wait for a signal in between, as the function of this name has it.
func (t Type[A]) NextOn(a Await, args A) Outcome { return on(a, t.Next(args)) }

// on is an outcome with a wait for a signal, unless it became a failure.
func on(a Await, o Outcome) Outcome {
	if o.Kind == KindNext {
		o.Await = &a
	}
	return o
}
