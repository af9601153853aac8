package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// ContextHead is what a stage of a task was handed, without the context itself. It is exported as
// TaskItem is.
type ContextHead struct {
	Seq     int32     `json:"seq" doc:"the step from which on it stands; -1 = it was submitted"`
	Stage   string    `json:"stage" doc:"the stage that was handed it; where the task was over, the one in which it ended"`
	Outcome task.Kind `json:"outcome,omitzero" doc:"of that step; left out = it was submitted"`
	By      string    `json:"by,omitempty" doc:"the worker that reported that, or who asked for it; left out = it was submitted"`
	Time    instant   `json:"time" nullable:"true"`
}

// ContextItem documents what cutContexts writes. It is exported as TaskItem is.
type ContextItem struct {
	ContextHead
	Context any `json:"context" doc:"byte for byte as it was given; null = none"`
}

var contextsDoc = described{
	op: huma.Operation{
		OperationID: "list-contexts", Method: http.MethodGet, Path: "/v1/tasks/{id}/contexts",
		Tags:    []string{"Tasks"},
		Summary: "List what the stages of a task were handed, oldest first",
		Description: "The context that was submitted, and one for each step from which on the task had another stage or another context than before: " +
			"a report with a new stage or a context, an edit of the context, a retry that begins with an earlier one. " +
			"A page ends at 4 MiB, one context in any case; it may be short, even empty, while next is not.",
		Parameters: []*huma.Param{
			pathParameter("id", "the task's id"),
			limitParameter, queryParameter("cursor", "next of the page before", "", nil),
		},
	},
	status: http.StatusOK, answer: list[ContextItem]{},
}

func (c *taskCalls) contexts(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	query, err := knownQuery(r, "limit", "cursor")
	if err != nil {
		return err
	}
	q := store.ContextsQuery{ID: id, Bytes: fullPage}
	if q.Limit, err = parseLimit(query); err != nil {
		return err
	}
	if q.From, err = parseContextCursor(query.Get("cursor")); err != nil {
		return err
	}
	page, next, err := c.pageOfContexts(r.Context(), w, q)
	if err != nil {
		return err
	}
	c.door.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
		return cutContexts(b, page, next)
	})
	return nil
}

// pageOfContexts reads a page for an answer. As with a task, how large it is only reading it tells:
// one that does not fit is dropped and read again when there is room.
func (c *taskCalls) pageOfContexts(
	ctx context.Context, w *answer, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	a := c.door
	spare := a.large.limit / 4
	for {
		if !a.loads.await(ctx, 1, 0, patience) {
			return nil, 0, busy("too many tasks are being read")
		}
		page, next, err = c.tasks.Contexts(ctx, q)
		a.loads.give(1)
		size := int64(0)
		for i := range page {
			size += 256 + int64(len(page[i].Context))
		}
		size = min(size, a.large.limit-spare)
		if err != nil || size <= max(w.kept, smallAnswer) ||
			a.keep(ctx, &w.call, size-w.kept, spare, 0) {
			return page, next, missing(err, q.ID)
		}
		page = nil // nothing is held on to while this one waits
		if !a.keep(ctx, &w.call, size-w.kept, spare, patience) {
			return nil, 0, busy("too many large answers are under way")
		}
	}
}

// cutContexts appends a page of contexts. They go in as they are, or are cut.
func cutContexts(b []byte, page []task.StageContext, next int32) ([]byte, []wire.Cut) {
	var cuts []wire.Cut
	b = append(b, `{"items":[`...)
	for i := range page {
		c := &page[i]
		if i > 0 {
			b = append(b, ',')
		}
		head := encoded(ContextHead{c.Seq, c.Stage, c.Outcome, c.By, instant(c.Time)})
		b = append(append(b, head[:len(head)-1]...), `,"context":`...)
		b, cuts = wire.AppendRaw(b, cuts, opaque(c.Context), smallAnswer)
		b = append(b, '}')
	}
	place := ""
	if next > 0 {
		place = cursor(stepShelf, strconv.Itoa(int(next)))
	}
	return append(append(append(b, `],"next":`...), encoded(place)...), '}'), cuts
}

// parseContextCursor is where a list of contexts goes on.
func parseContextCursor(text string) (int32, error) {
	place, err := parseCursor(stepShelf, text)
	if err != nil || place == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(place, 10, 32)
	if err != nil || n < 1 {
		return 0, wrong("query.cursor", "is not a cursor of this list")
	}
	return int32(n), nil
}
