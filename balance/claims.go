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
	Alarm   Alarm
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
	p.Claim, p.Refused = c.claim(s, at)
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
func (c *crew) claim(s Snapshot, at int) (claimed []string, refused []Refusal) {
	free, self := c.place(s.Keys), &c.seats[at]
	var wanted []*candidate
	for i := range free {
		switch k := &free[i]; {
		case k.Failed && k.Free <= Orphaned:
			k.reason = RefusedFailed
		case k.seat == at, k.Free >= Orphaned:
			wanted = append(wanted, k)
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
		case k.Free >= Orphaned:
		case self.owned+len(claimed) >= self.limit:
			k.reason = RefusedCap
		case s.Limits.Claim > 0 && len(claimed) >= s.Limits.Claim:
			k.reason = RefusedLimit
		}
		if k.reason == 0 {
			claimed = append(claimed, k.Name)
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
	return claimed, refused
}

// release chooses what a working node gives back: of what may move, the last in its own order.
func (c *crew) release(s Snapshot, at int) (released []string) {
	self := &c.seats[at]
	excess := self.owned - self.share
	if s.Limits.Rebalance == RebalanceManual {
		excess = self.owned - self.limit
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
