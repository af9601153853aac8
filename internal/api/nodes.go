package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Cluster is the nodes of the store with their workers, and the keys that they share out: the sum
// of what the calls about them ask for, each of a part of it. Errors are those of an [Engine].
type Cluster interface {
	Workers
	Nodes
	Shedder
	Claims
}

// Workers looks after the workers of all nodes, or, with here, of this node only: so one node asks
// another.
type Workers interface {
	WorkerList
	// DrainWorker makes a worker give up work.
	DrainWorker(ctx context.Context, name string, what store.Drain, here bool) error
	// UndrainWorker lets it take work again.
	UndrainWorker(ctx context.Context, name string, here bool) error
	// DeleteWorker gives its tasks back and forgets it.
	DeleteWorker(ctx context.Context, name string, here bool) error
}

// WorkerList lists workers.
type WorkerList interface {
	// Workers lists them by name. Nodes that could not be asked are missing, which is no error.
	Workers(ctx context.Context, here bool) (list []task.Worker, missing []string, err error)
}

// ClusterView shows nodes.
type ClusterView interface {
	// Cluster is what this node saw with its last beat.
	Cluster(context.Context) (store.Cluster, error)
}

// Nodes looks after nodes.
type Nodes interface {
	ClusterView
	// DrainNode makes a node take nothing new and give its keys back. Without force it is a
	// store.ErrConflict when too much would depend on the others then.
	DrainNode(ctx context.Context, name, by string, force bool) error
	UndrainNode(ctx context.Context, name string) error
	// SetRebalance says when nodes give keys back, for all of them: auto or manual.
	SetRebalance(ctx context.Context, when string) error
}

// Shedder lets nodes give keys back.
type Shedder interface {
	// ShedNode lets a node give so many keys back, and answers which. It is a store.ErrConflict
	// when the node does not work or, without force, when the others may not own so many more.
	ShedNode(ctx context.Context, s store.Shedding) (keys []string, err error)
}

// nodeOf is the node as it is shown.
func nodeOf(n *store.Node) view.Node {
	strikes := make([]view.Strike, len(n.Strikes))
	for i, s := range n.Strikes {
		strikes[i] = view.Strike(s)
	}
	return view.Node{
		Name: n.Name, Address: n.Address, State: view.NodeState(n.State),
		Score: n.Score, CPU: n.CPU, Memory: n.Memory,
		Executors: n.Executors, Running: n.Running, Tasks: n.Tasks,
		Claims:  view.NodeClaims{Owned: n.Owned, Target: n.Target, Cap: n.Cap, Alarm: n.Alarm},
		Strikes: strikes, Joined: timeAt(n.Joined), Seen: timeAt(n.Seen), Down: timeAt(n.Down),
	}
}

func nodesOf(nodes []store.Node) []view.Node {
	items := make([]view.Node, len(nodes))
	for i := range nodes {
		items[i] = nodeOf(&nodes[i])
	}
	return items
}

// NodePath names a node. It is exported for huma.
type NodePath struct {
	Node string `path:"node" doc:"the node's name" example:"n1"`
}

// drainIn is the body that drains a node; it may be left out.
type drainIn struct {
	Force bool `json:"force,omitempty" doc:"even if too much depends on the others then"`
}

// nodeDrained answers drain and undrain.
type nodeDrained struct {
	Name     string `json:"name"`
	Draining bool   `json:"draining"`
}

var (
	drainNodeDoc = described{
		op: huma.Operation{
			OperationID: "drain-node", Method: http.MethodPost, Path: "/v1/nodes/{node}/drain",
			Tags:    []string{"Cluster"},
			Summary: "Let a node take nothing new and give back what it looks after",
			Description: "After its current work, and until it is undrained, restarts included. Without force it is refused with 409 when it is the last " +
				"node that works, or when fewer nodes could die then than the configuration promises.",
			Parameters: []*huma.Param{pathParameter("node", "the node's name")},
		},
		status: http.StatusOK, body: drainIn{}, optional: true, example: `{"force":true}`,
		answer: nodeDrained{},
	}
	putClusterDoc = described{
		op: huma.Operation{
			OperationID: "put-cluster", Method: http.MethodPut, Path: "/v1/cluster",
			Tags:        []string{"Cluster"},
			Summary:     "Change what holds for all nodes",
			Description: "Each node follows with its next beat.",
		},
		status: http.StatusOK, body: clusterIn{}, example: `{"rebalance":"manual"}`,
		answer: clusterIn{},
	}
)

// clusterCalls are the calls about nodes, and about what holds for all of them.
type clusterCalls struct {
	door    *API
	nodes   Nodes
	workers WorkerList
	groups  GroupViews
}

func (c *clusterCalls) register() {
	tags := []string{"Cluster"}
	operation(c.door, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: "/v1/nodes", Tags: tags,
		Summary:     "List nodes by name",
		Description: "Also those that left in order, or died, within a day, with the time at which they went down.",
	}, c.list)
	c.door.described(drainNodeDoc, c.drain)
	operation(c.door, huma.Operation{
		OperationID: "undrain-node", Method: http.MethodPost, Path: "/v1/nodes/{node}/undrain",
		Tags: tags, Summary: "Let a node take work again",
	}, func(ctx context.Context, in *NodePath) (*struct{ Body nodeDrained }, error) {
		return &struct{ Body nodeDrained }{nodeDrained{in.Node, false}},
			c.nodes.UndrainNode(ctx, in.Node)
	})
	operation(c.door, huma.Operation{
		OperationID: "get-cluster", Method: http.MethodGet, Path: "/v1/cluster", Tags: tags,
		Summary:     "Read how the cluster stands, and what it can bear",
		Description: "As this node saw it with its last beat.",
	}, c.get)
	c.door.described(putClusterDoc, c.put)
}

func (c *clusterCalls) list(ctx context.Context, in *Paging) (*listed[view.Node], error) {
	seen, err := c.nodes.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(seen.Nodes, func(n *store.Node) string {
		return n.Name
	}, nodeShelf, *in)
	if err != nil {
		return nil, err
	}
	return &listed[view.Node]{list[view.Node]{nodesOf(page), next}}, nil
}

func (c *clusterCalls) get(ctx context.Context, _ *struct{}) (*struct{ Body view.Cluster }, error) {
	seen, err := c.nodes.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	spare, err := c.spareWorkers(ctx)
	if err != nil {
		return nil, err
	}
	out := view.Cluster{
		Rebalance: seen.Rebalance, Keys: seen.Keys, Working: seen.Working, Unowned: seen.Unowned,
		Tolerance: seen.Tolerance,
		Nodes:     nodesOf(seen.Nodes),
		Budget:    view.Budget{Nodes: seen.AtOnce, Workers: spare, Weakest: seen.Weakest},
		Store:     seen.Store, Version: c.door.conf.Version,
		Chores: make([]view.Chore, len(seen.Chores)),
	}
	if seen.Weakest == nil {
		out.Budget.Weakest = []string{}
	}
	for i, chore := range seen.Chores {
		out.Chores[i] = view.Chore(chore)
	}
	return &struct{ Body view.Cluster }{out}, nil
}

// spareWorkers is how many workers can die with every replica still placeable: as many as the group
// can lose that can lose the fewest, and without any replica all that there are.
func (c *clusterCalls) spareWorkers(ctx context.Context) (n int, err error) {
	workers, _, err := c.workers.Workers(ctx, false)
	if err != nil {
		return 0, err
	}
	groups, err := c.groups.Groups(ctx)
	if err != nil {
		return 0, err
	}
	for i := range workers {
		if workers[i].Active {
			n++
		}
	}
	for i := range groups {
		if groups[i].Wanted > 0 {
			n = min(n, groups[i].Budget.Workers)
		}
	}
	return n, nil
}

// clusterIn is the body that changes what holds for all nodes.
type clusterIn struct {
	Rebalance string `json:"rebalance" enum:"auto,manual" doc:"when nodes give keys back: auto, while one has more than its share and another fewer; manual, only what is above their caps, since a person decides"`
}

func (c *clusterCalls) put(w *answer, r *http.Request) error {
	var in clusterIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	if in.Rebalance != "auto" && in.Rebalance != "manual" {
		return wrong("body.rebalance", "must be auto or manual")
	}
	if err := c.nodes.SetRebalance(r.Context(), in.Rebalance); err != nil {
		return err
	}
	w.note("rebalance", in.Rebalance)
	c.door.writeValue(w, http.StatusOK, in)
	return nil
}

func (c *clusterCalls) drain(w *answer, r *http.Request) error {
	name := r.PathValue("node")
	var in drainIn
	_, err := knownQuery(r)
	if err == nil && r.ContentLength != 0 {
		err = c.door.strict(w, r, &in)
	}
	if err != nil {
		return err
	}
	if err := c.nodes.DrainNode(r.Context(), name, w.who.Name, in.Force); err != nil {
		p := c.door.refusal("POST /v1/nodes/{node}/drain", err)
		if errors.Is(err, store.ErrConflict) && !in.Force {
			p.Errors = []fault{{"body.force", "true drains it all the same"}}
		}
		return p
	}
	w.note("force", in.Force)
	c.door.writeValue(w, http.StatusOK, nodeDrained{name, true})
	return nil
}
