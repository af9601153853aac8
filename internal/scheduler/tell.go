package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// Event is something that people want to know.
type Event struct {
	Key    string // the same whenever the same change is told again
	Kind   string
	Node   string // which it is about; "" = the cluster
	Detail string
}

// Kinds of events.
const (
	NodeJoined      = "node_joined"
	NodeLeft        = "node_left"        // in order
	NodeOffline     = "node_offline"     // its lease ended without a word
	NodeUnreachable = "node_unreachable" // for the others
	NodeReachable   = "node_reachable"   // again; or back before anybody had ended its lease
	NodeDraining    = "node_draining"
	NodeUndrained   = "node_undrained"
	AlarmRaised     = "alarm_raised" // a node owns more keys than its threshold
	AlarmOver       = "alarm_over"
	BudgetBroken    = "budget_broken" // fewer nodes may die at once than is promised
	BudgetRestored  = "budget_restored"
)

// toldName is the row that says what people have been told. Only who does the chores writes it.
const toldName = chorePrefix + "told"

// told is what people have been told already. It is written after they were: who dies in between is
// followed by one who tells the same again, under the same key.
type told struct {
	Nodes   map[string]standing `json:"nodes"`
	Broken  bool                `json:"broken,omitempty"`  // the budget is
	Changes int64               `json:"changes,omitempty"` // of that, so far
	// nodes that left in order within a day, and have not come back: at most mostLeft
	Left map[string]departed `json:"left,omitempty"`
}

// mostLeft bounds the nodes that left which are remembered: nodes may have a new name at each
// start.
const mostLeft = 100

// departed is a node that left in order.
type departed struct {
	Address string `json:"address,omitempty"`
	Joined  int64  `json:"joined,omitempty"` // as the node said
	Down    int64  `json:"down"`             // when it was seen, by the store's clock
}

// standing is what people know of a node.
type standing struct {
	State   State `json:"state"`
	Token   int64 `json:"token"`   // of its membership
	Changes int64 `json:"changes"` // so far
	// since when it is offline, in microseconds by the store's clock
	Gone int64 `json:"gone,omitempty"`
	// what is remembered of one that leaves
	Address string `json:"address,omitempty"`
	Joined  int64  `json:"joined,omitempty"`
}

func (t told) equal(o told) bool {
	return t.Broken == o.Broken && t.Changes == o.Changes && maps.Equal(t.Nodes, o.Nodes) &&
		maps.Equal(t.Left, o.Left)
}

func toldOf(row store.Lease) told {
	var t told
	if err := json.Unmarshal(row.Value, &t); err != nil {
		return told{}
	}
	return t
}

// news tells people what has changed, once for the whole cluster. It is for who does the chores.
type news struct{ *core }

// told is what there is to tell of a view. A store with one process has no fault budget.
func (n *news) told(v *view) told {
	t := told{
		Nodes: map[string]standing{}, Broken: !n.conf.Alone &&
			v.budget.Broken(), Changes: v.told.Changes,
	}
	if t.Broken != v.told.Broken {
		t.Changes++
	}
	for _, m := range v.members {
		was, known := v.told.Nodes[m.Name]
		is := standing{
			State: m.State, Token: m.token, Changes: was.Changes, Address: m.Address,
			Joined: m.Joined,
		}
		if m.State == Offline {
			if is.Gone = was.Gone; is.Gone == 0 {
				is.Gone = v.now
			}
			if known {
				is.Token = was.Token // the store raises it when it ends a lease
			}
		}
		if is.State != was.State {
			is.Changes++
		}
		t.Nodes[m.Name] = is
	}
	t.Left = v.left()
	return t
}

// left are the nodes that left in order lately, as far as nobody was told of before.
func (v *view) left() map[string]departed {
	left := map[string]departed{}
	for name, l := range v.told.Left {
		if v.find(name) == nil && l.Down+buried.Microseconds() > v.now {
			left[name] = l
		}
	}
	for name, was := range v.told.Nodes {
		if v.find(name) == nil && was.State != Offline {
			left[name] = departed{was.Address, was.Joined, v.now}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(left), func(a, b string) int {
		return cmp.Or(cmp.Compare(left[b].Down, left[a].Down), cmp.Compare(a, b))
	})[min(mostLeft, len(left)):] {
		delete(left, name)
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// tell tells people what has changed since they were told last. Whoever does the chores calls it,
// so that each change is told once: when the answer to a write was lost the next one tells it
// again, and it stands once all the same.
func (n *news) tell(ctx context.Context, v *view) error {
	after := n.told(v)
	if after.equal(v.told) {
		return nil
	}
	beat, err := n.conf.Leases.Beat(ctx, nil, n.conf.TTL, toldName)
	if err != nil {
		return fmt.Errorf("read what was told: %w", err)
	}
	for _, row := range beat.Leases {
		if row.Name == toldName && !toldOf(row).equal(v.told) {
			return nil // somebody has told of more since that round; the next one knows it
		}
	}
	if list := changes(v.told, after); len(list) > 0 {
		if err := n.conf.Tell(ctx, list...); err != nil {
			return fmt.Errorf("tell of %d changes: %w", len(list), err)
		}
	}
	value, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("write down what was told: %w", err)
	}
	if _, err := n.conf.Leases.AcquireAll(
		ctx, toldName, []store.Lease{{Name: toldName, Value: value}}, forever, math.MaxInt64,
	); err != nil {
		return fmt.Errorf("write down what was told: %w", err)
	}
	return nil
}

// changes are the events between two tellings.
func changes(before, after told) (list []Event) {
	names := map[string]bool{}
	for name := range before.Nodes {
		names[name] = true
	}
	for name := range after.Nodes {
		names[name] = true
	}
	for _, name := range sorted(names) {
		was, is := before.Nodes[name], after.Nodes[name]
		kind := change(was, is)
		if kind == "" {
			continue
		}
		of := is
		if is.State == "" {
			of = standing{Token: was.Token, Changes: was.Changes + 1}
		}
		list = append(list, Event{
			Key: fmt.Sprintf("%s/%s/%d/%d", kind, name, of.Token, of.Changes), Kind: kind,
			Node:   name,
			Detail: fmt.Sprintf("it was %s, it is %s", orGone(was.State), orGone(is.State)),
		})
	}
	if after.Broken == before.Broken {
		return list
	}
	e := Event{Kind: BudgetBroken, Detail: "fewer nodes may die at once than is promised"}
	if before.Broken {
		e = Event{Kind: BudgetRestored, Detail: "as many nodes may die at once as is promised"}
	}
	e.Key = fmt.Sprintf("%s/%d", e.Kind, after.Changes)
	return append(list, e)
}

// change is the kind of event that leads from one standing to another, and "" when there is none to
// tell.
func change(before, after standing) string {
	switch was, is := before.State, after.State; {
	case was == is, was == Offline && is == "": // the dead are forgotten without a word
		return ""
	case is == "":
		return NodeLeft
	case is == Offline:
		return NodeOffline
	case is == Unreachable:
		return NodeUnreachable
	case was == "", was == Offline && before.Token != after.Token:
		return NodeJoined
	case was == Unreachable, was == Offline:
		return NodeReachable
	case is == Draining:
		return NodeDraining
	case was == Draining:
		return NodeUndrained
	}
	return ""
}

func orGone(s State) State {
	if s == "" {
		return "not there"
	}
	return s
}
