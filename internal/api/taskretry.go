package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// replayIn is the body of POST /v1/tasks/{id}/retry.
type replayIn struct {
	Stage *string `json:"stage,omitempty" maxLength:"128" doc:"the stage to begin in, with the context with which the task first came there; left out = the one in which it died, with the context that it has"`
	Whole bool    `json:"whole,omitempty" doc:"begin in the first stage, with the context that was submitted"`
}

var retryDoc = described{
	op: huma.Operation{
		OperationID: "retry-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/retry",
		Tags:        []string{"Tasks"},
		Summary:     "Let a dead task begin again",
		Description: "At attempt 1 of the stage in which it died, or of another one in which it was. The body may be left out.",
		Parameters:  []*huma.Param{pathParameter("id", "the task's id")},
	},
	status: http.StatusOK, body: replayIn{}, optional: true, example: `{"stage":"send"}`,
	answer: actedBody{},
}

func (a *API) retryTask(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	var in replayIn
	if _, err = knownQuery(r); err == nil && r.ContentLength != 0 {
		err = a.strict(w, r, &in)
	}
	switch {
	case err != nil:
		return err
	case in.Whole && in.Stage != nil:
		return wrong("body.whole", "begins in the first stage; leave stage out")
	}
	if err := a.conf.Engine.Replay(
		r.Context(), w.who.Name, id, store.Replay{Whole: in.Whole, Stage: in.Stage},
	); err != nil {
		return missing(err, id)
	}
	a.writeValue(w, http.StatusOK, actedBody{id, task.Ready})
	return nil
}
