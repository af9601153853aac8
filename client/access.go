package client

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/view"
)

// Access says who the client's token is, and what it may do.
func (c *Client) Access(ctx context.Context) (view.Access, error) {
	var a view.Access
	if err := c.get(ctx, request{path: "/v1/access"}, &a); err != nil {
		return view.Access{}, fmt.Errorf("read access: %w", err)
	}
	return a, nil
}
