package api

import (
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
	if !c.door.loads.await(r.Context(), 1, 0, patience) {
		return busy("too many tasks are being read")
	}
	page, next, err := c.tasks.Contexts(r.Context(), q)
	c.door.loads.give(1)
	if err != nil {
		return missing(err, id)
	}
	size := int64(0)
	for i := range page {
		size += 256 + int64(len(page[i].Context))
	}
	// as a task that is larger than all there is
	size = min(size, c.door.large.limit-c.door.large.limit/4)
	if size > max(w.kept, smallAnswer) &&
		!c.door.keep(r.Context(), &w.call, size-w.kept, c.door.large.limit/4, patience) {
		return busy("too many large answers are under way")
	}
	c.door.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
		return cutContexts(b, page, next)
	})
	return nil
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
