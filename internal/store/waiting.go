package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rotahq/rota/task"
)

// Address is what tasks wait for, and where somebody looks when it changed. Signals arrive at a
// name at a task, or at a name with a key, which whoever sends and whoever waits agree on. A task
// and no name are the children that it has in one of its runs, or its End. The zero Address is what
// tasks wait for that wait for others, each for its own: somebody looks at the ends of those.
type Address struct {
	Task task.ID // zero: Key
	Name string
	Key  string
	End  bool // of Task: others wait for it
	// Run of the task, whose children those are: the seq behind its newest replay, 0 without one.
	// Children of a former run are listed, but nobody waits for them. Stores fill it in.
	Run int32
}

// ChildrenOf is the address of a task's children in a run.
func ChildrenOf(id task.ID, run int32) Address { return Address{Task: id, Run: run} }

// Children tells whether it is the address of children.
func (a Address) Children() bool { return a.Task != (task.ID{}) && a.Name == "" && !a.End }

// EndOf is the address at which somebody looks who waits for a task to end.
func EndOf(id task.ID) Address { return Address{Task: id, End: true} }

// String is the address as the stores keep it. No two addresses have the same one, since neither
// ids nor names have spaces.
func (a Address) String() string {
	switch {
	case a == Address{}:
		return ofOthers
	case a.End:
		return fmt.Sprintf("e %s", a.Task)
	case a.Children():
		return fmt.Sprintf("c %s %d", a.Task, a.Run)
	case a.Task != task.ID{}:
		return fmt.Sprintf("t %s %s", a.Task, a.Name)
	}
	return fmt.Sprintf("k %s %s", a.Name, a.Key)
}

// ofOthers is the zero Address.
const ofOthers = "d"

// ParseAddress is the inverse of Address.String.
func ParseAddress(s string) (Address, error) {
	kind, rest, ok := strings.Cut(s, " ")
	first, second, both := strings.Cut(rest, " ")
	switch {
	case s == ofOthers:
		return Address{}, nil
	case ok && !both && kind == "e":
		id, err := task.ParseID(first)
		return EndOf(id), err
	case ok && both && kind == "k":
		return Address{Name: first, Key: second}, nil
	case ok && both && kind == "t":
		id, err := task.ParseID(first)
		return Address{Task: id, Name: second}, err
	case ok && both && kind == "c":
		id, err := task.ParseID(first)
		run, bad := strconv.ParseInt(second, 10, 32)
		return Address{Task: id, Run: int32(run)}, errors.Join(err, bad)
	}
	return Address{}, fmt.Errorf("parse address %.100q: neither a task's nor a key's", s)
}

// Await is what a task waits for that goes on to another stage. Meanwhile its state is blocked: it
// belongs to a free span of its own whose rank and due time are Never.
type Await struct {
	Address Address // one with a Task names the task that waits
	First   bool    // of children: the first that is dead or expired ends the wait, too
	Until   int64   // when the wait is over without a signal; 0 = never
	Else    string  // the stage in which the task goes on then; "" = the one that waits
}

// Signal is a signal as it is sent.
type Signal struct {
	To Address
	// Key tells signals to one address of a task apart: the same one twice counts once. Empty where
	// To has no task: there the address does.
	Key     string
	Payload Value // never a blob
	By      string
	Keep    int64 // microseconds for which it stands; 0 = until its task is deleted
}

// Signalled answers a Signal.
type Signalled struct {
	Now       int64
	Found     bool    // there is such a task; true when To has none
	Final     bool    // the task is over: nothing was written
	Full      bool    // MaxOpenSignals stand at the task: nothing was written
	Repeated  bool    // it stood already
	Delivered bool    // it has ended a wait, by now
	Ready     []Ready // queues of tasks that it woke
}

// MaxOpenSignals is how many signals that have ended no wait may stand at a task.
const MaxOpenSignals = 1000

// LookRequest asks to end the waits that may end.
type LookRequest struct {
	// Addresses at which something changed; none = all at which changes are left, and the waits
	// whose time is over.
	Addresses []Address
	// waits that end at other addresses than ends of tasks, by itself; at those, dependencies that
	// are looked at; and children that are cancelled
	Limit int
}

// Looked answers a LookRequest.
type Looked struct {
	Now   int64
	Ended int     // waits
	Ready []Ready // queues of the tasks that were woken, by name
	More  bool    // there may be more to end at once
	// Cancelled are tasks that ended because their parent did, or because one did not end as it
	// should that they waited for.
	Cancelled []task.ID
	// NextUntil is when the next wait is over without a signal; 0 = none. Not after it if a wait
	// has begun meanwhile.
	NextUntil int64
}

// Woken is what ended a task's wait. It stands as JSON in the result of the step.
type Woken struct {
	Signal   string `json:"signal,omitempty"`    // the name
	Payload  Value  `json:"payload,omitempty"`   // byte for byte, so as base64
	By       string `json:"by,omitempty"`        // who sent it
	At       int64  `json:"at,omitempty"`        // when it was sent
	TimedOut bool   `json:"timed_out,omitempty"` // the time was over, none came
	// Children as they were counted; nil = it did not wait for children, or timed out
	Children *task.Children `json:"children,omitempty"`
	Others   bool           `json:"others,omitempty"` // the tasks have ended that it waited for
}

// Links say what a settlement or a take has to know of the tasks of a span besides their steps.
type Links uint8

// LinkWoken: a step of the span's tasks tells what woke them ([Loaded.Woken]).
const LinkWoken Links = 1
