package taskview

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// View is a task in JSON, with the fields of the API. Lists leave context, result and steps
// out.
type View struct {
	ID       task.ID           `json:"id"`
	Queue    string            `json:"queue"`
	State    task.State        `json:"state"`
	Stage    string            `json:"stage"`
	Context  json.RawMessage   `json:"context,omitempty"`
	Result   json.RawMessage   `json:"result,omitempty"`
	Attempt  int               `json:"attempt"`
	Priority string            `json:"priority"`
	Due      term.Stamp        `json:"due"`
	Expires  *term.Stamp       `json:"expires,omitempty"`
	Created  term.Stamp        `json:"created"`
	Worker   string            `json:"worker"`
	Started  *term.Stamp       `json:"started,omitempty"`
	Stuck    string            `json:"stuck,omitempty"`
	Progress float64           `json:"progress,omitempty"`
	Note     string            `json:"note,omitempty"`
	Key      string            `json:"key,omitempty"`
	GroupKey string            `json:"group_key,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Error    string            `json:"error,omitempty"`
	Awaits   *awaitsView       `json:"awaits,omitempty"`
	Parent   *task.ID          `json:"parent,omitempty"`
	Children *task.Children    `json:"children,omitempty"`
	After    []priorView       `json:"after,omitempty"`
	Steps    []stepView        `json:"steps,omitempty"`
}

type stepView struct {
	Seq      int32      `json:"seq"`
	Outcome  task.Kind  `json:"outcome"`
	Stage    string     `json:"stage"`
	Worker   string     `json:"worker"`
	Started  term.Stamp `json:"started"`
	Finished term.Stamp `json:"finished"`
	Error    string     `json:"error,omitempty"`
}

// Row is a task of a list.
func Row(v task.View) View {
	row := View{
		ID: v.ID, Queue: v.Queue, State: v.State, Stage: v.Stage, Attempt: v.Attempt,
		Priority: v.Priority.String(),
		Due:      term.Stamp(v.Due), Created: term.Stamp(v.Created), Worker: v.Worker,
		Stuck:    v.Stuck,
		Progress: v.Progress, Note: v.Note, Key: v.Key, GroupKey: v.GroupKey,
		Meta: v.Meta, Error: v.Error,
	}
	if !v.Expires.IsZero() {
		row.Expires = (*term.Stamp)(&v.Expires)
	}
	if !v.Started.IsZero() {
		row.Started = (*term.Stamp)(&v.Started)
	}
	return row
}

// Of is a task whole.
func Of(v task.View) View {
	t := Row(v)
	t.Context, t.Result = OrNull(v.Context), OrNull(v.Result)
	t.Awaits, t.Children, t.After = awaitsOf(v.Awaits), v.Children, Priors(v.After)
	if v.Parent != (task.ID{}) {
		t.Parent = &v.Parent
	}
	for _, s := range v.Steps {
		t.Steps = append(t.Steps, stepView{
			Seq: s.Seq, Outcome: s.Kind, Stage: s.Stage, Worker: s.Worker,
			Started: term.Stamp(s.Started), Finished: term.Stamp(s.Finished), Error: s.Error,
		})
	}
	return t
}

// OrNull is raw, or null when there is none.
func OrNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// awaitsView is what a blocked task waits for in JSON.
type awaitsView struct {
	Tasks    bool             `json:"tasks,omitempty"`
	Signal   string           `json:"signal,omitempty"`
	Key      string           `json:"key,omitempty"`
	Children task.ChildrenEnd `json:"children,omitempty"`
	Until    *term.Stamp      `json:"until,omitempty"`
	Else     string           `json:"else,omitempty"`
}

func awaitsOf(a *task.Awaits) *awaitsView {
	if a == nil {
		return nil
	}
	if a.Others {
		return &awaitsView{Tasks: true}
	}
	v := &awaitsView{Signal: a.Signal, Key: a.Key, Else: a.Else}
	if a.Signal == "" {
		if v.Children = task.AllChildren; a.First {
			v.Children = task.FirstDead
		}
	}
	if !a.Until.IsZero() {
		v.Until = (*term.Stamp)(&a.Until)
	}
	return v
}

// priorView is a task that another one had to wait for, or has to, in JSON.
type priorView struct {
	ID    task.ID        `json:"id"`
	Ref   string         `json:"ref,omitempty"`
	If    task.Condition `json:"if"`
	State task.State     `json:"state,omitempty"`
}

// Priors are the tasks that another one had to wait for, or has to.
func Priors(list []task.Prior) (views []priorView) {
	for _, p := range list {
		views = append(views, priorView{p.ID, p.Ref, p.If, p.State})
	}
	return views
}

// ProgressText is how far a running task is, as its worker said last; "" when it said nothing.
func ProgressText(v task.View) string {
	if v.Progress == 0 && v.Note == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%.0f%% %s", 100*v.Progress, term.OneLine(v.Note)))
}
