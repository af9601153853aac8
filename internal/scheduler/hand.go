package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// What people decide about keys stands in rows, so that each node goes by it with its next beat:
//
//	assign/KIND/KEY    the node that is to own the key, until that row ends
//	giveback/KIND/KEY  the owner is to give the key back once
//	cluster/settings   what holds for all nodes

// decisions are what people decide about nodes and keys. They stand in the store, and go by what
// stands there now.
type decisions struct {
	*core
	shares *shares

	drains  atomic.Int64 // that were asked for here
	differs bool         // it was said that the cluster has another setting; owned by the round
}

// settingsName is the row of what holds for all nodes.
const settingsName = clusterPrefix + "settings"

// AssignedFor is how long a key stays with the node that a person gave it to, unless he says
// otherwise; store.MaxAssigned is the longest.
const AssignedFor = time.Hour

// pin is a key that a person gave to a node.
type pin struct {
	Node string `json:"node"`
	By   string `json:"by"`

	row store.Lease
}

// pinOf reads the row of one; nil when it is over, or makes no sense.
func pinOf(row store.Lease, now int64) *pin {
	p := &pin{row: row}
	if row.Until <= now || json.Unmarshal(row.Value, p) != nil || p.Node == "" {
		return nil
	}
	return p
}

// settings are what holds for all nodes.
type settings struct {
	Rebalance string `json:"rebalance"` // auto or manual
}

// rebalances are the words for when nodes give keys back.
var rebalances = map[string]balance.Rebalance{
	"auto": balance.RebalanceAuto, "manual": balance.RebalanceManual,
}

// nameOf is the word.
func nameOf(r balance.Rebalance) string {
	for word, is := range rebalances {
		if is == r {
			return word
		}
	}
	return ""
}

// settleSettings makes this node's setting the cluster's if that has none, and says once when it
// has another.
func (d *decisions) settleSettings(ctx context.Context, v *view) error {
	own := nameOf(d.conf.Limits.Rebalance)
	if v.rebalance == nil {
		return d.writeSettings(ctx, settings{Rebalance: own})
	}
	if stands := nameOf(*v.rebalance); stands != own && d.conf.Chosen && !d.differs {
		d.conf.Log.Warn("the cluster's rebalance is another than this node's setting, and holds: PUT /v1/cluster changes it",
			"cluster", stands, "setting", own)
	}
	d.differs = true // said, or there is nothing to say
	return nil
}

func (d *decisions) writeSettings(ctx context.Context, is settings) error {
	value, err := json.Marshal(is)
	if err == nil {
		_, err = d.conf.Leases.AcquireAll(ctx, clusterPrefix,
			[]store.Lease{{Name: settingsName, Value: value}}, forever, math.MaxInt64)
	}
	if err != nil {
		return fmt.Errorf("write down the cluster's settings: %w", err)
	}
	return nil
}

// SetRebalance says when nodes give keys back, for all of them: auto or manual. Each goes by it
// with its next beat.
func (d *decisions) SetRebalance(ctx context.Context, word string) error {
	if _, known := rebalances[word]; !known {
		return fmt.Errorf("set rebalance %q: it is auto or manual", word)
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	return d.writeSettings(ctx, settings{Rebalance: word})
}

// fresh is a view of what stands in the store now, with the keys that the last round saw.
func (d *decisions) fresh(ctx context.Context) (*view, error) {
	d.mu.Lock()
	seen := d.seen
	d.mu.Unlock()
	if seen == nil {
		return nil, store.ErrNotYet
	}
	beat, err := d.conf.Leases.Beat(ctx, nil, d.conf.TTL, prefixes()...)
	if err != nil {
		return nil, err
	}
	v := d.read(beat, time.Now())
	v.lists, v.kinds = seen.lists, seen.kinds
	d.shares.share(&v)
	return &v, nil
}

// snapshotOf is the snapshot that a key is decided in, nil when there is no such key.
func (v *view) snapshotOf(name string) *balance.Snapshot {
	for i := range v.snapshots {
		if slices.ContainsFunc(v.snapshots[i].Keys, func(k balance.Key) bool {
			return k.Name == name
		}) {
			return &v.snapshots[i]
		}
	}
	return nil
}

// owned counts a node's keys in a snapshot.
func owned(s *balance.Snapshot, node string) (n int) {
	for i := range s.Keys {
		if s.Keys[i].Owner == node {
			n++
		}
	}
	return n
}

// Assignment is a person's decision that a node is to own a key.
type Assignment struct {
	Kind, Key, Node string
	By              string
	For             time.Duration // how long it stands; 0 = AssignedFor
	Force           bool          // also above the node's cap
}

// Assign gives a key to a node: its owner gives it back after its current work, and that node
// claims it then, within two beats each. It stays there, whatever rebalancing would do, until the
// time is over, the key is given back or given to another, or that node can't look after it. While
// the node does not work others have the key. store.ErrNotFound: no such key or node. A
// *RefusedError: the node does not work, does not claim such keys, or has as many as it may.
func (d *decisions) Assign(ctx context.Context, a Assignment) error {
	if err := d.assign(ctx, a); err != nil {
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			return err
		}
		return fmt.Errorf("assign a key: %w", err)
	}
	return nil
}

func (d *decisions) assign(ctx context.Context, a Assignment) error {
	value, err := json.Marshal(pin{Node: a.Node, By: a.By})
	if err != nil {
		return err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	v, err := d.fresh(ctx)
	if err != nil {
		return err
	}
	name := a.Kind + "/" + a.Key
	if err := v.assignable(name, a.Node, a.Force); err != nil {
		return err
	}
	if a.For <= 0 {
		a.For = AssignedFor
	}
	_, err = d.conf.Leases.AcquireAll(ctx, AssignPrefix,
		[]store.Lease{{Name: AssignPrefix + name, Value: value}}, min(a.For, store.MaxAssigned),
		math.MaxInt64)
	return err
}

// assignable says why a key can't be given to a node, or nil.
func (v *view) assignable(name, node string, force bool) error {
	snapshot, m := v.snapshotOf(name), v.find(node)
	switch {
	case snapshot == nil:
		return fmt.Errorf("key %q: %w", name, store.ErrNotFound)
	case m == nil:
		return fmt.Errorf("node %q: %w", node, store.ErrNotFound)
	}
	refused := func(format string, args ...any) error {
		return &RefusedError{Verb: "assign " + name + " to", Node: node,
			Reason: fmt.Sprintf(format, args...)}
	}
	works := slices.ContainsFunc(snapshot.Nodes, func(n balance.Node) bool {
		return n.Name == node && n.Working
	})
	kind, _, _ := strings.Cut(name, "/")
	switch {
	case m.State != Working:
		return refused("it is %s", m.State)
	case m.Leaving:
		return refused("it is stopping")
	case !works:
		return refused("it does not claim keys of kind %s", kind)
	}
	for i := range snapshot.Keys {
		if k := &snapshot.Keys[i]; k.Name == name && k.Owner == node {
			return nil // it stays
		}
	}
	if _, limit := part(*snapshot, node); owned(snapshot, node) >= limit && !force {
		r := refused("it owns %d keys, and %d is what it may own", owned(snapshot, node), limit)
		r.(*RefusedError).Forcible = true
		return r
	}
	return nil
}

// GiveBack asks whichever node owns a key to give it back after its current work, within two beats.
// Others are to try for it first, and nobody's decision about it stands any more.
func (d *decisions) GiveBack(ctx context.Context, kind, key string) error {
	name := kind + "/" + key
	d.mu.Lock()
	v := d.seen
	d.mu.Unlock()
	if v == nil {
		return fmt.Errorf("give back %q: %w", name, store.ErrNotYet)
	}
	if v.kinds[name] == nil && v.claims[name].Name == "" {
		return fmt.Errorf("give back %q: %w", name, store.ErrNotFound)
	}
	if err := d.askBack(ctx, []string{name}); err != nil {
		return fmt.Errorf("give back %q: %w", name, err)
	}
	return nil
}

// askBack asks the owners of keys to give them back, and ends what people decided about these.
func (d *decisions) askBack(ctx context.Context, names []string) error {
	prefixes, wants := make([]string, len(names)), make([]store.Lease, len(names))
	for i, name := range names {
		prefixes[i], wants[i] = AssignPrefix+name, store.Lease{Name: givePrefix + name}
	}
	beat, err := d.conf.Leases.Beat(ctx, nil, d.conf.TTL, prefixes...)
	if err != nil {
		return err
	}
	over := slices.DeleteFunc(beat.Leases, func(row store.Lease) bool {
		return !slices.Contains(prefixes, row.Name)
	})
	if len(over) > 0 {
		if err := d.conf.Leases.EndAll(ctx, over, true); err != nil {
			return err
		}
	}
	_, err = d.conf.Leases.AcquireAll(ctx, givePrefix, wants, 2*d.conf.Beat, math.MaxInt64)
	return err
}

// Shedding says what of a node's keys is to be given back.
type Shedding store.Shedding

// Shed asks a node to give so many of its keys back, those that are least its own first, each after
// its current work; others take them. It answers which. Those that a person gave to the node stay.
// A *RefusedError: the node does not work, or the others may not own so many more.
func (d *decisions) Shed(ctx context.Context, shed Shedding) (keys []string, err error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	v, err := d.fresh(ctx)
	if err == nil {
		keys, err = v.shed(shed)
	}
	if err == nil && len(keys) > 0 {
		err = d.askBack(ctx, keys)
	}
	if refused := (*RefusedError)(nil); err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("shed keys of node %q: %w", shed.Node, err)
	}
	return keys, err
}

// shed chooses them.
func (v *view) shed(shed Shedding) (keys []string, err error) {
	m := v.find(shed.Node)
	if m == nil {
		return nil, store.ErrNotFound
	}
	refused := func(format string, args ...any) error {
		return &RefusedError{Verb: "shed keys of", Node: shed.Node,
			Reason: fmt.Sprintf(format, args...)}
	}
	if m.State != Working {
		return nil, refused("it is %s", m.State)
	}
	for i := range v.snapshots {
		of := &v.snapshots[i]
		chosen := chosenOf(of, &shed, len(keys))
		room := roomBeside(of, shed.Node)
		if len(chosen) > room && !shed.Force {
			r := refused("the other nodes may own %d more keys, and not %d", room, len(chosen))
			r.(*RefusedError).Forcible = true
			return nil, r
		}
		keys = append(keys, chosen...)
	}
	slices.Sort(keys)
	return keys, nil
}

// chosenOf are the keys of a snapshot that its node sheds, when so many are chosen already.
func chosenOf(of *balance.Snapshot, shed *Shedding, already int) (chosen []string) {
	by := map[string]int{}
	for _, name := range balance.Loosest(*of, shed.Node) {
		kind, _, _ := strings.Cut(name, "/")
		count := already + len(chosen)
		if shed.Each {
			count = by[kind]
		}
		if count < shed.Count && (shed.Kind == "" || kind == shed.Kind) {
			by[kind]++
			chosen = append(chosen, name)
		}
	}
	return chosen
}

// roomBeside is how many more keys of a snapshot the other nodes that work may own.
func roomBeside(of *balance.Snapshot, node string) (room int) {
	for _, n := range of.Nodes {
		if n.Working && n.Name != node {
			_, limit := part(*of, n.Name)
			room += max(limit-owned(of, n.Name), 0)
		}
	}
	for i := range of.Keys {
		if of.Keys[i].Owner == "" {
			room--
		}
	}
	return max(room, 0)
}

// Pin is a key that a person gave to a node.
type Pin struct {
	Node, By string
	Until    int64 // microseconds, by the store's clock
}

// Pins are those that a reading of leases brought, whose names begin with [AssignPrefix]; by kind
// and key.
func Pins(beat store.Beat) map[string]Pin {
	pins := map[string]Pin{}
	for _, row := range beat.Leases {
		name, ok := strings.CutPrefix(row.Name, AssignPrefix)
		if !ok {
			continue
		}
		if p := pinOf(row, beat.Now); p != nil {
			pins[name] = Pin{p.Node, p.By, p.row.Until}
		}
	}
	return pins
}

// pinned are all of them, by kind and key.
func (v *view) pinned() map[string]Pin {
	pins := make(map[string]Pin, len(v.pins))
	for name, p := range maps.All(v.pins) {
		pins[name] = Pin{p.Node, p.By, p.row.Until}
	}
	return pins
}
