package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// longest request that goes directly; for longer ones the exchange itself costs little
	directBody = 256 << 10
	// an idle connection is kept so long; the server's limit is 60 s
	directIdle   = 50 * time.Second
	directConns  = 1024 // idle connections kept per server
	directBuffer = 16 << 10
	directHeader = 1 << 20 // longest header of a response
	longAgo      = 1       // Unix time of a deadline that ends reads and writes at once
)

// direct is a transport that makes an exchange in its caller's goroutine: write the request, read
// the response. The standard library's hands both to goroutines of the connection, which costs the
// calls of a worker, of a few hundred bytes each, as much CPU as all the rest of them. Requests and
// responses are still written and read by the standard library, and what is not a small request
// over plain HTTP goes through rest.
type direct struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	rest *http.Transport

	mu   sync.Mutex
	idle map[string][]*directConn // by address, the one that was used last behind the others
	reap *time.Timer              // closes those that were idle too long; nil = nothing is idle
}

// directConn is a connection that one exchange uses at a time.
type directConn struct {
	net.Conn
	address string
	limit   io.LimitedReader // what may still be read of the connection
	r       *bufio.Reader
	w       *bufio.Writer
	since   time.Time // idle
}

// RoundTrip makes one exchange. As http.RoundTripper asks, it does not repeat anything, and closes
// the request's body.
func (t *direct) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Scheme != "http" || q.ContentLength < 0 || q.ContentLength > directBody ||
		q.Header.Get("Upgrade") != "" {
		return t.rest.RoundTrip(q)
	}
	if q.Body != nil {
		defer q.Body.Close()
	}
	address := q.URL.Host
	if q.URL.Port() == "" {
		address = net.JoinHostPort(q.URL.Hostname(), "80")
	}
	c, err := t.take(q.Context(), address)
	if err != nil {
		return nil, err
	}
	// When the caller's time is over the connection is good for nothing more: whatever waits for it
	// returns.
	uncut := context.AfterFunc(q.Context(), func() { _ = c.SetDeadline(time.Unix(longAgo, 0)) })
	wrote := q.Write(c.w)
	if wrote == nil {
		wrote = c.w.Flush()
	}
	response, err := c.read(q) // a server may refuse what it has not read to the end
	if err != nil {
		uncut()
		c.Close()
		if wrote != nil {
			err = wrote
		}
		if q.Context().Err() != nil {
			err = context.Cause(q.Context())
		}
		return nil, err
	}
	response.Body = &directAnswer{
		ReadCloser: response.Body, ctx: q.Context(), transport: t, conn: c, uncut: uncut,
		reusable: wrote == nil && !response.Close && !q.Close && response.ProtoAtLeast(1, 1),
	}
	return response, nil
}

// read reads the header of the response.
func (c *directConn) read(q *http.Request) (*http.Response, error) {
	for {
		c.limit.N = directHeader
		response, err := http.ReadResponse(c.r, q)
		switch {
		case c.limit.N <= 0:
			return nil, fmt.Errorf("the header of the response is longer than %d bytes",
				directHeader)
		case err != nil:
			return nil, fmt.Errorf("read response: %w", err)
		case response.StatusCode/100 != 1:
			c.limit.N = 1 << 62
			return response, nil
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server changes the protocol without being asked")
		}
	}
}

// take is an idle connection to the address, or a new one.
func (t *direct) take(ctx context.Context, address string) (*directConn, error) {
	for {
		t.mu.Lock()
		list := t.idle[address]
		if len(list) == 0 {
			t.mu.Unlock()
			break
		}
		last := len(list) - 1
		c := list[last]
		list[last] = nil
		t.idle[address] = list[:last]
		t.mu.Unlock()
		if time.Since(c.since) < directIdle && alive(c.Conn) {
			return c, nil
		}
		c.Close()
	}
	conn, err := t.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &directConn{Conn: conn, address: address, limit: io.LimitedReader{R: conn}}
	c.r, c.w = bufio.NewReaderSize(&c.limit, directBuffer), bufio.NewWriterSize(conn, directBuffer)
	return c, nil
}

// give keeps a connection for the next exchange.
func (t *direct) give(c *directConn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.address]) >= directConns || c.r.Buffered() > 0 {
		// nobody asked for what came after the response
		c.Close()
		return
	}
	if t.idle == nil {
		t.idle = make(map[string][]*directConn)
	}
	t.idle[c.address] = append(t.idle[c.address], c)
	if t.reap == nil {
		t.reap = time.AfterFunc(directIdle, func() { t.closeIdle(directIdle) })
	}
}

// closeIdle closes the connections that nobody used for at least age.
func (t *direct) closeIdle(age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reap != nil {
		t.reap.Stop()
		t.reap = nil
	}
	for address, list := range t.idle {
		old := 0
		for old < len(list) && time.Since(list[old].since) >= age {
			list[old].Close()
			old++
		}
		if list = append([]*directConn(nil), list[old:]...); len(list) == 0 {
			delete(t.idle, address)
			continue
		}
		t.idle[address] = list
	}
	if len(t.idle) > 0 {
		t.reap = time.AfterFunc(directIdle/10, func() { t.closeIdle(age) })
	}
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *direct) CloseIdleConnections() {
	t.closeIdle(0)
	t.rest.CloseIdleConnections()
}

// directAnswer is the body of a response. Read to its end, it gives the connection back; closed
// before, it closes it.
type directAnswer struct {
	io.ReadCloser
	ctx       context.Context
	transport *direct
	conn      *directConn
	uncut     func() bool
	reusable  bool
	ended     error
}

func (b *directAnswer) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	b.end(err)
	return n, err
}

func (b *directAnswer) Close() error {
	if b.ReadCloser == http.NoBody {
		b.end(io.EOF)
	} else {
		b.end(errClosed)
	}
	return nil
}

var errClosed = errors.New("the body of the response is closed")

// end says what reading answers from now on: io.EOF after the whole body.
func (b *directAnswer) end(why error) {
	if b.ended != nil {
		return
	}
	b.ended = why
	if b.uncut() && why == io.EOF && b.reusable {
		b.transport.give(b.conn)
		return
	}
	b.conn.Close()
}
