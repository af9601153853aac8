package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/pass"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/stream"
)

// A stream is one connection on which many hot calls are under way at a time; docs/stream.md says
// how it is spoken. Whoever opens one is bounded:
//
//   - Each caller has at most maxStreamsEach streams, all callers together maxStreams; who is
//     refused one makes its calls over HTTP.
//   - On a stream at most frame.MaxCalls calls are under way: a goroutine each, which reads a
//     message, has somebody else read on, and answers it. When all are busy nobody reads.
//   - A call takes callCost of the budget of bodies from before its first byte is read until it is
//     answered, what it weighs as far as it has come, and frame.ItemCost for each task or report in
//     it, and for each child in a report once that is read. A hold and a beat give back all but
//     callCost while they wait, as over HTTP. Submissions leave a quarter of the budget to workers.
//     What has no room is answered 503 and read away.
//   - An answer is encoded when it is its turn to be written, into the one buffer that the stream
//     writes from. Who does not read it in time is cut off.
//
// So one caller can keep maxStreamsEach × MaxCalls = 8,192 calls waiting, which take 64 MiB of the
// budget of 256 MiB. Over HTTP there is no such bound: as many calls as the process has descriptors
// for, each with a connection and two goroutines that no budget counts.

const (
	maxStreams     = 1024
	maxStreamsEach = 128
	// callCost is what a call takes besides its body: a goroutine, and what its answer is made of.
	callCost = 8 << 10
	// streamLook is how often a stream is looked at by whoever watches over it.
	streamLook = time.Second
)

// streams are those that are open.
type streams struct {
	follows
	shut    bool           // no more may begin; guarded by mu
	under   sync.WaitGroup // those that have begun; it grows under mu, and not when they are shut
	buffers stream.Buffers
}

// framed is what a stream knows of a call that comes as a frame: what holds for the same call over
// HTTP.
type framed struct {
	pattern string // of HTTP; "" = there is none, as of a ping
	path    string
	rule
	spare int64 // of the budget for bodies, that it leaves to others
	count *callMetrics
	serve func(*streamed, *message) (status int, err error)
}

// begin takes a place for a stream; refused, it says why. Whoever has got one calls end.
func (s *streams) begin(caller string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return store.ErrClosed
	}
	if err := s.take(caller); err != nil {
		return err
	}
	s.under.Add(1)
	return nil
}

func (s *streams) end(caller string) {
	s.follows.end(caller)
	s.under.Done()
}

// close lets no more streams begin, and waits for those that have. A connection that becomes a
// stream is none that the shutdown of a server waits for.
func (s *streams) close() {
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.under.Wait()
}

// streamCalls is the call that opens a stream, and those that are made on one.
type streamCalls struct {
	door  *API
	hot   *hotCalls
	kinds [frame.Leave]framed // what is known of each kind of call
}

func (c *streamCalls) register() {
	op := huma.Operation{
		OperationID: "open-stream", Method: http.MethodGet, Path: frame.Path, Tags: []string{"Work"},
		Summary: "Open a stream for submit, hold, report and beat",
		Description: "A WebSocket with the subprotocol " + frame.Protocol + ", on which many of these calls are under way at a time, in a binary form. " +
			"Each needs the same rights as over HTTP, and is answered the same.",
		Responses: map[string]*huma.Response{"101": {
			Description: http.StatusText(http.StatusSwitchingProtocols),
		}},
	}
	c.door.refusals(&op)
	c.door.huma.OpenAPI().AddOperation(&op)
	c.door.plain("GET "+frame.Path, c.open)
	for kind, f := range map[frame.Kind]framed{
		frame.Submit: {
			pattern: "POST /v1/tasks", path: "/v1/tasks", spare: c.door.conf.MaxBodies / 4,
			serve: (*streamed).submit,
		},
		frame.Hold: {
			pattern: "POST /v1/tasks/hold", path: "/v1/tasks/hold", serve: (*streamed).hold,
		},
		frame.Report: {
			pattern: "POST /v1/tasks/report", path: "/v1/tasks/report", serve: (*streamed).report,
		},
		frame.Beat: {
			pattern: "POST /v1/workers/{worker}/beat", path: "/v1/workers/…/beat",
			serve: (*streamed).beat,
		},
		frame.Ping: {serve: (*streamed).ping},
	} {
		if f.pattern != "" {
			f.rule = rule{rights[f.pattern], reaches[f.pattern]}
			f.count = c.door.metrics.call(f.pattern)
		}
		c.kinds[kind] = f
	}
}

// streamed is one stream.
type streamed struct {
	door *API
	of   *streamCalls
	conn *stream.Conn
	call               // who opened it
	ask  *http.Request // that opened it; who calls is asked of it again when the tokens change
	ctx  context.Context
	// ends it; what went wrong, or why
	end context.CancelCauseFunc

	known atomic.Pointer[known]
	busy  atomic.Int32 // calls under way

	reading   chan struct{}             // of size 1: full while somebody reads, or wants to and may
	listening atomic.Bool               // somebody does
	parts     map[uint32]*message       // that have not all come; guarded by reading
	partial   atomic.Pointer[time.Time] // since when the oldest of them has; nil = none

	mu      sync.Mutex
	readers int                 // goroutines that read or want to
	all     int                 // and those that answer calls; at most frame.MaxCalls
	waits   map[uint32]*message // calls that end when nobody waits for them any more
}

// known is who calls by these tokens.
type known struct {
	tokens *Tokens
	who    principal
}

func (c *streamCalls) open(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == pass.Scheme:
		return refuse(http.StatusForbidden, "a node's pass is good for one call, not for a stream")
	case !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1 ||
		!strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		p := refuse(http.StatusUpgradeRequired,
			"a stream is a WebSocket over HTTP/1.1; a proxy between may have taken that out")
		p.header = http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}
		return p
	case !strings.Contains(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","),
		frame.Protocol):
		return refuse(http.StatusBadRequest, "this node speaks the subprotocol %s", frame.Protocol)
	}
	caller := (&Caller{who: w.who, from: w.from}).key()
	if err := c.door.streams.begin(caller); err != nil {
		return err
	}
	defer c.door.streams.end(caller)
	s := &streamed{
		door: c.door, of: c, call: call{who: w.who, from: w.from, remote: w.remote}, ask: r,
		reading: make(chan struct{}, 1), parts: map[uint32]*message{},
		waits: map[uint32]*message{},
	}
	// Who calls is found out anew for the first call: tokens may have changed since w.who was.
	s.known.Store(&known{})
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{frame.Protocol},
		// where it matters admit has looked at the origin
		InsecureSkipVerify: true,
		OnPingReceived: func(context.Context, []byte) bool {
			s.conn.Touch()
			return true
		},
	})
	if err != nil {
		return nil // it was answered
	}
	s.conn = stream.New(ws, &c.door.streams.buffers)
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(r.Context()))
	s.watch()
	return nil
}

// watch lets goroutines serve the stream until it ends, and ends it.
func (s *streamed) watch() {
	var under sync.WaitGroup
	s.readOn(&under)
	look := time.NewTicker(streamLook)
	defer look.Stop()
	closing := s.door.closing
	var until time.Time // calls under way have time to end
	for s.ctx.Err() == nil {
		select {
		case <-s.ctx.Done():
		case <-closing:
			closing, until = nil, time.Now().Add(s.door.conf.AnswerWithin)
			look.Reset(streamLook / 50)
		case now := <-look.C:
			if err := s.overdue(now, until); err != nil {
				s.end(err)
			}
		}
	}
	var fault *stream.Fault
	if errors.As(context.Cause(s.ctx), &fault) {
		s.conn.Close(fault.Code, fault.Reason)
	}
	s.conn.Cut()
	under.Wait()
	for _, m := range s.parts {
		s.giveBack(m)
	}
}

var errStopping = &stream.Fault{
	Code: websocket.StatusGoingAway, Reason: "this node is stopping",
}

// overdue says why the stream is to end now; nil = it goes on.
func (s *streamed) overdue(now, until time.Time) error {
	conf := &s.door.conf
	if !until.IsZero() && (s.busy.Load() == 0 || now.After(until)) {
		return errStopping
	}
	if err := s.conn.Stuck(now, conf.BodyWithin, conf.AnswerWithin); err != nil {
		return err
	}
	if since := s.partial.Load(); since != nil && now.Sub(*since) > conf.BodyWithin {
		return &stream.Fault{
			Code: websocket.StatusPolicyViolation, Reason: "a message did not come in time",
		}
	}
	if s.listening.Load() && now.Sub(s.conn.Heard()) > conf.Idle {
		return &stream.Fault{
			Code: websocket.StatusGoingAway, Reason: "nothing was heard for too long; send pings",
		}
	}
	return nil
}

// readOn sees to it that somebody reads, as long as there may be more calls.
func (s *streamed) readOn(under *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers > 0 || s.all == frame.MaxCalls {
		return
	}
	s.readers++
	s.all++
	under.Go(func() { s.serve(under) })
}

// maxReaders is how many goroutines of a stream wait for their turn to read.
const maxReaders = 2

// serve reads and answers message after message, as long as not too many others do.
func (s *streamed) serve(under *sync.WaitGroup) {
	for {
		m, err := s.next()
		if err != nil {
			s.end(err)
			return
		}
		s.mu.Lock()
		s.readers--
		s.mu.Unlock()
		s.readOn(under)
		s.answer(m)
		s.mu.Lock()
		if s.readers == maxReaders {
			s.all--
			s.mu.Unlock()
			return
		}
		s.readers++
		s.mu.Unlock()
	}
}
