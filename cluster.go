package rota

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/capacity"
	"github.com/rotahq/rota/internal/drain"
	"github.com/rotahq/rota/internal/expired"
	"github.com/rotahq/rota/internal/peers"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/unserved"
)

var _ api.Cluster = (*cluster)(nil)

// cluster is all nodes of the store and their workers, as this node's API shows and steers them.
type cluster struct {
	name   string // of this node
	store  backend
	rounds *scheduler.Scheduler
	beat   time.Duration
	*peers.AllWorkers
}

func newCluster(n *Node) *cluster {
	c := &cluster{name: n.conf.Name, store: n.store, rounds: n.rounds, beat: n.conf.Beat}
	c.AllWorkers = peers.NewAllWorkers(peers.AllWorkersConfig{
		Own: n.tasks, Seats: n.store, Peers: n.peers, Others: c.others,
	})
	return c
}

// unserved tells, for all nodes, of queues whose tasks nobody takes.
func (n *Node) unserved() *unserved.Watch {
	return unserved.New(unserved.Config{
		Queues: n.tasks, Workers: newCluster(n), Judges: n.judges(), Now: n.storeTime,
		Tell: n.outbox.Add, Log: n.log,
	})
}

// expired tells, for all nodes, of tasks that nobody began in time.
func (n *Node) expired() *expired.Watch {
	return expired.New(expired.Config{
		Minutes: n.tasks.Minutes, Judges: n.judges(), Now: n.storeTime, Write: n.outbox.Write,
		Log: n.log,
	})
}

// newForecasts makes the forecasts of this node.
func (n *Node) newForecasts() *capacity.Forecasts {
	return capacity.New(capacity.Config{
		Queues: n.tasks, Keys: n.tasks, Workers: newCluster(n), Groups: n.jobs.views,
		Now:  n.storeTime,
		Keep: func() int { return max(n.rounds.Cluster().Budget.Tolerance, 1) },
	})
}

// capacity tells, for all nodes, of queues and groups that have too few workers.
func (n *Node) capacity() *capacity.Watch {
	return capacity.NewWatch(capacity.WatchConfig{
		Forecasts: n.forecasts, Judges: n.judges(), Tell: n.outbox.Add, Log: n.log,
	})
}

// drains weighs drains of workers at this node.
func (n *Node) drains() *drain.Drains {
	return drain.New(drain.Config{
		Leases: n.store, Groups: n.jobs.views, Workers: newCluster(n), Tasks: n.tasks,
		History: n.store, Holder: fmt.Sprintf("%s@%d", n.conf.Name, n.token),
	})
}

// judges tells whether this node is the one that looks, of all nodes.
func (n *Node) judges() func() bool {
	if n.alone() {
		return func() bool { return true }
	}
	return n.rounds.Judges
}

// Cluster is what this node saw with its last beat.
func (c *cluster) Cluster(context.Context) (store.Cluster, error) {
	seen := c.rounds.Cluster()
	if seen.Now.IsZero() {
		return store.Cluster{}, store.ErrNotYet
	}
	out := store.Cluster{
		Keys: seen.Keys, Working: seen.Working, Tolerance: seen.Budget.Tolerance,
		AtOnce: seen.Budget.AtOnce, Store: c.store.kind(),
		Weakest: seen.Budget.Worst[:min(seen.Budget.AtOnce+1, len(seen.Budget.Worst))],
		Chores:  []store.Chore{{Name: "beat", Node: seen.Chores}},

		Rebalance: seen.Rebalance,
	}
	for _, owner := range seen.Owned {
		if owner == "" {
			out.Unowned++
		}
	}
	for i := range seen.Nodes {
		out.Nodes = append(out.Nodes, nodeOf(&seen.Nodes[i]))
	}
	return out, nil
}

func nodeOf(m *scheduler.Member) store.Node {
	n := store.Node{
		Name: m.Name, Address: m.Address, State: string(m.State),
		Score: m.Score, CPU: m.CPU, Memory: m.Memory, Executors: m.Executors, Running: m.Running,
		Tasks: m.Tasks,
		Owned: m.Owned, Target: m.Target, Cap: m.Cap, Alarm: m.Alarm, Joined: m.Joined,
		Seen: m.Seen, Down: m.Down,
	}
	for _, by := range slices.Sorted(maps.Keys(m.Strikes)) {
		n.Strikes = append(n.Strikes, store.Strike{By: by, Misses: m.Strikes[by]})
	}
	return n
}

// DrainNode lets a node take nothing new. Refused, it is a store.ErrConflict that says why.
func (c *cluster) DrainNode(ctx context.Context, name, by string, force bool) error {
	return conflict(c.rounds.Drain(ctx, name, by, force))
}

// conflict makes a refusal a store.ErrConflict, one that force overcomes a store.ErrForcible.
func conflict(err error) error {
	refused := (*scheduler.RefusedError)(nil)
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Forcible:
		return fmt.Errorf("%w: %w", store.ErrForcible, refused)
	}
	return fmt.Errorf("%w: %w", store.ErrConflict, refused)
}

// ShedNode lets a node give so many keys back.
func (c *cluster) ShedNode(ctx context.Context, s store.Shedding) ([]string, error) {
	keys, err := c.rounds.Shed(ctx, scheduler.Shedding(s))
	return keys, conflict(err)
}

// SetRebalance says when nodes give keys back, for all of them.
func (c *cluster) SetRebalance(ctx context.Context, when string) error {
	return c.rounds.SetRebalance(ctx, when)
}

// AssignClaim gives a key to a node.
func (c *cluster) AssignClaim(ctx context.Context, a store.ClaimAssignment) error {
	kind, key, _ := strings.Cut(a.Key, "/")
	return conflict(c.rounds.Assign(ctx, scheduler.Assignment{
		Kind: kind, Key: key, Node: a.Node, By: a.By, For: a.For, Force: a.Force,
	}))
}

// UndrainNode lets a node take work again.
func (c *cluster) UndrainNode(ctx context.Context, name string) error {
	seen := c.rounds.Cluster()
	if seen.Now.IsZero() {
		return fmt.Errorf("undrain node %q: %w", name, store.ErrNotYet)
	}
	if !slices.ContainsFunc(seen.Nodes, func(m scheduler.Member) bool { return m.Name == name }) {
		return fmt.Errorf("undrain node %q: %w", name, store.ErrNotFound)
	}
	return c.rounds.Undrain(ctx, name)
}

// Claims lists the keys as the store has them now, with those that nobody has claimed yet.
func (c *cluster) Claims(ctx context.Context) ([]store.Claim, error) {
	const prefix, nodes = "claim/", "node/" // as package scheduler names them
	beat, err := c.store.Beat(ctx, nil, c.beat, prefix, nodes, scheduler.AssignPrefix)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	claims := map[string]store.Claim{}
	for key := range c.rounds.Cluster().Owned {
		claims[key] = store.Claim{Key: key}
	}
	assigned := scheduler.Pins(beat)
	members := map[string]int64{} // by holder: when the membership ends
	for _, row := range beat.Leases {
		if row.Name == store.MembershipOf(row.Holder) {
			members[row.Holder] = row.Until
		}
	}
	for _, row := range beat.Leases {
		if !strings.HasPrefix(row.Name, prefix) {
			continue
		}
		if row.Until == store.WhileMember {
			row.Until = members[row.Holder]
		}
		claim := store.Claim{Key: strings.TrimPrefix(row.Name, prefix), Token: row.Token}
		if row.Until > beat.Now {
			claim.Owner = store.NodeOf(row.Holder)
			claim.Since, claim.Until = since(row.Value), row.Until
		}
		claims[claim.Key] = claim
	}
	for key, pin := range assigned {
		if claim, exists := claims[key]; exists {
			claim.Assigned, claim.AssignedBy = pin.Node, pin.By
			claim.AssignedUntil = pin.Until
			claims[key] = claim
		}
	}
	return slices.SortedFunc(maps.Values(claims), func(a, b store.Claim) int {
		return cmp.Compare(a.Key, b.Key)
	}), nil
}

// since is when a claim's owner got it, as far as its row says; 0 = it does not.
func since(value []byte) int64 {
	var v struct{ Since int64 }
	if json.Unmarshal(value, &v) != nil {
		return 0
	}
	return v.Since
}

// Rescan lets this node look at all claims now.
func (c *cluster) Rescan(ctx context.Context) error {
	within := 3*c.beat + peers.Within // a round under way ends before
	ctx, cancel := context.WithTimeoutCause(ctx, within,
		fmt.Errorf("this node's rounds have not come by for %v: %w", within, store.ErrAway))
	defer cancel()
	if err := c.rounds.Rescan(ctx); err != nil {
		return fmt.Errorf("rescan: %w", err)
	}
	return nil
}

// ReleaseClaim asks the owner of a key to give it back.
func (c *cluster) ReleaseClaim(ctx context.Context, key string) error {
	kind, name, _ := strings.Cut(key, "/")
	return c.rounds.GiveBack(ctx, kind, name)
}

// others are the other nodes that may have workers: those that live. Nothing is forwarded to one
// that is unreachable for most.
func (c *cluster) others() (reachable, away []store.Node) {
	seen := c.rounds.Cluster()
	for i := range seen.Nodes {
		switch m := &seen.Nodes[i]; {
		case m.Name == c.name || m.State == scheduler.Offline || m.State == scheduler.Left:
		case m.State == scheduler.Unreachable:
			away = append(away, nodeOf(m))
		default:
			reachable = append(reachable, nodeOf(m))
		}
	}
	return reachable, away
}
