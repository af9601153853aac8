package api

import (
	"context"
	"net/http"

	"github.com/rotahq/rota/task"
)

// TreeItem is a task in a tree, and what hangs below it. It is exported as TaskItem is.
type TreeItem struct {
	TaskItem
	Children *childCounts `json:"children,omitempty" doc:"how many tasks it has submitted while it ran, since it was retried last, and how many of them have ended how; left out = none"`
	After    []priorItem  `json:"after,omitempty" doc:"the tasks that had to end before it could begin, or have to; left out = none"`
	Began    instant      `json:"began" nullable:"true" doc:"when it was handed out first, since it was retried last; null = it was not"`
	Since    instant      `json:"since" nullable:"true" doc:"when it came into the state in which it is: of one that is over, its end"`
	Below    []TreeItem   `json:"below" nullable:"false" doc:"the tasks that it has submitted, oldest first"`
	LeftOut  int64        `json:"left_out,omitempty" doc:"how many of these are not shown; what hangs below them is not counted"`
}

// treeIn names a task whose tree is shown.
type treeIn struct {
	TaskPath
	Caller
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"at most so many tasks"`
}

func (c *childCalls) tree(ctx context.Context, in *treeIn) (*struct{ Body TreeItem }, error) {
	id, err := in.task()
	if err != nil {
		return nil, err
	}
	if !c.door.loads.await(ctx, 1, 0, patience) {
		return nil, busy("too many tasks are being read")
	}
	t, err := c.parents.Tree(ctx, id, in.Limit)
	c.door.loads.give(1)
	if err != nil {
		return nil, missing(err, id)
	}
	if err := c.door.room(ctx, &in.w.call, errorsIn(&t)); err != nil {
		return nil, err
	}
	return &struct{ Body TreeItem }{treeOf(&t, in.who.scope)}, nil
}

// errorsIn is how long the errors are that tasks of a tree have.
func errorsIn(t *task.Tree) int64 {
	n := int64(len(t.Task.Error))
	for i := range t.Below {
		n += errorsIn(&t.Below[i])
	}
	return n
}

// treeOf is a tree as it is shown to whom a scope lets see some queues.
func treeOf(t *task.Tree, scope *scope) TreeItem {
	item := TreeItem{
		TaskItem: itemOf(&t.Task), Children: (*childCounts)(t.Task.Children),
		Began: instant(t.Began), Since: instant(t.Since),
		Below: make([]TreeItem, 0, len(t.Below)), LeftOut: t.LeftOut,
	}
	if len(t.Task.After) > 0 {
		item.After = priorItems(t.Task.After)
	}
	for i := range t.Below {
		if !scope.queue(t.Below[i].Task.Queue) {
			item.LeftOut++
			continue
		}
		item.Below = append(item.Below, treeOf(&t.Below[i], scope))
	}
	return item
}

// mayTree tells whether a caller may cancel all that hangs below a task: not what is of queues out
// of the scope of its token, nor what can't be looked at.
func (c *taskCalls) mayTree(ctx context.Context, who principal, id task.ID) error {
	if who.scope == nil {
		return nil
	}
	if !c.door.loads.await(ctx, 1, 0, patience) {
		return busy("too many tasks are being read")
	}
	t, err := c.trees.Tree(ctx, id, task.MaxTree)
	c.door.loads.give(1)
	if err != nil {
		return missing(err, id)
	}
	return who.scope.reachesBelow(&t)
}

// reachesBelow tells whether all that hangs below a task, and has not ended, is in a scope.
func (s *scope) reachesBelow(t *task.Tree) error {
	if t.LeftOut > 0 {
		return refuse(http.StatusForbidden, "more than %d tasks hang below this one: "+
			"whether all are in the scope of this token can't be told", task.MaxTree-1)
	}
	for i := range t.Below {
		v := &t.Below[i].Task
		if !v.State.Final() && !s.queue(v.Queue) {
			return refuse(http.StatusForbidden, "task %s, which hangs below this one, "+
				"is of a queue that is not in the scope of this token", v.ID)
		}
		if err := s.reachesBelow(&t.Below[i]); err != nil {
			return err
		}
	}
	return nil
}
