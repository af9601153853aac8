package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/wire"
)

// pipes is a listener whose connections are pipes in memory: a write lasts until it is read.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// pair is two ends of a stream. Both are cut at the end of the test.
func pair(t *testing.T) (here, there *Conn) {
	t.Helper()
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	ends, done := make(chan *websocket.Conn), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		ends <- ws
		<-done
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			mine, yours := net.Pipe()
			listener.accepted <- yours
			return mine, nil
		},
	}}
	dialed := make(chan *websocket.Conn)
	go func() {
		ws, _, err := websocket.Dial(t.Context(), "ws://stream",
			&websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Error(err)
		}
		dialed <- ws
	}()
	accepted := <-ends
	pool := new(Buffers)
	here, there = New(<-dialed, pool), New(accepted, pool)
	t.Cleanup(func() {
		here.Cut()
		there.Cut()
		close(done)
		_ = server.Close()
		serving.Wait()
	})
	return here, there
}

// message is one that came whole.
type message struct {
	kind frame.Kind
	body []byte
}

// collect reads so many whole messages.
func collect(c *Conn, n int) (map[uint32]message, error) {
	whole, parts := map[uint32]message{}, map[uint32][]byte{}
	for len(whole) < n {
		h, err := c.Next()
		if err != nil {
			return whole, err
		}
		b := make([]byte, h.Size)
		if err := c.Read(b); err != nil {
			return whole, err
		}
		parts[h.ID] = append(parts[h.ID], b...)
		if h.More {
			continue
		}
		if _, twice := whole[h.ID]; twice {
			return whole, fmt.Errorf("message %d came twice", h.ID)
		}
		whole[h.ID] = message{h.Kind, parts[h.ID]}
	}
	return whole, nil
}

// Messages of all sizes that many send at once arrive whole, with values that were left out of
// their bodies where they belong.
func TestMessagesArriveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		luck := rand.New(rand.NewPCG(1, 2))
		sizes := []int{
			0, 1, readAhead, long, long + 1, frame.MaxPiece - 1, frame.MaxPiece, frame.MaxPiece + 1,
			3*frame.MaxPiece + 17, largestKept + 5,
		}
		for range 150 {
			sizes = append(sizes, luck.IntN(200), luck.IntN(20<<10))
		}
		var senders sync.WaitGroup
		for id, size := range sizes {
			senders.Go(func() {
				sent, err := here.Send(t.Context(), uint32(id), frame.Submit, bodyOf(id, size))
				if !sent || err != nil {
					t.Errorf("message %d of %d bytes: sent %v, %v", id, size, sent, err)
				}
			})
		}
		got, err := collect(there, len(sizes))
		if err != nil {
			t.Fatal(err)
		}
		senders.Wait()
		for id, size := range sizes {
			m := got[uint32(id)]
			if m.kind != frame.Submit || !bytes.Equal(m.body, text(id, size)) {
				t.Errorf("message %d of %d bytes: kind %v, %d bytes", id, size, m.kind,
					len(m.body))
			}
		}
	})
}

// text is what a message says: its bytes are others in each message and at each place.
func text(id, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(id*31 + i + i>>8)
	}
	return b
}

// bodyOf is text, of which two stretches may be left out: in the middle, and at the end.
func bodyOf(id, size int) Body {
	all := text(id, size)
	return func(b []byte, long int) ([]byte, []wire.Cut) {
		var cuts []wire.Cut
		from, to := size/5, size/2
		b = append(b, all[:from]...)
		b, cuts = wire.AppendRaw(b, cuts, all[from:to], long)
		b = append(b, all[to:to+size/10]...)
		return wire.AppendRaw(b, cuts, all[to+size/10:], long)
	}
}

// Who leaves a message to the next one in line, and the next one gives up: it is written all the
// same.
func TestWhatWasLeftToOneThatGaveUpIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		here.turn <- struct{}{} // a write is under way
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := here.Send(t.Context(), 1, frame.Beat, Bytes([]byte("first")))
			first <- err
		}()
		synctest.Wait() // the first is the next in line
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			sent, err := here.Send(ctx, 2, frame.Hold, Bytes([]byte("second")))
			if sent {
				t.Error("the second says that it was sent")
			}
			second <- err
		}()
		synctest.Wait()
		if waiting := here.queue.Load(); waiting != 2 {
			t.Fatalf("%d wait for their turn, want 2", waiting)
		}
		// As if the first had its turn, saw the second in line, and left its message to it.
		head := frame.AppendHeader(nil, frame.Header{Size: 4, ID: 3, Kind: frame.Ping})
		here.out = append(head, "left"...)
		why := errors.New("it has no time left")
		cancel(why)
		if err := <-second; !errors.Is(err, why) {
			t.Errorf("the second: %v, want %v", err, why)
		}
		here.give()
		got, err := collect(there, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if string(got[3].body) != "left" || string(got[1].body) != "first" {
			t.Errorf("got %v", got)
		}
	})
}

// The same without anybody else in line: then nobody but the one that gives up can write it.
func TestTheLastInLineWritesWhatWasLeftWhenItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		here.turn <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			_, _ = here.Send(ctx, 2, frame.Hold, None) // it gives up
			close(ended)
		}()
		synctest.Wait()
		here.out = frame.AppendHeader(nil, frame.Header{ID: 3, Kind: frame.Ping})
		cancel()
		<-ended
		here.give()
		got, err := collect(there, 1)
		if err != nil || got[3].kind != frame.Ping {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// What was left before a long message goes out before it.
func TestWhatWasLeftGoesBeforeALongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		here.turn <- struct{}{}
		ended := make(chan error, 1)
		go func() {
			_, err := here.Send(t.Context(), 2, frame.Submit, bodyOf(2, 2*frame.MaxPiece))
			ended <- err
		}()
		synctest.Wait()
		here.out = frame.AppendHeader(nil, frame.Header{ID: 3, Kind: frame.Ping})
		here.give()
		h, err := there.Next()
		if err != nil || h.ID != 3 {
			t.Fatalf("the first is %+v, %v", h, err)
		}
		got, err := collect(there, 1)
		if err != nil || !bytes.Equal(got[2].body, text(2, 2*frame.MaxPiece)) {
			t.Errorf("the long one came as %d bytes, %v", len(got[2].body), err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A long message that is cut between its pieces has not been sent.
func TestALongMessageThatIsCutIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		ended := make(chan bool, 1)
		go func() {
			sent, err := here.Send(t.Context(), 7, frame.Report, Bytes(text(7, 4*frame.MaxPiece)))
			if err == nil {
				t.Error("there is no error")
			}
			ended <- sent
		}()
		if _, err := there.Next(); err != nil {
			t.Fatal(err)
		}
		there.Cut()
		if <-ended {
			t.Error("it says that all of it was sent")
		}
	})
}

// A write that fails may have brought its message over; what comes after it has not left, and says
// so at once.
func TestAfterAWriteThatFailedNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		there.Cut()
		sent, err := here.Send(t.Context(), 1, frame.Submit, Bytes(text(1, 100)))
		if !sent || err == nil {
			t.Errorf("the write that fails: sent %v, %v", sent, err)
		}
		for _, size := range []int{0, 100, 2 * frame.MaxPiece} {
			sent, again := here.Send(t.Context(), 2, frame.Submit, Bytes(text(2, size)))
			if sent || again == nil || again.Error() != err.Error() {
				t.Errorf("%d bytes after it: sent %v, %v", size, sent, again)
			}
		}
	})
}

// A long message is given up between two of its pieces: the other end is told, and reads the next
// one as if nothing had been.
func TestALongMessageIsGivenUpBetweenItsPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan bool, 1)
		go func() {
			sent, err := here.Send(ctx, 7, frame.Report, Bytes(text(7, 4*frame.MaxPiece)))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that it was cancelled", err)
			}
			ended <- sent
		}()
		h, err := there.Next()
		if err != nil || h.ID != 7 || !h.More {
			t.Fatalf("the first piece: %+v, %v", h, err)
		}
		cancel() // within the time that a write may go on for
		if err := there.Skip(h.Size); err != nil {
			t.Fatal(err)
		}
		for h.Kind != frame.Leave {
			if h, err = there.Next(); err != nil {
				t.Fatal(err)
			}
			if err := there.Skip(h.Size); err != nil {
				t.Fatal(err)
			}
		}
		if h.ID != 7 {
			t.Errorf("message %d is left", h.ID)
		}
		if <-ended {
			t.Error("it says that all of it was sent")
		}
		go func() { _, _ = here.Send(t.Context(), 8, frame.Ping, None) }() // read below
		if got, err := collect(there, 1); err != nil || got[8].kind != frame.Ping {
			t.Errorf("the next: %v, %v", got, err)
		}
	})
}

// An end that does not read is seen, and one whose callers have no time is cut.
func TestWhoDoesNotReadIsSeenAndCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		done := here.Hurry(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := here.Send(ctx, 1, frame.Submit, Bytes(text(1, 1000)))
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		if err := here.Stuck(time.Now(), time.Second, 3*time.Second); err != nil {
			t.Errorf("after 2 s of 3: %v", err)
		}
		if err := here.Stuck(time.Now(), time.Hour, time.Second); err == nil {
			t.Error("after 2 s of 1 nothing is stuck")
		}
		if err := <-ended; err == nil {
			t.Error("the write succeeds though nobody reads")
		}
		if took, want := time.Since(began), 3*time.Second+Overtime; took != want {
			t.Errorf("it is cut after %v, want %v", took, want)
		}
		done()
		if err := here.Stuck(time.Now(), 0, 0); err != nil {
			t.Errorf("once it is cut: %v", err)
		}
	})
}

// A call whose time is over while it waits for its turn leaves the stream to those who have time.
func TestWhoGivesUpItsTurnCutsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		ended := make(chan error, 1)
		go func() {
			_, err := here.Send(t.Context(), 1, frame.Submit, Bytes(text(1, 1000)))
			ended <- err
		}()
		synctest.Wait() // it is being written, and nobody reads
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := here.Hurry(ctx)
		_, err := here.Send(ctx, 2, frame.Ping, None)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waits for its turn: %v", err)
		}
		done()
		time.Sleep(time.Second) // the other end is slow
		if got, err := collect(there, 1); err != nil || len(got[1].body) == 0 {
			t.Errorf("read %v, %v", got, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the call that has time: %v", err)
		}
	})
}

// When a machine's clock is set, no stream has been silent: its times are those of the monotonic
// clock, which their text shows.
func TestTimesOfAStreamAreTheMonotonicClocks(t *testing.T) {
	here, _ := pair(t)
	here.Touch()
	if heard := here.Heard().String(); !strings.Contains(heard, " m=") {
		t.Errorf("heard at %s", heard)
	}
}

// A piece that does not come is seen, and one that has been read is not.
func TestAPieceThatDoesNotComeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		go func() { _, _ = here.Send(t.Context(), 1, frame.Hold, Bytes([]byte("12345"))) }()
		h, err := there.Next()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := there.Stuck(time.Now(), time.Second, time.Second); err == nil {
			t.Error("a piece that was begun two seconds ago is not seen")
		}
		if err := there.Skip(h.Size); err != nil {
			t.Fatal(err)
		}
		if err := there.Stuck(time.Now(), time.Second, time.Second); err != nil {
			t.Errorf("once it is read: %v", err)
		}
		if quiet := time.Since(there.Heard()); quiet != 2*time.Second {
			t.Errorf("heard %v ago, want 2s", quiet)
		}
	})
}

// What is no frame, or no binary message, ends reading with a fault for the other end.
func TestWhatIsNoFrameIsAFault(t *testing.T) {
	for name, send := range map[string]func(ws *websocket.Conn) error{
		"text": func(ws *websocket.Conn) error {
			return ws.Write(context.Background(), websocket.MessageText, []byte("hello"))
		},
		"too large": func(ws *websocket.Conn) error {
			head := frame.AppendHeader(nil, frame.Header{ID: 1, Kind: frame.Submit})
			for i := range head {
				head[i] = 0xff
			}
			return ws.Write(context.Background(), websocket.MessageBinary, head)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := pair(t)
				go func() { _ = send(here.ws) }() // the other end may cut it
				var fault *Fault
				if _, err := there.Next(); !errors.As(err, &fault) {
					t.Errorf("got %v, want a fault", err)
				}
			})
		})
	}
}

// A stream that ends between two messages ends reading; in the middle of one, too.
func TestACutEndsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := pair(t)
		go func() {
			half := frame.AppendHeader(nil, frame.Header{Size: 10, ID: 1, Kind: frame.Submit})
			half = append(half, "half"...)
			_ = here.ws.Write(context.Background(), websocket.MessageBinary, half)
			here.Cut()
		}()
		h, err := there.Next()
		if err != nil || h.Size != 10 {
			t.Fatalf("%+v, %v", h, err)
		}
		if err := there.Read(make([]byte, h.Size)); err == nil {
			t.Error("a piece of which half came is read")
		}
		if _, err := there.Next(); err == nil || errors.Is(err, io.ErrNoProgress) {
			t.Errorf("after the cut: %v", err)
		}
	})
}
