package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
)

// maxAnswer is the longest answer that is read; a server that sends more is broken.
const maxAnswer = 1 << 30

// request is one call, whichever server answers it.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	hot          *hot          // in place of body: a stream may carry the call
	lines        bool          // the body is JSON, one value a line
	signed       http.Header   // more headers, of a call that another program might make
	wait         time.Duration // what the server may wait before it answers
	safe         bool          // may be made twice
	// a server that can't answer now is not waited for, and others are asked at once
	anywhere bool
}

// hot is a call that a stream may carry.
type hot struct {
	kind  frame.Kind
	frame stream.Body   // of a frame
	json  func() []byte // the body over HTTP
}

// answer is what came back with a 2xx.
type answer struct {
	body   []byte
	header http.Header // nil = it came on a stream, and body is that of a frame
}

// do makes the call until it is answered, refused, too often tried, or ctx ends.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	now := time.Now()
	c.budget.earn(now)
	c.learnSometimes(now)
	fresh := c.servers.count() - 1 // servers that this call has not tried yet
	for attempt := 1; ; attempt++ {
		server, a, err := c.tryOne(ctx, r)
		if err == nil {
			return a, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			if r.wait == 0 && errors.Is(cause, context.DeadlineExceeded) {
				// not answered in all the time that the caller had
				c.servers.turn(server)
			}
			if unsent(err) {
				return answer{}, cause
			}
			return answer{}, unknown(r, cause)
		}
		var refused *Error
		if !errors.As(err, &refused) { // no answer: the next server
			c.servers.turn(server)
			if (connecting(err) || errors.Is(err, errLeft)) && fresh > 0 {
				fresh--
				attempt--
				continue
			}
		} else if errors.Is(err, ErrUnavailable) {
			if r.anywhere && refused.Status != http.StatusTooManyRequests {
				if a, ok := c.tryOthers(ctx, server, r); ok {
					return a, nil
				}
			}
			if attempt > 1 { // it stays in trouble, as when it is cut off from its store
				c.servers.turn(server)
			}
		}
		if !repeatable(r, err) {
			return answer{}, final(r, err)
		}
		pause := c.config.Backoff.Delay(attempt, rand.Uint64())
		if refused != nil {
			// on top of it, so that not all who were refused come back at the same moment
			pause += refused.RetryAfter
		}
		if attempt >= c.config.Attempts || !c.budget.spend(time.Now()) || !sleep(ctx, pause) {
			return answer{}, final(r, err)
		}
	}
}

// How many servers are asked besides the one in use before a call is made again, and how long each
// may take, besides what it may wait: one of them may be a process that is stopped.
const (
	maxOthers   = 8
	otherWithin = time.Second
)

// tryOthers makes a call at other servers than the one that can't answer it now, one after the
// other. Which server is in use it leaves as it is. The one that was of help last comes first, and
// is asked in any case; asking others is a repeat, of which there are only so many.
func (c *Client) tryOthers(ctx context.Context, but string, r request) (a answer, ok bool) {
	helper, servers := c.servers.others(but, maxOthers)
	for _, server := range servers {
		if server != helper && !c.budget.spend(time.Now()) {
			return answer{}, false
		}
		within, cancel := context.WithTimeout(ctx, min(r.wait, mostWait)+otherWithin)
		a, err := c.try(within, server, r)
		cancel()
		if err == nil {
			c.servers.helped(server)
			return a, true
		}
	}
	return answer{}, false
}

// repeatable tells whether a failed try may be followed by another.
func repeatable(r request, err error) bool {
	var refused *Error
	switch {
	case unsent(err):
		return true
	case !errors.As(err, &refused):
		return r.safe
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrFull):
		return r.safe || refused.unchanged()
	}
	return false
}

// final is err as the caller gets it: with ErrOutcomeUnknown when the call may have worked.
func final(r request, err error) error {
	var refused *Error
	switch {
	case connecting(err):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case unsent(err), errors.As(err, &refused) && refused.unchanged():
		return err
	}
	return unknown(r, err)
}

func unknown(r request, err error) error {
	if r.safe {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// connecting tells whether err came before there was a connection.
func connecting(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// unsent tells whether err came before all of the call was sent, so that no server can have done
// it.
func unsent(err error) bool {
	var cut *cutError
	return connecting(err) || errors.As(err, &cut)
}

// cutError is the end of a connection before all of the body was sent.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// payload is a body that knows whether the connection has taken all of it.
type payload struct {
	rest []byte
	all  *atomic.Bool
}

func (p *payload) Read(b []byte) (int, error) {
	n := copy(b, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) > 0 {
		return n, nil
	}
	p.all.Store(true)
	return n, io.EOF
}

func (p *payload) Close() error { return nil }

// tryOne makes the call once, at the server in use.
func (c *Client) tryOne(ctx context.Context, r request) (server string, a answer, err error) {
	if !r.safe || c.servers.count() == 1 {
		server = c.servers.use()
		a, err = c.try(ctx, server, r)
		return server, a, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server, done := c.servers.begin(cancel)
	defer done()
	a, err = c.try(ctx, server, r)
	if err != nil && context.Cause(ctx) == errLeft {
		err = errLeft
	}
	return server, a, err
}

// mostWait is more than any server lets a call wait: it refuses what is longer.
const mostWait = 24 * time.Hour

// try makes the call once, at one server.
func (c *Client) try(ctx context.Context, server string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout+min(r.wait, mostWait))
	defer cancel()
	if r.hot != nil {
		if l := c.lines.to(server); l != nil {
			if a, err := l.call(ctx, r.hot.kind, r.hot.frame); err != errNoLine {
				return a, err
			}
		}
		r.body = r.hot.json()
	}
	response, err := c.open(ctx, server, r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := readAll(response)
	if err != nil {
		return answer{}, fmt.Errorf("read answer of %s %s: %w", r.method, r.path, err)
	}
	if response.StatusCode/100 != 2 {
		return answer{}, newError(response.StatusCode, response.Header, body)
	}
	return answer{body, response.Header}, nil
}

// Content types; net/http only reads them.
var (
	jsonType  = []string{"application/json"}
	jsonLines = []string{"application/x-ndjson"}
)

// open sends the request and returns when the header of the response is there.
func (c *Client) open(ctx context.Context, server string, r request) (*http.Response, error) {
	target := server + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, r.method, target, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(q.Header, c.header)
	var all atomic.Bool
	if r.body != nil {
		q.ContentLength = int64(len(r.body))
		q.Body = &payload{r.body, &all}
		// after a connection that was closed while idle
		q.GetBody = func() (io.ReadCloser, error) { return &payload{r.body, &all}, nil }
		q.Header["Content-Type"] = jsonLines
		if !r.lines {
			q.Header["Content-Type"] = jsonType
		}
	}
	maps.Copy(q.Header, r.signed)
	response, err := c.http.Do(q)
	if err != nil && r.body != nil && !all.Load() {
		err = &cutError{err}
	}
	return response, err
}

// believedLength is up to which length of an answer its memory is there before the answer is: a
// server that announces more may never send it.
const believedLength = 32 << 20

// readAll reads the body into memory of its own: contexts are parts of it.
func readAll(response *http.Response) ([]byte, error) {
	if n := response.ContentLength; n >= 0 && n <= believedLength {
		b := make([]byte, n)
		_, err := io.ReadFull(response.Body, b)
		return b, err
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("more than %d bytes", maxAnswer)
	}
	return b, err
}

// sleep says false when ctx ends before d has passed, at once when its deadline says so already.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// saved is how many calls' shares a budget keeps for bad times.
const saved = 100

// budget limits repeats to a share of the calls, and a few a second that are always allowed. One
// for the whole client: when a server is in trouble, all calls fail, and each repeat would make it
// worse.
type budget struct {
	share, floor float64

	mu     sync.Mutex
	tokens float64 // at most floor + saved × share
	at     time.Time
}

// earn counts a call.
func (b *budget) earn(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now, b.share)
}

// spend says whether one more repeat is allowed.
func (b *budget) spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now, 0)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) refill(now time.Time, more float64) {
	limit := b.floor + saved*b.share
	if b.at.IsZero() {
		b.tokens = limit
	}
	b.tokens = min(b.tokens+more+b.floor*now.Sub(b.at).Seconds(), limit)
	b.at = now
}

// get reads path into v.
func (c *Client) get(ctx context.Context, r request, v any) error {
	r.method, r.safe = http.MethodGet, true
	return c.send(ctx, r, v)
}

// send makes a call whose answer is JSON; v nil = it doesn't matter.
func (c *Client) send(ctx context.Context, r request, v any) error {
	a, err := c.do(ctx, r)
	if err != nil || v == nil {
		return err
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", r.method, r.path, err)
	}
	return nil
}
