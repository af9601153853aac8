package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// EditIn is what is to be changed of tasks: the body of PATCH /v1/tasks/{id}. It is exported as
// TaskItem is.
type EditIn struct {
	Priority    *duration         `json:"priority,omitempty" doc:"head start in the queue"`
	Due         *instant          `json:"due,omitempty" doc:"not together with delay"`
	Delay       *duration         `json:"delay,omitempty" doc:"due so long after the call"`
	Context     json.RawMessage   `json:"context,omitempty" doc:"any JSON value, kept byte for byte; null = none"`
	GroupKey    *string           `json:"group_key,omitempty" maxLength:"256" doc:"an empty text = none"`
	MaxAttempts *int              `json:"max_attempts,omitempty" minimum:"0" maximum:"1000000" doc:"0 = the queue's"`
	StartWithin *duration         `json:"start_within,omitempty" doc:"so long after it is due it expires, unless it was handed out by then; 0s = it waits for ever"`
	Meta        map[string]string `json:"meta,omitzero" maxProperties:"16" doc:"takes the place of all strings that the task carries, as in a submission; {} takes them away"`
}

func (in *EditIn) edit() task.Edit {
	e := task.Edit{
		Context: in.Context, GroupKey: in.GroupKey, MaxAttempts: in.MaxAttempts, Meta: in.Meta,
	}
	if in.Priority != nil {
		e.Priority = &in.Priority.Duration
	}
	if in.Due != nil {
		e.Due = (*time.Time)(in.Due)
	}
	if in.Delay != nil {
		e.Delay = &in.Delay.Duration
	}
	if in.StartWithin != nil {
		e.StartWithin = &in.StartWithin.Duration
	}
	return e
}

// bulkEditIn is the body of POST /v1/tasks/patch.
type bulkEditIn struct {
	BulkIn
	Set *EditIn `json:"set" nullable:"false"`
}

// noteEdit tells what a call changed, but never a context, a key or a meta.
func (w *answer) noteEdit(e *task.Edit) {
	w.note("changed_fields", strings.Join(e.Changed(), ","))
	if e.Priority != nil {
		w.note("priority", *e.Priority)
	}
	if e.Due != nil {
		w.note("due", e.Due.UTC().Format(time.RFC3339Nano))
	}
	if e.Delay != nil {
		w.note("delay", *e.Delay)
	}
	if e.MaxAttempts != nil {
		w.note("max_attempts", *e.MaxAttempts)
	}
	if e.StartWithin != nil {
		w.note("start_within", *e.StartWithin)
	}
}

const editText = "It keeps its attempts and what it has been through; its steps show the edit. Contexts are as large as the queue allows. " +
	"A task that is still in its first stage, with the context that was submitted, is as if it had been submitted with the new one, also when it is retried whole."

var editDoc = described{
	op: huma.Operation{
		OperationID: "edit-task", Method: http.MethodPatch, Path: "/v1/tasks/{id}",
		Tags:    []string{"Tasks"},
		Summary: "Change a task that neither runs nor is over",
		Description: "Fields that are left out stay as they are; meta is replaced whole. " + editText +
			" 409 while it runs and once it is over; 503 when another node has it and does not give it up at once.",
		Parameters: []*huma.Param{pathParameter("id", "the task's id")},
	},
	status: http.StatusOK, body: EditIn{}, example: `{"priority":"30s","context":{"to":"ann@example.org"}}`,
	answer: actedBody{},
}

func (c *taskCalls) edit(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	var in EditIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	e := in.edit()
	state, err := c.tasks.Edit(r.Context(), w.who.Name, id, e)
	if err != nil {
		return missing(err, id)
	}
	w.noteEdit(&e)
	c.door.writeValue(w, http.StatusOK, actedBody{id, state})
	return nil
}

func bulkEditDoc() described {
	d := bulkDoc("patch", "Change all tasks that a filter selects and that neither run nor are over")
	d.op.Description += " In set, fields that are left out stay as they are; meta is replaced whole. " + editText
	d.example = `{"filter":{"queue":"mail","state":"waiting"},"set":{"delay":"0s"},"dry_run":true}`
	d.body = bulkEditIn{}
	return d
}

func (c *taskCalls) bulkEdit(w *answer, r *http.Request) error {
	var in bulkEditIn
	if err := c.door.strict(w, r, &in); err != nil {
		return unknownFilter(err)
	}
	if in.Set == nil {
		return wrong("body.set", "is missing")
	}
	e := in.Set.edit()
	w.noteEdit(&e)
	return c.bulkBy(w, r, &in.BulkIn, func(
		ctx context.Context, f store.Filter, after task.ID,
	) (store.ActedAll, error) {
		return c.tasks.EditAll(ctx, w.who.Name, e, f, after, in.DryRun)
	})
}

// Edits changes what tasks are that neither run nor are over.
type Edits interface {
	// Edit says in which state the task is then. Locations in an InvalidError are "body.…".
	Edit(ctx context.Context, by string, id task.ID, e task.Edit) (task.State, error)
	// EditAll edits a page of the tasks that the filter selects; a dry run only counts them.
	// Locations are "body.set.…".
	EditAll(ctx context.Context, by string, e task.Edit, f store.Filter, after task.ID,
		dryRun bool) (store.ActedAll, error)
}
