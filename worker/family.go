package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// family is what a Queue is, too, whose tasks may have children: a client, or the dispatcher inside
// a node.
type family interface {
	AddChildren(ctx context.Context, worker string, id task.ID, token string,
		children []task.Submission) ([]task.Receipt, error)
	Children(ctx context.Context, parent task.ID, state task.State, cursor string, limit int) (
		page []task.View, next string, err error)
}

// familyOf is the hand-out that a handler's context belongs to, and where its task has children.
func familyOf(ctx context.Context) (*hand, family, error) {
	h, _ := ctx.Value(workKey{}).(*hand)
	if h == nil {
		return nil, nil, errors.New("the context is not that of a task's handler")
	}
	f, ok := h.worker.config.Queue.(family)
	if !ok {
		return nil, nil, errors.New("the worker's queue knows no children")
	}
	return h, f, nil
}

// AddChildren submits children of the task that ctx, a handler's, belongs to, all or none of them,
// durably before it answers, while the handler works on: as when there are more than one outcome
// may carry. The stage that follows may wait for them. Those that are to come with the outcome, and
// not without it, task.Outcome.Spawning adds. An attempt that is repeated adds its children again,
// unless they have keys.
//
// Errors: ErrStale when the hand-out is no longer this worker's: the handler had better return.
func AddChildren(ctx context.Context, children ...task.Submission) ([]task.Receipt, error) {
	h, f, err := familyOf(ctx)
	if err == nil && len(children) == 0 {
		return nil, nil
	}
	if err == nil {
		err = wire.CheckContexts(children)
	}
	if err != nil {
		return nil, fmt.Errorf("add children: %w", err)
	}
	got, err := f.AddChildren(ctx, h.worker.config.Name, h.task.ID, h.task.Token, children)
	if errors.Is(err, task.ErrConflict) {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	return got, err
}

// ChildrenOf yields the children of the task that ctx, a handler's, belongs to, oldest first, with
// their results, without contexts and steps: those in a state, or all, "". It reads them by pages,
// so that a stage may go through however many there are. An error is the last that it yields.
func ChildrenOf(ctx context.Context, state task.State) iter.Seq2[task.View, error] {
	return func(yield func(task.View, error) bool) {
		h, f, err := familyOf(ctx)
		if err != nil {
			yield(task.View{}, fmt.Errorf("list children: %w", err))
			return
		}
		for cursor := ""; ; {
			const limit = 200
			page, next, err := f.Children(ctx, h.task.ID, state, cursor, limit)
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if err != nil {
				yield(task.View{}, err)
				return
			}
			if next == "" || next == cursor { // the same again would never end
				return
			}
			cursor = next
		}
	}
}
