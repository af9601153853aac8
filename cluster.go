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
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

var _ api.Cluster = (*cluster)(nil)

// cluster is all nodes of the store and their workers, as this node's API shows and steers them.
type cluster struct {
	name   string // of this node
	store  backend
	tasks  *dispatch.Dispatcher
	rounds *scheduler.Scheduler
	peers  *peers
	beat   time.Duration
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
		Seen: m.Seen,
	}
	for _, by := range slices.Sorted(maps.Keys(m.Strikes)) {
		n.Strikes = append(n.Strikes, store.Strike{By: by, Misses: m.Strikes[by]})
	}
	return n
}

// DrainNode lets a node take nothing new. Refused, it is a store.ErrConflict that says why.
func (c *cluster) DrainNode(ctx context.Context, name, by string, force bool) error {
	err := c.rounds.Drain(ctx, name, by, force)
	if refused := (*scheduler.RefusedError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", store.ErrConflict, refused)
	}
	return err
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
	beat, err := c.store.Beat(ctx, nil, c.beat, prefix, nodes)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	claims := map[string]store.Claim{}
	for key := range c.rounds.Cluster().Owned {
		claims[key] = store.Claim{Key: key}
	}
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
			claim.Owner, _, _ = strings.Cut(row.Holder, "@")
			claim.Since, claim.Until = since(row.Value), row.Until
		}
		claims[claim.Key] = claim
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
	within := 3*c.beat + forwardWithin // a round under way ends before
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
		case m.Name == c.name || m.State == scheduler.Offline:
		case m.State == scheduler.Unreachable:
			away = append(away, nodeOf(m))
		default:
			reachable = append(reachable, nodeOf(m))
		}
	}
	return reachable, away
}

// Workers lists the workers that nodes know, by name. One that went from node to node is known to
// both for a while: it is where it was heard of last, and what it runs is the sum.
func (c *cluster) Workers(
	ctx context.Context, here bool,
) (list []task.Worker, missing []string, err error) {
	list, err = c.tasks.Workers(ctx)
	if err != nil || here {
		return list, nil, err
	}
	nodes, away := c.others()
	for i := range away {
		missing = append(missing, away[i].Name)
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() {
			var theirs []task.Worker
			err := c.peers.ask(ctx, n, func(ctx context.Context, peer *client.Client) (err error) {
				theirs, err = peer.Workers(ctx)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if list = append(list, theirs...); err != nil {
				missing = append(missing, n.Name)
			}
		})
	}
	group.Wait()
	slices.Sort(missing)
	return merged(list), missing, nil
}

// merged makes one of all that is known of each worker, by name.
func merged(list []task.Worker) []task.Worker {
	slices.SortFunc(list, func(a, b task.Worker) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Seen.Compare(a.Seen),
			cmp.Compare(a.Node, b.Node))
	})
	out := list[:0]
	for _, w := range list {
		if n := len(out); n > 0 && out[n-1].Name == w.Name {
			out[n-1].Running += w.Running
			out[n-1].Active = out[n-1].Active || w.Active
			out[n-1].Draining = out[n-1].Draining || w.Draining
			continue
		}
		out = append(out, w)
	}
	return out
}

// DrainWorker drains a worker, or undrains it, at every node that knows it.
func (c *cluster) DrainWorker(ctx context.Context, name string, drain, here bool) error {
	call := (*client.Client).UndrainWorker
	if drain {
		call = (*client.Client).DrainWorker
	}
	return c.everywhere(ctx, name, here, c.tasks.DrainWorker(ctx, name, drain), call)
}

// DeleteWorker makes every node that knows a worker give back what it holds and forget it.
func (c *cluster) DeleteWorker(ctx context.Context, name string, here bool) error {
	if !here { // what it runs of jobs stands in the store, whoever hears it
		if err := c.store.DeleteSeat(ctx, name); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("end the jobs of worker %q: %w", name, err)
		}
	}
	return c.everywhere(ctx, name, here, c.tasks.DeleteWorker(ctx, name),
		(*client.Client).DeleteWorker)
}

// everywhere makes a call about a worker at all other nodes, too, after this node has answered own.
// Where nobody knows the worker it is store.ErrNotFound, unless a node that might did not answer:
// store.ErrAway.
func (c *cluster) everywhere(
	ctx context.Context, name string, here bool, own error,
	call func(*client.Client, context.Context, string) error,
) error {
	if here || own != nil && !errors.Is(own, store.ErrNotFound) {
		return own
	}
	nodes, away := c.others()
	answers := make([]error, len(nodes), len(nodes)+len(away))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			answers[i] = c.peers.ask(ctx, n, func(ctx context.Context, peer *client.Client) error {
				return call(peer, ctx, name)
			})
		})
	}
	group.Wait()
	for _, n := range away {
		answers = append(answers, fmt.Errorf("node %q is unreachable: %w", n.Name, store.ErrAway))
	}
	answers = slices.DeleteFunc(answers, func(err error) bool {
		return errors.Is(err, store.ErrNotFound)
	})
	switch {
	case own == nil || slices.Contains(answers, nil):
		return nil
	case len(answers) > 0:
		return errors.Join(answers...)
	}
	return own
}
