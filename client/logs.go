package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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
// its log is read. An error, of ctx too, is the last that it yields. When the connection breaks it goes on where it was.
func (c *Client) FollowLines(ctx context.Context, id task.ID, cursor string) iter.Seq2[task.LogLine, error] {
	return func(yield func(task.LogLine, error) bool) {
		for {
			before := cursor
			err := c.follow(ctx, id, &cursor, yield)
			if err == nil || errors.Is(err, errEnough) {
				return
			}
			var refused *Error
			if cursor == before || errors.As(err, &refused) || ctx.Err() != nil { // no progress: don't turn in circles
				yield(task.LogLine{}, fmt.Errorf("follow log of task %v: %w", id, err))
				return
			}
		}
	}
}

// errEnough: the reader broke off the loop.
var errEnough = errors.New("enough read")

// longestEvent is the longest line of the stream that is read, well above the longest log line.
const longestEvent = 1 << 20

// follow reads one stream of server-sent events: each event's data is a line, its id the cursor behind it. nil means that
// the server ended the stream.
func (c *Client) follow(ctx context.Context, id task.ID, cursor *string, yield func(task.LogLine, error) bool) error {
	query := url.Values{"follow": {"true"}}
	server := c.servers[c.current.Load()%int64(len(c.servers))]
	response, err := c.open(ctx, server, request{method: http.MethodGet, path: taskPath(id) + "/logs", query: paged(query, *cursor, 0)})
	if err != nil {
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
	return readEvents(response.Body, func(at string, data []byte) error {
		var line task.LogLine
		if err := json.Unmarshal(data, &line); err != nil {
			return fmt.Errorf("read line: %w", err)
		}
		if at != "" {
			*cursor = at
		}
		if !yield(line, nil) {
			return errEnough
		}
		return nil
	})
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
