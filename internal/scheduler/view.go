package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// view is what a round goes by: the rows that its renewal brought back, read.
type view struct {
	at   time.Time // this node's clock, when it asked
	now  int64     // the store's
	calm bool      // what has expired may be taken for dead
	// this node's membership, held since before the rows were read; nil in a view of somebody
	// else's reading
	held context.Context
	// by name; those whose lease expired or was ended by others are Offline
	members []*Member
	// Until is when the holder's membership expires; 0 also where that is gone
	claims map[string]store.Lease
	drains map[string]bool
	asked  []store.Lease // to give claims back
	// by kind and key: those that people gave to nodes
	pins      map[string]*pin
	rebalance *balance.Rebalance // of the whole cluster; nil = nothing stands yet
	litter    []store.Lease      // that nobody needs any more
	chore     store.Lease
	told      told // people know it
	expired   bool // something has, and was not ended yet

	lists     []list             // of all keys; those of this node's own kinds come first
	kinds     map[string]*Kind   // of this node's own, by kind and key
	snapshots []balance.Snapshot // of the keys that every working node claims, then of other kinds
	own       int                // how many of the snapshots are of this node's own kinds
	refused   []balance.Refusal
	budget    balance.Budget
}

// look reads what the last renewal brought back, or a later one: the rows are never older than the
// membership's holding.
func (c *core) look(at time.Time) view {
	member := c.node.Context()
	v := c.read(c.drawer.last(), at)
	v.held = member
	return v
}

// read makes a view of rows.
func (c *core) read(beat store.Beat, at time.Time) view {
	v := view{
		at: at, now: beat.Now, calm: c.keeper.Calm(at),
		claims: make(map[string]store.Lease, len(beat.Leases)), drains: map[string]bool{},
		pins: map[string]*pin{},
	}
	if c.conf.Alone {
		v.calm = true
	}
	for _, row := range beat.Leases {
		kind, name, _ := strings.Cut(row.Name, "/")
		prefix := kind + "/"
		v.expired = v.expired || row.Until != 0 && row.Until <= v.now && prefix != chorePrefix
		switch prefix {
		case nodePrefix:
			v.member(row, c.conf.TTL)
		case claimPrefix:
			v.claims[name] = row
		case drainPrefix:
			v.drains[name] = row.Until > v.now
		case AssignPrefix:
			if p := pinOf(row, v.now); p != nil {
				v.pins[name] = p
			} else if row.Until == 0 {
				v.litter = append(v.litter, row)
			}
		case givePrefix:
			if row.Until > v.now {
				v.asked = append(v.asked, row)
			} else if row.Until == 0 {
				v.litter = append(v.litter, row)
			}
		}
		switch row.Name {
		case settingsName:
			v.settings(row)
		case choreName:
			v.chore = row
		case toldName:
			v.told = toldOf(row)
		}
	}
	v.expire()
	for _, m := range v.members {
		if gone := v.told.Nodes[m.Name].Gone; gone != 0 && m.State == Offline {
			m.Down = gone
		}
		m.Strikes = strikesOf(m, v.members)
		switch {
		case m.State == Offline:
		case unreachable(m, v.members):
			m.State = Unreachable
		case v.drains[m.Name]:
			m.State = Draining
		}
	}
	return v
}

// settings reads what holds for all nodes.
func (v *view) settings(row store.Lease) {
	var is settings
	if json.Unmarshal(row.Value, &is) != nil {
		return
	}
	if r, known := rebalances[is.Rebalance]; known {
		v.rebalance = &r
	}
}

// member reads a membership. Who leaves in order takes its row along, so one that has ended is of
// the dead.
func (v *view) member(row store.Lease, ttl time.Duration) {
	m := memberOf(row)
	if m.Seen, m.State = row.Until-ttl.Microseconds(), Working; row.Until == 0 ||
		row.Until <= v.now && v.calm {
		m.State, m.Down = Offline, row.Until // people are told with the next chores
	}
	if row.Until == 0 {
		m.Seen = 0
	}
	v.members = append(v.members, m)
}

// expire says of the claims that stand with a membership when that expires.
func (v *view) expire() {
	members := make(map[string]int64, len(v.members))
	for _, m := range v.members {
		members[m.holder] = m.until
	}
	for name, row := range v.claims {
		if row.Until == store.WhileMember {
			row.Until = members[row.Holder]
			v.claims[name] = row
		}
	}
}

// find is a member, nil when there is none of the name.
func (v *view) find(name string) *Member {
	for _, m := range v.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// alone tells whether no other node lives.
func (v *view) alone(self string) bool {
	return !slices.ContainsFunc(v.members, func(m *Member) bool {
		return m.Name != self && m.State != Offline
	})
}

// owner is the node that a claim's row says looks after the key, and "" when it is to be had. What
// has expired is to be had only when this node may judge. A holder that is no node of today (a
// predecessor, not known to be dead) is an owner all the same.
func (v *view) owner(row store.Lease) string {
	if row.Until == 0 || row.Until <= v.now && v.calm {
		return ""
	}
	name := store.NodeOf(row.Holder)
	if m := v.find(name); m == nil || m.holder == row.Holder {
		return name
	}
	return row.Holder
}

// given tells whether a claim was given back by choice: ended, while the node that had it works on.
func (v *view) given(row store.Lease) bool {
	if row.Until != 0 || row.Holder == "" {
		return false
	}
	name := store.NodeOf(row.Holder)
	m := v.find(name)
	return m != nil && m.holder == row.Holder && m.State == Working
}

// nodes are the members as the decision takes them: those work that claim keys of a kind ("": of
// any).
func (v *view) nodes(kind string) []balance.Node {
	var list []balance.Node
	for _, m := range v.members {
		works := m.State == Working && !m.Leaving && (kind == "" || slices.Contains(m.Kinds, kind))
		list = append(list, balance.Node{
			Name: m.Name, Weight: m.Weight, Tolerance: m.Tolerance, Working: works,
		})
	}
	return list
}

// Cluster is what a node has seen with its last beat.
type Cluster struct {
	Now     time.Time // by the store's clock
	Keys    int       // K
	Working int       // S
	Nodes   []Member  // by name; also those that left in order, or died, within a day
	// the owner of each key, "" when nobody looks after it; by kind and key
	Owned   map[string]string
	Refused []balance.Refusal // unowned keys that this node leaves, and why
	Budget  balance.Budget
	Chores  string // the node that did the chores last
	// Rebalance is when nodes give keys back, auto or manual; "" = that is not settled yet.
	Rebalance string
	Pins      map[string]Pin // keys that people gave to nodes, by kind and key
}

// Cluster is what this node saw with its last beat; nothing, and Now is zero, before the first.
func (c *core) Cluster() Cluster {
	c.mu.Lock()
	v := c.seen
	c.mu.Unlock()
	if v == nil {
		return Cluster{}
	}
	return v.cluster()
}

func (v *view) cluster() Cluster {
	c := Cluster{
		Now: time.UnixMicro(v.now), Owned: make(map[string]string, len(v.kinds)),
		Refused: v.refused, Budget: v.budget, Pins: v.pinned(),
	}
	if v.rebalance != nil {
		c.Rebalance = nameOf(*v.rebalance)
	}
	c.Chores = store.NodeOf(v.chore.Holder)
	owned := map[string]int{}
	for _, snapshot := range v.snapshots {
		for _, k := range snapshot.Keys {
			c.Owned[k.Name] = k.Owner
			owned[k.Owner]++
		}
	}
	c.Keys = len(c.Owned)
	for _, n := range v.snapshots[0].Nodes {
		if n.Working {
			c.Working++
		}
	}
	for _, m := range v.members {
		m := *m
		m.Owned = owned[m.Name]
		if m.State == Draining && m.Owned+m.Tasks+m.Running == 0 {
			m.State = Drained
		}
		for i, snapshot := range v.snapshots {
			if i > 0 && len(snapshot.Keys) == 0 {
				continue // of keys that only some nodes claim there are none
			}
			target, limit := part(snapshot, m.Name)
			m.Target, m.Cap = m.Target+target, m.Cap+limit
		}
		c.Nodes = append(c.Nodes, m)
	}
	for name, l := range v.told.Left {
		if v.find(name) == nil {
			c.Nodes = append(c.Nodes, Member{
				Name: name, State: Left, Address: l.Address, Joined: l.Joined, Down: l.Down,
			})
		}
	}
	slices.SortFunc(c.Nodes, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// part is what a node is to own of a snapshot's keys, and what it may own at most.
func part(s balance.Snapshot, node string) (target, limit int) {
	var self *balance.Node
	var weights []int
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.Working {
			continue
		}
		weights = append(weights, n.Weight)
		if n.Name == node {
			self = n
		}
	}
	if self == nil {
		return 0, 0
	}
	return balance.WeightedTarget(len(s.Keys), self.Weight, weights),
		balance.WeightedCap(len(s.Keys), self.Weight, self.Tolerance, weights)
}
