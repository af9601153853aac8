package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/task"
)

// How streams are opened. One that can't be is tried again after a pause, longer each time; calls
// go over HTTP meanwhile.
var openAgain = task.Backoff{
	Initial: time.Second, Max: time.Minute, Factor: 2, Jitter: 0.5,
}

const (
	openWithin = 5 * time.Second // until opening has failed
	steady     = time.Minute     // a stream that stood so long is opened again at once
)

// lines are the streams to the servers, each a line once it stands. They are opened beside the
// calls, and only to servers to which hot calls go.
type lines struct {
	client  *Client
	ctx     context.Context // of opening; nil = there are no streams
	stop    context.CancelFunc
	buffers stream.Buffers

	mu     sync.Mutex
	by     map[string]*lineTo
	closed bool
	toldOf map[string]bool // what the log knows
}

// lineTo is how the stream to one server stands.
type lineTo struct {
	line     *line     // nil = there is none
	opening  bool      // somebody tries
	next     time.Time // nobody does before
	failures int       // in a row
}

func (s *lines) init(c *Client) {
	s.client, s.stop = c, func() {}
	if !c.config.HTTPOnly {
		s.ctx, s.stop = context.WithCancel(context.Background())
		s.by, s.toldOf = map[string]*lineTo{}, map[string]bool{}
	}
}

// to is the line to a server; nil when there is none. Then one is opened, when it is time to.
func (s *lines) to(server string) *line {
	if s.ctx == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.by[server]
	switch {
	case at == nil:
		at = &lineTo{}
		s.by[server] = at
	case at.line != nil:
		return at.line
	}
	if s.closed || at.opening || time.Now().Before(at.next) {
		return nil
	}
	at.opening = true
	s.client.flights.Go(func() { s.open(server, at) })
	return nil
}

// open opens the stream to a server.
func (s *lines) open(server string, at *lineTo) {
	ctx, cancel := context.WithTimeout(s.ctx, openWithin)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, server+frame.Path, &websocket.DialOptions{
		HTTPClient: s.client.http, HTTPHeader: s.client.header.Clone(),
		Subprotocols: []string{frame.Protocol},
	})
	if err == nil && ws.Subprotocol() != frame.Protocol {
		_ = ws.CloseNow() // whatever it is, it is not wanted
		err = errors.New("the server speaks another protocol")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at.opening = false
	if err == nil && !s.closed {
		began := time.Now()
		at.line = newLine(stream.New(ws, &s.buffers), func(why error) {
			s.ended(server, at, why, time.Since(began))
		})
		return
	}
	if err == nil {
		_ = ws.CloseNow()
		return
	}
	s.later(at)
	if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		at.next = time.Now().Add(openAgain.Max)
		if busy := response.StatusCode; busy == http.StatusServiceUnavailable ||
			busy == http.StatusTooManyRequests {
			s.later(at)
		}
	}
	if s.ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !connecting(err) {
		s.tell("the server takes no stream, so calls go over HTTP", server, err)
	}
}

// later puts the next try off.
func (s *lines) later(at *lineTo) {
	at.failures++
	at.next = time.Now().Add(openAgain.Delay(at.failures, uint64(time.Now().UnixNano())))
}

// ended notes that a line is no more.
func (s *lines) ended(server string, at *lineTo, why error, stood time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.line = nil
	if stood >= steady || why == errUnused {
		at.failures = 0
	} else {
		s.later(at)
	}
	if why != errUnused && !s.closed && websocket.CloseStatus(why) != websocket.StatusGoingAway {
		s.tell("the stream was cut, so calls go over HTTP until there is another", server, why)
	}
}

// tell says something once. lines.mu is held.
func (s *lines) tell(what, server string, why error) {
	if !s.toldOf[what] {
		s.toldOf[what] = true
		s.client.config.Log.Info(what, "server", server, "reason", why)
	}
}

// close ends all lines, when no call is under way any more.
func (s *lines) close() {
	s.mu.Lock()
	s.closed = true
	var open []*line
	for _, at := range s.by {
		if at.line != nil {
			open = append(open, at.line)
		}
	}
	s.mu.Unlock()
	for _, l := range open {
		l.end(errUnused)
	}
}
