// Package stream carries the messages of package frame over one WebSocket, for both of its ends.
//
// Reading: one goroutine at a time asks for the next Header, and reads or skips its piece. Nothing
// is read ahead but a few KiB, so that whoever reads decides over memory before it is needed.
//
// Writing: anybody may Send. Messages that are ready at the same moment go out together, in one
// write. A long message goes out in pieces, and others in between; what it is written from stays
// where it is.
//
// The payloads of the WebSocket's messages, joined, are the headers and pieces: where one of them
// ends means nothing.
package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/wire"
)

const (
	// readAhead is how many bytes are read at once, most of the small messages that come together.
	readAhead = 4 << 10
	// long values are not copied into what is written.
	long = 16 << 10
	// Overtime is how long a write goes on when the time of the call is over.
	Overtime = 100 * time.Millisecond
	// largestKept is how large a buffer may grow and still be kept for other writes.
	largestKept = 256 << 10
)

// Buffers are what streams write from, one while it writes.
type Buffers struct{ sync.Pool }

func (p *Buffers) get() []byte {
	if b, ok := p.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

func (p *Buffers) put(b []byte) {
	if cap(b) <= largestKept {
		p.Put(&b)
	}
}

// Conn is one end of a stream.
type Conn struct {
	ws   *websocket.Conn
	in   *bufio.Reader
	head [frame.HeaderSize]byte

	// When a piece began to be read, and a write to be written, as stamp has it; 0 = none is. And
	// when something was read last.
	born                    time.Time
	reading, writing, heard atomic.Int64

	queue atomic.Int32  // those that wait for their turn to write
	turn  chan struct{} // of size 1: full while it is somebody's
	pool  *Buffers
	out   []byte // to be written next; nil = nothing is
	err   error  // of the write that failed; nothing is written any more
}

// New makes an end of what was dialed or accepted.
func New(ws *websocket.Conn, pool *Buffers) *Conn {
	ws.SetReadLimit(-1) // messages are read piece by piece
	c := &Conn{
		ws: ws, pool: pool, turn: make(chan struct{}, 1), born: time.Now(),
		in: bufio.NewReaderSize(&joined{ws: ws}, readAhead),
	}
	c.heard.Store(c.stamp())
	return c
}

// stamp is the present time in nanoseconds since the stream began, and never 0. It is the monotonic
// clock's: when a machine's clock is set, no stream has been silent.
func (c *Conn) stamp() int64 { return 1 + int64(time.Since(c.born)) }

// at is the time of a stamp.
func (c *Conn) at(stamp int64) time.Time { return c.born.Add(time.Duration(stamp - 1)) }

// joined reads the payloads of all messages as one.
type joined struct {
	ws      *websocket.Conn
	message io.Reader // nil = the next is to be asked for
}

func (j *joined) Read(b []byte) (int, error) {
	for {
		if j.message == nil {
			// without an end of its own: whoever closes the connection ends reading
			kind, r, err := j.ws.Reader(context.Background())
			if err != nil {
				return 0, err
			}
			if kind != websocket.MessageBinary {
				return 0, &Fault{websocket.StatusUnsupportedData, "messages must be binary"}
			}
			j.message = r
		}
		n, err := j.message.Read(b)
		if err == io.EOF {
			j.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Fault is what the other end did wrong. It ends the stream.
type Fault struct {
	Code   websocket.StatusCode
	Reason string // at most 120 bytes
}

func (f *Fault) Error() string { return f.Reason }

// Next reads the header of the next piece. The piece must be read, or skipped, before the next one.
func (c *Conn) Next() (frame.Header, error) {
	b, err := c.in.Peek(1)
	if len(b) == 0 {
		return frame.Header{}, err
	}
	now := c.stamp()
	c.heard.Store(now)
	c.reading.Store(now)
	if _, err := io.ReadFull(c.in, c.head[:]); err != nil {
		return frame.Header{}, err
	}
	h, err := frame.ParseHeader(c.head[:])
	if err != nil {
		return h, &Fault{websocket.StatusMessageTooBig, err.Error()}
	}
	if h.Size == 0 {
		c.reading.Store(0)
	}
	return h, nil
}

// Read fills b with the piece, or with what was left of it.
func (c *Conn) Read(b []byte) error {
	_, err := io.ReadFull(c.in, b)
	c.reading.Store(0)
	return err
}

// Skip reads so many bytes of a piece away.
func (c *Conn) Skip(n int) error {
	_, err := c.in.Discard(n)
	c.reading.Store(0)
	return err
}

// Heard is when something was read last.
func (c *Conn) Heard() time.Time { return c.at(c.heard.Load()) }

// Touch notes that the other end is there, as a ping of the WebSocket shows.
func (c *Conn) Touch() { c.heard.Store(c.stamp()) }

// Stuck says what has lasted too long: the reading of a piece of which the beginning is there, or
// the writing of at most frame.MaxPiece bytes; nil = nothing.
func (c *Conn) Stuck(now time.Time, read, write time.Duration) error {
	if c.lasts(&c.reading, now) > read {
		return errors.New("a piece was begun and did not come in time")
	}
	if c.lasts(&c.writing, now) > write {
		return errors.New("the other end does not read")
	}
	return nil
}

func (c *Conn) lasts(since *atomic.Int64, now time.Time) time.Duration {
	began := since.Load()
	if began == 0 {
		return 0
	}
	return now.Sub(c.at(began))
}

// Body appends the body of a message. Values of more than so many bytes may be left out: then they
// belong at the cuts.
type Body func(b []byte, long int) ([]byte, []wire.Cut)

// None is the body of a message that has none.
func None(b []byte, _ int) ([]byte, []wire.Cut) { return b, nil }

// Bytes is a body that is there.
func Bytes(body []byte) Body {
	return func(b []byte, long int) ([]byte, []wire.Cut) {
		return wire.AppendRaw(b, nil, body, long)
	}
}

// take waits for the turn to write: turns come in the order in which they were waited for.
func (c *Conn) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}
	c.queue.Add(1)
	select {
	case c.turn <- struct{}{}:
		c.queue.Add(-1)
		return nil
	case <-ctx.Done():
	}
	c.queue.Add(-1)
	go c.flush() // somebody may have left it to this one to write
	return context.Cause(ctx)
}

func (c *Conn) give() { <-c.turn }

// flush writes what somebody left to another one who gave up.
func (c *Conn) flush() {
	c.turn <- struct{}{}
	defer c.give()
	if c.err == nil && len(c.out) > 0 {
		_ = c.write() // whoever comes next finds the error
	}
}

// Send sends a message. When it returns the message is on its way, or will be with the one that
// somebody else is about to send; values of body are in use no longer. When ctx ends it is given
// up, a long one between two of its pieces. Sent is false if the other end can't have all of the
// message.
func (c *Conn) Send(
	ctx context.Context, id uint32, kind frame.Kind, body Body,
) (sent bool, err error) {
	if err := c.take(ctx); err != nil {
		return false, err
	}
	defer c.give()
	if c.err != nil {
		return false, c.err
	}
	if c.out == nil {
		c.out = c.pool.get()
	}
	at := len(c.out)
	b := append(c.out, make([]byte, frame.HeaderSize)...)
	b, cuts := body(b, long)
	size := len(b) - at - frame.HeaderSize
	for _, cut := range cuts {
		size += len(cut.Value)
	}
	if size <= frame.MaxPiece {
		c.out = joinCuts(b, cuts)
		frame.AppendHeader(c.out[:at], frame.Header{Size: size, ID: id, Kind: kind})
		if c.queue.Load() > 0 && len(c.out) < frame.MaxPiece {
			return true, nil // whoever is next writes it
		}
		return true, c.write()
	}
	c.out = append(c.pool.get(), c.out...) // b is the message's own from now on
	b = b[at+frame.HeaderSize:]
	for i := range cuts {
		cuts[i].At -= at + frame.HeaderSize
	}
	return c.pieces(ctx, id, kind, &source{b: b, cuts: cuts}, size)
}

// joinCuts puts what was left out in.
func joinCuts(b []byte, cuts []wire.Cut) []byte {
	if len(cuts) == 0 {
		return b
	}
	first := cuts[0].At
	s := source{b: append([]byte(nil), b[first:]...), cuts: cuts}
	for i := range cuts {
		cuts[i].At -= first
	}
	return s.appendTo(b[:first], frame.MaxPiece)
}

// Hurry cuts the stream when ctx ends while the other end does not take what is written, so that
// nobody waits for it for longer than he has time. It is called before a Send, and what it returns
// after it: then the stream is left alone, since a write that lasts is of somebody who has time.
func (c *Conn) Hurry(ctx context.Context) (done func()) {
	var over atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(Overtime, func() {
			if !over.Load() && c.lasts(&c.writing, time.Now()) >= Overtime {
				c.Cut()
			}
		})
	})
	return func() {
		over.Store(true)
		stop()
	}
}

// pieces sends a long message. Between two of its pieces others may send theirs.
func (c *Conn) pieces(
	ctx context.Context, id uint32, kind frame.Kind, s *source, left int,
) (sent bool, err error) {
	defer c.Hurry(ctx)()
	for {
		if c.out == nil {
			c.out = c.pool.get()
		}
		n := min(left, frame.MaxPiece)
		left -= n
		c.out = frame.AppendHeader(c.out, frame.Header{
			Size: n, ID: id, Kind: kind, More: left > 0,
		})
		c.out = s.appendTo(c.out, n)
		if err := c.write(); err != nil || left == 0 {
			return left == 0, err
		}
		c.give() // whoever waits has a turn before the next piece
		c.turn <- struct{}{}
		if c.err != nil {
			return false, c.err
		}
		if ctx.Err() != nil {
			c.out = frame.AppendHeader(c.out, frame.Header{ID: id, Kind: frame.Leave})
			_ = c.write() // it is given up either way
			return false, context.Cause(ctx)
		}
	}
}

// write writes what is there.
func (c *Conn) write() error {
	c.writing.Store(c.stamp())
	err := c.ws.Write(context.Background(), websocket.MessageBinary, c.out)
	c.writing.Store(0)
	c.pool.put(c.out)
	c.out = nil
	if err != nil {
		c.err = fmt.Errorf("write to the stream: %w", err)
	}
	return c.err
}

// source is what a long message is written from.
type source struct {
	b    []byte
	cuts []wire.Cut
	i    int // next byte of b
	k, v int // next cut, and the next byte of its value
}

// appendTo appends at most n bytes.
func (s *source) appendTo(b []byte, n int) []byte {
	for n > 0 && (s.i < len(s.b) || s.k < len(s.cuts)) {
		from := s.b[s.i:]
		inValue := s.k < len(s.cuts) && s.cuts[s.k].At == s.i
		if inValue {
			from = s.cuts[s.k].Value[s.v:]
		} else if s.k < len(s.cuts) {
			from = s.b[s.i:s.cuts[s.k].At]
		}
		k := min(n, len(from))
		b, n = append(b, from[:k]...), n-k
		switch {
		case !inValue:
			s.i += k
		case s.v+k == len(s.cuts[s.k].Value):
			s.k, s.v = s.k+1, 0
		default:
			s.v += k
		}
	}
	return b
}

// Close ends the stream with a code and a reason for the other end, as far as it listens: within
// ten seconds. What is being read and written ends.
func (c *Conn) Close(code websocket.StatusCode, reason string) {
	_ = c.ws.Close(code, reason) // it is closed either way
}

// Cut ends the stream at once.
func (c *Conn) Cut() { _ = c.ws.CloseNow() }
