package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/rotahq/rota/internal/explain"
	"github.com/rotahq/rota/task"
)

// prior is a task that another one had to wait for, as a hand-out tells it.
type prior struct {
	State   task.State     `json:"state" doc:"in which it ended; a task that was deleted counts as cancelled"`
	ID      task.ID        `json:"id"`
	Ref     string         `json:"ref,omitempty" doc:"what the call that submitted both called it; left out = it was named by its id"`
	If      task.Condition `json:"if" enum:"done,ended" doc:"how it had to end"`
	Context any            `json:"context,omitempty" doc:"that it had at its end, byte for byte"`
	Result  any            `json:"result,omitempty" doc:"byte for byte"`
	LeftOut bool           `json:"left_out,omitempty" doc:"context and result are not here: those of all of them are more than 1 MiB, or in 64 KiB of small ones, or the task is deleted. Ask for it by its id"`
}

// priorItem is a task that another one waits for, or waited for, in its view.
type priorItem struct {
	ID    task.ID        `json:"id"`
	Ref   string         `json:"ref,omitempty" doc:"what the call that submitted both called it; left out = it was named by its id"`
	If    task.Condition `json:"if" enum:"done,ended" doc:"done: it has to be done; ended: to be over, in whatever state"`
	State task.State     `json:"state,omitempty" doc:"in which it ended; left out = it has not, as far as the one that waits has been told. A task that was deleted counts as cancelled"`
}

func priorItems(list []task.Prior) []priorItem {
	items := make([]priorItem, len(list))
	for i := range list {
		p := &list[i]
		items[i] = priorItem{ID: p.ID, Ref: p.Ref, If: p.If, State: p.State}
	}
	return items
}

// mayWaitFor tells whether tasks may wait for those that they name by id: they are told what those
// left, so whoever submits them has to reach the queues of those.
func (a *API) mayWaitFor(
	ctx context.Context, who principal, tasks []task.Submission, location string,
) error {
	if who.scope == nil {
		return nil
	}
	var ids []task.ID
	at := map[task.ID]string{} // where they stand first
	for i := range tasks {
		for k, name := range tasks[i].After {
			id, err := task.ParseID(name) // what reads as one is no ref
			if err != nil || at[id] != "" {
				continue
			}
			at[id] = fmt.Sprintf("%s[%d].after[%d]", location, i, k)
			ids = append(ids, id)
		}
	}
	for part := range slices.Chunk(ids, 1000) {
		queues, err := a.conf.Engine.QueuesOf(ctx, part)
		if err != nil {
			return err
		}
		for i, queue := range queues { // whether there is the task the engine says
			if queue != "" && !who.scope.queue(queue) {
				return refuse(http.StatusForbidden,
					"%s: task %s is of a queue that is not in the scope of this token",
					at[part[i]], part[i])
			}
		}
	}
	return nil
}

// otherFacts adds to a task that waits for others how the first of those stand that it waits for.
func (a *API) otherFacts(ctx context.Context, t *explain.Task) error {
	if t.Awaits == nil || !t.Awaits.Others {
		return nil
	}
	var ids []task.ID
	for _, p := range t.After {
		if p.State != "" {
			continue
		}
		if t.OthersOpen++; len(ids) < explain.ShownOthers {
			t.Others = append(t.Others, explain.Other{Prior: p})
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	states, err := a.conf.Engine.States(ctx, ids)
	if err != nil {
		return err
	}
	for i := range states {
		t.Others[i].Queue, t.Others[i].Now = states[i].Queue, states[i].State
	}
	return nil
}
