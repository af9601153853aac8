package rules

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// CountEnd counts n children that ended in a state; -1 takes one back, as a replay of it does.
func CountEnd(c *task.Children, state task.State, n int64) {
	switch state {
	case task.Done:
		c.Done += n
	case task.Dead:
		c.Dead += n
	case task.Expired:
		c.Expired += n
	case task.Cancelled:
		c.Cancelled += n
	}
}

// CountAct counts what an action did to a child, that was in a state before.
func CountAct(c *task.Children, kind task.Kind, was task.State) {
	switch {
	case kind == task.KindReplayed:
		CountEnd(c, was, -1)
	case was.Final():
	case kind == task.KindCancelled, kind == task.KindRemoved:
		CountEnd(c, task.Cancelled, 1)
	}
}

// Falls tells whether a task that ended in a state lets its children fall: those that have not
// begun are cancelled, but for orphans.
func Falls(state task.State) bool { return state.Final() && state != task.Done }

// Fall says which children of a task that ended are still to be looked at: a change has it as its
// address, beside the addresses of store.Address, and nobody waits there.
type Fall struct {
	Parent task.ID
	Tree   bool    // all that hangs below is cancelled, also what has begun, and orphans
	After  task.ID // the child that was looked at last; zero = none
}

// String is the fall as an address.
func (f Fall) String() string {
	kind := "f"
	if f.Tree {
		kind = "ft"
	}
	return fmt.Sprintf("%s %s %s", kind, f.Parent, f.After)
}

// IsFall tells whether an address is that of a fall.
func IsFall(address string) bool { return strings.HasPrefix(address, "f") }

// ParseFall is the inverse of Fall.String.
func ParseFall(address string) (f Fall, err error) {
	parts := strings.Split(address, " ")
	if len(parts) != 3 || parts[0] != "f" && parts[0] != "ft" {
		return f, fmt.Errorf("parse address %.100q: not that of children to be cancelled", address)
	}
	f.Tree = parts[0] == "ft"
	if f.Parent, err = task.ParseID(parts[1]); err != nil {
		return f, err
	}
	if after := parts[2]; after != (task.ID{}).String() {
		f.After, err = task.ParseID(after)
	}
	return f, err
}

// Hits tells whether a child is cancelled: with the whole tree whatever has not ended; else what
// has not begun, as far as rows tell (Fact.Begun is to be known), and is no orphan.
func (f *Fall) Hits(child *Fact, orphan bool) bool {
	switch {
	case child.Base == store.Final:
		return false
	case f.Tree:
		return true
	}
	return !orphan && child.Running == nil && !child.Begun
}

// Of is the action that cancels a child.
func (f *Fall) Of(child task.ID) store.Action {
	why := "parent %s ended before this began"
	if f.Tree {
		why = "cancelled with all below %s"
	}
	return store.Action{
		ID: child, Kind: task.KindCancelled, Tree: f.Tree, Error: fmt.Sprintf(why, f.Parent),
	}
}
