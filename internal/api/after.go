package api

import "github.com/rotahq/rota/task"

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
