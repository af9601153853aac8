package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// instead of read, where events are of several types
	readTyped func(kind string, data []byte) error
	// asked when a server ended a stream: whether nothing more will come
	over   func() (bool, error)
	server string // of the newest stream
	opened bool   // a server has answered
	heard  bool   // something new came since the last failure
}

// run reads until nothing more will come.
func (f *follower) run(ctx context.Context) error {
	for failures := 0; ; {
		f.heard = false
		err := f.stream(ctx)
		if err == nil { // it is over, or the server stops
			var over bool
			if over, err = f.over(); over {
				return nil
			}
		}
		if failures++; f.heard {
			failures = 1
		}
		pause := f.client.config.Backoff.Delay(failures, rand.Uint64())
		var refused *Error
		switch {
		case errors.Is(err, errEnough), errors.Is(err, errUnreadable):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refused):
			if !errors.Is(err, ErrUnavailable) {
				return err
			}
			pause = max(pause, refused.RetryAfter)
			if failures > 1 { // it stays in trouble, as when it is cut off from its store
				f.client.servers.turn(f.server)
			}
		}
		if err != nil && !f.opened && failures >= f.client.config.Attempts {
			return final(request{safe: true}, err)
		}
		if !sleep(ctx, pause) { // perhaps a moment before ctx ends
			return cmp.Or(context.Cause(ctx), err, context.DeadlineExceeded)
		}
	}
}

// errEnough: the reader broke off the loop. errUnreadable: what came can't be read, nor could it if
// it came again; to go on behind it would leave it out in silence.
var (
	errEnough     = errors.New("enough read")
	errUnreadable = errors.New("what came can't be read")
)

// longestEvent is the longest line of a stream that is read: a log's 1 MiB, if each byte of it is
// written as six.
const longestEvent = 8 << 20

// stream reads one stream. nil means that the server ended it. After no answer it is the next
// server's turn.
func (f *follower) stream(ctx context.Context) error {
	c := f.client
	c.learnSometimes(time.Now()) // who only follows must know where to turn, too
	server := c.servers.use()
	f.server = server
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
	err = readEvents(body, func(e sent) error {
		listening.Stop() // what the reader does with it is not the server's silence
		defer listening.Reset(c.silence)
		f.heard = f.heard || e.data != nil || e.id != f.cursor
		if e.id != "" {
			f.cursor = e.id
		}
		switch {
		case e.data == nil:
			return nil
		case f.readTyped != nil:
			return f.readTyped(e.kind, e.data)
		}
		return f.read(e.data)
	})
	if context.Cause(ctx) == errSilent && !errors.Is(err, errEnough) {
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

// sent is a server-sent event.
type sent struct {
	id   string
	kind string // its type; "" = message
	data []byte // nil = only the id is another
}

// readEvents reads server-sent events and calls f with each.
func readEvents(r io.Reader, f func(sent) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), longestEvent)
	var e sent
	known := ""
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			e.id = string(value)
		case "event":
			e.kind = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
		if len(lines.Bytes()) == 0 && (e.data != nil || e.id != known) {
			if err := f(e); err != nil {
				return err
			}
			known, e = e.id, sent{id: e.id}
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) { // as it would be again
		err = fmt.Errorf("%w: an event of more than %d bytes", errUnreadable, longestEvent)
	}
	return err
}
