package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"

	"github.com/rotahq/rota/task"
)

// Lines reads a task's log: at most limit lines (0 = 100, at most 1,000) from cursor on ("" = the
// start). next is the cursor of the following page, "" after the last.
func (c *Client) Lines(
	ctx context.Context, id task.ID, cursor string, limit int,
) (lines []task.LogLine, next string, err error) {
	var p page[task.LogLine]
	if err := c.get(
		ctx, request{path: taskPath(id) + "/logs", query: paged(url.Values{}, cursor, limit)}, &p,
	); err != nil {
		return nil, "", fmt.Errorf("read log of task %v: %w", id, err)
	}
	return p.Items, p.Next, nil
}

// FollowLines yields the lines of a task's log as they come, from cursor on ("" = the start), until
// the task is final and its log is read. When a stream breaks, or a server that stops ends it, the
// next one goes on behind the last line; so once a server has answered, FollowLines outlasts the
// absence of all of them for as long as ctx lets it. An error is the last that it yields: that of
// ctx, or one that no other try would mend.
func (c *Client) FollowLines(
	ctx context.Context, id task.ID, cursor string,
) iter.Seq2[task.LogLine, error] {
	return func(yield func(task.LogLine, error) bool) {
		f := follower{
			client: c, path: taskPath(id) + "/logs", query: url.Values{"follow": {"true"}},
			cursor: cursor,
		}
		f.read = func(data []byte) error {
			var line task.LogLine
			if err := json.Unmarshal(data, &line); err != nil {
				return fmt.Errorf("read line: %w: %w", errUnreadable, err)
			}
			if !yield(line, nil) {
				return errEnough
			}
			return nil
		}
		f.over = func() (bool, error) {
			is, err := c.Task(ctx, id, 0)
			return err == nil && is.State.Final(), err
		}
		err := f.run(ctx)
		if err == nil {
			err = c.rest(ctx, id, f.cursor, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(task.LogLine{}, fmt.Errorf("follow log of task %v: %w", id, err))
		}
	}
}

// rest yields what came to the log of a task that is final after its last stream had ended.
func (c *Client) rest(
	ctx context.Context, id task.ID, cursor string, yield func(task.LogLine, error) bool,
) error {
	for {
		lines, next, err := c.Lines(ctx, id, cursor, 0)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !yield(line, nil) {
				return errEnough
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}
