package client

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// ExplainTask says why a task does not run, what would change that and, where it can be said, when
// it will probably begin. ErrNotFound.
func (c *Client) ExplainTask(ctx context.Context, id task.ID) (view.Explanation, error) {
	var e view.Explanation
	if err := c.get(ctx, request{path: taskPath(id) + "/explain"}, &e); err != nil {
		return view.Explanation{}, fmt.Errorf("explain task %s: %w", id, err)
	}
	return e, nil
}

// ExplainClaim says why no node looks after a key, or why it is not where somebody wants it.
// ErrNotFound.
func (c *Client) ExplainClaim(ctx context.Context, key string) (view.Explanation, error) {
	var e view.Explanation
	path := "/v1/claims/" + segment(key) + "/explain"
	if err := c.get(ctx, request{path: path}, &e); err != nil {
		return view.Explanation{}, fmt.Errorf("explain claim %q: %w", key, err)
	}
	return e, nil
}

// ExplainQueue says why the tasks of a queue do not run. ErrNotFound.
func (c *Client) ExplainQueue(ctx context.Context, name string) (view.Explanation, error) {
	var e view.Explanation
	if err := c.get(ctx, request{path: queuePath(name) + "/explain"}, &e); err != nil {
		return view.Explanation{}, fmt.Errorf("explain queue %q: %w", name, err)
	}
	return e, nil
}
