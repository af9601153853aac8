package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rotahq/rota/task"
)

// Tree shows a task and what hangs below it: the tasks that it has submitted in its present run,
// and theirs, depth by depth, at most limit (0 = task.MaxTree, which is the most). They have no
// contexts, results and steps. What is left out is counted below whom it is missing. ErrNotFound
// when there is no such task.
func (c *Client) Tree(ctx context.Context, id task.ID, limit int) (task.Tree, error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var v treeView
	if err := c.get(ctx, request{path: taskPath(id) + "/tree", query: query}, &v); err != nil {
		return task.Tree{}, fmt.Errorf("show the tree of task %v: %w", id, err)
	}
	return v.tree(), nil
}

// treeView is a tree in the API's JSON.
type treeView struct {
	taskView
	Began   time.Time  `json:"began"`
	Since   time.Time  `json:"since"`
	Below   []treeView `json:"below"`
	LeftOut int64      `json:"left_out"`
}

func (v *treeView) tree() task.Tree {
	t := task.Tree{
		Task: v.task(), Began: v.Began, Since: v.Since, LeftOut: v.LeftOut,
		Below: make([]task.Tree, len(v.Below)),
	}
	for i := range v.Below {
		t.Below[i] = v.Below[i].tree()
	}
	return t
}
