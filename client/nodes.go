package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// NodeState is how a node stands, as all nodes see it.
type NodeState string

// States of a node.
const (
	NodeWorking  NodeState = "working"
	NodeDraining NodeState = "draining" // takes nothing new
	NodeDrained  NodeState = "drained"  // and looks after no key any more
	// most others can't reach it: it gives back what it looks after
	NodeUnreachable NodeState = "unreachable"
	NodeOffline     NodeState = "offline" // it is dead
)

// Node is a server of the cluster.
type Node struct {
	Name      string
	Address   string // where it is reached; "" = it does not say
	State     NodeState
	Score     float64    // how busy it is: 0 idle to 100
	CPU       float64    // in use, as a share of the maximum
	Memory    float64    // in use, as a share of the maximum
	Executors int        // tasks that it runs itself, at most
	Running   int        // tasks that it runs itself
	Tasks     int        // that it holds, waiting or in workers' hands
	Claims    NodeClaims // keys that it looks after
	Strikes   []Strike   // nodes that did not reach it
	Joined    time.Time
	Seen      time.Time // when it renewed its membership last
}

// NodeClaims is how many keys a node looks after, and may.
type NodeClaims struct {
	Owned  int
	Target int // its share
	Cap    int // at most; what nobody takes for three beats is taken all the same
	Alarm  int // more raise an alarm; 0 = never
}

// Strike is what one node found of another.
type Strike struct {
	By     string
	Misses int // in a row
}

// Claim is a key of which exactly one node looks after.
type Claim struct {
	Key   string // kind/key
	Owner string // a node; "" = none
	Token int64  // greater for every later owner
	Since time.Time
	Until time.Time // when the owner's right ends unless it is renewed
}

// Cluster is all nodes, and what the cluster can bear.
type Cluster struct {
	Keys      int // K: keys of which each needs a node that looks after it
	Working   int // S: nodes that work
	Unowned   int // keys that nobody looks after just now
	Tolerance int // n: so many nodes may die at once by the configuration
	Nodes     []Node
	Budget    Budget
	Store     string            // kind of store
	Version   string            // of the program that answers
	Chores    map[string]string // what one node does for all, and which did it last
}

// Budget is how many can die now.
type Budget struct {
	Nodes   int // at once, whichever they are, with every key still ownable
	Workers int // at once, whichever they are, with every replica still placeable
	// nodes whose death would hurt most, the worst first; all of them at once are one too many
	Weakest []string
}

// nodeView is a node in the API's JSON.
type nodeView struct {
	Name      string     `json:"name"`
	Address   string     `json:"address"`
	State     NodeState  `json:"state"`
	Score     float64    `json:"score"`
	CPU       float64    `json:"cpu"`
	Memory    float64    `json:"memory"`
	Executors int        `json:"executors"`
	Running   int        `json:"running"`
	Tasks     int        `json:"tasks"`
	Claims    NodeClaims `json:"claims"`  // names differ in case only
	Strikes   []Strike   `json:"strikes"` // likewise
	Joined    time.Time  `json:"joined"`
	Seen      time.Time  `json:"seen"`
}

func nodesOf(views []nodeView) []Node {
	nodes := make([]Node, len(views))
	for i, v := range views {
		nodes[i] = Node(v)
	}
	return nodes
}

func nodePath(name string) string { return "/v1/nodes/" + url.PathEscape(name) }

// Nodes lists the nodes, by name. Those that left in order are not there; those that died are, for
// a day.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	views, err := list[nodeView](ctx, c, "/v1/nodes")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodesOf(views), nil
}

// DrainNode lets a node take nothing new and give back what it looks after, until UndrainNode.
// Without force it is refused (ErrConflict) when too much would depend on the others then.
func (c *Client) DrainNode(ctx context.Context, name string, force bool) error {
	body, err := json.Marshal(struct {
		Force bool `json:"force"`
	}{force})
	if err == nil {
		err = c.send(ctx,
			request{
				method: http.MethodPost, path: nodePath(name) + "/drain", body: body, safe: true,
			}, nil)
	}
	if err != nil {
		return fmt.Errorf("drain node %q: %w", name, err)
	}
	return nil
}

// UndrainNode undoes DrainNode.
func (c *Client) UndrainNode(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: nodePath(name) + "/undrain", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("undrain node %q: %w", name, err)
	}
	return nil
}

// Claims lists the keys that nodes look after, by key.
func (c *Client) Claims(ctx context.Context) ([]Claim, error) {
	claims, err := list[Claim](ctx, c, "/v1/claims") // names differ in case only
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return claims, nil
}

// ReleaseClaim asks the node that looks after a key to give it back after its current work; others
// take it then.
func (c *Client) ReleaseClaim(ctx context.Context, key string) error {
	body, err := json.Marshal(struct {
		Key string `json:"key"`
	}{key})
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPost, path: "/v1/claims/release", body: body, safe: true},
			nil)
	}
	if err != nil {
		return fmt.Errorf("release %q: %w", key, err)
	}
	return nil
}

// RescanClaims waits until the node that answers has looked at all keys again.
func (c *Client) RescanClaims(ctx context.Context) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: "/v1/claims/rescan", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("rescan claims: %w", err)
	}
	return nil
}

// Cluster reads how the cluster stands, as the node that answers saw it last.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var v struct {
		Keys      int        `json:"K"`
		Working   int        `json:"S"`
		Unowned   int        `json:"unowned"`
		Tolerance int        `json:"tolerance"`
		Nodes     []nodeView `json:"nodes"`
		Budget    Budget     `json:"budget"` // names differ in case only
		Store     string     `json:"store"`
		Version   string     `json:"version"`
		Chores    []struct {
			Name string `json:"name"`
			Node string `json:"node"`
		} `json:"chores"`
	}
	if err := c.get(ctx, request{path: "/v1/cluster"}, &v); err != nil {
		return Cluster{}, fmt.Errorf("read cluster: %w", err)
	}
	chores := make(map[string]string, len(v.Chores))
	for _, chore := range v.Chores {
		chores[chore.Name] = chore.Node
	}
	return Cluster{v.Keys, v.Working, v.Unowned, v.Tolerance, nodesOf(v.Nodes), v.Budget, v.Store,
		v.Version, chores}, nil
}
