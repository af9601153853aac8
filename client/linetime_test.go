package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
	"github.com/rotahq/rota/task"
)

// bubble runs f with a server and a client in a bubble, over connections without buffers.
func bubble(t *testing.T, f *framed, test func(*testing.T, *Client)) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan net.Conn)
		l := &pipes{conns: conns, ended: make(chan struct{})}
		server := &http.Server{Handler: f}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		transport := &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				select {
				case conns <- theirs:
					return ours, nil
				case <-l.ended: // a dial that nobody wants any more may come as late
					return nil, net.ErrClosed
				}
			},
		}
		c, err := New(Config{
			Servers: []string{"http://s"}, Fixed: true, HTTP: &http.Client{Transport: transport},
			Log: slog.New(slog.DiscardHandler), Attempts: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if f.opened.Load() != 1 {
			t.Fatal("there is no stream")
		}
		test(t, c)
		c.Close()
		transport.CloseIdleConnections()
		server.Close()
		<-ended
		f.streams.Wait()
		time.Sleep(20 * time.Second) // what net/http and the WebSocket linger over
	})
}

type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A stream that nobody uses is closed before the server closes it, and opened again when somebody
// does.
func TestUnusedStreamIsClosed(t *testing.T) {
	var calls atomic.Int64
	f := &framed{answer: sound, plain: plainly(&calls)}
	bubble(t, f, func(t *testing.T, c *Client) {
		time.Sleep(lineIdle + 2*lineLook)
		f.streams.Wait()
		before := calls.Load()
		for range 2 {
			if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if f.opened.Load() != 2 || calls.Load() != before+1 {
			t.Errorf("%d streams, %d calls over HTTP", f.opened.Load(), calls.Load()-before)
		}
	})
}

// Pings keep a stream on which a call waits, and find out that the server has fallen silent.
func TestSilentServerIsFoundOut(t *testing.T) {
	var calls atomic.Int64
	var silent atomic.Bool
	var pings atomic.Int64
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if kind == frame.Ping {
			pings.Add(1)
		}
		if kind != frame.Hold && !silent.Load() {
			sound(c, id, kind, body)
		}
	}
	bubble(t, f, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		_, err := c.Hold(ctx, task.HoldRequest{Worker: "w", Wait: time.Minute})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || pings.Load() != 3 {
			t.Errorf("%v, with %d pings", err, pings.Load())
		}
		silent.Store(true)
		began := time.Now()
		_, err = c.Hold(t.Context(), task.HoldRequest{Worker: "w", Wait: time.Minute})
		if took := time.Since(began); !errors.Is(err, errSilent) ||
			took > lineQuiet+lineSign+3*lineLook {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A server that does not even read holds nobody up for longer than his time.
func TestCallEndsWithItsTimeWhenTheServerDoesNotRead(t *testing.T) {
	var calls atomic.Int64
	var deaf atomic.Bool
	var wake chan struct{} // of the bubble
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if deaf.Load() {
			<-wake
		}
		sound(c, id, kind, body)
	}
	bubble(t, f, func(t *testing.T, c *Client) {
		wake = make(chan struct{})
		deaf.Store(true)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				within := time.Duration(i+1) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				began := time.Now()
				_, err := c.Beat(ctx, task.Beat{Worker: "w"})
				// the first cuts the stream; others may go over HTTP then
				took := time.Since(began)
				if i == 0 && err == nil || took > within+2*stream.Overtime {
					t.Errorf("%v after %v, with %v", err, took, within)
				}
			})
		}
		group.Wait()
		close(wake)
	})
}

// A hold that its caller gives up is given up at the server, too.
func TestHoldThatIsGivenUpIsLeft(t *testing.T) {
	var calls atomic.Int64
	var left atomic.Int64
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		switch kind {
		case frame.Leave:
			left.Store(int64(id))
		case frame.Hold:
		default:
			sound(c, id, kind, body)
		}
	}
	bubble(t, f, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Hold(ctx, task.HoldRequest{Worker: "w", Wait: time.Minute}); !errors.Is(
			err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if left.Load() == 0 {
			t.Error("the server was not told")
		}
		if _, err := c.Beat(t.Context(), task.Beat{Worker: "w"}); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// When as many calls are under way as a server takes, others go over HTTP.
func TestCallsThatHaveNoRoomOnTheStreamGoOverHTTP(t *testing.T) {
	var calls, held atomic.Int64
	var wake chan struct{} // of the bubble
	f := &framed{plain: plainly(&calls)}
	f.answer = func(c *stream.Conn, id uint32, kind frame.Kind, body []byte) {
		if kind != frame.Hold {
			sound(c, id, kind, body)
			return
		}
		held.Add(1)
		go func() {
			<-wake
			sound(c, id, kind, body)
		}()
	}
	bubble(t, f, func(t *testing.T, c *Client) {
		var group sync.WaitGroup
		wake = make(chan struct{})
		before := calls.Load()
		for range frame.MaxCalls + 10 {
			group.Go(func() {
				if _, err := c.Hold(t.Context(), task.HoldRequest{Worker: "w"}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(wake)
		group.Wait()
		if got := calls.Load() - before; got != 11 || held.Load() != frame.MaxCalls-1 {
			t.Errorf("%d calls over HTTP, %d on the stream", got, held.Load())
		}
	})
}
