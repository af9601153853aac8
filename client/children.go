package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// AddChildren submits children of a task that a worker has in its hands, all or none of them,
// durably before it answers: token is that of the hand-out. What Meta the task has they have, too,
// with their own on top. ErrConflict when the hand-out is no longer the worker's. It is repeated
// only when each of them has a Key; else ErrOutcomeUnknown says that they may be there.
//
// Handlers call worker.AddChildren; children that come with an outcome need no call
// (task.Outcome.Spawning).
func (c *Client) AddChildren(
	ctx context.Context, worker string, id task.ID, token string, children []task.Submission,
) ([]task.Receipt, error) {
	if len(children) == 0 {
		return nil, nil
	}
	err := refused(wire.CheckContexts(children))
	var a answer
	if err == nil {
		size := 64 + len(worker) + len(token)
		for i := range children {
			size += submissionSize(&children[i])
		}
		a, err = c.do(ctx, request{
			method: http.MethodPost, path: taskPath(id) + "/children", safe: allKeyed(children),
			body: wire.AppendAdding(make([]byte, 0, size), &wire.Adding{
				Worker: worker, Token: token, Tasks: children,
			}),
		})
	}
	var receipts []task.Receipt
	if err == nil {
		receipts, err = wire.ParseReceipts(a.body)
	}
	if err != nil {
		return nil, fmt.Errorf("add %d children to task %v: %w", len(children), id, err)
	}
	return receipts, nil
}

// Children lists the children of a task, oldest first: those that it submitted while it ran, also
// before it was retried. They have their results, but no contexts and steps. state "" = in any; at
// most limit (0 = 100, at most 1,000) from cursor on ("" = the start). next is the cursor of the
// following page, "" after the last; a page may be short, even empty, while next is not "".
// ErrNotFound when there is no such task.
func (c *Client) Children(
	ctx context.Context, parent task.ID, state task.State, cursor string, limit int,
) (children []task.View, next string, err error) {
	query := url.Values{}
	if state != "" {
		query.Set("state", string(state))
	}
	var p page[taskView]
	if err := c.get(ctx, request{
		path: taskPath(parent) + "/children", query: paged(query, cursor, limit),
	}, &p); err != nil {
		return nil, "", fmt.Errorf("list children of task %v: %w", parent, err)
	}
	children = make([]task.View, len(p.Items))
	for i := range p.Items {
		children[i] = p.Items[i].task()
	}
	return children, p.Next, nil
}

// CancelTree is Cancel, also of all that hangs below the task: its children and theirs, whether
// they have begun or not.
func (c *Client) CancelTree(ctx context.Context, id task.ID) error {
	return c.act(ctx, id, "cancel", tree)
}

// RetryTree is Retry, and cancels all that hangs below the task from before.
func (c *Client) RetryTree(ctx context.Context, id task.ID, from ...Replay) error {
	return c.retry(ctx, id, tree, from)
}

// DeleteTree is Delete, and cancels all that hangs below the task.
func (c *Client) DeleteTree(ctx context.Context, id task.ID) error {
	return c.delete(ctx, id, tree)
}

// tree makes a call one about all that hangs below a task, too.
var tree = url.Values{"tree": {"true"}}
