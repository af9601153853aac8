package scheduler

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// State of a node, as all nodes read it from the same rows.
type State string

// States of a node.
const (
	Working  State = "working"
	Draining State = "draining" // takes nothing new
	Drained  State = "drained"  // and owns no key any more, holds no task, and runs none
	// a majority of the others can't reach it: it claims nothing and gives its keys back
	Unreachable State = "unreachable"
	Offline     State = "offline" // its lease has expired or ended
	Left        State = "left"    // in order, a while ago: it is no member any more
)

// Member is a node: what it says of itself in the value of its membership, and what follows from
// all rows.
type Member struct {
	Address   string   `json:"address,omitempty"`
	Weight    int      `json:"weight,omitempty"`
	Tolerance int      `json:"tolerance,omitempty"`
	Alarm     int      `json:"alarm,omitempty"`
	Score     float64  `json:"score"`  // 0 = idle … 100 = busy
	CPU       float64  `json:"cpu"`    // in use, of all there is
	Memory    float64  `json:"memory"` // in use, of all there is
	Executors int      `json:"executors,omitempty"`
	Running   int      `json:"running,omitempty"` // executors in use
	Tasks     int      `json:"tasks,omitempty"`   // that it holds
	Kinds     []string `json:"kinds,omitempty"`   // of keys that it claims
	Leaving   bool     `json:"leaving,omitempty"` // it is stopping
	Joined    int64    `json:"joined,omitempty"`  // microseconds, by the node's clock
	// by start of a node: how often in a row it was not reached from here
	Misses map[string]int `json:"misses,omitempty"`
	// reached fewer than half of the others that live, and so suspects itself
	Suspect bool `json:"suspect,omitempty"`
	// the place at which its process has the guard, from before this was written until its death
	Guard string `json:"guard,omitempty"`

	Down    int64          `json:"-"` // of one that is offline, or left: since when
	Name    string         `json:"-"`
	State   State          `json:"-"`
	Seen    int64          `json:"-"` // when its membership was renewed last, by the store's clock
	Strikes map[string]int `json:"-"` // by observer: how often in a row it did not reach this node
	Owned   int            `json:"-"` // keys
	Target  int            `json:"-"`
	Cap     int            `json:"-"`

	holder string
	token  int64
	until  int64 // when the membership expires
}

// self is what this node says of itself.
func (r *renewals) self() *Member {
	b := r.conf.Busy()
	m := &Member{
		Address: r.conf.Address, Weight: r.conf.Weight, Tolerance: r.conf.Tolerance,
		Alarm: r.conf.Alarm, Score: b.Score(),
		CPU: portion(b.CPU), Memory: portion(b.Memory), Executors: int(b.Executors.Max),
		Running: int(b.Executors.Used), Tasks: r.conf.Holds(),
		Misses: r.probes.checks.misses, Suspect: r.probes.checks.suspect, Leaving: r.leaving(),
	}
	for _, k := range r.shares.kinds {
		m.Kinds = append(m.Kinds, k.Name)
	}
	if r.joined.IsZero() {
		r.joined = time.Now()
	}
	m.Joined = r.joined.UnixMicro()
	if place, err := r.conf.Guard.Hold(); err == nil {
		// who waited for a predecessor that is only stopped gets it when that is gone
		m.Guard = place
	}
	return m
}

// portion is a part of its maximum, between 0 and 1, to three decimals.
func portion(p balance.Part) float64 {
	if !(p.Max > 0) || !(p.Used > 0) {
		return 0
	}
	return math.Round(min(p.Used/p.Max, 1)*1000) / 1000
}

func (m *Member) value() []byte {
	v, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("scheduler: write down a member: %v", err)) // all of its fields can be
	}
	return v
}

// memberOf reads a membership. A value that makes no sense is of a node that says nothing of
// itself.
func memberOf(row store.Lease) *Member {
	m := &Member{}
	if err := json.Unmarshal(row.Value, m); err != nil {
		m = &Member{}
	}
	m.Name = strings.TrimPrefix(row.Name, nodePrefix)
	m.holder, m.token, m.until = row.Holder, row.Token, row.Until
	return m
}

func (m *Member) whereabouts() string {
	if m.Address == "" {
		return "another process"
	}
	return m.Address
}

// holderOf names a start of a node as the holder of leases: a restarted node takes nothing of its
// predecessor's before that is certainly dead. Where there can be one process only, its predecessor
// is, and both have one name.
func holderOf(node, start string) string {
	if start == "" && !strings.Contains(node, "@") { // see store.NodeOf
		return node
	}
	return node + "@" + start
}
