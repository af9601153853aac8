package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

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

func (a *API) registerTasks() {
	const tag = "Tasks"
	operation(a, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks", Tags: []string{tag},
		Summary: "List tasks, newest first",
		Description: "Without contexts, results and steps. A page may be short, even empty, while next is not: a page searches a bounded number of tasks, " +
			"whatever the filter and however many there are. Whoever goes on until next is empty is shown each task that the filter selects once. " +
			"meta.NAME=TEXT, for one or more names, lists the tasks that carry these strings, as in meta.customer=7.",
		Middlewares: huma.Middlewares{takeMeta},
	}, a.tasks)
	a.described(taskDoc, a.task)
	operation(a, huma.Operation{
		OperationID: "delete-task", Method: http.MethodDelete, Path: "/v1/tasks/{id}",
		Tags:    []string{tag},
		Summary: "Forget a task that is not running",
	}, a.removeTask)
	operation(a, huma.Operation{
		OperationID: "cancel-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/cancel",
		Tags:    []string{tag},
		Summary: "Cancel a task; the worker that runs it learns of it with its next beat",
	}, a.cancelTask)
	a.described(retryDoc, a.retryTask)
	a.verb("run", "Make a waiting task due now", task.KindMoved, task.Ready)
	a.described(bulkDoc("cancel", "Cancel all tasks that a filter selects and that are not final"),
		a.bulkCancel)
	a.described(bulkRetryDoc(), a.bulkRetry)
	a.described(editDoc, a.editTask)
	a.described(signalDoc, a.signalTask)
	a.described(addDoc, a.addChildren)
	a.described(childrenDoc, a.children)
	a.registerTree()
	a.described(keyedSignalDoc, a.signalKey)
	a.described(bulkEditDoc(), a.bulkEdit)
}

func (a *API) tasks(ctx context.Context, in *filterIn) (*listed[TaskItem], error) {
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
		if f.Stuck, err = a.suspicion(ctx); err != nil {
			return nil, err
		}
	}
	if f.Meta, err = metaOfQuery(in.w.meta); err != nil {
		return nil, err
	}
	views, next, err := a.conf.Engine.Tasks(ctx, f, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listed[TaskItem]{}
	long := int64(0)
	for i := range views {
		long += int64(len(views[i].Error))
	}
	if long > smallAnswer && !a.keep(ctx, &in.w.call, long, a.large.limit/4, patience) {
		return nil, busy("too many large answers are under way")
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
func (a *API) suspicion(ctx context.Context) (*store.Suspicion, error) {
	workers, _, err := a.conf.Cluster.Workers(ctx, false)
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

func (a *API) task(w *answer, r *http.Request) error {
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
		if err := a.conf.Engine.Await(r.Context(), id, wait); err != nil {
			return missing(err, id)
		}
	}
	v, err := a.view(r.Context(), w, id)
	if err != nil {
		return err
	}
	a.writeCut(w, http.StatusOK, func(b []byte) ([]byte, []wire.Cut) { return cutTask(b, &v) })
	return nil
}

// TreeIn is in the input of calls that may be about all that hangs below a task. It is exported as
// TaskItem is.
type TreeIn struct {
	Tree bool `query:"tree" doc:"cancel all below it, too: its children and theirs, whether they have begun or not"`
}

// act does something to a task for a call.
func (a *API) act(
	ctx context.Context, c *Caller, id task.ID, kind task.Kind, tree bool,
) error {
	if tree {
		c.w.note("tree", true)
	}
	return missing(a.conf.Engine.ActOn(ctx, store.Action{
		Kind: kind, By: c.who.Name, Tree: tree,
	}, id), id)
}

func (a *API) removeTask(ctx context.Context, in *struct {
	TaskPath
	Caller
	TreeIn
}) (*struct{}, error) {
	id, err := in.task()
	if err != nil {
		return nil, err
	}
	return nil, a.act(ctx, &in.Caller, id, task.KindRemoved, in.Tree)
}

// acted answers a verb.
type acted struct{ Body actedBody }

type actedBody struct {
	ID    task.ID    `json:"id"`
	State task.State `json:"state" doc:"the one that the call brought about"`
}

func (a *API) cancelTask(ctx context.Context, in *struct {
	TaskPath
	Caller
	TreeIn
}) (*acted, error) {
	id, err := in.task()
	if err != nil {
		return nil, err
	}
	if err := a.act(ctx, &in.Caller, id, task.KindCancelled, in.Tree); err != nil {
		return nil, err
	}
	return &acted{actedBody{id, task.Cancelled}}, nil
}

// verb registers POST /v1/tasks/{id}/NAME.
func (a *API) verb(name, summary string, kind task.Kind, state task.State) {
	operation(a, huma.Operation{
		OperationID: name + "-task", Method: http.MethodPost, Path: "/v1/tasks/{id}/" + name,
		Tags: []string{"Tasks"}, Summary: summary,
	}, func(ctx context.Context, in *struct {
		TaskPath
		Caller
	}) (*acted, error) {
		id, err := in.task()
		if err != nil {
			return nil, err
		}
		if err := a.act(ctx, &in.Caller, id, kind, false); err != nil {
			return nil, err
		}
		return &acted{actedBody{id, state}}, nil
	})
}

// BulkIn is the body of the calls that act on many tasks. It is exported as TaskItem is.
type BulkIn struct {
	Filter *bulkFilter `json:"filter" nullable:"false"`
	DryRun bool        `json:"dry_run,omitempty" doc:"only count"`
	Cursor *string     `json:"cursor,omitempty" doc:"act on one page of the tasks and answer where to go on: an empty text for the first page, then next. Left out, the call goes through all pages, which takes as long as it takes"`
}

type bulkFilter struct {
	Queue  string            `json:"queue,omitempty"`
	State  string            `json:"state,omitempty" enum:"blocked,waiting,ready,running,done,dead,cancelled,expired"`
	Stage  string            `json:"stage,omitempty"`
	Worker string            `json:"worker,omitempty"`
	Key    string            `json:"key,omitempty"`
	Meta   map[string]string `json:"meta,omitempty" doc:"strings that a task carries, all of them"`
	Since  instant           `json:"since,omitzero" doc:"created at or after"`
	Until  instant           `json:"until,omitzero" doc:"created before"`
	Error  string            `json:"error,omitempty" maxLength:"256" doc:"a regular expression (RE2) that the task's error matches somewhere"`
	All    bool              `json:"all,omitempty" doc:"lets an otherwise empty filter select all tasks there are"`
}

// bulkOut answers them.
type bulkOut struct {
	Matched int64  `json:"matched"`
	Changed int64  `json:"changed" doc:"0 in a dry run"`
	Next    string `json:"next,omitempty" doc:"of a call with a cursor: where to go on; left out at the end. Only so much is searched at once, so a page may match nothing while next is there"`
}

// rows is the store's form of the filter.
func (f *bulkFilter) rows() (store.Filter, error) {
	if f == nil {
		return store.Filter{}, wrong("body.filter", "is missing")
	}
	if f.State != "" && !task.State(f.State).Valid() {
		return store.Filter{}, wrong("body.filter.state", "must be one of %v", task.States)
	}
	if len(f.Meta) == 0 {
		f.Meta = nil
	}
	if reflect.ValueOf(*f).IsZero() {
		return store.Filter{},
			wrong("body.filter", `selects everything; if that is meant, add "all": true`)
	}
	meta, err := parseMeta("body.filter.meta", f.Meta)
	if err != nil {
		return store.Filter{}, err
	}
	matching, err := parseError("body.filter.error", f.Error)
	return store.Filter{
		Queue: f.Queue, State: task.State(f.State), Stage: f.Stage, Worker: f.Worker, Key: f.Key,
		Meta: meta, Since: f.Since.micros(), Until: f.Until.micros(), Error: matching,
	}, err
}

// maxExpression is the longest regular expression in bytes.
const maxExpression = 256

// parseError reads the regular expression that errors are to match; "" is none.
func parseError(location, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxExpression {
		return nil, wrong(location, "must be at most %d bytes", maxExpression)
	}
	e, err := regexp.Compile(text)
	if err != nil {
		return nil, wrong(location, "must be a regular expression (RE2): %v", err)
	}
	return e, nil
}

func (a *API) bulkCancel(w *answer, r *http.Request) error {
	var in BulkIn
	if err := a.strict(w, r, &in); err != nil {
		return unknownFilter(err)
	}
	return a.bulk(w, r, store.Action{Kind: task.KindCancelled}, &in)
}

// bulk does what an action says to all tasks that a body's filter selects.
func (a *API) bulk(w *answer, r *http.Request, what store.Action, in *BulkIn) error {
	what.By = w.who.Name
	return a.bulkBy(w, r, in, func(
		ctx context.Context, f store.Filter, after task.ID,
	) (store.ActedAll, error) {
		return a.conf.Engine.ActAll(ctx, what, f, after, in.DryRun)
	})
}

// pageAct does something to one page of the tasks that a filter selects.
type pageAct func(ctx context.Context, f store.Filter, after task.ID) (store.ActedAll, error)

// bulkBy does something to all tasks that a body's filter selects.
func (a *API) bulkBy(w *answer, r *http.Request, in *BulkIn, do pageAct) error {
	f, err := in.Filter.rows()
	if err != nil {
		return err
	}
	if err := w.who.mayQueue(f.Queue); err != nil { // without one it is about all
		return err
	}
	w.dry(in.DryRun)
	out, err := a.actAll(r.Context(), do, f, in)
	if err != nil && !in.DryRun {
		return a.partly(r, err)
	}
	if err != nil {
		return err
	}
	w.note("matched", out.Matched)
	w.note("changed", out.Changed)
	a.writeValue(w, http.StatusOK, out)
	return nil
}

// unknownFilter makes an unknown member of the filter what an unknown parameter of a list is:
// understood, and refused.
func unknownFilter(err error) error {
	var fault *wire.Error
	if !errors.As(err, &fault) || len(fault.Fields) != 1 {
		return err
	}
	name, inside := strings.CutPrefix(fault.Fields[0].Location, "body.filter.")
	if !inside {
		return err
	}
	for f := range reflect.TypeFor[bulkFilter]().Fields() {
		if known, _, _ := strings.Cut(f.Tag.Get("json"), ","); known == name {
			return err
		}
	}
	fault.Value = true
	return err
}

// actAll acts on one page of the tasks that a filter selects, or, when the caller does not page, on
// all.
func (a *API) actAll(
	ctx context.Context, do pageAct, f store.Filter, in *BulkIn,
) (out bulkOut, err error) {
	var after task.ID
	if in.Cursor != nil {
		if after, err = parseTaskCursor(*in.Cursor); err != nil {
			return out, wrong("body.cursor", "is not a cursor of this call")
		}
	}
	for {
		acted, err := do(ctx, f, after)
		if err != nil {
			return out, err
		}
		out.Matched += acted.Matched
		out.Changed += acted.Changed
		after = acted.Next
		switch {
		case after == (task.ID{}):
			return out, nil
		case in.Cursor != nil:
			out.Next = cursor(taskShelf, after.String())
			return out, nil
		}
	}
}

// strict reads the body of a call that is not hot.
func (a *API) strict(w *answer, r *http.Request, v any) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	body, err := a.body(w, r, a.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	if err := wire.Strict(body, v); err != nil {
		return err
	}
	if n, has := v.(bearer); has {
		n.canonical()
	}
	return nil
}

// glance reads a task without its context, result and steps, which may be large.
func (a *API) glance(ctx context.Context, id task.ID) (task.View, error) {
	above := task.ID{Batch: id.Batch, N: id.N + 1}
	if above.N < 0 { // there is no greater number in the batch
		above = task.ID{Batch: id.Batch + 1}
	}
	page, _, err := a.conf.Engine.Tasks(ctx, store.Filter{}, above, 1)
	if err != nil {
		return task.View{}, err
	}
	if len(page) == 0 || page[0].ID != id {
		return task.View{}, missing(store.ErrNotFound, id)
	}
	return page[0], nil
}
