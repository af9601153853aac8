package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func TestServersWordDecidesWhatBecameOfASubmission(t *testing.T) {
	for _, c := range []struct {
		status  int
		outcome string
		tries   int64 // of a submission without keys
		unknown bool
	}{
		{503, "unchanged", 3, false}, {503, "unknown", 1, true}, {503, "", 1, true},
		{503, "sideways", 1, true},
		{507, "unchanged", 3, false}, {507, "unknown", 1, true}, {507, "", 3, false},
		{500, "unknown", 1, true}, {500, "", 1, true}, {502, "", 1, true}, {429, "", 3, false},
		{409, "", 1, false},
	} {
		url, calls := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(c.status)
			fmt.Fprintf(w,
				`{"status":%d,"title":"T","detail":"because","outcome":%q,"instance":"i7"}`,
				c.status, c.outcome)
		})
		_, err := newClient(t, Config{Servers: []string{url}, Attempts: 3}).Submit(t.Context(),
			task.Submission{Queue: "q"})
		var refused *Error
		if !errors.As(err, &refused) || refused.Outcome != c.outcome || refused.Instance != "i7" {
			t.Errorf("%d %q: %v", c.status, c.outcome, err)
		}
		if calls.Load() != c.tries || errors.Is(err, ErrOutcomeUnknown) != c.unknown {
			t.Errorf("%d %q: %d tries, want %d: %v", c.status, c.outcome, calls.Load(), c.tries,
				err)
		}
	}
}

// cutting closes its first connections after so many bytes, and hands the later ones to a server.
type cutting struct {
	net.Listener
	mu    sync.Mutex
	times int
	after int64
}

func (l *cutting) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		cut := l.times > 0
		l.times--
		l.mu.Unlock()
		if !cut {
			return c, nil
		}
		io.CopyN(io.Discard, c, l.after)
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func TestSubmissionOfWhichAPartWasSentGoesAgain(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &cutting{Listener: plain, times: 2, after: 100}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(201)
		w.Write(wire.AppendReceipts(nil, []task.Receipt{{ID: task.ID{Batch: 1}}}))
	})}
	var group sync.WaitGroup
	group.Go(func() { s.Serve(l) })
	defer group.Wait()
	defer s.Close()
	c := newClient(t, Config{Servers: []string{"http://" + plain.Addr().String()}})
	// more than connections buffer
	large := json.RawMessage(`"` + strings.Repeat("x", 32<<20) + `"`)
	if _, err := c.Submit(
		t.Context(), task.Submission{Queue: "q", Context: large},
	); err != nil {
		t.Error(err)
	}
	l.mu.Lock()
	l.times = 100
	l.mu.Unlock()
	c.http.CloseIdleConnections()
	once := newClient(t, Config{Servers: c.config.Servers, Attempts: 1})
	if _, err := once.Submit(
		t.Context(), task.Submission{Queue: "q", Context: large},
	); err == nil || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("cut: %v", err)
	}
	if _, err := once.Submit(
		t.Context(), task.Submission{Queue: "q"},
	); !errors.Is(err, ErrOutcomeUnknown) {
		// all of it may have arrived
		t.Errorf("a small one: %v", err)
	}
}

func TestRefusalSaysEverythingOnce(t *testing.T) {
	one := []task.FieldError{{Location: "body.tasks[0].queue", Message: "must be given"}}
	two := append(one, task.FieldError{Location: "body.tasks[1].key", Message: "is too long"})
	for want, e := range map[string]*Error{
		"422 body.tasks[0].queue: must be given": {Status: 422,
			Detail: "body.tasks[0].queue: must be given",
			Errors: one},
		"422 2 values are wrong; body.tasks[0].queue: must be given; body.tasks[1].key: is too long": {Status: 422, Detail: "2 values are wrong",
			Errors: two},
		"413 the body is larger than 5 bytes": {
			Status: 413, Detail: "the body is larger than 5 bytes",
			Errors: []task.FieldError{
				{Location: "body", Message: "the body is larger than 5 bytes"},
			},
		},
		"404 Not Found": {Status: 404, Title: "Not Found"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
