package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Tasks reads tasks and changes them from outside. Errors are those of an [Engine].
type Tasks interface {
	TaskReader
	TaskList
	Actions
	Edits
	// Await returns when the task is final, or wait is over, and reads nothing of it that may be
	// large.
	Await(ctx context.Context, id task.ID, wait time.Duration) error
	// Contexts tells what the stages of a task were handed, as contract.Views does.
	Contexts(
		ctx context.Context, q store.ContextsQuery,
	) (page []task.StageContext, next int32, err error)
}

// TaskReader reads a task.
type TaskReader interface {
	// Task answers with all there is. The API never lets it wait, but awaits before: what was read
	// takes memory.
	Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error)
}

// TaskList lists tasks without what may be large of them, newest first.
type TaskList interface {
	Tasks(
		ctx context.Context, f store.Filter, after task.ID, limit int,
	) (page []task.View, next task.ID, err error)
}

// TaskItem is a task in a list. It is exported for huma, which does not look into unexported
// embedded types.
type TaskItem struct {
	ID       task.ID           `json:"id"`
	Queue    string            `json:"queue"`
	State    task.State        `json:"state" enum:"blocked,waiting,ready,running,done,dead,cancelled,expired"`
	Stage    string            `json:"stage" doc:"the present stage, or the one it ended in"`
	Attempt  int               `json:"attempt" doc:"of the present, the next or, when final, the last hand-out"`
	Priority duration          `json:"priority" doc:"head start in the queue"`
	Due      instant           `json:"due" nullable:"true"`
	Expires  instant           `json:"expires,omitzero" doc:"when it expires, unless somebody begins it before; left out when it never does, as one that was begun"`
	Created  instant           `json:"created" nullable:"true"`
	Worker   string            `json:"worker" doc:"the one that has it, or had it last"`
	Started  instant           `json:"started,omitzero" doc:"of a running task: when the present hand-out began"`
	Stuck    string            `json:"stuck,omitempty" doc:"why it seems stuck; only in lists with stuck=true"`
	Progress float64           `json:"progress,omitempty" doc:"of a running task, 0 to 1, as its worker said last"`
	Note     string            `json:"note,omitempty" doc:"what the worker says with it, for people"`
	Key      string            `json:"key"`
	GroupKey string            `json:"group_key"`
	Meta     map[string]string `json:"meta,omitempty" doc:"the short strings that it was submitted with; left out = none"`
	Error    string            `json:"error,omitempty" doc:"of the newest step: why the last attempt failed; left out when it did not"`
}

// taskWhole is a single task; it documents what cutTask writes.
type taskWhole struct {
	TaskItem
	Awaits   *awaits      `json:"awaits,omitempty" doc:"of a blocked task: the signal, the children or the tasks that it waits for"`
	Parent   *task.ID     `json:"parent,omitempty" doc:"of a child: the task that submitted it while it ran"`
	Children *childCounts `json:"children,omitempty" doc:"how many tasks it has submitted while it ran, since it was retried last, and how many of them have ended how; left out = none"`
	After    []priorItem  `json:"after,omitempty" doc:"the tasks that had to end before it could begin, or have to; left out = none"`
	Context  any          `json:"context" doc:"byte for byte as it was given; null = none"`
	Result   any          `json:"result" doc:"byte for byte as it was given; null = none"`
	Steps    []stepItem   `json:"steps" nullable:"false" doc:"what became of each hand-out, oldest first; the newest 1,000"`
}

type stepItem struct {
	Seq      int32     `json:"seq"`
	Outcome  task.Kind `json:"outcome"`
	Stage    string    `json:"stage" doc:"the stage that ran"`
	Worker   string    `json:"worker"`
	Started  instant   `json:"started" nullable:"true" doc:"null for what was asked for and did not run"`
	Finished instant   `json:"finished" nullable:"true"`
	Error    string    `json:"error"`
	Changed  []string  `json:"changed,omitempty" doc:"of an edit: what it changed"`
}

// fieldsOf are the names that an edit's step says.
func fieldsOf(changed string) []string {
	if changed == "" {
		return nil
	}
	return strings.Split(changed, ", ")
}

func itemOf(v *task.View) TaskItem {
	return TaskItem{
		ID: v.ID, Queue: v.Queue, State: v.State, Stage: v.Stage, Attempt: v.Attempt,
		Priority: duration{v.Priority},
		Due:      instant(v.Due), Expires: instant(v.Expires),
		Created: instant(v.Created), Worker: v.Worker,
		Started: instant(v.Started), Stuck: v.Stuck,
		Progress: v.Progress, Note: v.Note, Key: v.Key, GroupKey: v.GroupKey,
		Meta: v.Meta, Error: v.Error,
	}
}

// cutTask appends a whole task. Context and result go in as they are, since encoding/json would
// strip their spaces, or are cut.
func cutTask(b []byte, v *task.View) ([]byte, []wire.Cut) {
	head := encoded(itemOf(v))
	steps := make([]stepItem, len(v.Steps))
	for i, s := range v.Steps {
		steps[i] = stepItem{
			s.Seq, s.Kind, s.Stage, s.Worker, instant(s.Started), instant(s.Finished), s.Error,
			fieldsOf(s.Changed),
		}
	}
	var cuts []wire.Cut
	b = append(b, head[:len(head)-1]...)
	if v.Awaits != nil {
		b = append(append(b, `,"awaits":`...), encoded(awaitsOf(v.Awaits))...)
	}
	if v.Parent != (task.ID{}) {
		b = append(append(b, `,"parent":`...), encoded(v.Parent)...)
	}
	if v.Children != nil {
		b = append(append(b, `,"children":`...), encoded(childCounts(*v.Children))...)
	}
	if len(v.After) > 0 {
		b = append(append(b, `,"after":`...), encoded(priorItems(v.After))...)
	}
	b, cuts = wire.AppendRaw(append(b, `,"context":`...), cuts, opaque(v.Context), smallAnswer)
	b, cuts = wire.AppendRaw(append(b, `,"result":`...), cuts, opaque(v.Result), smallAnswer)
	b = append(append(b, `,"steps":`...), encoded(steps)...)
	return append(b, '}'), cuts
}

// opaque is a context or a result as an answer shows it.
func opaque(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return readable(v)
}

// readable is a stored value as it can stand in an answer. A store may hold some that are no JSON,
// from before every way in was checked: of these it is the beginning, as a string, so that the
// values beside them can be read.
func readable(v json.RawMessage) json.RawMessage {
	if len(v) == 0 || wire.CheckValue(v) == "" {
		return v
	}
	return encoded(string(v[:min(len(v), smallAnswer)]))
}

// TaskPath names a task. It is exported as TaskItem is.
type TaskPath struct {
	ID string `path:"id" doc:"the task's id" example:"1jwrrkvpcj00713"`
}

// task reads the id. What is no id names no task.
func (in TaskPath) task() (task.ID, error) {
	id, err := task.ParseID(in.ID)
	if err != nil {
		p := refuse(http.StatusNotFound, "%.60q is not a task id", in.ID)
		p.Errors = []fault{{Location: "path.id", Message: "is not a task id"}}
		return id, p
	}
	return id, nil
}

// filterIn selects tasks.
type filterIn struct {
	Queue  string  `query:"queue"`
	State  string  `query:"state" enum:"blocked,waiting,ready,running,done,dead,cancelled,expired"`
	Stage  string  `query:"stage"`
	Worker string  `query:"worker" doc:"the one that has it, or had it last"`
	Key    string  `query:"key"`
	Since  instant `query:"since" doc:"created at or after"`
	Until  instant `query:"until" doc:"created before"`
	Error  string  `query:"error" maxLength:"256" doc:"a regular expression (RE2) that the task's error matches somewhere; tasks without an error never do"`
	Caller
	Stuck bool `query:"stuck" doc:"only running ones that seem stuck: for longer than three times what 99 of 100 in their queue and stage took lately, and than a minute; or at a worker that is silent. Each says why"`
	Paging
}

var taskDoc = described{
	op: huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{id}",
		Tags:        []string{"Tasks"},
		Summary:     "Read a task with its steps, or wait for its end",
		Description: "With wait it answers when the task is final, at latest after so long.",
		Parameters: []*huma.Param{
			pathParameter("id", "the task's id"),
			queryParameter("wait", "at most 1m", duration{}, "30s"),
		},
	},
	status: http.StatusOK, answer: taskWhole{},
}

// taskCalls are the calls about tasks, but for those that have to be fast (hotCalls).
type taskCalls struct {
	door    *API
	tasks   Tasks
	workers WorkerList // of a silent one a task seems stuck
	trees   Trees      // what a call with a tree is about
}

func (c *taskCalls) register() {
	const tag = "Tasks"
	operation(c.door, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks", Tags: []string{tag},
		Summary: "List tasks, newest first",
		Description: "Without contexts, results and steps. A page may be short, even empty, while next is not: a page searches a bounded number of tasks, " +
			"whatever the filter and however many there are. Whoever goes on until next is empty is shown each task that the filter selects once. " +
			"meta.NAME=TEXT, for one or more names, lists the tasks that carry these strings, as in meta.customer=7.",
		Middlewares: huma.Middlewares{takeMeta},
	}, c.list)
	c.door.described(taskDoc, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-task", Method: http.MethodDelete, Path: "/v1/tasks/{id}",
		Tags:    []string{tag},
		Summary: "Forget a task that is not running",
	}, c.remove)
	operation(c.door, huma.Operation{
		OperationID: "cancel-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/cancel",
		Tags:    []string{tag},
		Summary: "Cancel a task; the worker that runs it learns of it with its next beat",
	}, c.cancel)
	c.door.described(retryDoc, c.retry)
	c.verb("run", "Make a waiting task due now", task.KindMoved, task.Ready)
	c.door.described(bulkDoc("cancel", "Cancel all tasks that a filter selects and that are not final"),
		c.bulkCancel)
	c.door.described(bulkRetryDoc(), c.bulkRetry)
	c.door.described(editDoc, c.edit)
	c.door.described(contextsDoc, c.contexts)
	c.door.described(bulkEditDoc(), c.bulkEdit)
}

func (c *taskCalls) list(ctx context.Context, in *filterIn) (*listed[TaskItem], error) {
	after, err := parseTaskCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if in.Queue != "" {
		if err := in.who.mayQueue(in.Queue); err != nil {
			return nil, err
		}
	}
	f := store.Filter{
		Queue: in.Queue, State: task.State(in.State), Stage: in.Stage, Worker: in.Worker,
		Key:   in.Key,
		Since: in.Since.micros(), Until: in.Until.micros(),
	}
	if f.Error, err = parseError("query.error", in.Error); err != nil {
		return nil, err
	}
	if in.Stuck {
		if f.Stuck, err = c.suspicion(ctx); err != nil {
			return nil, err
		}
	}
	if f.Meta, err = metaOfQuery(in.w.meta); err != nil {
		return nil, err
	}
	if in.who.scope != nil {
		f.Reach = in.who.scope.queue
	}
	views, next, err := c.tasks.Tasks(ctx, f, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listed[TaskItem]{}
	long := int64(0)
	for i := range views {
		long += int64(len(views[i].Error))
	}
	if err := c.door.room(ctx, &in.w.call, long); err != nil {
		return nil, err
	}
	views = visible(in.who, views, func(v *task.View) bool { return in.who.scope.queue(v.Queue) })
	out.Body.Items = make([]TaskItem, len(views))
	for i := range views {
		out.Body.Items[i] = itemOf(&views[i])
	}
	if next != (task.ID{}) {
		out.Body.Next = cursor(taskShelf, next.String())
	}
	return out, nil
}

// suspicion is what all nodes know of workers that are silent.
func (c *taskCalls) suspicion(ctx context.Context) (*store.Suspicion, error) {
	workers, _, err := c.workers.Workers(ctx, false)
	if err != nil {
		return nil, err
	}
	s := &store.Suspicion{Silent: map[string]int64{}}
	for i := range workers {
		if w := &workers[i]; !w.Active {
			s.Silent[w.Name] = instant(w.Seen).micros()
		}
	}
	return s, nil
}

func (c *taskCalls) get(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "wait")
	if err != nil {
		return err
	}
	id, err := TaskPath{r.PathValue("id")}.task()
	if err != nil {
		return err
	}
	wait, err := parseWait(query.Get("wait"))
	if err != nil {
		return err
	}
	if wait > 0 {
		if err := c.tasks.Await(r.Context(), id, wait); err != nil {
			return missing(err, id)
		}
	}
	v, err := c.door.view(r.Context(), w, c.tasks, id)
	if err != nil {
		return err
	}
	c.door.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) { return cutTask(b, &v) })
	return nil
}
