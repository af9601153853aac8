package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/task"
)

// inBubble runs f with an API in a bubble, and dials streams to it whose connections have no
// buffers at all.
func inBubble(
	t *testing.T, e Engine, change func(*Config), f func(*testing.T, *API, func() *peer),
) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, e, change)
		server, p := a.Server(), newPipes()
		ended := make(chan error)
		go func() { ended <- server.Serve(p) }()
		transport := &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return p.dial(), nil
			},
		}
		var peers []*peer
		f(t, a, func() *peer {
			c, response, err := dial(t, &http.Client{Transport: transport}, "http://localhost")
			if err != nil {
				t.Fatalf("%v: %+v", err, response)
			}
			peers = append(peers, c)
			return c
		})
		for _, c := range peers {
			c.Cut()
		}
		transport.CloseIdleConnections()
		a.Close()
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		synctest.Wait() // Close waits for the calls of streams, not for the streams themselves
		if n := a.bodies.taken.Load(); n != 0 {
			t.Errorf("%d bytes of the budget for bodies were not given back", n)
		}
		if n := a.large.taken.Load(); n != 0 {
			t.Errorf("%d bytes of the budget for answers were not given back", n)
		}
		if n := a.streams.open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		time.Sleep(time.Second) // net/http lingers
	})
}

// ends waits until the other end closes the stream, and says when that was, and why.
func (p *peer) ends() (after time.Duration, code websocket.StatusCode) {
	start := time.Now()
	for {
		if _, err := p.hear(); err != nil {
			return time.Since(start), websocket.CloseStatus(err)
		}
	}
}

func TestSilentStreamIsClosed(t *testing.T) {
	inBubble(t, newFake(), nil, func(t *testing.T, _ *API, dial func() *peer) {
		after, code := dial().ends()
		if after < time.Minute || after > time.Minute+2*streamLook ||
			code != websocket.StatusGoingAway {
			t.Errorf("after %v, code %d", after, code)
		}
	})
}

func TestPingsKeepAStreamOpen(t *testing.T) {
	inBubble(t, newFake(), nil, func(t *testing.T, _ *API, dial func() *peer) {
		p := dial()
		for range 5 {
			time.Sleep(45 * time.Second)
			if status, _ := p.ask(frame.Ping, nil); status != http.StatusOK {
				t.Fatalf("ping: %d", status)
			}
		}
	})
}

// Half a message is waited for as long as a body over HTTP, and holds no more of the budget than
// has come.
func TestHalfAMessageIsCut(t *testing.T) {
	for name, send := range map[string]func(p *peer, ws frame.Header){
		"a piece": func(p *peer, h frame.Header) {
			h.Size = 1000
			p.raw(append(frame.AppendHeader(nil, h), "half"...))
		},
		"pieces": func(p *peer, h frame.Header) {
			h.Size, h.More = 4, true
			p.raw(append(frame.AppendHeader(nil, h), "half"...))
		},
		"a header": func(p *peer, h frame.Header) { p.raw(frame.AppendHeader(nil, h)[:5]) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, newFake(), nil, func(t *testing.T, a *API, dial func() *peer) {
				p := dial()
				send(p, frame.Header{ID: 1, Kind: frame.Submit})
				synctest.Wait()
				if n := a.bodies.taken.Load(); n > callCost+1000 {
					t.Errorf("%d bytes are taken", n)
				}
				if after, _ := p.ends(); after < 30*time.Second || after > 32*time.Second {
					t.Errorf("cut after %v", after)
				}
			})
		})
	}
}

// raw sends bytes that may be no frame.
func (p *peer) raw(b []byte) {
	p.t.Helper()
	if err := p.ws.Write(p.t.Context(), websocket.MessageBinary, b); err != nil {
		p.t.Errorf("write: %v", err)
	}
}

// Who does not read its answers is cut off, and what it took is free again.
func TestReaderThatDoesNotReadIsCut(t *testing.T) {
	f := newFake()
	f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
		return task.HoldAnswer{Tasks: []task.Handout{{ID: idOf(1), Queue: "mail", Token: token(0),
			Context: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}}}, nil
	}
	inBubble(t, f, nil, func(t *testing.T, a *API, dial func() *peer) {
		p := dial()
		hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
		for range frame.MaxCalls {
			p.tell(frame.Hold, hold)
		}
		synctest.Wait()
		if n, most := a.bodies.taken.Load(), int64(frame.MaxCalls*callCost); n != most {
			t.Errorf("%d bytes are taken, want %d", n, most)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if n := a.streams.open(); n != 0 {
			t.Error("the stream is still open")
		}
	})
}

// A call that waits for memory is refused in its own message; its bytes are read away, and the
// stream goes on. Submissions leave a quarter to workers.
func TestStreamKeepsToTheBudgetOfBodies(t *testing.T) {
	inBubble(t, newFake(), nil, func(t *testing.T, a *API, dial func() *peer) {
		p := dial()
		submit, _ := frame.CutSubmissions(nil, []task.Submission{
			{Queue: "mail", Context: json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)},
		}, 1<<20)
		hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
		for _, c := range []struct {
			left         int64
			submit, hold int
		}{
			{4 << 20, 413, 200}, // the fake takes no such context
			{1<<20 + 80<<10, 413, 200}, {1 << 20, 503, 200}, {8 << 10, 503, 503}, {0, 503, 503},
			{4 << 20, 413, 200},
		} {
			took := a.bodies.limit - c.left
			if !a.bodies.take(took, 0) {
				t.Fatal("no room")
			}
			status, text := p.ask(frame.Submit, submit)
			if status != c.submit || status == 503 && !strings.Contains(string(text), "under way") {
				t.Errorf("%d bytes left: submit %d %s, want %d", c.left, status, text, c.submit)
			}
			if status, text := p.ask(frame.Hold, hold); status != c.hold {
				t.Errorf("%d bytes left: hold %d %s, want %d", c.left, status, text, c.hold)
			}
			a.bodies.give(took)
			synctest.Wait()
		}
	})
}

// Many small elements count for what they take, not for what they weigh.
func TestElementsOfAMessageAreCounted(t *testing.T) {
	f := newFake()
	inBubble(t, f, nil, func(t *testing.T, a *API, dial func() *peer) {
		p := dial()
		many := append([]byte{0x90, 0x4e}, make([]byte, 10_000)...)
		took := a.bodies.limit - a.bodies.limit/4 - 10_000*frame.ItemCost
		if !a.bodies.take(took, 0) {
			t.Fatal("no room")
		}
		if status, text := p.ask(frame.Submit, many); status != 503 {
			t.Errorf("%d %.200s", status, text)
		}
		a.bodies.give(took)
	})
}

// So do the children in a report.
func TestChildrenInAReportAreCounted(t *testing.T) {
	f := newFake()
	inBubble(t, f, nil, func(t *testing.T, a *API, dial func() *peer) {
		p := dial()
		children := make([]task.Submission, 10_000)
		for i := range children {
			children[i].Queue = "mail"
		}
		report, _ := frame.CutReports(nil, "w1", []task.Report{{
			ID: idOf(1), Token: token(1),
			Outcome: task.Outcome{Kind: task.KindDone, Spawn: children},
		}}, 99)
		took := a.bodies.limit - 10_000*frame.ItemCost
		if !a.bodies.take(took, 0) {
			t.Fatal("no room")
		}
		if status, text := p.ask(frame.Report, report); status != 503 {
			t.Errorf("%d %.200s", status, text)
		}
		a.bodies.give(took)
		if status, text := p.ask(frame.Report, report); status != 200 {
			t.Errorf("%d %.200s", status, text)
		}
		settled(t, a)
	})
}

// A greedy caller occupies no more than the comment in stream.go says, and others are served.
func TestGreedyCallerOfStreamsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory: short runs, which look for races, need not")
	}
	f := newFake()
	f.hold = func(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
		if r.Worker == "w1" {
			<-ctx.Done()
		}
		return task.HoldAnswer{}, nil
	}
	inBubble(t, f, func(c *Config) { c.MaxBodies = 64 << 20 },
		func(t *testing.T, a *API, dial func() *peer) {
			a.streams.limitEach = 8
			hold := frame.AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for n := range a.streams.limitEach {
				p := dial()
				for range frame.MaxCalls / 2 {
					p.tell(frame.Hold, hold)
				}
				go func() { // and never reads
					for id := range uint32(1000) {
						h := frame.Header{
							Size: 64 << 10, ID: 1000 + id%60, Kind: frame.Report, More: true,
						}
						if p.ws.Write(context.Background(), websocket.MessageBinary,
							append(frame.AppendHeader(nil, h), make([]byte, h.Size)...)) != nil {
							return
						}
					}
				}()
				synctest.Wait()
				if got := a.streams.open(); got != n+1 {
					t.Fatalf("%d streams are open, want %d", got, n+1)
				}
			}
			if n := a.bodies.taken.Load(); n < a.bodies.limit/2 {
				t.Errorf("it takes only %d bytes", n)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if n := a.bodies.taken.Load(); n > a.bodies.limit {
				t.Errorf("%d bytes of %d are taken", n, a.bodies.limit)
			}
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			response, text := ask2(a, `{"worker":"w2","queues":["mail"]}`)
			if response.StatusCode != 200 {
				t.Errorf("another worker: %d %s", response.StatusCode, text)
			}
		})
}

// ask2 is ask while others hold a part of the budget.
func ask2(a *API, body string) (*http.Response, string) {
	r := httptest.NewRequest("POST", "/v1/tasks/hold", strings.NewReader(body))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

// Each caller has so many streams, and all together; who has too many is told so.
func TestStreamsAreCounted(t *testing.T) {
	for _, c := range []struct {
		each, all int
		detail    string
	}{{2, 9, "this caller has too many"}, {9, 2, "too many streams"}} {
		a := newAPI(t, newFake(), nil)
		a.streams.limitEach, a.streams.limit = c.each, c.all
		s := httptest.NewServer(a.Handler())
		for n := range 3 {
			_, response, err := dial(t, s.Client(), s.URL)
			if full := n == 2; full != (err != nil) {
				t.Errorf("stream %d: %v", n, err)
			} else if full {
				text := make([]byte, 500)
				k, _ := response.Body.Read(text)
				if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
					!strings.Contains(string(text[:k]), c.detail) {
					t.Errorf("%d %s", response.StatusCode, text[:k])
				}
			}
		}
		s.Close()
	}
}

// A long answer holds up no short one.
func TestLongAnswerHoldsUpNoShortOne(t *testing.T) {
	f := newFake()
	f.hold = func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
		return task.HoldAnswer{Tasks: []task.Handout{{ID: idOf(1), Queue: "mail", Token: token(0),
			Context: json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)}}}, nil
	}
	inBubble(t, f, nil, func(t *testing.T, _ *API, dial func() *peer) {
		p := dial()
		long := p.tell(frame.Hold, frame.AppendHold(nil, task.HoldRequest{
			Worker: "w1", Queues: []string{"mail"},
		}))
		short := p.tell(frame.Ping, nil)
		var order []string
		size := 0
		for len(order) < 2 {
			h, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			piece := make([]byte, h.Size)
			if err := p.Read(piece); err != nil {
				t.Fatal(err)
			}
			if h.ID == long {
				size += h.Size
			}
			if !h.More {
				order = append(order, map[uint32]string{long: "long", short: "short"}[h.ID])
			}
		}
		if fmt.Sprint(order) != "[short long]" || size < 8<<20 {
			t.Errorf("the answers came as %v, the long one with %d bytes", order, size)
		}
	})
}

// An id that is used again before its answer has come is its caller's mistake, and costs the node
// nothing that outlives the calls: their contexts end with them, and not with the stream.
func TestCallsUnderOneIDLeaveNothingBehind(t *testing.T) {
	f := newFake()
	var under []context.Context
	f.hold = func(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
		f.mu.Lock()
		under = append(under, ctx)
		f.mu.Unlock()
		select {
		case <-time.After(r.Wait):
		case <-ctx.Done():
			t.Error("a call that nobody left has ended")
		}
		return task.HoldAnswer{}, nil
	}
	inBubble(t, f, nil, func(t *testing.T, a *API, dial func() *peer) {
		p := dial()
		for wait := range 3 {
			p.last = 0
			p.tell(frame.Hold, frame.AppendHold(nil, task.HoldRequest{
				Worker: "w", Queues: []string{"q"}, Wait: time.Duration(1+wait) * time.Second,
			}))
			synctest.Wait()
		}
		for range 3 {
			if _, err := p.hear(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i, ctx := range under {
			if ctx.Err() == nil {
				t.Errorf("the context of call %d of %d goes on", i+1, len(under))
			}
		}
	})
}
