package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a server that counts its connections, and a client that speaks to it directly.
func counted(
	t *testing.T, h http.HandlerFunc,
) (url string, c *http.Client, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	c = &http.Client{Transport: transport()}
	t.Cleanup(func() { c.CloseIdleConnections(); server.Close() })
	return server.URL, c, connections
}

func read(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExchangesShareAConnectionWhateverTheirBodies(t *testing.T) {
	url, c, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/chunked":
			w.Write([]byte("one "))
			w.(http.Flusher).Flush()
			w.Write([]byte("two"))
		case "/hinted":
			w.WriteHeader(http.StatusEarlyHints)
			w.Write([]byte("hinted"))
		default:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.Write(body)
		}
	})
	long := strings.Repeat("x", 200_000)
	for range 3 {
		for path, body := range map[string]string{"/empty": "", "/chunked": "one two",
			"/hinted": "hinted", "/echo": "hello", "/long": long} {
			response, err := c.Post(url+path, "text/plain", strings.NewReader(body))
			if got := read(t, response, err); got != body {
				t.Errorf("%s answers %.40q", path, got)
			}
		}
	}
	response, err := c.Head(url + "/echo")
	read(t, response, err)
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestConnectionThatTheServerClosedIsNotUsedAgain(t *testing.T) {
	var closing atomic.Bool
	url, c, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if closing.Load() {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			conn.Close() // without having said so
			return
		}
		io.WriteString(w, "ok")
	})
	for i := range 6 {
		closing.Store(i%2 == 1)
		response, err := c.Post(url, "text/plain", strings.NewReader("x")) // nothing repeats a POST
		if got := read(t, response, err); got != "ok" {
			t.Errorf("call %d answers %q", i, got)
		}
		if i%2 == 1 {
			waitClosed(t, c)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// waitClosed returns when the other side's end of the idle connections has arrived here.
func waitClosed(t *testing.T, c *http.Client) {
	t.Helper()
	d := c.Transport.(*direct)
	for {
		d.mu.Lock()
		good := false
		for _, list := range d.idle {
			for _, conn := range list {
				good = good || alive(conn.Conn)
			}
		}
		d.mu.Unlock()
		if !good {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the connection stays open")
		}
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	for _, path := range []string{"/header", "/body"} {
		t.Run(path, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			url, c, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					return
				}
				if _, err := io.ReadAll(r.Body); err != nil {
					// before that a server does not look whether its caller is there
					t.Error(err)
				}
				if path == "/body" {
					io.WriteString(w, "half ")
					w.(http.Flusher).Flush()
				}
				begun <- struct{}{}
				<-r.Context().Done() // the server sees that its caller left
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path,
				strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			go func() { <-begun; cancel(why) }()
			response, err := c.Do(q)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if !errors.Is(err, why) {
				t.Errorf("error %v, want the context's cause", err)
			}
			response, err = c.Get(url)
			read(t, response, err)
			if n := connections.Load(); n != 2 {
				t.Errorf("%d connections, want the broken one and another", n)
			}
		})
	}
}

func TestBodyThatIsNotReadToItsEndIsNoLoss(t *testing.T) {
	url, c, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 100_000))
	})
	for range 2 {
		response, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if n, err := response.Body.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("reading a closed body answers %d, %v", n, err)
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestRefusalOfAHalfReadRequestIsSeen(t *testing.T) {
	url, c, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too much", http.StatusRequestEntityTooLarge)
	})
	for _, size := range []int{1, directBody, directBody + 1} {
		response, err := c.Post(url, "text/plain", bytes.NewReader(make([]byte, size)))
		if got := read(t, response, err); response.StatusCode != http.StatusRequestEntityTooLarge ||
			got != "too much\n" {
			t.Errorf("%d bytes: %d %q", size, response.StatusCode, got)
		}
	}
}

func TestAnswersThatMakeNoSenseAreErrors(t *testing.T) {
	for answer, want := range map[string]string{
		"SSH-2.0-OpenSSH_9.2\r\n\r\n": "malformed HTTP",
		"":                            "EOF",
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort": "unexpected EOF",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":           "without being asked",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", directHeader) +
			"\r\n\r\nbody": "longer than",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.WriteString(conn, answer)
			}
		})
		c := &http.Client{Transport: transport()}
		response, err := c.Get("http://" + listener.Addr().String())
		if err == nil {
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", answer, err, want)
		}
		listener.Close()
		served.Wait()
	}
}

func TestManyCallersNeedNoMoreConnectionsThanTheyAre(t *testing.T) {
	url, c, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})
	const callers = 16
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range 200 {
				body := fmt.Sprintf("%d of %d", i, caller)
				response, err := c.Post(url, "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || string(b) != body {
					t.Errorf("%q answers %q, %v", body, b, err)
				}
			}
		})
	}
	wg.Wait()
	if n := connections.Load(); n > callers {
		t.Errorf("%d connections for %d callers", n, callers)
	}
}

func TestConnectionsIdleTooLongAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		d := &direct{rest: &http.Transport{}}
		d.dial = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				r := bufio.NewReader(there)
				for {
					if _, err := http.ReadRequest(r); err != nil {
						closed.Add(1)
						return
					}
					io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
			return here, nil
		}
		c := &http.Client{Transport: d}
		get := func() {
			response, err := c.Get("http://server")
			if got := read(t, response, err); got != "ok" {
				t.Errorf("answers %q", got)
			}
		}
		get()
		time.Sleep(directIdle / 2)
		get() // the same connection
		time.Sleep(directIdle - time.Second)
		synctest.Wait()
		if closed.Load() != 0 {
			t.Error("closed before its time")
		}
		time.Sleep(directIdle)
		synctest.Wait()
		if closed.Load() != 1 {
			t.Errorf("%d closed, want 1", closed.Load())
		}
		get()
		c.CloseIdleConnections()
		synctest.Wait()
		if closed.Load() != 2 {
			t.Errorf("%d closed, want 2", closed.Load())
		}
	})
}

// The standard transport beside the direct one: a POST of 100 bytes, answered with as many.
func BenchmarkExchange(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	defer server.Close()
	d := transport().(*direct)
	for name, transport := range map[string]http.RoundTripper{"direct": d, "standard": d.rest} {
		b.Run(name, func(b *testing.B) {
			c := &http.Client{Transport: transport}
			defer c.CloseIdleConnections()
			body := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				response, err := c.Post(server.URL, "text/plain", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					b.Fatal(err)
				}
				response.Body.Close()
			}
		})
	}
}
