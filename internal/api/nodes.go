package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
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
}

// Claims looks after the keys of which each has one node.
type Claims interface {
	// Claims lists them by key.
	Claims(context.Context) ([]store.Claim, error)
	// Rescan returns when this node has looked at all keys again, and claimed what is for it to
	// claim.
	Rescan(context.Context) error
	// ReleaseClaim asks the owner of a key to give it back after its current work; others are to
	// try first.
	ReleaseClaim(ctx context.Context, key string) error
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
		Strikes: strikes, Joined: timeAt(n.Joined), Seen: timeAt(n.Seen),
	}
}

func nodesOf(nodes []store.Node) []view.Node {
	items := make([]view.Node, len(nodes))
	for i := range nodes {
		items[i] = nodeOf(&nodes[i])
	}
	return items
}

// claimOf is the claim as it is shown.
func claimOf(c *store.Claim) view.Claim {
	return view.Claim{
		Key: c.Key, Owner: c.Owner, Token: c.Token, Since: timeAt(c.Since), Until: timeAt(c.Until),
	}
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

type releaseIn struct {
	Key string `json:"key" maxLength:"1024" doc:"as the list of claims has it"`
}

type releaseOut struct {
	Key string `json:"key"`
}

type rescanOut struct {
	Keys    int `json:"keys"`
	Unowned int `json:"unowned" doc:"keys that nobody looks after"`
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
	releaseDoc = described{
		op: huma.Operation{
			OperationID: "release-claim", Method: http.MethodPost, Path: "/v1/claims/release",
			Tags:        []string{"Cluster"},
			Summary:     "Ask the owner of a key to give it back",
			Description: "After its current work. Other nodes are the first to take it then.",
		},
		status: http.StatusOK, body: releaseIn{}, example: `{"key":"mailbox/a"}`,
		answer: releaseOut{},
	}
)

func (a *API) registerCluster() {
	tags := []string{"Cluster"}
	operation(a, huma.Operation{
		OperationID: "list-nodes", Method: http.MethodGet, Path: "/v1/nodes", Tags: tags,
		Summary:     "List nodes by name",
		Description: "Those that left in order are not there; those that died are, for a day.",
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
		OperationID: "list-claims", Method: http.MethodGet, Path: "/v1/claims", Tags: tags,
		Summary: "List the keys that nodes look after",
	}, a.claims)
	operation(a, huma.Operation{
		OperationID: "rescan-claims", Method: http.MethodPost, Path: "/v1/claims/rescan",
		Tags:        tags,
		Summary:     "Wait until this node has looked at all keys again",
		Description: "Every node does by itself with each of its beats.",
	}, a.rescan)
	a.described(releaseDoc, a.release)
	operation(a, huma.Operation{
		OperationID: "get-cluster", Method: http.MethodGet, Path: "/v1/cluster", Tags: tags,
		Summary:     "Read how the cluster stands, and what it can bear",
		Description: "As this node saw it with its last beat.",
	}, a.cluster)
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

func (a *API) claims(ctx context.Context, in *Paging) (*listed[view.Claim], error) {
	all, err := a.conf.Cluster.Claims(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, func(c *store.Claim) string { return c.Key }, claimShelf, *in)
	if err != nil {
		return nil, err
	}
	items := make([]view.Claim, len(page))
	for i := range page {
		items[i] = claimOf(&page[i])
	}
	return &listed[view.Claim]{list[view.Claim]{items, next}}, nil
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
		Keys: c.Keys, Working: c.Working, Unowned: c.Unowned, Tolerance: c.Tolerance,
		Nodes:  nodesOf(c.Nodes),
		Budget: view.Budget{Nodes: c.AtOnce, Workers: spare, Weakest: c.Weakest},
		Store:  c.Store, Version: a.conf.Version, Chores: make([]view.Chore, len(c.Chores)),
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

func (a *API) rescan(ctx context.Context, _ *struct{}) (*struct{ Body rescanOut }, error) {
	if err := a.conf.Cluster.Rescan(ctx); err != nil {
		return nil, err
	}
	c, err := a.conf.Cluster.Cluster(ctx)
	return &struct{ Body rescanOut }{rescanOut{c.Keys, c.Unowned}}, err
}

func (a *API) release(w *answer, r *http.Request) error {
	var in releaseIn
	if err := a.strict(w, r, &in); err != nil {
		return err
	}
	if !limits.ValidText(in.Key, maxParameter) || in.Key == "" {
		return wrong("body.key", "must be 1 to %d bytes of printable UTF-8", maxParameter)
	}
	if err := a.conf.Cluster.ReleaseClaim(r.Context(), in.Key); err != nil {
		return err
	}
	w.note("key", in.Key)
	a.writeValue(w, http.StatusOK, releaseOut(in))
	return nil
}
