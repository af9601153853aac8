package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// Claims looks after the keys of which each has one node.
type Claims interface {
	ClaimList
	// Rescan returns when this node has looked at all keys again, and claimed what is for it to
	// claim.
	Rescan(context.Context) error
	// ReleaseClaim asks the owner of a key to give it back after its current work; others are to
	// try first, and nobody's decision about the key stands any more.
	ReleaseClaim(ctx context.Context, key string) error
	// AssignClaim gives a key to a node. It is a store.ErrConflict when the node does not work,
	// does not claim such keys, or, without force, may own no more.
	AssignClaim(ctx context.Context, a store.ClaimAssignment) error
}

// ClaimList lists claims.
type ClaimList interface {
	// Claims lists them by key.
	Claims(context.Context) ([]store.Claim, error)
}

// claimOf is the claim as it is shown.
func claimOf(c *store.Claim) view.Claim {
	v := view.Claim{
		Key: c.Key, Owner: c.Owner, Token: c.Token, Since: timeAt(c.Since), Until: timeAt(c.Until),
	}
	if c.Assigned != "" {
		v.Assigned = &view.Assigned{
			Node: c.Assigned, By: c.AssignedBy, Until: timeAt(c.AssignedUntil),
		}
	}
	return v
}

// ClaimPath names a key. It is exported for huma.
type ClaimPath struct {
	Key string `path:"key" maxLength:"1024" doc:"its kind, a slash (as %2F), and its name" example:"mailbox%2Fa"`
}

type claimsIn struct {
	Paging
	Owner string `query:"owner" maxLength:"128" doc:"only those that this node looks after; - = those that nobody does"`
	Kind  string `query:"kind" maxLength:"128" doc:"only those of this kind"`
	Given bool   `query:"assigned" doc:"only those that somebody gave to a node"`
}

func (in *claimsIn) wants(c *store.Claim) bool {
	kind, _, _ := strings.Cut(c.Key, "/")
	owner := c.Owner
	if owner == "" {
		owner = "-"
	}
	return (in.Owner == "" || in.Owner == owner) && (in.Kind == "" || in.Kind == kind) &&
		(!in.Given || c.Assigned != "")
}

type assignIn struct {
	Key   string   `json:"key" maxLength:"1024" doc:"as the list of claims has it"`
	Node  string   `json:"node" doc:"that is to look after it"`
	For   duration `json:"for,omitzero" doc:"so long it stays there, whatever rebalancing would do; 1h, at most 8760h"`
	Force bool     `json:"force,omitempty" doc:"even if the node owns as many keys as it may"`
}

type assignOut struct {
	Key  string `json:"key"`
	Node string `json:"node"`
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

// shedIn is the body that lets a node give keys back.
type shedIn struct {
	Count int    `json:"count" minimum:"1" maximum:"1000000" doc:"so many keys, or all that it has"`
	Kind  string `json:"kind,omitempty" doc:"only keys of this kind, as schedule, group or a program's own"`
	Each  bool   `json:"each,omitempty" doc:"so many of each kind"`
	Force bool   `json:"force,omitempty" doc:"even if the other nodes may not own so many more"`
}

type shedOut struct {
	Name string   `json:"name"`
	Keys []string `json:"keys" nullable:"false" doc:"that it is to give back; those that somebody gave to it stay"`
}

var (
	releaseDoc = described{
		op: huma.Operation{
			OperationID: "release-claim", Method: http.MethodPost, Path: "/v1/claims/release",
			Tags:    []string{"Cluster"},
			Summary: "Ask the owner of a key to give it back",
			Description: "After its current work, within two beats. Other nodes are the first to take it then. An assignment of the key " +
				"is over.",
		},
		status: http.StatusOK, body: releaseIn{}, example: `{"key":"mailbox/a"}`,
		answer: releaseOut{},
	}
	assignDoc = described{
		op: huma.Operation{
			OperationID: "assign-claim", Method: http.MethodPost, Path: "/v1/claims/assign",
			Tags:    []string{"Cluster"},
			Summary: "Give a key to a node",
			Description: "Its owner gives it back after its current work, and the node claims it then, within two beats each. It stays there for the " +
				"time given, or until it is released or assigned again, or the node can't look after it. While the node does not work others have the key.",
		},
		status: http.StatusOK, body: assignIn{}, example: `{"key":"mailbox/a","node":"n1"}`,
		answer: assignOut{},
	}
	shedDoc = described{
		op: huma.Operation{
			OperationID: "release-node", Method: http.MethodPost, Path: "/v1/nodes/{node}/release",
			Tags:    []string{"Cluster"},
			Summary: "Let a node give so many of its keys back",
			Description: "A part of a drain: each after its current work, those first that are least its own; others take them. Where rebalancing is auto the node " +
				"gets its share again after a minute. Refused with 409 when the other nodes may not own so many more.",
			Parameters: []*huma.Param{pathParameter("node", "the node's name")},
		},
		status: http.StatusOK, body: shedIn{}, example: `{"count":5}`, answer: shedOut{},
	}
)

// claimCalls are the calls about the keys that nodes look after.
type claimCalls struct {
	door   *API
	claims Claims
	nodes  interface {
		ClusterView
		Shedder
	}
}

func (c *claimCalls) register() {
	tags := []string{"Cluster"}
	operation(c.door, huma.Operation{
		OperationID: "list-claims", Method: http.MethodGet, Path: "/v1/claims", Tags: tags,
		Summary: "List the keys that nodes look after",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-claim", Method: http.MethodGet, Path: "/v1/claims/{key}", Tags: tags,
		Summary: "Read who looks after a key",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "rescan-claims", Method: http.MethodPost, Path: "/v1/claims/rescan",
		Tags:        tags,
		Summary:     "Wait until this node has looked at all keys again",
		Description: "At most two beats, and what the store takes. Every node does by itself with each of its beats.",
	}, c.rescan)
	c.door.described(releaseDoc, c.release)
	c.door.described(assignDoc, c.assign)
	c.door.described(shedDoc, c.shed)
}

func (c *claimCalls) list(ctx context.Context, in *claimsIn) (*listed[view.Claim], error) {
	all, err := c.claims.Claims(ctx)
	if err != nil {
		return nil, err
	}
	var wanted []store.Claim
	for i := range all {
		if in.wants(&all[i]) {
			wanted = append(wanted, all[i])
		}
	}
	page, next, err := paged(wanted, func(claim *store.Claim) string {
		return claim.Key
	}, claimShelf, in.Paging)
	if err != nil {
		return nil, err
	}
	items := make([]view.Claim, len(page))
	for i := range page {
		items[i] = claimOf(&page[i])
	}
	return &listed[view.Claim]{list[view.Claim]{items, next}}, nil
}

func (c *claimCalls) get(ctx context.Context, in *ClaimPath) (*struct{ Body view.Claim }, error) {
	claim, err := claimOfKey(ctx, c.claims, in.Key)
	if err != nil {
		return nil, err
	}
	return &struct{ Body view.Claim }{claim}, nil
}

// claimOfKey reads who looks after a key.
func claimOfKey(ctx context.Context, claims ClaimList, key string) (view.Claim, error) {
	all, err := claims.Claims(ctx)
	if err != nil {
		return view.Claim{}, err
	}
	for i := range all {
		if all[i].Key == key {
			return claimOf(&all[i]), nil
		}
	}
	return view.Claim{}, fmt.Errorf("key %.140q: %w", key, store.ErrNotFound)
}

func (c *claimCalls) rescan(ctx context.Context, _ *struct{}) (*struct{ Body rescanOut }, error) {
	if err := c.claims.Rescan(ctx); err != nil {
		return nil, err
	}
	seen, err := c.nodes.Cluster(ctx)
	return &struct{ Body rescanOut }{rescanOut{seen.Keys, seen.Unowned}}, err
}

// checkKey says what is wrong with the name of a key.
func checkKey(key string) error {
	if !limits.ValidText(key, maxParameter) || key == "" {
		return wrong("body.key", "must be 1 to %d bytes of printable UTF-8", maxParameter)
	}
	return nil
}

func (c *claimCalls) release(w *answer, r *http.Request) error {
	var in releaseIn
	err := c.door.strict(w, r, &in)
	if err == nil {
		err = checkKey(in.Key)
	}
	if err != nil {
		return err
	}
	if err := c.claims.ReleaseClaim(r.Context(), in.Key); err != nil {
		return err
	}
	w.note("key", in.Key)
	c.door.writeValue(w, http.StatusOK, releaseOut(in))
	return nil
}

func (c *claimCalls) assign(w *answer, r *http.Request) error {
	var in assignIn
	err := c.door.strict(w, r, &in)
	if err == nil {
		err = checkKey(in.Key)
	}
	switch {
	case err != nil:
		return err
	case !limits.ValidName(in.Node):
		return wrong("body.node", "%.40q %s", in.Node, limits.NameRule)
	case in.For.Duration < 0 || in.For.Duration > store.MaxAssigned:
		return wrong("body.for", "must be 0s (1h) to %v", store.MaxAssigned)
	}
	err = c.claims.AssignClaim(r.Context(), store.ClaimAssignment{
		Key: in.Key, Node: in.Node, By: w.who.Name, For: in.For.Duration, Force: in.Force,
	})
	if err != nil {
		return c.door.forcible("POST /v1/claims/assign", err, in.Force)
	}
	w.note("key", in.Key)
	w.note("node", in.Node)
	w.note("force", in.Force)
	c.door.writeValue(w, http.StatusOK, assignOut{in.Key, in.Node})
	return nil
}

func (c *claimCalls) shed(w *answer, r *http.Request) error {
	var in shedIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	switch {
	case in.Count < 1 || in.Count > 1_000_000:
		return wrong("body.count", "must be 1 to 1000000")
	case in.Kind != "" && !limits.ValidName(in.Kind):
		return wrong("body.kind", "%.40q %s", in.Kind, limits.NameRule)
	}
	name := r.PathValue("node")
	keys, err := c.nodes.ShedNode(r.Context(), store.Shedding{
		Node: name, Count: in.Count, Kind: in.Kind, Each: in.Each, Force: in.Force,
	})
	if err != nil {
		return c.door.forcible("POST /v1/nodes/{node}/release", err, in.Force)
	}
	w.note("keys", len(keys))
	w.note("force", in.Force)
	c.door.writeValue(w, http.StatusOK, shedOut{name, append([]string{}, keys...)})
	return nil
}
