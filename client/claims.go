package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/view"
)

// ClaimFilter selects keys; an empty field selects all.
type ClaimFilter struct {
	Owner    string // a node; "-" = nobody
	Kind     string
	Assigned bool // only those that somebody gave to a node
}

// Claims lists the keys that nodes look after and a filter selects, by key.
func (c *Client) Claims(ctx context.Context, f ClaimFilter) ([]view.Claim, error) {
	query := url.Values{}
	if f.Owner != "" {
		query.Set("owner", f.Owner)
	}
	if f.Kind != "" {
		query.Set("kind", f.Kind)
	}
	if f.Assigned {
		query.Set("assigned", "true")
	}
	claims, err := listBy[view.Claim](ctx, c, "/v1/claims", query)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return claims, nil
}

// ClaimOf reads who looks after a key.
func (c *Client) ClaimOf(ctx context.Context, key string) (view.Claim, error) {
	var claim view.Claim
	if err := c.get(
		ctx, request{path: "/v1/claims/" + segment(key)}, &claim,
	); err != nil {
		return view.Claim{}, fmt.Errorf("read claim %q: %w", key, err)
	}
	return claim, nil
}

// claimCall sends a body to a call about claims, which may be sent twice.
func (c *Client) claimCall(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.send(ctx, request{method: method, path: path, body: text, safe: true}, answer)
}

// ReleaseClaim asks the node that looks after a key to give it back after its current work; others
// take it then. An assignment of the key is over.
func (c *Client) ReleaseClaim(ctx context.Context, key string) error {
	err := c.claimCall(ctx, http.MethodPost, "/v1/claims/release", struct {
		Key string `json:"key"`
	}{key}, nil)
	if err != nil {
		return fmt.Errorf("release %q: %w", key, err)
	}
	return nil
}

// ClaimAssignment says how a key is given to a node.
type ClaimAssignment struct {
	For   time.Duration // so long it stays there; 0 = an hour
	Force bool          // even if the node owns as many keys as it may
}

// AssignClaim gives a key to a node: its owner gives it back after its current work, and that node
// takes it. ErrConflict: the node does not work, or may own no more.
func (c *Client) AssignClaim(ctx context.Context, key, node string, a ClaimAssignment) error {
	err := c.claimCall(ctx, http.MethodPost, "/v1/claims/assign", struct {
		Key   string   `json:"key"`
		Node  string   `json:"node"`
		For   duration `json:"for,omitzero"`
		Force bool     `json:"force,omitempty"`
	}{key, node, duration(a.For), a.Force}, nil)
	if err != nil {
		return fmt.Errorf("assign %q to node %q: %w", key, node, err)
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

// Shedding says what of a node's keys is to be given back.
type Shedding struct {
	Count int    `json:"count"`           // keys
	Kind  string `json:"kind,omitempty"`  // only of this kind
	Each  bool   `json:"each,omitempty"`  // Count keys of each kind
	Force bool   `json:"force,omitempty"` // even if the other nodes may not own so many more
}

// ReleaseNode lets a node give so many of its keys back, each after its current work, and returns
// which. ErrConflict: the node does not work, or the others may not own so many more.
func (c *Client) ReleaseNode(ctx context.Context, name string, s Shedding) ([]string, error) {
	var answer struct {
		Keys []string `json:"keys"`
	}
	if err := c.claimCall(
		ctx, http.MethodPost, nodePath(name)+"/release", s, &answer,
	); err != nil {
		return nil, fmt.Errorf("release keys of node %q: %w", name, err)
	}
	return answer.Keys, nil
}

// SetRebalance says when nodes give keys back, for all of them: "auto" or "manual".
func (c *Client) SetRebalance(ctx context.Context, when string) error {
	err := c.claimCall(ctx, http.MethodPut, "/v1/cluster", struct {
		Rebalance string `json:"rebalance"`
	}{when}, nil)
	if err != nil {
		return fmt.Errorf("set rebalance %q: %w", when, err)
	}
	return nil
}
