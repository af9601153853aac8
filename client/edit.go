package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rotahq/rota/task"
)

// editView is a task.Edit in the API's JSON.
type editView struct {
	Priority    *duration         `json:"priority,omitempty"`
	Due         string            `json:"due,omitempty"`
	Delay       *duration         `json:"delay,omitempty"`
	Context     json.RawMessage   `json:"context,omitempty"`
	GroupKey    *string           `json:"group_key,omitempty"`
	MaxAttempts *int              `json:"max_attempts,omitempty"`
	StartWithin *duration         `json:"start_within,omitempty"`
	Meta        map[string]string `json:"meta,omitzero"`
}

// appendEdit appends an edit in JSON. The context goes in as it is, since encoding/json would strip
// its spaces.
func appendEdit(b []byte, e *task.Edit) ([]byte, error) {
	v := editView{
		Priority: (*duration)(e.Priority), Delay: (*duration)(e.Delay), GroupKey: e.GroupKey,
		MaxAttempts: e.MaxAttempts, StartWithin: (*duration)(e.StartWithin), Meta: e.Meta,
	}
	if e.Due != nil {
		v.Due = moment(*e.Due)
	}
	text, err := json.Marshal(v)
	if err != nil || e.Context == nil {
		return append(b, text...), err
	}
	if !json.Valid(e.Context) {
		return nil, invalid(task.FieldError{
			Location: "body.context", Message: "is not one JSON value",
		})
	}
	b = append(append(b, `{"context":`...), e.Context...)
	if len(text) > len("{}") {
		b = append(b, ',')
	}
	return append(b, text[1:]...), nil
}

// Edit changes a task that neither runs nor is over, else it is ErrConflict. Made twice it changes
// what it changed before, but for a Delay, which begins anew.
func (c *Client) Edit(ctx context.Context, id task.ID, e task.Edit) error {
	body, err := appendEdit(nil, &e)
	if err == nil {
		err = c.send(ctx, request{
			method: http.MethodPatch, path: taskPath(id), body: body, safe: e.Delay == nil,
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("edit task %v: %w", id, err)
	}
	return nil
}

// EditAll changes all tasks that f selects and that neither run nor are over. An empty filter needs
// All. What it answers beside an error was done before.
func (c *Client) EditAll(
	ctx context.Context, f TaskFilter, e task.Edit, how Bulk,
) (Acted, error) {
	set, err := appendEdit(nil, &e)
	if err != nil {
		return Acted{}, fmt.Errorf("patch tasks: %w", err)
	}
	return c.actAll(ctx, bulkCall{verb: "patch", filter: f, how: how, set: set, again: true})
}
