package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Actions changes tasks from outside: task.KindCancelled, KindMoved (run now), KindReplayed (retry
// a final one), KindRemoved.
type Actions interface {
	// ActOn does what the Kind, By, Replay and Tree of an action say. A stage in which a task never
	// was is a store.ErrConflict.
	ActOn(ctx context.Context, what store.Action, id task.ID) error
	// ActAll does what the Kind, By and Replay of an action say to a page of the tasks that the
	// filter selects; a dry run only counts them. A replay without a state is of dead ones.
	ActAll(ctx context.Context, what store.Action, f store.Filter, after task.ID,
		dryRun bool) (store.ActedAll, error)
}

// TreeIn is in the input of calls that may be about all that hangs below a task. It is exported as
// TaskItem is.
type TreeIn struct {
	Tree bool `query:"tree" doc:"cancel all below it, too: its children and theirs, whether they have begun or not"`
}

// act does something to a task for a call.
func (c *taskCalls) act(
	ctx context.Context, by *Caller, id task.ID, kind task.Kind, tree bool,
) error {
	if tree {
		if err := c.mayTree(ctx, by.who, id); err != nil {
			return err
		}
		by.w.note("tree", true)
	}
	return missing(c.tasks.ActOn(ctx, store.Action{
		Kind: kind, By: by.who.Name, Tree: tree,
	}, id), id)
}

func (c *taskCalls) remove(ctx context.Context, in *struct {
	TaskPath
	Caller
	TreeIn
}) (*struct{}, error) {
	id, err := in.task()
	if err != nil {
		return nil, err
	}
	return nil, c.act(ctx, &in.Caller, id, task.KindRemoved, in.Tree)
}

// acted answers a verb.
type acted struct{ Body actedBody }

type actedBody struct {
	ID    task.ID    `json:"id"`
	State task.State `json:"state" doc:"the one that the call brought about"`
}

func (c *taskCalls) cancel(ctx context.Context, in *struct {
	TaskPath
	Caller
	TreeIn
}) (*acted, error) {
	id, err := in.task()
	if err != nil {
		return nil, err
	}
	if err := c.act(ctx, &in.Caller, id, task.KindCancelled, in.Tree); err != nil {
		return nil, err
	}
	return &acted{actedBody{id, task.Cancelled}}, nil
}

// verb registers POST /v1/tasks/{id}/NAME.
func (c *taskCalls) verb(name, summary string, kind task.Kind, state task.State) {
	operation(c.door, huma.Operation{
		OperationID: name + "-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/" + name,
		Tags: []string{"Tasks"}, Summary: summary,
	}, func(ctx context.Context, in *struct {
		TaskPath
		Caller
	}) (*acted, error) {
		id, err := in.task()
		if err != nil {
			return nil, err
		}
		if err := c.act(ctx, &in.Caller, id, kind, false); err != nil {
			return nil, err
		}
		return &acted{actedBody{id, state}}, nil
	})
}
