package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rotahq/rota/view"
)

func nodePath(name string) string { return "/v1/nodes/" + segment(name) }

// Nodes lists the nodes, by name, also those that left in order or died within a day.
func (c *Client) Nodes(ctx context.Context) ([]view.Node, error) {
	nodes, err := list[view.Node](ctx, c, "/v1/nodes")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes, nil
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

// Cluster reads how the cluster stands, as the node that answers saw it last.
func (c *Client) Cluster(ctx context.Context) (view.Cluster, error) {
	var cluster view.Cluster
	if err := c.get(ctx, request{path: "/v1/cluster"}, &cluster); err != nil {
		return view.Cluster{}, fmt.Errorf("read cluster: %w", err)
	}
	return cluster, nil
}
