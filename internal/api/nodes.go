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

// Cluster is the nodes of the store with their workers, and the keys that they share out. Errors
// are those of an [Engine].
type Cluster interface {
	Workers
	Nodes
	Claims
	// SetRebalance says when nodes give keys back, for all of them: auto or manual.
	SetRebalance(ctx context.Context, when string) error
}

// Workers looks after the workers of all nodes, or, with here, of this node only: so one node asks
// another.
type Workers interface {
	// Workers lists them by name. Nodes that could not be asked are missing, which is no error.
	Workers(ctx context.Context, here bool) (list []task.Worker, missing []string, err error)
	// DrainWorker makes a worker take nothing new, or lets it take again.
	DrainWorker(ctx context.Context, name string, drain, here bool) error
	// DeleteWorker gives its tasks back and forgets it.
	DeleteWorker(ctx context.Context, name string, here bool) error
}

// Nodes looks after nodes.
type Nodes interface {
	// Cluster is what this node saw with its last beat.
	Cluster(context.Context) (store.Cluster, error)
	// DrainNode makes a node take nothing new and give its keys back. Without force it is a
	// store.ErrConflict when too much would depend on the others then.
	DrainNode(ctx context.Context, name, by string, force bool) error
	UndrainNode(ctx context.Context, name string) error
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

func (a *API) registerCluster() {
	tags := []string{"Cluster"}
	operation(a, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: "/v1/nodes", Tags: tags,
		Summary:     "List nodes by name",
		Description: "Also those that left in order, or died, within a day, with the time at which they went down.",
	}, a.nodes)
	a.described(drainNodeDoc, a.drainNode)
	operation(a, huma.Operation{
		OperationID: "undrain-node", Method: http.MethodPost, Path: "/v1/nodes/{node}/undrain",
		Tags: tags, Summary: "Let a node take work again",
	}, func(ctx context.Context, in *NodePath) (*struct{ Body nodeDrained }, error) {
		return &struct{ Body nodeDrained }{nodeDrained{in.Node, false}},
			a.conf.Cluster.UndrainNode(ctx, in.Node)
	})
	operation(a, huma.Operation{
		OperationID: "get-cluster", Method: http.MethodGet, Path: "/v1/cluster", Tags: tags,
		Summary:     "Read how the cluster stands, and what it can bear",
		Description: "As this node saw it with its last beat.",
	}, a.cluster)
	a.described(putClusterDoc, a.putCluster)
	a.registerClaims()
}

func (a *API) nodes(ctx context.Context, in *Paging) (*listed[view.Node], error) {
	c, err := a.conf.Cluster.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(c.Nodes, func(n *store.Node) string { return n.Name }, nodeShelf, *in)
	if err != nil {
		return nil, err
	}
	return &listed[view.Node]{list[view.Node]{nodesOf(page), next}}, nil
}

func (a *API) cluster(ctx context.Context, _ *struct{}) (*struct{ Body view.Cluster }, error) {
	c, err := a.conf.Cluster.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	spare, err := a.spareWorkers(ctx)
	if err != nil {
		return nil, err
	}
	out := view.Cluster{
		Rebalance: c.Rebalance, Keys: c.Keys, Working: c.Working, Unowned: c.Unowned,
		Tolerance: c.Tolerance,
		Nodes:     nodesOf(c.Nodes),
		Budget:    view.Budget{Nodes: c.AtOnce, Workers: spare, Weakest: c.Weakest},
		Store:     c.Store, Version: a.conf.Version, Chores: make([]view.Chore, len(c.Chores)),
	}
	if c.Weakest == nil {
		out.Budget.Weakest = []string{}
	}
	for i, chore := range c.Chores {
		out.Chores[i] = view.Chore(chore)
	}
	return &struct{ Body view.Cluster }{out}, nil
}

// spareWorkers is how many workers can die with every replica still placeable: as many as the group
// can lose that can lose the fewest, and without any replica all that there are.
func (a *API) spareWorkers(ctx context.Context) (n int, err error) {
	workers, _, err := a.conf.Cluster.Workers(ctx, false)
	if err != nil {
		return 0, err
	}
	groups, err := a.conf.Groups.Groups(ctx)
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

func (a *API) putCluster(w *answer, r *http.Request) error {
	var in clusterIn
	if err := a.strict(w, r, &in); err != nil {
		return err
	}
	if in.Rebalance != "auto" && in.Rebalance != "manual" {
		return wrong("body.rebalance", "must be auto or manual")
	}
	if err := a.conf.Cluster.SetRebalance(r.Context(), in.Rebalance); err != nil {
		return err
	}
	w.note("rebalance", in.Rebalance)
	a.writeValue(w, http.StatusOK, in)
	return nil
}

func (a *API) drainNode(w *answer, r *http.Request) error {
	name := r.PathValue("node")
	var in drainIn
	_, err := knownQuery(r)
	if err == nil && r.ContentLength != 0 {
		err = a.strict(w, r, &in)
	}
	if err != nil {
		return err
	}
	if err := a.conf.Cluster.DrainNode(r.Context(), name, w.who.Name, in.Force); err != nil {
		p := a.refusal("POST /v1/nodes/{node}/drain", err)
		if errors.Is(err, store.ErrConflict) && !in.Force {
			p.Errors = []fault{{"body.force", "true drains it all the same"}}
		}
		return p
	}
	w.note("force", in.Force)
	a.writeValue(w, http.StatusOK, nodeDrained{name, true})
	return nil
}
