package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
)

// shares are the keys of which this node may have some: which there are, and what the decision
// about them needs to know.
type shares struct {
	*core
	holdings *holdings

	kinds []*Kind // that this node claims; not changed any more when Run begins
	// since is when this node first saw that a key is unowned; guarded by the core's lock.
	since map[string]time.Time
}

// Claim makes the keys of a kind be shared out among the nodes that claim it. Call it before Run.
func (s *shares) Claim(kind Kind) error {
	if kind.Name == "" || strings.Contains(kind.Name, "/") || kind.Keys == nil || kind.Look == nil {
		return fmt.Errorf(
			"claim keys of kind %q: a kind needs a name without a slash, Keys and Look", kind.Name,
		)
	}
	if slices.ContainsFunc(s.kinds, func(k *Kind) bool { return k.Name == kind.Name }) {
		return fmt.Errorf("claim keys of kind %q: they are claimed already", kind.Name)
	}
	s.kinds = append(s.kinds, &kind)
	return nil
}

// knows tells whether this node claims the keys of a kind.
func (s *shares) knows(kind string) bool {
	for _, k := range s.kinds {
		if k.Name == kind {
			return true
		}
	}
	return false
}

// list is the keys of one kind.
type list struct {
	name string // of the kind
	kind *Kind  // nil = this node does not claim them
	keys []string
}

// snapshot lists all keys, and what the decision needs to know of them.
func (s *shares) snapshot(ctx context.Context, v *view) error {
	err := s.list(ctx, v)
	since := s.share(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = since
	s.holdings.rested(v.at)
	return err
}

// list lists all keys: those of the kinds that this node claims, and what the store knows of those
// that others claim.
func (s *shares) list(ctx context.Context, v *view) (err error) {
	v.kinds = make(map[string]*Kind, len(v.claims))
	for _, kind := range s.kinds {
		keys, e := kind.Keys(ctx)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("list keys of kind %q: %w", kind.Name, e))
			keys = v.keysOf(kind.Name)
		}
		for _, key := range keys {
			v.kinds[kind.Name+"/"+key] = kind
		}
		v.lists = append(v.lists, list{kind.Name, kind, keys})
	}
	foreign := map[string]bool{}
	for _, m := range v.members {
		for _, name := range m.Kinds {
			foreign[name] = !s.knows(name)
		}
	}
	for _, name := range sorted(foreign) {
		if foreign[name] {
			v.lists = append(v.lists, list{name: name, keys: v.keysOf(name)})
		}
	}
	return err
}

// share says among whom the keys are shared out, and since when those without an owner are. Keys of
// the kinds that every working node claims are decided together; any other kind by itself, among
// the nodes that claim it.
func (s *shares) share(v *view) (since map[string]time.Time) {
	since = make(map[string]time.Time)
	v.own = 1
	v.snapshots = []balance.Snapshot{{Self: s.conf.Name, Nodes: v.nodes(""), Limits: s.limits(v)}}
	for _, l := range v.lists {
		into := &v.snapshots[0]
		if nodes := v.nodes(l.name); !slices.Equal(nodes, into.Nodes) {
			v.snapshots = append(v.snapshots, balance.Snapshot{
				Self: s.conf.Name, Nodes: nodes, Limits: s.limits(v),
			})
			into = &v.snapshots[len(v.snapshots)-1]
		}
		if l.kind != nil {
			v.own = len(v.snapshots)
		}
		into.Keys = slices.Grow(into.Keys, len(l.keys))
		s.mu.Lock()
		for _, key := range l.keys {
			into.Keys = append(into.Keys, s.key(v, l.name+"/"+key, since))
		}
		s.mu.Unlock()
	}
	return since
}

// fault is the budget of the keys that can bear the fewest deaths.
func (v *view) fault() balance.Budget {
	worst := balance.FaultBudget(v.snapshots[0])
	for _, s := range v.snapshots[1:] {
		if b := balance.FaultBudget(s); len(s.Keys) > 0 && b.AtOnce < worst.AtOnce {
			worst = b
		}
	}
	for _, m := range v.members { // also when none of them works
		if n := max(m.Tolerance, 1); m.State != Offline &&
			(worst.Tolerance == 0 || n < worst.Tolerance) {
			worst.Tolerance = n
		}
	}
	return worst
}

// key is what the decision needs to know of a key. Since when it is unowned goes from one round to
// the next. The lock is held.
func (s *shares) key(v *view, name string, since map[string]time.Time) balance.Key {
	row := v.claims[name]
	k := balance.Key{Name: name, Owner: v.owner(row)}
	if p := v.pins[name]; p != nil {
		k.Pinned = p.Node
	}
	if p := s.holdings.posts[name]; p != nil && s.holdings.mayHold(p) {
		k.Owner, k.Resting = s.conf.Name, p.rest > v.now
	}
	if k.Owner != "" {
		return k
	}
	first, ok := s.since[name]
	if !ok {
		first = v.at
	}
	since[name] = first
	// a beat that comes a little early is a beat
	k.Free = int((v.at.Sub(first) + s.conf.Beat/8) / s.conf.Beat)
	k.Given = v.given(row)
	k.Failed = v.at.Sub(s.holdings.failed[name]) < quiet
	return k
}

// keysOf are the keys of a kind that somebody holds or held.
func (v *view) keysOf(kind string) (keys []string) {
	for name := range v.claims {
		if k, key, _ := strings.Cut(name, "/"); k == kind {
			keys = append(keys, key)
		}
	}
	return keys
}

// limits are those of what this node claims and gives back in one beat: rebalancing is the whole
// cluster's affair, and only until something stands for it, this node's own.
func (s *shares) limits(v *view) balance.Limits {
	limits := s.conf.Limits
	if v.rebalance != nil {
		limits.Rebalance = *v.rebalance
	}
	return limits
}
