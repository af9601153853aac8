package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// framed is a server that takes streams. Each message goes to answer, which answers it or not;
// other calls go to plain.
type framed struct {
	answer  func(c *stream.Conn, id uint32, kind frame.Kind, body []byte)
	plain   http.HandlerFunc
	opened  atomic.Int64
	streams sync.WaitGroup
}

func (s *framed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != frame.Path {
		s.plain(w, r)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{frame.Protocol},
	})
	if err != nil {
		return
	}
	s.streams.Add(1)
	defer s.streams.Done()
	s.opened.Add(1)
	c := stream.New(ws, &stream.Buffers{})
	defer c.Cut()
	var body []byte
	for {
		h, err := c.Next()
		if err != nil {
			return
		}
		piece := make([]byte, h.Size)
		if c.Read(piece) != nil {
			return
		}
		if body = append(body, piece...); !h.More {
			s.answer(c, h.ID, h.Kind, body)
			body = nil
		}
	}
}

func reply(c *stream.Conn, id uint32, body []byte) {
	_, _ = c.Send(context.Background(), id, frame.Answer, stream.Bytes(body))
}

// sound answers as a server that is well does.
func sound(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
	switch kind {
	case frame.Submit:
		tasks, err := frame.ParseSubmissions(body)
		if err != nil {
			panic(err)
		}
		receipts := make([]task.Receipt, len(tasks))
		for i := range receipts {
			receipts[i].ID = task.ID{Batch: 9, N: int32(i)}
		}
		reply(c, id, frame.AppendReceipts(nil, receipts))
	case frame.Report:
		_, reports, err := frame.ParseReports(body)
		if err != nil {
			panic(err)
		}
		answers := make([]wire.Answer, len(reports))
		for i := range answers {
			answers[i].Status = task.Recorded
		}
		reply(c, id, frame.AppendAnswers(nil, answers))
	case frame.Beat:
		reply(c, id, wire.AppendBeatAnswer(nil, task.BeatAnswer{Version: "1"}))
	case frame.Hold:
		b, _ := frame.CutHandouts(nil, frame.Handouts{Now: time.Now()}, 99)
		reply(c, id, b)
	case frame.Ping:
		reply(c, id, nil)
	}
}

// plainly answers hot calls over HTTP, and counts them.
func plainly(calls *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch {
		case r.URL.Path == "/v1/tasks":
			fmt.Fprint(w, `{"tasks":[{"id":"`+task.ID{Batch: 8, N: 1}.String()+`","existing":false}]}`)
		case strings.HasSuffix(r.URL.Path, "/report"):
			fmt.Fprint(w, `{"results":[{"id":"`+anID.String()+`","status":"recorded"}]}`)
		case strings.HasSuffix(r.URL.Path, "/hold"):
			fmt.Fprint(w, `{"tasks":[],"poll_interval":"10s"}`)
		default:
			fmt.Fprint(w, `{"version":"1","beat":"5s","tasks":[],"jobs":{}}`)
		}
	}
}

var anID = task.ID{Batch: 1 << 40, N: 3}

// streaming makes a client that keeps a stream, whose pauses are short.
func streaming(t *testing.T, c Config) *Client {
	t.Helper()
	c.Fixed = true
	c.Backoff = task.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Factor: 1}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	cl, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// stands makes calls until one of them has gone over a stream, that is: none over HTTP.
func stands(t *testing.T, c *Client, plain *atomic.Int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		before := plain.Load()
		if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
			t.Fatal(err)
		}
		if plain.Load() == before {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no stream stands")
		}
	}
}

func done(token string) task.Report {
	return task.Report{ID: anID, Token: token, Outcome: task.Finish(nil)}
}

func TestHotCallsGoOverTheStreamOnceItStands(t *testing.T) {
	for name, serve := range map[string]func(http.Handler) *httptest.Server{
		"plain": httptest.NewServer, "TLS": httptest.NewTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			var seen http.Header
			f := &framed{answer: sound, plain: plainly(&calls)}
			s := serve(http.StripPrefix("/rota", http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == frame.Path {
						seen = r.Header.Clone()
					}
					f.ServeHTTP(w, r)
				})))
			defer s.Close()
			conf := Config{Servers: []string{s.URL + "/rota/"}, Token: "secret", UserAgent: "me"}
			if name == "TLS" {
				conf.HTTP = s.Client()
			}
			c := streaming(t, conf)
			stands(t, c, &calls)
			before := calls.Load()
			receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"}, task.Submission{
				Queue: "q", Context: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`),
			})
			if err != nil || len(receipts) != 2 || receipts[1].ID != (task.ID{Batch: 9, N: 1}) {
				t.Errorf("submit: %v, %v", receipts, err)
			}
			answers, err := c.Report(t.Context(), "w", []task.Report{done("1.2.0.3.4")})
			if err != nil || len(answers) != 1 || answers[0].ID != anID ||
				answers[0].Status != task.Recorded {
				t.Errorf("report: %v, %v", answers, err)
			}
			if held, err := c.Hold(t.Context(), task.HoldRequest{Worker: "w"}); err != nil ||
				len(held.Tasks) != 0 {
				t.Errorf("hold: %v, %v", held, err)
			}
			if n := calls.Load() - before; n != 0 || f.opened.Load() != 1 {
				t.Errorf("%d calls over HTTP, %d streams", n, f.opened.Load())
			}
			if seen.Get("Authorization") != "Bearer secret" || seen.Get("User-Agent") != "me" {
				t.Errorf("it was opened with %v", seen)
			}
			if name == "TLS" {
				s.Client().CloseIdleConnections()
			}
			c.Close()
			f.streams.Wait() // it ends with its client
		})
	}
}

// Where no stream is to be had, calls are made over HTTP, and the log says so once.
func TestServerThatTakesNoStreamIsToldOfOnce(t *testing.T) {
	for name, refuseIt := range map[string]http.HandlerFunc{
		"unknown": func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "nothing") },
		"a proxy without upgrades": func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Upgrade")
			refuse(w, 426, "what upgrade")
		},
		"another protocol": func(w http.ResponseWriter, r *http.Request) {
			if ws, err := websocket.Accept(w, r, nil); err == nil {
				ws.CloseNow()
			}
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			var calls, tries atomic.Int64
			plain := plainly(&calls)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == frame.Path {
					tries.Add(1)
					refuseIt(w, r)
					return
				}
				plain(w, r)
			}))
			defer s.Close()
			var log lockedBuffer
			c := streaming(t, Config{
				Servers: []string{s.URL}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			for tries.Load() == 0 || !strings.Contains(log.String(), "over HTTP") {
				if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
					t.Fatal(err)
				}
			}
			c.lines.mu.Lock()
			c.lines.by[s.URL].next = time.Time{} // as if time had passed
			c.lines.mu.Unlock()
			for tries.Load() == 1 {
				if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			if n := strings.Count(log.String(), "over HTTP"); n != 1 {
				t.Errorf("the log says it %d times:\n%s", n, log.String())
			}
		})
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A stream that breaks while calls are under way: those that may be made twice are, over HTTP; of
// others nobody knows.
func TestCallsOfAStreamThatBreaksAreRepeatedIfTheyMayBe(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(context.Context, *Client) error
		ok   bool
	}{
		{"report", func(ctx context.Context, c *Client) error {
			_, err := c.Report(ctx, "w", []task.Report{done("1.2.0.3.4")})
			return err
		}, true},
		{"hold", func(ctx context.Context, c *Client) error {
			_, err := c.Hold(ctx, task.HoldRequest{Worker: "w", Wait: time.Minute})
			return err
		}, true},
		{"beat", func(ctx context.Context, c *Client) error {
			_, err := c.Beat(ctx, task.Beat{Worker: "w"})
			return err
		}, true},
		{"keyed submission", func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, task.Submission{Queue: "q", Key: "k"})
			return err
		}, true},
		{"submission", func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, task.Submission{Queue: "q"})
			return err
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int64
			var cut atomic.Bool
			f := &framed{plain: plainly(&calls)}
			f.answer = func(conn *stream.Conn, id uint32, kind frame.Kind, body []byte) {
				if cut.Load() {
					conn.Cut()
					return
				}
				sound(conn, id, kind, body)
			}
			s := httptest.NewServer(f)
			defer s.Close()
			cl := streaming(t, Config{Servers: []string{s.URL}})
			stands(t, cl, &calls)
			cut.Store(true)
			before := calls.Load()
			err := c.call(t.Context(), cl)
			if c.ok && (err != nil || calls.Load() != before+1) {
				t.Errorf("%v, with %d calls over HTTP", err, calls.Load()-before)
			}
			if !c.ok && (!errors.Is(err, ErrOutcomeUnknown) || calls.Load() != before) {
				t.Errorf("%v, with %d calls over HTTP", err, calls.Load()-before)
			}
		})
	}
}

func TestRefusalOnAStreamIsTheErrorThatItIsOverHTTP(t *testing.T) {
	var calls atomic.Int64
	var refuseAll atomic.Bool
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if !refuseAll.Load() {
			sound(c, id, kind, body)
			return
		}
		_, _ = c.Send(context.Background(), id, frame.Refusal, stream.Bytes(frame.AppendRefused(nil,
			frame.Refused{Status: 503, RetryAfter: 3 * time.Second, Problem: []byte(
				`{"status":503,"title":"Service Unavailable","detail":"busy","outcome":"unchanged"}`)})))
	}
	s := httptest.NewServer(f)
	defer s.Close()
	c := streaming(t, Config{Servers: []string{s.URL}, Attempts: 1})
	stands(t, c, &calls)
	refuseAll.Store(true)
	_, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != 503 || refused.Detail != "busy" ||
		refused.RetryAfter != 3*time.Second || !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%+v", err)
	}
}

// Deadlines are by the server's clock, which the answer tells.
func TestDeadlinesOnAStreamAreMovedToOurClock(t *testing.T) {
	var calls atomic.Int64
	const ahead = time.Hour
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if kind != frame.Hold {
			sound(c, id, kind, body)
			return
		}
		now := time.Now().Add(ahead)
		b, _ := frame.CutHandouts(nil, frame.Handouts{Now: now, HoldAnswer: task.HoldAnswer{
			Tasks: []task.Handout{{
				ID: anID, Attempt: 1, Token: "t", Deadline: now.Add(time.Minute),
			}},
		}}, 99)
		reply(c, id, b)
	}
	s := httptest.NewServer(f)
	defer s.Close()
	c := streaming(t, Config{Servers: []string{s.URL}})
	stands(t, c, &calls)
	held, err := c.Hold(t.Context(), task.HoldRequest{Worker: "w"})
	if err != nil || len(held.Tasks) != 1 {
		t.Fatal(held, err)
	}
	if left := time.Until(held.Tasks[0].Deadline); left < 50*time.Second || left > 70*time.Second {
		t.Errorf("the deadline is in %v", left)
	}
}

// When a server is left its calls go to the next one, and a stream to that is opened.
func TestStreamGoesWithItsServer(t *testing.T) {
	var calls [2]atomic.Int64
	var deaf atomic.Bool
	var servers [2]*framed
	var urls []string
	for i := range servers {
		servers[i] = &framed{plain: plainly(&calls[i])}
		servers[i].answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
			if i == 0 && deaf.Load() {
				c.Cut()
				return
			}
			sound(c, id, kind, body)
		}
		s := httptest.NewServer(servers[i])
		defer s.Close()
		urls = append(urls, s.URL)
	}
	c := streaming(t, Config{Servers: urls})
	stands(t, c, &calls[0])
	deaf.Store(true)
	if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	stands(t, c, &calls[1])
	if c.servers.use() != urls[1] || servers[1].opened.Load() != 1 {
		t.Errorf("it uses %s", c.servers.use())
	}
}
