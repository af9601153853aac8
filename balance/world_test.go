package balance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Ticks of the world.
const (
	beat   = 10
	minute = 60 * beat
)

// world is what Claims is about: leases on keys, and members that come and go. Tests decide who
// acts when, and on which view.
type world struct {
	now     int // ticks
	keys    map[string]lease
	members map[string]*member
	limits  Limits
	made    int // keys ever created

	moves   map[string][]int // of each key: the ticks at which it was given back by choice
	refused int              // claims of keys that somebody else got first
	changes int              // of owners by plans
}

type lease struct {
	owner string
	since int  // of an unowned key: the tick at which it became that
	given bool // of an unowned key: by choice
	rest  int  // the tick until which it may not move by choice

	// of an unowned key: the node that gave it back because it could not look after it
	failed string

	pinned string // the node that a person gave it to
}

// member is a node whose membership lease lives. It may be dead or paused all the same.
type member struct {
	Node
	acts    bool
	alarmed bool
}

func newWorld(l Limits) *world {
	return &world{
		keys: map[string]lease{}, members: map[string]*member{}, moves: map[string][]int{},
		limits: l,
	}
}

func (w *world) join(n Node) {
	n.Working = true
	w.members[n.Name] = &member{Node: n, acts: true}
}

func (w *world) create(n int, owner string) {
	for range n {
		w.made++
		w.keys[fmt.Sprintf("key/%03d", w.made)] = lease{owner: owner, since: w.now}
	}
}

// free ends the leases of a node's keys.
func (w *world) free(node string) {
	for name, k := range w.keys {
		if k.owner == node {
			w.keys[name] = lease{since: w.now, rest: k.rest, pinned: k.pinned}
		}
	}
}

// owned lists the keys of a node, by name.
func (w *world) owned(node string) (keys []string) {
	for name, k := range w.keys {
		if k.owner == node {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.members)) }

// view is the snapshot that a node would read now.
func (w *world) view(self string) Snapshot {
	s := Snapshot{Self: self, Limits: w.limits}
	for _, m := range w.members {
		s.Nodes = append(s.Nodes, m.Node)
	}
	for name, k := range w.keys {
		key := Key{Name: name, Owner: k.owner, Given: k.given, Resting: k.rest > w.now,
			Pinned: k.pinned}
		if k.owner == "" {
			key.Free, key.Failed = (w.now-k.since)/beat, k.failed == self && self != ""
		}
		s.Keys = append(s.Keys, key)
	}
	if m := w.members[self]; m != nil {
		s.Alarmed = m.alarmed
	}
	slices.SortFunc(s.Keys, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// apply does what a node has planned, as far as the leases allow.
func (w *world) apply(self string, working bool, p Plan) {
	for _, name := range p.Claim {
		k, exists := w.keys[name]
		if !exists || k.owner != "" {
			w.refused++
			continue
		}
		w.keys[name] = lease{owner: self, rest: k.rest, pinned: k.pinned}
		w.changes++
	}
	for _, name := range p.Unpinned {
		if k := w.keys[name]; k.owner == self {
			k.pinned = ""
			w.keys[name] = k
		}
	}
	for _, name := range p.Release {
		k := w.keys[name]
		if k.owner != self {
			continue
		}
		if k = (lease{since: w.now, rest: k.rest, pinned: k.pinned}); working {
			k.given, k.rest = true, w.now+minute
			w.moves[name] = append(w.moves[name], w.now)
		}
		w.keys[name] = k
		w.changes++
	}
	if m := w.members[self]; m != nil && p.Alarm != 0 {
		m.alarmed = p.Alarm == AlarmRaised
	}
}

// unowned counts the keys without an owner.
func (w *world) unowned() int { return len(w.owned("")) }
