package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// pipes is a listener whose connections stay inside the bubble.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	end   func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// serve runs f against a server in a bubble, and waits for the server's end.
func serve(t *testing.T, e Engine, f func(*testing.T, *http.Server, *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPI(t, e, nil).Server()
		p := newPipes()
		var group sync.WaitGroup
		group.Go(func() {
			if err := server.Serve(p); err != http.ErrServerClosed {
				t.Errorf("serve: %v", err)
			}
		})
		f(t, server, p)
		server.Close()
		group.Wait()
		time.Sleep(time.Second) // net/http lingers over connections that it refused
	})
}

// untilCut reads until the server closes the connection, and says when that was.
func untilCut(t *testing.T, c net.Conn) (text string, after time.Duration) {
	t.Helper()
	start := time.Now()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	return string(b), time.Since(start)
}

func TestSlowHeaderIsCut(t *testing.T) {
	serve(t, newFake(), func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		fmt.Fprint(c, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX-Slow")
		if _, after := untilCut(t, c); after != 5*time.Second {
			t.Errorf("cut after %v", after)
		}
	})
}

func TestIdleConnectionIsCut(t *testing.T) {
	serve(t, newFake(), func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		go fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if text, after := untilCut(t, c); after != time.Minute ||
			!strings.HasPrefix(text, "HTTP/1.1 200") {
			t.Errorf("cut after %v: %.40s", after, text)
		}
	})
}

func TestSlowBodyIsCut(t *testing.T) {
	for _, call := range []string{"POST /v1/tasks", "POST /v1/queues/mail/pause", "POST /nowhere"} {
		// read, not wanted, nowhere
		f := newFake()
		serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
			c := p.dial()
			var group sync.WaitGroup
			defer group.Wait()
			group.Go(func() {
				fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
					call)
				for { // a byte a second
					time.Sleep(time.Second)
					if _, err := c.Write([]byte(" ")); err != nil {
						return
					}
				}
			})
			_, after := untilCut(t, c)
			if after < 30*time.Second || after > 31*time.Second {
				t.Errorf("%s: cut after %v", call, after)
			}
		})
		if call == "POST /v1/tasks" && len(f.changed()) != 0 {
			t.Errorf("half a body was taken: %v", f.changed())
		}
	}
}

func TestSlowReaderIsCut(t *testing.T) {
	f := newFake()
	f.tasks[0].Context = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		start := time.Now()
		fmt.Fprintf(c, "GET /v1/tasks/%v HTTP/1.1\r\nHost: localhost\r\n\r\n", idOf(0))
		for {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if after := time.Since(start); after < 10*time.Second || after > 12*time.Second {
			t.Errorf("cut after %v", after)
		}
	})
}

func TestReaderWhoReadsOnIsNotCut(t *testing.T) {
	f := newFake()
	f.tasks[0].Context = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		start := time.Now()
		fmt.Fprintf(c, "GET /v1/tasks/%v HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			idOf(0))
		got := 0
		for b := make([]byte, 256<<10); ; time.Sleep(9 * time.Second) {
			n, err := io.ReadFull(c, b)
			if got += n; err != nil {
				break
			}
		}
		if took := time.Since(start); got < 2<<20 || took < time.Minute {
			t.Errorf("%d bytes in %v", got, took)
		}
	})
}

// waitFor is a hold that waits as long as it is asked to.
func waitFor(left *bool) func(context.Context, task.HoldRequest) (task.HoldAnswer, error) {
	return func(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
		select {
		case <-time.After(r.Wait):
		case <-ctx.Done():
			*left = true
		}
		return task.HoldAnswer{}, nil
	}
}

func poll(c net.Conn) {
	body := `{"worker":"w1","queues":["mail"],"wait":"60s"}`
	fmt.Fprintf(c,
		"POST /v1/tasks/hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

func TestLongPollLastsItsWholeWaitAgainAndAgain(t *testing.T) {
	f := newFake()
	var left bool
	f.hold = waitFor(&left)
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		answers := bufio.NewReader(c)
		for range 3 { // the limits of one call must not reach into the next
			start := time.Now()
			poll(c)
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			if after := time.Since(start); response.StatusCode != 200 || after != time.Minute ||
				left {
				t.Errorf("%d after %v, left %v", response.StatusCode, after, left)
			}
		}
		c.Close()
	})
}

func TestLongPollEndsWhenItsCallerLeaves(t *testing.T) {
	f := newFake()
	var left bool
	f.hold = waitFor(&left)
	serve(t, f, func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		poll(c)
		time.Sleep(time.Second)
		c.Close()
		synctest.Wait()
		if !left {
			t.Error("the engine still waits for a worker that left")
		}
	})
}

// storing is an Engine that takes a second to store.
type storing struct{ Engine }

func (e storing) Submit(ctx context.Context, tasks []task.Submission) ([]task.Receipt, error) {
	select {
	case <-time.After(time.Second):
		return e.Engine.Submit(ctx, tasks)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A pipe can't be closed by halves; but what net/http does then is to cancel the call, and so it
// does when the caller is gone.
func TestSubmissionIsStoredAlsoWhenItsCallerSeemsGone(t *testing.T) {
	f := newFake()
	serve(t, storing{f}, func(t *testing.T, _ *http.Server, p *pipes) {
		c := p.dial()
		body := `{"tasks":[{"queue":"mail"}]}`
		fmt.Fprintf(c, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
		time.Sleep(time.Second / 2)
		c.Close()
		time.Sleep(time.Second)
		if got := f.changed(); len(got) != 1 {
			t.Errorf("stored %v", got)
		}
	})
}

func TestHeaderAboveItsLimitIsRefused(t *testing.T) {
	serve(t, newFake(), func(t *testing.T, _ *http.Server, p *pipes) {
		for size, want := range map[int]string{15 << 10: "HTTP/1.1 200", 17 << 10: "HTTP/1.1 431"} {
			c := p.dial()
			go fmt.Fprintf(c,
				"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: %s\r\n\r\n",
				strings.Repeat("x", size))
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, want) {
				t.Errorf("%d bytes of header: %q, %v", size, line, err)
			}
			c.Close()
		}
	})
}

func TestConfigNamesEverythingWrongAtOnce(t *testing.T) {
	_, err := New(Config{MaxBody: -1, Idle: -time.Second, MaxBodies: -2})
	for _, want := range []string{"no engine", "no events", "no notifiers", "no hooks", "max body -1",
		"max bodies -2", "idle -1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
}
