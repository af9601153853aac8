package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is where a task stands. It is derived from facts and never stored.
type State string

const (
	Blocked State = "blocked" // waits for a signal, its children or other tasks
	Waiting State = "waiting" // due in the future
	Ready   State = "ready"   // due, and nobody has it
	Running State = "running" // handed out
	Done    State = "done"    // final: ended well
	// final: failed for good or out of attempts; as every final one kept for a while, and replayed
	// if somebody asks for it
	Dead      State = "dead"
	Cancelled State = "cancelled" // final
	Expired   State = "expired"   // final: not begun in time, see Submission.StartWithin
)

// States lists every state in the order of a task's life.
var States = []State{Blocked, Waiting, Ready, Running, Done, Dead, Cancelled, Expired}

// Final tells whether nothing but a replay can follow.
func (s State) Final() bool { return s == Done || s == Dead || s == Cancelled || s == Expired }

// Valid tells whether s is one of States.
func (s State) Valid() bool {
	switch s {
	case Blocked, Waiting, Ready, Running, Done, Dead, Cancelled, Expired:
		return true
	}
	return false
}

// Kind is what became of one hand-out. Its numbers are stored; never renumber.
type Kind uint8

const (
	KindDone Kind = 1 // reported: the task ended well
	KindNext Kind = 2 // reported: this stage ended, another follows
	// reported: failed, try again after the back-off or a given delay; charged
	KindRetry     Kind = 3
	KindSnooze    Kind = 4  // reported: not now, again after a delay; not charged
	KindFail      Kind = 5  // reported: failed for good
	KindRelease   Kind = 6  // reported: given back unrun; not charged
	KindLost      Kind = 7  // found: the worker fell silent; charged
	KindTimeout   Kind = 8  // found: the attempt passed its hard limit; charged
	KindCancelled Kind = 9  // asked for
	KindMoved     Kind = 10 // asked for: run now, another priority
	KindReplayed  Kind = 11 // asked for: a final task begins again
	KindRemoved   Kind = 12 // asked for: the tombstone of a deleted task
	KindExpired   Kind = 13 // found: nobody had begun the task in time
	KindEdited    Kind = 14 // asked for: another priority, time, context, …
	KindWoken     Kind = 15 // found: what the task waited for has come, or its time was over
)

var kindNames = [...]string{
	KindDone: "done", KindNext: "next", KindRetry: "retry", KindSnooze: "snooze", KindFail: "fail",
	KindRelease: "release",
	KindLost:    "lost", KindTimeout: "timeout", KindCancelled: "cancelled", KindMoved: "moved",
	KindReplayed: "replayed", KindRemoved: "removed",
	KindExpired: "expired", KindEdited: "edited", KindWoken: "woken",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Reportable tells whether a worker may report k; the others are found or asked for.
func (k Kind) Reportable() bool { return k >= KindDone && k <= KindRelease }

// Leaves is the state in which a final step of this kind leaves its task.
func (k Kind) Leaves() State {
	switch k {
	case KindDone:
		return Done
	case KindCancelled:
		return Cancelled
	case KindExpired:
		return Expired
	}
	return Dead
}

// Fits tells whether what is asked for from outside may happen to a task in a state: cancelling one
// that is not final, editing one that is neither final nor running, moving one that besides is not
// blocked, replaying one that is final, removing one that is not running.
func (k Kind) Fits(s State) bool {
	switch k {
	case KindCancelled:
		return !s.Final()
	case KindRemoved:
		return s != Running
	case KindMoved:
		return s == Waiting || s == Ready
	case KindEdited:
		return s == Blocked || s == Waiting || s == Ready
	case KindReplayed:
		return s.Final()
	}
	return false
}

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, bool) {
	for k := KindDone; int(k) < len(kindNames); k++ {
		if s != "" && kindNames[k] == s { // not all numbers are in use
			return k, true
		}
	}
	return 0, false
}

// MarshalText gives the word of the API.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText accepts the words of the API.
func (k *Kind) UnmarshalText(b []byte) error {
	v, ok := ParseKind(string(b))
	if !ok {
		return fmt.Errorf(
			"parse outcome %.40q: not one of done, next, retry, snooze, fail, release", b,
		)
	}
	*k = v
	return nil
}

// Outcome is what a handler says of one hand-out. Make it with Finish, Next, Retry, Snooze, Fail or
// Release.
type Outcome struct {
	Kind    Kind
	Stage   string          // of KindNext: the stage that follows
	Context json.RawMessage // what is passed on from here; nil keeps the present context
	Result  json.RawMessage // of KindDone and KindFail: kept for whoever asks
	// how long until the task is due again: of KindNext, of KindRetry (0 = by the queue's back-off)
	// and of KindSnooze
	Delay time.Duration
	Error string // for people; cut at 4,096 bytes
	// of KindNext, without a Delay: the stage begins when this is over; nil = when it is due
	Await *Await
	// of KindDone and KindNext: tasks that are submitted if the outcome is recorded, and not
	// otherwise: children of this one. At most MaxSubmissions
	Spawn []Submission
	// of KindRetry: for so long none of the tasks with the group key of this one begins, in its
	// whole queue; 0 = they may. A task without a group key holds nothing back
	HoldKey time.Duration
}

// Finish says that the task ended well. result may be nil, a json.RawMessage (kept byte for byte)
// or anything that encoding/json encodes; what it cannot encode makes the outcome a failure.
func Finish(result any) Outcome {
	raw, err := encode(result)
	if err != nil {
		return Fail(fmt.Errorf("encode result: %w", err))
	}
	return Outcome{Kind: KindDone, Result: raw}
}

// Next says that this stage ended and stage follows, with the given context (nil keeps the present
// one).
func Next(stage string, context any) Outcome {
	raw, err := encode(context)
	if err != nil {
		return Fail(fmt.Errorf("encode context: %w", err))
	}
	return Outcome{Kind: KindNext, Stage: stage, Context: raw}
}

// NextAfter is Next with a wait in between: the stage that follows begins d from now.
func NextAfter(d time.Duration, stage string, context any) Outcome {
	return after(d, Next(stage, context))
}

// after is an outcome with a wait, unless it became a failure.
func after(d time.Duration, o Outcome) Outcome {
	if o.Kind == KindNext {
		o.Delay = d
	}
	return o
}

// Retry says that the attempt failed and should be repeated after the queue's back-off. It is
// charged.
func Retry(err error) Outcome { return Outcome{Kind: KindRetry, Error: text(err)} }

// RetryAfter is Retry with a delay of the handler's choice.
func RetryAfter(d time.Duration, err error) Outcome {
	return Outcome{Kind: KindRetry, Delay: d, Error: text(err)}
}

// HoldingKey is a retry that pauses the group key of its task: for d, from when it is recorded,
// none of the key's tasks begins, in the whole queue and at all nodes; what runs goes on.
//
//	return task.RetryAfter(30*time.Second, err).HoldingKey(30 * time.Second)
//
// A pause that lasts longer stays. A task without a group key holds nothing back. Other outcomes
// stay as they are.
func (o Outcome) HoldingKey(d time.Duration) Outcome {
	if o.Kind == KindRetry {
		o.HoldKey = d
	}
	return o
}

// Snooze asks for the same stage again after d; no attempt is charged.
func Snooze(d time.Duration) Outcome { return Outcome{Kind: KindSnooze, Delay: d} }

// Fail says that the task failed for good: it goes to the dead letters.
func Fail(err error) Outcome { return Outcome{Kind: KindFail, Error: text(err)} }

// Release gives the task back unrun; no attempt is charged.
func Release() Outcome { return Outcome{Kind: KindRelease} }

func encode(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		if !json.Valid(v) {
			return nil, errors.New("not valid JSON")
		}
		return v, nil
	}
	return json.Marshal(v)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
