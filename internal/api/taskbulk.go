package api

import (
	"context"
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

func (c *taskCalls) bulkCancel(w *answer, r *http.Request) error {
	var in BulkIn
	if err := c.door.strict(w, r, &in); err != nil {
		return unknownFilter(err)
	}
	return c.bulk(w, r, store.Action{Kind: task.KindCancelled}, &in)
}

// bulk does what an action says to all tasks that a body's filter selects.
func (c *taskCalls) bulk(w *answer, r *http.Request, what store.Action, in *BulkIn) error {
	what.By = w.who.Name
	return c.bulkBy(w, r, in, func(
		ctx context.Context, f store.Filter, after task.ID,
	) (store.ActedAll, error) {
		return c.tasks.ActAll(ctx, what, f, after, in.DryRun)
	})
}

// pageAct does something to one page of the tasks that a filter selects.
type pageAct func(ctx context.Context, f store.Filter, after task.ID) (store.ActedAll, error)

// bulkBy does something to all tasks that a body's filter selects.
func (c *taskCalls) bulkBy(w *answer, r *http.Request, in *BulkIn, do pageAct) error {
	f, err := in.Filter.rows()
	if err != nil {
		return err
	}
	if err := w.who.mayQueue(f.Queue); err != nil { // without one it is about all
		return err
	}
	w.dry(in.DryRun)
	out, err := c.actAll(r.Context(), do, f, in)
	if err != nil && !in.DryRun {
		return c.door.partly(r, err)
	}
	if err != nil {
		return err
	}
	w.note("matched", out.Matched)
	w.note("changed", out.Changed)
	c.door.writeValue(w, http.StatusOK, out)
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
func (c *taskCalls) actAll(
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

func bulkDoc(verb, summary string) described {
	return described{
		op: huma.Operation{
			OperationID: verb + "-tasks", Method: http.MethodPost, Path: "/v1/tasks/" + verb,
			Tags: []string{"Tasks"}, Summary: summary,
			Description: "In pieces: what one piece changed stays changed when a later one fails. With a cursor the call acts on one page, " +
				"and its answer says where to go on.",
		},
		example: `{"filter":{"queue":"mail","until":"2026-11-21T08:00:00Z"},"dry_run":true}`,
		status:  http.StatusOK, body: BulkIn{}, answer: bulkOut{},
	}
}
