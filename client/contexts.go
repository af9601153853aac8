package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/rotahq/rota/task"
)

// contextView is a context in a list.
type contextView struct {
	Seq     int32           `json:"seq"`
	Stage   string          `json:"stage"`
	Outcome string          `json:"outcome"`
	By      string          `json:"by"`
	Time    time.Time       `json:"time"`
	Context json.RawMessage `json:"context"`
}

// Contexts lists what the stages of a task were handed, oldest first: the context that was
// submitted, and one for each step from which on the task had another stage or another context than
// before. At most limit (0 = 100, at most 1,000) from cursor on ("" = the start), fewer when they
// are large. next is the cursor of the following page, "" after the last; a page may be short while
// next is not "". ErrNotFound when there is no such task.
func (c *Client) Contexts(
	ctx context.Context, id task.ID, cursor string, limit int,
) (contexts []task.StageContext, next string, err error) {
	var p page[contextView]
	if err := c.get(ctx, request{
		path: taskPath(id) + "/contexts", query: paged(url.Values{}, cursor, limit),
	}, &p); err != nil {
		return nil, "", fmt.Errorf("list contexts of task %v: %w", id, err)
	}
	contexts = make([]task.StageContext, len(p.Items))
	for i, v := range p.Items {
		kind, _ := task.ParseKind(v.Outcome) // a word of a newer server becomes kind 0
		contexts[i] = task.StageContext{
			Seq: v.Seq, Stage: v.Stage, Outcome: kind, By: v.By, Time: v.Time,
			Context: opaque(v.Context),
		}
	}
	return contexts, p.Next, nil
}
