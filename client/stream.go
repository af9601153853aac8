package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// follower reads stream after stream of server-sent events, each from where the last one broke off.
// The id of an event is the cursor behind it.
type follower struct {
	client *Client
	path   string
	query  url.Values // of each stream, besides the cursor
	cursor string     // behind the last event that was read
	read   func(data []byte) error
	// asked when a server ended a stream: whether nothing more will come
	over   func() (bool, error)
	opened bool // a server has answered
}

// run reads until nothing more will come.
func (f *follower) run(ctx context.Context) error {
	for failures := 0; ; {
		before := f.cursor
		err := f.stream(ctx)
		if err == nil { // it is over, or the server stops
			var over bool
			if over, err = f.over(); over {
				return nil
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

// longestEvent is the longest line of a stream that is read: a log's 1 MiB, if each byte of it is
// written as six.
const longestEvent = 8 << 20

// stream reads one stream. nil means that the server ended it. After no answer it is the next
// server's turn.
func (f *follower) stream(ctx context.Context) error {
	c := f.client
	c.learnSometimes(time.Now()) // who only follows must know where to turn, too
	server := c.servers.use()
	query := paged(maps.Clone(f.query), f.cursor, 0)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listening := time.AfterFunc(c.silence, func() { cancel(errSilent) })
	defer listening.Stop()
	response, err := c.open(ctx, server, request{
		method: http.MethodGet, path: f.path, query: query,
	})
	if err != nil {
		c.servers.turn(server)
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
	body := &heard{response.Body, func() { listening.Reset(c.silence) }}
	err = readEvents(body, func(id string, data []byte) error {
		if id != "" {
			f.cursor = id
		}
		if data == nil {
			return nil
		}
		return f.read(data)
	})
	if context.Cause(ctx) == errSilent {
		c.servers.turn(server)
		return errSilent
	}
	return err
}

// longestSilence is how long a stream may say nothing: three times as long as a server lets pass
// without a comment. A machine that is off, or a process that is stopped, ends no stream.
const longestSilence = 45 * time.Second

var errSilent = errors.New("the stream fell silent")

// heard is a stream whose every piece is noticed.
type heard struct {
	io.Reader
	notice func()
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	h.notice()
	return n, err
}

// readEvents reads server-sent events and calls f with the id and the data of each; nil data says
// that only the id is another.
func readEvents(r io.Reader, f func(id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), longestEvent)
	var id, known string
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
		if len(lines.Bytes()) == 0 && (data != nil || id != known) {
			if err := f(id, data); err != nil {
				return err
			}
			known, data = id, nil
		}
	}
	return lines.Err()
}
