package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/tracecontext"
	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// submitTasks submits the tasks of a list in one call, and waits for them when s says so.
func (a commands) submitTasks(ctx context.Context, c *client.Client, s submission) error {
	for _, name := range []string{
		"context", "context-text", "stage", "priority", "delay", "due", "key", "key-for",
		"group-key", "meta", "max-attempts", "timeout", "start-within", "unique", "unique-while",
		"unique-for", "on-existing", "after", "if", "lines",
	} {
		if s.given.Changed(name) {
			return usage.Errorf("--tasks says of each task what it is: leave --%s out", name)
		}
	}
	text, err := a.ReadValue("--tasks", s.tasks)
	if err != nil {
		return err
	}
	tasks, err := parseTasks(text)
	if err != nil {
		return usage.Errorf("--tasks: %v", err)
	}
	for i := range tasks {
		if tasks[i].Queue == "" {
			tasks[i].Queue = s.Queue
		}
		tasks[i].Meta = tracecontext.With(tasks[i].Meta, a.Env)
	}
	got, err := c.Submit(ctx, tasks...)
	if err != nil {
		return a.unsure(ctx, err)
	}
	if s.wait {
		r := a.newReceipts(s)
		if err := r.print(got, 0); err != nil {
			return err
		}
		r.told()
		return errors.Join(r.await(ctx, c), r.finish())
	}
	return a.showReceipts(got)
}

// parseTasks reads tasks: a list in JSON, the body of POST /v1/tasks, or one task after the other.
func parseTasks(text []byte) ([]task.Submission, error) {
	text = bytes.TrimSpace(text)
	var body struct {
		Tasks json.RawMessage `json:"tasks"`
	}
	switch {
	case bytes.HasPrefix(text, []byte("[")):
	case json.Unmarshal(text, &body) == nil && body.Tasks != nil:
		return someTasks(wire.ParseSubmissions(text))
	default:
		var list [][]byte
		d := json.NewDecoder(bytes.NewReader(text))
		for {
			var one json.RawMessage
			if err := d.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("task %d: %w", len(list), err)
			}
			list = append(list, one)
		}
		text = append(append([]byte("["), bytes.Join(list, []byte(","))...), ']')
	}
	return someTasks(wire.ParseTasks(text, "tasks"))
}

// someTasks refuses a list without a task.
func someTasks(tasks []task.Submission, err error) ([]task.Submission, error) {
	if err == nil && len(tasks) == 0 {
		err = errors.New("there is no task")
	}
	return tasks, err
}

// showReceipts prints the ids of tasks, one a line, or in JSON what became of each.
func (a commands) showReceipts(receipts []task.Receipt) error {
	doc := struct {
		Tasks []spawned `json:"tasks"`
	}{make([]spawned, len(receipts))}
	for i, r := range receipts {
		doc.Tasks[i] = spawned{r.ID, r.Existing, r.Action}
	}
	return a.Show(doc, func() string {
		var b strings.Builder
		for _, r := range receipts {
			b.WriteString(r.ID.String() + "\n")
		}
		return b.String()
	})
}

// priorLines say of each task that another one had to wait for, or has to, how it ended.
func priorLines(list []task.Prior) (lines []string) {
	for _, p := range list {
		line := p.ID.String()
		if p.Ref != "" {
			line += " " + term.OneLine(p.Ref)
		}
		switch {
		case p.State != "":
			line += " " + term.Painted(p.State)
		case p.If == task.IfEnded:
			line += " has to end"
		default:
			line += " has to be done"
		}
		lines = append(lines, line)
	}
	return lines
}
