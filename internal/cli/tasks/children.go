package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/taskview"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/tracecontext"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// treeFlag adds the flag by which a verb is about all that hangs below a task, too.
func treeFlag(cmd *cobra.Command, tree *bool) {
	cmd.Flags().BoolVar(tree, "tree", false,
		"cancel all that hangs below the named tasks, too, whether it has begun or not")
}

// childView is a child in JSON: a task in a list, and its result.
type childView struct {
	taskview.View
	Result json.RawMessage `json:"result"`
}

func (a commands) children() *cobra.Command {
	var state, cursor string
	var limit int
	cmd := a.Remote(&cobra.Command{
		Use:   "children ID",
		Short: "List the children of a task, oldest first, with their results",
		Long: `List the tasks that a task has submitted while it ran, with its outcome or before, oldest
first: those of earlier runs, too, when it was retried. When there are more than --limit, the
cursor to go on from is printed to stderr (with -o json it stands in "next").`,
		Example: `  rota task children 1pq3v0m7d2k5g10
  rota task children 1pq3v0m7d2k5g10 --state dead
  rota task children 1pq3v0m7d2k5g10 --limit 1000 -o json`,
		Args: app.Takes("ID"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := taskIDs(args)
		if err != nil {
			return err
		}
		if state != "" && !task.State(state).Valid() {
			return usage.Errorf("--state %q: want one of %s", state, stateWords())
		}
		if limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		var views []task.View
		next := cursor
		for {
			var page []task.View
			page, next, err = c.Children(ctx, ids[0], task.State(state), next,
				min(limit-len(views), 1000))
			if err != nil {
				return err
			}
			if views = append(views, page...); next == "" || len(views) >= limit {
				break
			}
		}
		doc := term.Page[childView]{Items: make([]childView, len(views)), Next: next}
		for i, v := range views {
			doc.Items[i] = childView{taskview.Row(v), taskview.OrNull(v.Result)}
		}
		if err := a.Show(doc, func() string { return a.childTable(views) }); err != nil {
			return err
		}
		if next != "" && !a.JSON() {
			fmt.Fprintf(a.Err, "There are more: this was --limit %d; go on with --cursor %s\n",
				limit, next)
		}
		return nil
	})
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "children in this `state`: "+stateWords())
	app.Complete(cmd, "state", strings.Split(stateWords(), ", ")...)
	f.IntVar(&limit, "limit", 100, "at most so many children")
	f.StringVar(&cursor, "cursor", "", "where an earlier list ended")
	return cmd
}

func (a commands) childTable(views []task.View) string {
	t := a.Table("ID", "QUEUE", "STATE", "STAGE", "#ATTEMPT", "CREATED", "WORKER", "RESULT")
	t.Below = true
	for _, v := range views {
		attempt, result := "-", term.OneLine(string(v.Result))
		if v.Attempt > 0 {
			attempt = fmt.Sprint(v.Attempt)
		}
		if v.Error != "" {
			result = term.OneLine(v.Error)
		}
		t.Add(v.ID.String(), v.Queue, term.Painted(v.State), term.OneLine(v.Stage), attempt,
			term.Short(v.Created, a.Now()), v.Worker, result)
	}
	return t.String()
}

// spawn adds children to the task that the command that calls it is run for.
func (a commands) spawn() *cobra.Command {
	return a.Remote(&cobra.Command{
		Use:   "spawn TASKS",
		Short: "Add children to the task that this command is run for",
		Long: `Add children to a task while it runs: for a command that rota worker runs for that task, and
that goes on. TASKS is a JSON list as the API takes it, - for stdin, or @file; the ids are
printed in its order. All of them are submitted or none. They are told whose children they are,
and a stage of the task may wait for them. The meta of the task they have, too, and the trace that
TRACEPARENT and TRACESTATE name. "orphan": true
lets one stay when the task dies; "key" submits it once, however often the task is tried.

Children that are to come with the outcome, and not without it, stand in the file that
ROTA_OUTPUT names, as "spawn". Of a hand-out that is no longer the worker's no child is added.`,
		Example: `  rota task spawn '[{"queue":"pages","context":{"url":"/a"},"key":"/a"}]'
  ./links.sh | rota task spawn -`,
		Args: app.Takes("TASKS"),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		text, err := a.ReadJSON("TASKS", args[0])
		if err != nil {
			return err
		}
		children, err := wire.ParseSpawn(text)
		if err != nil {
			return usage.Errorf("TASKS: %s", strings.ReplaceAll(err.Error(), "spawn", ""))
		}
		name, _ := a.Env("ROTA_TASK")
		token, _ := a.Env("ROTA_TOKEN")
		worker, _ := a.Env("ROTA_WORKER")
		id, err := task.ParseID(name)
		if err != nil || token == "" || worker == "" {
			return usage.Errorf("this is no command that a worker runs for a task: there " +
				"ROTA_TASK, ROTA_TOKEN and ROTA_WORKER tell of the hand-out")
		}
		a.traceChildren(children)
		receipts, err := c.AddChildren(ctx, worker, id, token, children)
		if err != nil {
			return a.unsure(ctx, err)
		}
		return a.showReceipts(receipts)
	})
}

// traceChildren lets children belong to the trace that the environment tells of, as a command does
// that goes on with that of its task by spans of its own.
func (a commands) traceChildren(children []task.Submission) {
	text, _ := a.Env("ROTA_META")
	var parents map[string]string
	json.Unmarshal([]byte(text), &parents) // of another program's variable nothing is known
	delete(parents, tracecontext.Parent)
	delete(parents, tracecontext.State)
	for i := range children { // they have room for it only beside what the task carries
		s := limits.WithMeta(children[i], parents)
		children[i].Meta = tracecontext.With(s.Meta, a.Env)
	}
}

// spawned is a task that was submitted with others, in JSON.
type spawned struct {
	ID       task.ID        `json:"id"`
	Existing bool           `json:"existing"`
	Action   task.Submitted `json:"action"`
}

// childrenText is how the children of a task stand.
func childrenText(c *task.Children) string {
	if c == nil {
		return ""
	}
	parts := []string{term.Count(c.Total) + " in all"}
	for _, p := range []struct {
		n    int64
		word string
	}{
		{c.Open(), "open"}, {c.Done, "done"}, {c.Dead, "dead"}, {c.Cancelled, "cancelled"},
		{c.Expired, "expired"},
	} {
		if p.n > 0 {
			parts = append(parts, term.Count(p.n)+" "+p.word)
		}
	}
	return strings.Join(parts, ", ")
}
