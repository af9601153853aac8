package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// addIn is the body of POST /v1/tasks/{id}/children.
type addIn struct {
	Worker string       `json:"worker" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]{0,127}$" doc:"the one that has the task in its hands"`
	Token  string       `json:"token" doc:"of the hand-out"`
	Tasks  []submission `json:"tasks" nullable:"false" maxItems:"10000" doc:"children; unique is not for them"`
}

// ChildItem is a child in a list. It is exported as TaskItem is.
type ChildItem struct {
	TaskItem
	Result any `json:"result" doc:"byte for byte as it was given; null = none"`
}

// childCounts is how the children of a task stand.
type childCounts struct {
	Total     int64 `json:"total"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
}

var (
	addDoc = described{
		op: huma.Operation{
			OperationID: "add-children", Method: http.MethodPost, Path: "/v1/tasks/{id}/children",
			Tags:    []string{"Work"},
			Summary: "Add children to a task that runs",
			Description: "All or none, durably before the answer; the answer is in the same order. 409 when the hand-out is no longer the worker's. " +
				"Any node does it. A call whose answer was lost adds its children again, unless they have keys.",
			Parameters: []*huma.Param{pathParameter("id", "the task's id")},
		},
		status: http.StatusCreated, body: addIn{},
		example: `{"worker":"w1","token":"5.1.0.9","tasks":[{"queue":"mail","context":{"to":"bob"},"key":"bob"}]}`,
		answer:  submitOut{},
	}
	childrenDoc = described{
		op: huma.Operation{
			OperationID: "list-children", Method: http.MethodGet, Path: "/v1/tasks/{id}/children",
			Tags:    []string{"Tasks"},
			Summary: "List the children of a task, oldest first",
			Description: "With their results, without contexts and steps: the tasks that it submitted while it ran, also before it was retried. " +
				"A page may be short, even empty, while next is not.",
			Parameters: []*huma.Param{
				pathParameter("id", "the task's id"),
				queryParameter("state", "those in this state", stateText(""), "dead"),
				limitParameter, queryParameter("cursor", "next of the page before", "", nil),
			},
		},
		status: http.StatusOK, answer: list[ChildItem]{},
	}
)

// stateText describes the states of tasks.
type stateText string

// Schema describes it in the OpenAPI document.
func (stateText) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, state := range task.States {
		s.Enum = append(s.Enum, string(state))
	}
	return s
}

func (a *API) addChildren(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	body, err := a.body(w, r, a.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	in, err := wire.ParseAdding(body)
	if err != nil {
		return err
	}
	if err := a.mayAdd(r.Context(), &w.call, id, in); err != nil {
		return err
	}
	keepAlone(body, in.Tasks)
	var receipts []task.Receipt
	err = a.gate.pass(burden(in.Tasks), func() (err error) {
		receipts, err = a.conf.Engine.AddChildren(
			context.WithoutCancel(r.Context()), in.Worker, id, in.Token, in.Tasks)
		return err
	})
	if err != nil {
		return missing(err, id)
	}
	a.write(w, http.StatusCreated, func(b []byte) []byte {
		return wire.AppendReceipts(b, receipts)
	})
	return nil
}

// mayAdd tells whether a caller may add children to a task in a worker's name.
func (a *API) mayAdd(ctx context.Context, c *call, id task.ID, in *wire.Adding) error {
	in.Worker = names.Canonical(in.Worker)
	if err := c.who.as(in.Worker); err != nil {
		return err
	}
	for i := range in.Tasks {
		in.Tasks[i].Queue = names.Canonical(in.Tasks[i].Queue)
		if problem := c.who.maySpawn(in.Tasks[i].Queue); problem != "" {
			return refuse(http.StatusForbidden, "tasks[%d].queue: %s", i, problem)
		}
	}
	if err := a.mayWaitFor(ctx, c.who, in.Tasks, "body.tasks"); err != nil {
		return err
	}
	// the hand-out is to be the caller's as it is where it reports of it
	given := []wire.Report{{Report: task.Report{ID: id, Token: in.Token}}}
	answers := make([]wire.Answer, 1)
	if err := a.screen(ctx, c, in.Worker, given, answers); err != nil {
		return err
	}
	if answers[0].Status != "" {
		return refuse(http.StatusConflict, "task %v: %s", id, answers[0].Detail)
	}
	return a.makers.admit(&Caller{who: c.who, from: c.from}, in.Tasks, time.Now())
}

// maySpawn says why a caller may not make tasks of a queue children of another; "" = it may. A
// worker's token submits only where it is trusted with what stands in a task (Tokens.trusts): where
// it is for this worker, and its scope names the queue.
func (p principal) maySpawn(queue string) string {
	switch {
	case p.Role == roleWorker && (p.scope == nil || p.Name == "*"):
		return fmt.Sprintf("a worker submits to %.140q when the token file has a line for it, by "+
			"name, that says queues=%.140s", queue, queue)
	case !p.scope.queue(queue):
		return fmt.Sprintf("queue %.140q is not in the scope of this token", queue)
	}
	return ""
}

// screenChildren answers reports whose children their sender may not submit: as invalid, each for
// itself.
func (a *API) screenChildren(
	ctx context.Context, c *call, given []wire.Report, answers []wire.Answer,
) error {
	for i := range given {
		spawn := given[i].Spawn
		if len(spawn) == 0 || answers[i].Status != "" {
			continue
		}
		for k := range spawn {
			spawn[k].Queue = names.Canonical(spawn[k].Queue)
			if problem := c.who.maySpawn(spawn[k].Queue); problem != "" {
				answers[i].Status = task.Invalid
				answers[i].Detail = fmt.Sprintf("spawn[%d].queue: %s", k, problem)
				break
			}
		}
		if answers[i].Status != "" {
			continue
		}
		err := a.makers.admit(&Caller{who: c.who, from: c.from}, spawn, time.Now())
		if err == nil {
			err = a.mayWaitFor(ctx, c.who, spawn, "spawn")
		}
		p, ok := errors.AsType[*problem](err)
		switch {
		case ok && (p.Status == http.StatusUnprocessableEntity ||
			p.Status == http.StatusForbidden):
			answers[i].Status = task.Invalid
			answers[i].Detail = strings.Replace(p.Detail, "body.tasks", "spawn", 1)
		case err != nil:
			return err
		}
	}
	return nil
}

// keepAlone gives tasks their own contexts where the body that they are parts of is much more than
// all of them.
func keepAlone(body []byte, tasks []task.Submission) {
	used := 0
	for i := range tasks {
		used += len(tasks[i].Context)
	}
	if wasteful(body, used) {
		for i := range tasks {
			tasks[i].Context = bytes.Clone(tasks[i].Context)
		}
	}
}

func (a *API) children(w *answer, r *http.Request) error {
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	query, err := knownQuery(r, "state", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := parseLimit(query)
	if err != nil {
		return err
	}
	after, err := parseTaskCursor(query.Get("cursor"))
	if err != nil {
		return err
	}
	state := task.State(query.Get("state"))
	if state != "" && !state.Valid() {
		return wrong("query.state", "%.40q is none", string(state))
	}
	page, next, err := a.family(r.Context(), w, id, state, after, limit)
	if err != nil {
		return missing(err, id)
	}
	page = visible(w.who, page, func(v *task.View) bool { return w.who.scope.queue(v.Queue) })
	a.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
		return cutChildren(b, page, next)
	})
	return nil
}

// firstChildren is how many children are read first for a page, when nobody knows yet how large
// their results are; each further read is twice as long.
const firstChildren = 8

// family reads a page of children: at most limit, fewer when their results are large.
func (a *API) family(
	ctx context.Context, w *answer, id task.ID, state task.State, after task.ID, limit int,
) (page []task.View, next string, err error) {
	if after != (task.ID{}) {
		next = after.String()
	}
	size := int64(0)
	for n := firstChildren; len(page) < limit && size < fullPage; n *= 2 {
		if !a.loads.await(ctx, 1, 0, patience) {
			return nil, "", busy("too many tasks are being read")
		}
		piece, more, err := a.conf.Engine.Children(ctx, id, state, next, min(n, limit-len(page)))
		a.loads.give(1)
		if err != nil {
			return nil, "", err
		}
		next = more
		for i := range piece {
			size += 512 + int64(len(piece[i].Result)+len(piece[i].Error))
		}
		page = append(page, piece...)
		if size > max(w.kept, smallAnswer) &&
			!a.keep(ctx, &w.call, size-w.kept, a.large.limit/4, patience) {
			return nil, "", busy("too many large answers are under way")
		}
		if next == "" || len(piece) == 0 { // a page that found none has searched enough
			break
		}
	}
	return page, next, nil
}

// cutChildren appends a page of children. Results go in as they are, or are cut.
func cutChildren(b []byte, page []task.View, next string) ([]byte, []wire.Cut) {
	var cuts []wire.Cut
	b = append(b, `{"items":[`...)
	for i := range page {
		v := &page[i]
		if i > 0 {
			b = append(b, ',')
		}
		head := encoded(itemOf(v))
		b = append(append(b, head[:len(head)-1]...), `,"result":`...)
		b, cuts = wire.AppendRaw(b, cuts, opaque(v.Result), smallAnswer)
		b = append(b, '}')
	}
	if next != "" {
		next = cursor(taskShelf, next)
	}
	return append(append(append(b, `],"next":`...), encoded(next)...), '}'), cuts
}
