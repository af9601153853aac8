package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"

	"github.com/rotahq/rota/task"
)

// Lines reads a task's log: at most limit lines (0 = 100, at most 1,000) from cursor on ("" = the start). next is the
// cursor of the following page, "" after the last.
func (c *Client) Lines(ctx context.Context, id task.ID, cursor string, limit int) (lines []task.LogLine, next string, err error) {
	var p page[task.LogLine]
	if err := c.get(ctx, request{path: taskPath(id) + "/logs", query: paged(url.Values{}, cursor, limit)}, &p); err != nil {
		return nil, "", fmt.Errorf("read log of task %v: %w", id, err)
	}
	return p.Items, p.Next, nil
}

// FollowLines yields the lines of a task's log as they come, from cursor on ("" = the start), until the task is final and
// its log is read. When a stream breaks, or a server that stops ends it, the next one goes on behind the last line; so once a
// server has answered, FollowLines outlasts the absence of all of them for as long as ctx lets it. An error is the last that
// it yields: that of ctx, or one that no other try would mend.
func (c *Client) FollowLines(ctx context.Context, id task.ID, cursor string) iter.Seq2[task.LogLine, error] {
	return func(yield func(task.LogLine, error) bool) {
		f := follower{client: c, id: id, cursor: cursor, yield: yield}
		if err := f.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(task.LogLine{}, fmt.Errorf("follow log of task %v: %w", id, err))
		}
	}
}

// follower reads one log.
type follower struct {
	client *Client
	id     task.ID
	cursor string // behind the last line that was yielded
	yield  func(task.LogLine, error) bool
	opened bool // a server has answered
}

// run reads stream after stream until the task is final.
func (f *follower) run(ctx context.Context) error {
	for failures := 0; ; {
		before := f.cursor
		err := f.stream(ctx)
		if err == nil { // the task is final, or the server stops
			var view task.View
			if view, err = f.client.Task(ctx, f.id, 0); err == nil && view.State.Final() {
				return f.rest(ctx)
			}
		}
		if failures++; f.cursor != before {
			failures = 1
		}
		pause := f.client.config.Backoff.Delay(failures, rand.Uint64())
		var refused *Error
		switch {
		case errors.Is(err, errEnough):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refused):
			if !errors.Is(err, ErrUnavailable) {
				return err
			}
			pause = max(pause, refused.RetryAfter)
		}
		if err != nil && !f.opened && failures >= f.client.config.Attempts {
			return final(request{safe: true}, err)
		}
		if !sleep(ctx, pause) { // perhaps a moment before ctx ends
			return cmp.Or(context.Cause(ctx), err, context.DeadlineExceeded)
		}
	}
}

// errEnough: the reader broke off the loop.
var errEnough = errors.New("enough read")

// longestEvent is the longest line of the stream that is read: a log's 1 MiB, if each byte of it is written as six.
const longestEvent = 8 << 20

// stream reads one stream of server-sent events: each event's data is a line, its id the cursor behind it. nil means that
// the server ended the stream. After no answer it is the next server's turn.
func (f *follower) stream(ctx context.Context) error {
	c := f.client
	at := c.current.Load()
	query := paged(url.Values{"follow": {"true"}}, f.cursor, 0)
	response, err := c.open(ctx, c.servers[at%int64(len(c.servers))], request{method: http.MethodGet, path: taskPath(f.id) + "/logs", query: query})
	if err != nil {
		c.current.CompareAndSwap(at, at+1)
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		body, err := readAll(response)
		if err != nil {
			return err
		}
		return newError(response.StatusCode, response.Header, body)
	}
	f.opened = true
	return readEvents(response.Body, func(at string, data []byte) error {
		var line task.LogLine
		if err := json.Unmarshal(data, &line); err != nil {
			return fmt.Errorf("read line: %w", err)
		}
		if at != "" {
			f.cursor = at
		}
		if !f.yield(line, nil) {
			return errEnough
		}
		return nil
	})
}

// rest reads what came to the log of a task that is final after its last stream had ended.
func (f *follower) rest(ctx context.Context) error {
	for {
		lines, next, err := f.client.Lines(ctx, f.id, f.cursor, 0)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !f.yield(line, nil) {
				return errEnough
			}
		}
		if next == "" {
			return nil
		}
		f.cursor = next
	}
}

// readEvents reads server-sent events and calls f with the id and data of each that carries data.
func readEvents(r io.Reader, f func(id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), longestEvent)
	var id string
	var data []byte
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			id = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
		if len(lines.Bytes()) == 0 && data != nil {
			if err := f(id, data); err != nil {
				return err
			}
			data = nil
		}
	}
	return lines.Err()
}
