// Package inprocess lets a client of HTTP call a handler in the same process, without a network:
//
//	c := &http.Client{Transport: inprocess.New(handler)}
//
// An answer is passed on as it is written, so one that never ends, as a stream of events, can be
// read. When the caller leaves, because its context ended or it closed the answer's body, the
// context of the handler's request ends, as it does when a connection breaks. A handler that
// panics breaks the answer off.
package inprocess

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Transport is a http.RoundTripper that calls a handler. Requests name a host, as those through a
// network do; which one does not matter here.
type Transport struct{ handler http.Handler }

// New is a transport to h.
func New(h http.Handler) *Transport { return &Transport{h} }

// RoundTrip calls the handler, and returns when it has said the head of its answer. An error is
// that of the request's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, leave := context.WithCancelCause(r.Context())
	read, write := io.Pipe()
	w := &writer{header: http.Header{}, body: write, began: make(chan struct{})}
	// then reading ends, and what the handler still writes goes nowhere
	context.AfterFunc(ctx, func() { write.CloseWithError(context.Cause(ctx)) })
	go t.serve(received(r, ctx), w)
	select {
	case <-w.began:
	case <-ctx.Done():
		leave(nil)
		return nil, context.Cause(ctx)
	}
	answer := &http.Response{
		Status:     fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, ContentLength: -1, Request: r,
		Body: &body{PipeReader: read, leave: leave},
	}
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		answer.ContentLength = n
	}
	return answer, nil
}

// received is a request as its handler sees it.
func received(r *http.Request, ctx context.Context) *http.Request {
	in := r.Clone(ctx)
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "inprocess"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// serve lets the handler answer, and ends the answer.
func (t *Transport) serve(r *http.Request, w *writer) {
	defer r.Body.Close()
	defer func() {
		err := error(nil)
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler broke off: %v", p)
		}
		w.WriteHeader(http.StatusOK)
		w.body.CloseWithError(err) // nil: the answer ends well
	}()
	t.handler.ServeHTTP(w, r)
}

// writer passes an answer on.
type writer struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	status int           // fixed, as sent is, when began is closed
	sent   http.Header   // the header as it was when the head was written
	began  chan struct{} // closed when the head is written
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // on the way to an answer; no caller here waits for it
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.began)
	})
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush sends the head; what is written is never held back.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// body is the caller's end of an answer.
type body struct {
	*io.PipeReader
	leave context.CancelCauseFunc
}

// Close leaves: the handler's context ends.
func (b *body) Close() error {
	b.leave(context.Canceled)
	return b.PipeReader.Close()
}
