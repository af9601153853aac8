package rota

import (
	"context"

	"github.com/rotahq/rota/task"
)

// Tree is a task and what hangs below it: the tasks that it has submitted in its present run, and
// theirs, depth by depth, at most limit (0 = task.MaxTree, which is the most). ErrNotFound.
func (n *Node) Tree(ctx context.Context, id task.ID, limit int) (task.Tree, error) {
	if limit <= 0 {
		limit = task.MaxTree
	}
	return n.tasks.Tree(ctx, id, limit)
}
