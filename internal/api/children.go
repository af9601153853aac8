package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Parents submit tasks while they run. Errors are those of an [Engine].
type Parents interface {
	// AddChildren submits children of a task that a worker has in its hands. Locations in an
	// InvalidError are "body.…".
	AddChildren(ctx context.Context, worker string, id task.ID, token string,
		children []task.Submission) ([]task.Receipt, error)
	// Children lists the children of a task with their results, oldest first, at most limit from a
	// cursor on, "" = the first; a page may be short while next is not "".
	Children(ctx context.Context, parent task.ID, state task.State, cursor string, limit int) (
		page []task.View, next string, err error)
	Trees
}

// Trees shows what hangs below tasks.
type Trees interface {
	// Tree shows a task and what hangs below it, at most limit tasks.
	Tree(ctx context.Context, id task.ID, limit int) (task.Tree, error)
}

// addIn is the body of POST /v1/tasks/{id}/children.
type addIn struct {
	Worker string       `json:"worker" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128" doc:"the one that has the task in its hands"`
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

// childCalls are the calls about tasks that other tasks submit while they run.
type childCalls struct {
	door    *API
	hot     *hotCalls // which children may be submitted
	parents Parents
}

func (c *childCalls) register() {
	c.door.described(addDoc, c.add)
	c.door.described(childrenDoc, c.list)
	operation(c.door, huma.Operation{
		OperationID: "show-tree", Method: http.MethodGet, Path: "/v1/tasks/{id}/tree",
		Tags:    []string{"Tasks"},
		Summary: "Show a task and what hangs below it: its children and theirs",
		Description: "Those of its present run, without contexts, results and steps: first all children, then all of theirs. " +
			"Where limit leaves some out, the task below which they are missing says how many. Those of queues outside of the token's scope are left out, too.",
	}, c.tree)
}

func (c *childCalls) add(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	body, err := c.door.body(w, r, c.door.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	in, err := wire.ParseAdding(body)
	if err == nil {
		err = c.door.parsed(&w.call, len(in.Tasks), c.door.conf.MaxBodies/4)
	}
	if err != nil {
		return err
	}
	if err := c.mayAdd(r.Context(), &w.call, id, in); err != nil {
		return err
	}
	keepAlone(body, in.Tasks)
	var receipts []task.Receipt
	err = c.door.gate.pass(burden(in.Tasks), func() (err error) {
		receipts, err = c.parents.AddChildren(
			context.WithoutCancel(r.Context()), in.Worker, id, in.Token, in.Tasks)
		return err
	})
	if err != nil {
		return missing(err, id)
	}
	c.door.write(w, http.StatusCreated, func(b []byte) []byte {
		return wire.AppendReceipts(b, receipts)
	})
	return nil
}

// mayAdd tells whether a caller may add children to a task in a worker's name.
func (c *childCalls) mayAdd(ctx context.Context, by *call, id task.ID, in *wire.Adding) error {
	in.Worker = names.Canonical(in.Worker)
	if err := by.who.as(in.Worker); err != nil {
		return err
	}
	for i := range in.Tasks {
		in.Tasks[i].Queue = names.Canonical(in.Tasks[i].Queue)
		if problem := by.who.maySpawn(in.Tasks[i].Queue); problem != "" {
			return refuse(http.StatusForbidden, "tasks[%d].queue: %s", i, problem)
		}
	}
	if err := c.hot.mayWaitFor(ctx, by.who, in.Tasks, "body.tasks"); err != nil {
		return err
	}
	// the hand-out is to be the caller's as it is where it reports of it
	given := []wire.Report{{Report: task.Report{ID: id, Token: in.Token}}}
	answers := make([]wire.Answer, 1)
	if err := c.hot.screen(ctx, by, in.Worker, given, answers); err != nil {
		return err
	}
	if answers[0].Status != "" {
		return refuse(http.StatusConflict, "task %v: %s", id, answers[0].Detail)
	}
	return c.hot.makers.admit(&Caller{who: by.who, from: by.from}, in.Tasks, time.Now())
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

func (c *childCalls) list(w *answer, r *http.Request) error {
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
	page, next, err := c.family(r.Context(), w, id, state, after, limit)
	if err != nil {
		return missing(err, id)
	}
	page = visible(w.who, page, func(v *task.View) bool { return w.who.scope.queue(v.Queue) })
	c.door.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) {
		return cutChildren(b, page, next)
	})
	return nil
}

// firstChildren is how many children are read first for a page, when nobody knows yet how large
// their results are; each further read is twice as long.
const firstChildren = 8

// family reads a page of children: at most limit, fewer when their results are large.
func (c *childCalls) family(
	ctx context.Context, w *answer, id task.ID, state task.State, after task.ID, limit int,
) (page []task.View, next string, err error) {
	if after != (task.ID{}) {
		next = after.String()
	}
	size := int64(0)
	for n := firstChildren; len(page) < limit && size < fullPage; n *= 2 {
		if !c.door.loads.await(ctx, 1, 0, patience) {
			return nil, "", busy("too many tasks are being read")
		}
		piece, more, err := c.parents.Children(ctx, id, state, next, min(n, limit-len(page)))
		c.door.loads.give(1)
		if err != nil {
			return nil, "", err
		}
		next = more
		for i := range piece {
			size += 512 + int64(len(piece[i].Result)+len(piece[i].Error))
		}
		page = append(page, piece...)
		if size > max(w.kept, smallAnswer) &&
			!c.door.keep(ctx, &w.call, size-w.kept, c.door.large.limit/4, patience) {
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
