package api

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// replayIn is the body of POST /v1/tasks/{id}/retry.
type replayIn struct {
	Stage *string `json:"stage,omitempty" maxLength:"256" doc:"the stage to begin in, with the context with which the task first came there"`
	Whole bool    `json:"whole,omitempty" doc:"begin in the first stage, with the context that was submitted"`
}

// bulkRetryIn is the body of POST /v1/tasks/retry.
type bulkRetryIn struct {
	BulkIn
	Stage *string `json:"stage,omitempty" maxLength:"256" doc:"the stage to begin in, with the context with which each task first came there; those that never were there stay as they are"`
	Whole bool    `json:"whole,omitempty" doc:"begin in the first stage, with the context that was submitted"`
}

// replayOf is where a body lets tasks begin.
func replayOf(stage *string, whole bool) (store.Replay, error) {
	if whole && stage != nil {
		return store.Replay{}, wrong("body.whole", "begins in the first stage; leave stage out")
	}
	if stage != nil && !limits.ValidText(*stage, limits.MaxStage) {
		return store.Replay{}, wrong("body.stage", "must be at most %d bytes of printable UTF-8",
			limits.MaxStage)
	}
	return store.Replay{Whole: whole, Stage: stage}, nil
}

// noteReplay tells where a call let tasks begin.
func (w *answer) noteReplay(from store.Replay) {
	if from.Stage != nil {
		w.note("stage", *from.Stage)
	}
	if from.Whole {
		w.note("whole", true)
	}
}

var retryDoc = described{
	op: huma.Operation{
		OperationID: "retry-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/retry",
		Tags:    []string{"Tasks"},
		Summary: "Let a task that is done, dead or cancelled begin again",
		Description: "At attempt 1. Where the body names no stage, a task that is done begins in its first stage, with the context that was submitted; another one goes on " +
			"in the stage in which it ended, with the context that it has. The body may be left out.",
		Parameters: []*huma.Param{
			pathParameter("id", "the task's id"),
			{Name: "tree", In: "query", Description: "cancel all that hangs below it from before, too",
				Schema: &huma.Schema{Type: huma.TypeBoolean}},
		},
	},
	status: http.StatusOK, body: replayIn{}, optional: true, example: `{"stage":"send"}`,
	answer: actedBody{},
}

func (c *taskCalls) retry(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	var in replayIn
	query, err := knownQuery(r, "tree")
	if err == nil && r.ContentLength != 0 {
		err = c.door.strict(w, r, &in, "tree")
	}
	if err != nil {
		return err
	}
	from, err := replayOf(in.Stage, in.Whole)
	if err != nil {
		return err
	}
	tree, err := parseFlag(query, "tree")
	if err != nil {
		return err
	}
	if tree {
		if err := c.mayTree(r.Context(), w.who, id); err != nil {
			return err
		}
	}
	if err := c.tasks.ActOn(r.Context(), store.Action{
		Kind: task.KindReplayed, By: w.who.Name, Replay: from, Tree: tree,
	}, id); err != nil {
		return missing(err, id)
	}
	w.noteReplay(from)
	if tree {
		w.note("tree", true)
	}
	c.door.writeValue(w, http.StatusOK, actedBody{id, task.Ready})
	return nil
}

// parseFlag reads a parameter that is true or false; left out it is false.
func parseFlag(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, wrong("query."+name, "must be true or false")
	}
	return yes, nil
}

func bulkRetryDoc() described {
	d := bulkDoc("retry", "Let all tasks that a filter selects begin again")
	d.op.Description += " Without a state in its filter it is about dead tasks only, whatever else the filter says, also with all: tasks that are done or cancelled begin again " +
		"when the filter's state says done or cancelled."
	d.example = `{"filter":{"queue":"mail","state":"dead"},"dry_run":true}`
	d.body = bulkRetryIn{}
	return d
}

func (c *taskCalls) bulkRetry(w *answer, r *http.Request) error {
	var in bulkRetryIn
	if err := c.door.strict(w, r, &in); err != nil {
		return unknownFilter(err)
	}
	from, err := replayOf(in.Stage, in.Whole)
	if err != nil {
		return err
	}
	w.noteReplay(from)
	if in.Filter != nil && in.Filter.State != "" {
		w.note("state", in.Filter.State)
	}
	return c.bulk(w, r, store.Action{Kind: task.KindReplayed, Replay: from}, &in.BulkIn)
}
