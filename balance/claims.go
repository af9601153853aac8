package balance

import (
	"cmp"
	"fmt"
	"slices"
)

// Beats after which an unowned key may be claimed by more than the nodes it was meant for.
const (
	LeftOver = 1 // by any node below its cap
	Orphaned = 3 // by any working node, whatever its cap
)

// Snapshot is what one node sees of all claims at one moment. It may be stale: a plan made of it is
// tried against leases, which refuse what no longer holds. The order of nodes and keys does not
// matter; names are unique.
//
// Each working node must be one that claims these keys. What is left to a node that never will
// claim it is unowned until it is an orphan, and is given back again a minute later. So keys that
// only some nodes claim are decided in a snapshot of their own.
type Snapshot struct {
	Self    string // the node that asks
	Nodes   []Node // all members, this one included
	Keys    []Key  // all that exist; a claim on a key that no longer exists is simply released
	Alarmed bool   // this node's alarm was raised and is not over
	Limits  Limits
}

// Node is a member.
type Node struct {
	Name      string
	Weight    int  // how much it takes beside the others; default 1, at most MaxWeight
	Tolerance int  // n: how many nodes may die at once; default 1
	Alarm     int  // M: the alarm is raised above this many keys; default 0 = never
	Working   bool // takes part: neither draining nor unreachable. S counts these
}

// Key is something that exactly one node must look after.
type Key struct {
	Name  string
	Owner string // holder of its lease, working or not; empty = unowned
	// of an owned key: it moved by choice within the last minute, and is not to move by choice
	// again
	Resting bool

	Free  int  // of an unowned key: whole beats since it is, or since it was first seen
	Given bool // of an unowned key: its last owner gave it back by choice
	// of an unowned key: this node had it lately and could not look after it, so others are to try
	// first
	Failed bool

	// Pinned is the node that a person gave the key to; empty = none, or that is over. While that
	// node works the key is its own, whatever its cap: it claims it, no other does, whoever else
	// owns it gives it back, and it never moves by choice.
	Pinned string
}

// Limits of what a node does in one beat.
type Limits struct {
	Rebalance Rebalance // default RebalanceAuto
	Claim     int       // keys claimed at most, orphans aside; default 0 = no limit
	// keys given back by choice at most; default 0 = an eighth of what it owns, at least 4
	Release int
}

// Rebalance says when a working node gives keys back.
type Rebalance uint8

const (
	RebalanceAuto   Rebalance = iota // above its share, while another is below
	RebalanceManual                  // above its cap; below that a person decides
)

// Plan is what a node does now.
type Plan struct {
	Owned  int // X: keys that this node owns
	Share  int // what it is to own in the end: its target or one less
	Target int // T
	Cap    int // N

	Claim   []string  // unowned keys to claim, in this order
	Release []string  // keys to give back after their current work, in this order
	Refused []Refusal // unowned keys that this node leaves, sorted by key
	// Unpinned are those of Claim that a person gave to another node, which did not take them: that
	// decision is over.
	Unpinned []string
	Alarm    Alarm
}

// Refusal is an unowned key that is not claimed, and why.
type Refusal struct {
	Key    string
	Reason Reason
	For    string // RefusedLeft: the node that it is left to
}

// Reason is why a node does not claim an unowned key.
type Reason uint8

// Reasons of a refusal.
const (
	RefusedIdle   Reason = iota + 1 // this node is not working
	RefusedLeft                     // it is another's for now
	RefusedCap                      // this node owns as many as it may
	RefusedLimit                    // this node has claimed as many as it may in one beat
	RefusedFailed                   // this node had it lately and could not look after it
)

func (r Reason) String() string {
	switch r {
	case RefusedIdle:
		return "this node is not working"
	case RefusedLeft:
		return "left to a node below its share"
	case RefusedCap:
		return "this node is at its cap"
	case RefusedLimit:
		return "this node claims no more in one beat"
	case RefusedFailed:
		return "this node failed at it"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Alarm is a change of a node's alarm.
type Alarm uint8

// Changes of an alarm. The zero value is no change.
const (
	AlarmRaised Alarm = iota + 1 // the node owns more than its threshold
	AlarmOver                    // it does not any more
)

func (a Alarm) String() string {
	switch a {
	case 0:
		return "unchanged"
	case AlarmRaised:
		return "raised"
	case AlarmOver:
		return "over"
	}
	return fmt.Sprintf("Alarm(%d)", uint8(a))
}

// Claims decides what the snapshot's own node claims, gives back and leaves. The package comment
// says by which rules, and what comes of it when every node does so.
func Claims(s Snapshot) Plan {
	c := seated(s)
	at, working := c.at[s.Self]
	if !working {
		return idle(s)
	}
	self := &c.seats[at]
	p := Plan{Owned: self.owned, Target: self.goal, Cap: self.limit}
	p.Alarm = alarm(self.owned, self.Alarm, s.Alarmed)
	p.Release = c.release(s, at)
	p.Claim, p.Unpinned, p.Refused = c.claim(s, at)
	p.Share = self.share
	return p
}

// idle is the plan of a node that does not work: it gives everything back.
func idle(s Snapshot) (p Plan) {
	for _, k := range s.Keys {
		switch k.Owner {
		case "":
			p.Refused = append(p.Refused, Refusal{Key: k.Name, Reason: RefusedIdle})
		case s.Self:
			p.Release = append(p.Release, k.Name)
		}
	}
	p.Owned = len(p.Release)
	slices.Sort(p.Release)
	slices.SortFunc(p.Refused, func(a, b Refusal) int { return cmp.Compare(a.Key, b.Key) })
	threshold := 0
	for _, n := range s.Nodes {
		if n.Name == s.Self {
			threshold = n.Alarm
		}
	}
	p.Alarm = alarm(p.Owned, threshold, s.Alarmed)
	return p
}

func alarm(owned, threshold int, alarmed bool) Alarm {
	switch above := threshold > 0 && owned > threshold; {
	case above && !alarmed:
		return AlarmRaised
	case !above && alarmed:
		return AlarmOver
	}
	return 0
}

// claim chooses among the unowned keys: first those meant for this node, then others, each in its
// own order.
func (c *crew) claim(s Snapshot, at int) (claimed, unpinned []string, refused []Refusal) {
	free, self := c.place(s.Keys), &c.seats[at]
	var wanted []*candidate
	for i := range free {
		switch k := &free[i]; {
		case k.Failed && k.Free <= Orphaned:
			k.reason = RefusedFailed
		case k.seat == at, k.Free >= Orphaned:
			wanted = append(wanted, k)
		case k.pinned:
			k.reason = RefusedLeft
		case self.owned >= self.limit:
			k.reason = RefusedCap
		case k.Free < LeftOver || k.Given:
			k.reason = RefusedLeft
		default:
			wanted = append(wanted, k)
		}
	}
	c.order(wanted, at)
	for _, k := range wanted {
		switch {
		case k.Free >= Orphaned, k.pinned && k.seat == at:
		case self.owned+len(claimed) >= self.limit:
			k.reason = RefusedCap
		case s.Limits.Claim > 0 && len(claimed) >= s.Limits.Claim:
			k.reason = RefusedLimit
		}
		if k.reason != 0 {
			continue
		}
		claimed = append(claimed, k.Name)
		if k.pinned && k.seat != at {
			unpinned = append(unpinned, k.Name)
		}
	}
	for i := range free {
		switch k := &free[i]; k.reason {
		case 0:
		case RefusedLeft:
			refused = append(refused, Refusal{k.Name, k.reason, c.seats[k.seat].Name})
		default:
			refused = append(refused, Refusal{Key: k.Name, Reason: k.reason})
		}
	}
	return claimed, unpinned, refused
}

// release chooses what a working node gives back: what people gave to another, and of what may move
// by choice the last in its own order.
func (c *crew) release(s Snapshot, at int) (released []string) {
	self := &c.seats[at]
	for i := range s.Keys {
		if k := &s.Keys[i]; k.Owner == self.Name && k.Pinned != self.Name && c.pinned(k) {
			released = append(released, k.Name)
		}
	}
	slices.Sort(released)
	return append(released, c.chosen(s, at, len(released))...)
}

// chosen is what a working node gives back by choice, besides so many that it gives back anyway.
func (c *crew) chosen(s Snapshot, at, besides int) (released []string) {
	self := &c.seats[at]
	excess := self.owned - besides - self.share
	if s.Limits.Rebalance == RebalanceManual {
		excess = self.owned - besides - self.limit
	}
	if excess <= 0 {
		return nil
	}
	mine := make([]candidate, 0, self.owned)
	own := make([]*candidate, 0, self.owned)
	for i := range s.Keys {
		switch k := &s.Keys[i]; {
		case k.Owner == "" && k.Free >= LeftOver:
			return nil // those below do not even take what is there
		case c.pinned(k): // it is here to stay, or goes anyway
		case k.Owner == self.Name && !k.Resting:
			mine = append(mine, candidate{Key: k, hash: fnv(k.Name)})
			own = append(own, &mine[len(mine)-1])
		}
	}
	limit := s.Limits.Release
	if limit <= 0 {
		limit = max(4, self.owned/8)
	}
	c.order(own, at)
	for _, k := range slices.Backward(own) {
		if len(released) == min(excess, limit) {
			break
		}
		released = append(released, k.Name)
	}
	return released
}

// Loosest lists the keys of a node that may move by choice, those first that are least its own: so
// the order in which it gives them back. Keys that a person gave to it are not among them.
func Loosest(s Snapshot, node string) []string {
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].Working = s.Nodes[i].Working || s.Nodes[i].Name == node
	}
	c := seated(s)
	at, known := c.at[node]
	if !known {
		return nil
	}
	var own []*candidate
	for i := range s.Keys {
		if k := &s.Keys[i]; k.Owner == node && !c.pinned(k) {
			own = append(own, &candidate{Key: k, hash: fnv(k.Name)})
		}
	}
	c.order(own, at)
	names := make([]string, 0, len(own))
	for _, k := range slices.Backward(own) {
		names = append(names, k.Name)
	}
	return names
}
