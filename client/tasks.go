package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// TaskFilter selects tasks. Zero fields select everything; CancelAll, RetryAll and EditAll know
// no Stuck.
type TaskFilter struct {
	Queue  string
	State  task.State
	Stage  string
	Worker string            // the one that has it, or had it last
	Key    string            // submitted with it
	Meta   map[string]string // it carries all of these
	Since  time.Time         // created at or after
	Until  time.Time         // created before
	// a regular expression (RE2) that the task's error matches somewhere: that of the newest step
	Error string
	// only running ones that seem stuck; Tasks alone knows it, and calls about many refuse it
	Stuck bool
	All   bool // lets calls about many take an otherwise empty filter
}

func (f TaskFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"queue": f.Queue, "state": string(f.State), "stage": f.Stage, "worker": f.Worker,
		"key": f.Key, "error": f.Error,
		"since": moment(f.Since), "until": moment(f.Until),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, text := range f.Meta {
		q.Set("meta."+name, text)
	}
	if f.Stuck {
		q.Set("stuck", "true")
	}
	return q
}

// moment is a time as the API writes it, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999Z")
}

func taskPath(id task.ID) string { return "/v1/tasks/" + id.String() }

// Task reads one task with its steps. With wait > 0 it answers when the task is final, at latest
// after wait (at most a minute) with what there is.
func (c *Client) Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error) {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var v taskView
	if err := c.get(ctx, request{path: taskPath(id), query: query, wait: wait}, &v); err != nil {
		return task.View{}, fmt.Errorf("read task %v: %w", id, err)
	}
	return v.task(), nil
}

// page is what all lists look like.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// Tasks lists tasks, newest first, without their steps: at most limit (0 = 100, at most 1,000) from
// cursor on ("" = the start). next is the cursor of the following page, "" after the last. A page
// searches a bounded number of tasks, so it may be short, even empty, while next is not "".
func (c *Client) Tasks(
	ctx context.Context, f TaskFilter, cursor string, limit int,
) (tasks []task.View, next string, err error) {
	var p page[taskView]
	if err := c.get(
		ctx, request{path: "/v1/tasks", query: paged(f.query(), cursor, limit)}, &p,
	); err != nil {
		return nil, "", fmt.Errorf("list tasks: %w", err)
	}
	tasks = make([]task.View, len(p.Items))
	for i := range p.Items {
		tasks[i] = p.Items[i].task()
	}
	return tasks, p.Next, nil
}

func paged(q url.Values, cursor string, limit int) url.Values {
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return q
}

// Cancel ends a task that is not final, else it is ErrConflict. A running one's worker learns of it
// with its next beat; its report comes too late.
func (c *Client) Cancel(ctx context.Context, id task.ID) error {
	return c.act(ctx, id, "cancel", nil)
}

// Replay says where a task begins again. The zero value: a done task in its first stage, with the
// context that was submitted; another one in the stage that it ended in, with the context that it
// has.
type Replay struct {
	// this stage, with the context with which the task first came there; ErrConflict when it never
	// was there. nil = as Whole says
	Stage *string
	Whole bool // its first stage, with the context that was submitted
}

// replayView is a Replay in the API's JSON.
type replayView struct {
	Stage *string `json:"stage,omitempty"`
	Whole bool    `json:"whole,omitempty"`
}

// Retry lets a task that is final begin again, at attempt 1, where from says.
// ErrConflict when it is not final.
func (c *Client) Retry(ctx context.Context, id task.ID, from ...Replay) error {
	return c.retry(ctx, id, nil, from)
}

func (c *Client) retry(ctx context.Context, id task.ID, query url.Values, from []Replay) error {
	var body []byte
	for _, r := range from {
		var err error
		if body, err = json.Marshal(replayView(r)); err != nil {
			return fmt.Errorf("retry task %v: %w", id, err)
		}
	}
	if err := c.send(ctx, request{
		method: http.MethodPost, path: taskPath(id) + "/retry", query: query, body: body,
	}, nil); err != nil {
		return fmt.Errorf("retry task %v: %w", id, err)
	}
	return nil
}

// RunNow makes a waiting task due now. ErrConflict when it runs or is final.
func (c *Client) RunNow(ctx context.Context, id task.ID) error { return c.act(ctx, id, "run", nil) }

// Delete forgets a task that is not running, else it is ErrConflict.
func (c *Client) Delete(ctx context.Context, id task.ID) error { return c.delete(ctx, id, nil) }

func (c *Client) delete(ctx context.Context, id task.ID, query url.Values) error {
	if err := c.send(ctx, request{
		method: http.MethodDelete, path: taskPath(id), query: query,
	}, nil); err != nil {
		return fmt.Errorf("delete task %v: %w", id, err)
	}
	return nil
}

// act is not repeated once it may have arrived: the second try would answer "wrong state" where the
// first one worked.
func (c *Client) act(ctx context.Context, id task.ID, verb string, query url.Values) error {
	if err := c.send(ctx, request{
		method: http.MethodPost, path: taskPath(id) + "/" + verb, query: query,
	}, nil); err != nil {
		return fmt.Errorf("%s task %v: %w", verb, id, err)
	}
	return nil
}

// Bulk says how a call that acts on many tasks goes about it.
type Bulk struct {
	DryRun bool // only count them
	// of RetryAll: where they begin. Those that never were in its stage stay as they are
	From Replay
	// called after each part of the tasks, in the caller's goroutine, with what was done so far;
	// nil = nobody is told
	Progress func(Acted)
}

// Acted is what came of a call that acts on all tasks that a filter selects.
type Acted struct {
	Matched int64 // tasks to which it may be done
	Changed int64 // those to which it was; 0 in a dry run
}

// CancelAll cancels all tasks that f selects and are not final. An empty filter needs All. What it
// answers beside an error was done before.
func (c *Client) CancelAll(ctx context.Context, f TaskFilter, how Bulk) (Acted, error) {
	return c.actAll(ctx, bulkCall{verb: "cancel", filter: f, how: how, again: true})
}

// RetryAll lets all dead tasks that f selects begin again, or all done or cancelled ones, when f
// has that State. An empty filter needs All. What it
// answers beside an error was done before.
func (c *Client) RetryAll(ctx context.Context, f TaskFilter, how Bulk) (Acted, error) {
	return c.actAll(ctx, bulkCall{
		verb: "retry", filter: f, how: how,
		// what is done again may be done once more before a lost answer is known to be lost
		again: how.DryRun || f.State != task.Done,
	})
}

// bulkCall is a call that acts on many tasks.
type bulkCall struct {
	verb   string
	filter TaskFilter
	how    Bulk
	set    []byte // the JSON of what to change, nil = nothing
	again  bool   // it may be made twice
}

// actAll goes through the pages. No call takes long, however much there is to search.
func (c *Client) actAll(ctx context.Context, call bulkCall) (all Acted, err error) {
	for cursor := ""; ; {
		page, err := c.actPage(ctx, call, cursor)
		all.Matched, all.Changed = all.Matched+page.Matched, all.Changed+page.Changed
		if err != nil {
			return all, err
		}
		if call.how.Progress != nil {
			call.how.Progress(all)
		}
		if page.Next == "" {
			return all, nil
		}
		cursor = page.Next
	}
}

// actedPage is what came of one page. It may match nothing and yet not be the last.
type actedPage struct {
	Acted
	Next string // the cursor of the following page, "" after the last
}

func (c *Client) actPage(
	ctx context.Context, call bulkCall, cursor string,
) (page actedPage, err error) {
	f, verb, how := call.filter, call.verb, call.how
	if f.Stuck {
		return page, fmt.Errorf("%s tasks: %w", verb, invalid(task.FieldError{
			Location: "body.filter.stuck",
			Message:  "only lists know it: what seems stuck is to be looked at first",
		}))
	}
	type filter struct {
		Queue  string            `json:"queue,omitempty"`
		State  task.State        `json:"state,omitempty"`
		Stage  string            `json:"stage,omitempty"`
		Worker string            `json:"worker,omitempty"`
		Key    string            `json:"key,omitempty"`
		Meta   map[string]string `json:"meta,omitempty"`
		Since  string            `json:"since,omitempty"`
		Until  string            `json:"until,omitempty"`
		Error  string            `json:"error,omitempty"`
		All    bool              `json:"all,omitempty"`
	}
	body, err := json.Marshal(struct {
		Filter filter `json:"filter"`
		DryRun bool   `json:"dry_run"`
		Cursor string `json:"cursor"`
		replayView
	}{
		filter{f.Queue, f.State, f.Stage, f.Worker, f.Key, f.Meta, moment(f.Since), moment(f.Until),
			f.Error, f.All},
		how.DryRun, cursor, replayView(how.From),
	})
	if err == nil {
		if call.set != nil {
			body = append(append(append([]byte(`{"set":`), call.set...), ','), body[1:]...)
		}
		err = c.send(ctx, request{
			method: http.MethodPost, path: "/v1/tasks/" + verb, body: body, safe: call.again,
		}, &page)
	}
	if err != nil {
		return actedPage{}, fmt.Errorf("%s tasks: %w", verb, err)
	}
	return page, nil
}

// taskView is a task in the API's JSON.
type taskView struct {
	ID       task.ID           `json:"id"`
	Queue    string            `json:"queue"`
	State    task.State        `json:"state"`
	Stage    string            `json:"stage"`
	Context  json.RawMessage   `json:"context"`
	Result   json.RawMessage   `json:"result"`
	Attempt  int               `json:"attempt"`
	Priority duration          `json:"priority"`
	Due      time.Time         `json:"due"`
	Expires  time.Time         `json:"expires"`
	Created  time.Time         `json:"created"`
	Worker   string            `json:"worker"`
	Started  time.Time         `json:"started"`
	Stuck    string            `json:"stuck"`
	Progress float64           `json:"progress"`
	Note     string            `json:"note"`
	Key      string            `json:"key"`
	GroupKey string            `json:"group_key"`
	Meta     map[string]string `json:"meta"`
	Error    string            `json:"error"`
	Awaits   *awaitsView       `json:"awaits"`
	Parent   task.ID           `json:"parent"`
	Children *task.Children    `json:"children"`
	After    []priorView       `json:"after"`
	Steps    []step            `json:"steps"`
}

type priorView struct {
	ID    task.ID        `json:"id"`
	Ref   string         `json:"ref"`
	If    task.Condition `json:"if"`
	State task.State     `json:"state"`
}

type awaitsView struct {
	Tasks    bool             `json:"tasks"`
	Signal   string           `json:"signal"`
	Key      string           `json:"key"`
	Children task.ChildrenEnd `json:"children"`
	Until    time.Time        `json:"until"`
	Else     string           `json:"else"`
}

// awaits is what a task waits for; nil = nothing.
func (v *awaitsView) awaits() *task.Awaits {
	if v == nil {
		return nil
	}
	return &task.Awaits{
		Others: v.Tasks,
		Signal: v.Signal, Key: v.Key, First: v.Children == task.FirstDead, Until: v.Until,
		Else: v.Else,
	}
}

type step struct {
	Seq      int32     `json:"seq"`
	Outcome  string    `json:"outcome"`
	Stage    string    `json:"stage"`
	Worker   string    `json:"worker"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Error    string    `json:"error"`
	Changed  []string  `json:"changed"`
}

func (v *taskView) task() task.View {
	t := task.View{
		ID: v.ID, Queue: v.Queue, State: v.State, Stage: v.Stage, Context: opaque(v.Context),
		Result:  opaque(v.Result),
		Attempt: v.Attempt, Priority: time.Duration(v.Priority), Due: v.Due, Expires: v.Expires,
		Created: v.Created,
		Worker:  v.Worker,
		Started: v.Started, Stuck: v.Stuck, Progress: v.Progress, Note: v.Note, Key: v.Key,
		GroupKey: v.GroupKey, Meta: v.Meta, Error: v.Error, Awaits: v.Awaits.awaits(),
		Parent: v.Parent, Children: v.Children,
	}
	for _, p := range v.After {
		t.After = append(t.After, task.Prior{ID: p.ID, Ref: p.Ref, If: p.If, State: p.State})
	}
	for _, s := range v.Steps {
		kind, _ := task.ParseKind(s.Outcome) // a word of a newer server becomes kind 0
		t.Steps = append(t.Steps, task.Step{
			Seq: s.Seq, Kind: kind, Stage: s.Stage, Worker: s.Worker, Started: s.Started,
			Finished: s.Finished, Error: s.Error,
			Changed: strings.Join(s.Changed, ", "),
		})
	}
	return t
}

// opaque is a context or result; null is none.
func opaque(b json.RawMessage) json.RawMessage {
	if string(b) == "null" {
		return nil
	}
	return b
}

// duration is a duration in JSON: text as Go writes it.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(b []byte) error {
	v, err := view.ParseDuration(string(b))
	*d = duration(v)
	return err
}
