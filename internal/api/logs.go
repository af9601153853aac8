package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// TaskLogs keeps what tasks print. Errors are those of an [Engine].
type TaskLogs interface {
	Log(ctx context.Context, id task.ID, lines []task.LogLine) error
	// Lines reads lines from a position on (0 = the first).
	Lines(ctx context.Context, id task.ID, from int64, limit int) (store.LogPage, error)
}

// linesIn asks for a page of a task's log, or follows.
type linesIn struct {
	TaskPath
	LogReading
}

// logOf is a task's log: it ends soon after the task.
func (c *logCalls) logOf(id task.ID) textLog {
	return textLog{
		func(ctx context.Context, from int64, limit int) (store.LogPage, error) {
			page, err := c.logs.Lines(ctx, id, from, limit)
			return page, missing(err, id)
		},
		func(ctx context.Context) (bool, error) {
			v, err := c.glance(ctx, id)
			return v.State.Final(), err
		},
	}
}

var logDoc = described{
	op: huma.Operation{
		OperationID: "log-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/logs",
		Tags:        []string{"Work"},
		Summary:     "Add lines to a task's log",
		Description: "One JSON object a line; at most 10,000 lines a call. A line without a time gets the present one.",
		Parameters:  []*huma.Param{pathParameter("id", "the task's id")},
	},
	status: http.StatusOK, example: `{"stream":"stdout","text":"sent to ann"}`, body: lineIn{},
	bodyType: "application/x-ndjson", answer: logOut{},
}

// logCalls are the calls about logs of tasks.
type logCalls struct {
	door *API
	logs interface {
		TaskLogs
		TaskList
	}
}

func (c *logCalls) register() {
	c.door.described(logDoc, c.add)
	operation(c.door, huma.Operation{
		OperationID: "get-task-log", Method: http.MethodGet, Path: "/v1/tasks/{id}/logs",
		Tags:        []string{"Tasks"},
		Summary:     "Read or follow a task's log",
		Description: logAbout + "The stream ends when the task is final and its log was sent.",
		Responses:   c.door.logAnswers(),
	}, func(ctx context.Context, in *linesIn) (*huma.StreamResponse, error) {
		id, err := in.task()
		if err != nil {
			return nil, err
		}
		return c.door.readLog(ctx, c.logOf(id), in.LogReading)
	})
}

func (c *logCalls) add(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	if w.who.Role == roleWorker {
		v, err := c.glance(r.Context(), id)
		if err != nil {
			return err
		}
		if err := w.who.as(v.Worker); err != nil {
			return err
		}
	}
	add := func(ctx context.Context, lines []task.LogLine) error {
		return missing(c.logs.Log(ctx, id, lines), id)
	}
	return c.door.takeLines(w, r, id.String(), add)
}

// glance reads a task without its context, result and steps, which may be large.
func (c *logCalls) glance(ctx context.Context, id task.ID) (task.View, error) {
	above := task.ID{Batch: id.Batch, N: id.N + 1}
	if above.N < 0 { // there is no greater number in the batch
		above = task.ID{Batch: id.Batch + 1}
	}
	page, _, err := c.logs.Tasks(ctx, store.Filter{}, above, 1)
	if err != nil {
		return task.View{}, err
	}
	if len(page) == 0 || page[0].ID != id {
		return task.View{}, missing(store.ErrNotFound, id)
	}
	return page[0], nil
}
