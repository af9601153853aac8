package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/stream"
)

const (
	lineLook  = time.Second      // how often a line is looked at
	lineIdle  = 50 * time.Second // without a call, until it is closed; the server's limit is 60 s
	lineQuiet = 15 * time.Second // nothing was heard for so long: the server is asked for a sign
	lineSign  = 10 * time.Second // which must come so soon
	lineWrite = 10 * time.Second // until the server must have taken a piece
)

// line is a stream that stands. Many calls are under way on it; each of them waits for its own
// answer, which one goroutine reads. Another one watches over the line, and ends it.
type line struct {
	conn  *stream.Conn
	over  func(error) // told when it has ended, before calls under way are
	group sync.WaitGroup
	quit  chan struct{} // closed when it has ended

	mu      sync.Mutex
	calls   map[uint32]*waiting
	leaving int    // calls that were given up, of which the server is still to be told
	last    uint32 // id
	used    time.Time
	// doubted is when a call's time was over in which nothing at all was heard; zero = there was
	// none, or something was heard since. Until then calls go over HTTP: the connection may be
	// dead, and a new one not.
	doubted time.Time
	err     error // why it ended; nil = it has not
}

// waiting is a call that waits for its answer.
type waiting struct {
	came chan struct{} // of size 1: the answer is there, or err
	kind frame.Kind
	body []byte
	err  error
}

var (
	errNoLine = errors.New("the stream has no room, or has ended: nothing was sent")
	errUnused = errors.New("the stream is not used any more")
)

func newLine(conn *stream.Conn, over func(error)) *line {
	l := &line{
		conn: conn, over: over, quit: make(chan struct{}), calls: map[uint32]*waiting{},
		used: time.Now(),
	}
	l.group.Go(l.read)
	l.group.Go(l.watch)
	return l
}

// call makes one call. errNoLine: nothing was sent, and it goes another way.
func (l *line) call(ctx context.Context, kind frame.Kind, body stream.Body) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, &cutError{context.Cause(ctx)}
	}
	w := &waiting{came: make(chan struct{}, 1)}
	began := time.Now()
	if l.inDoubt() {
		return answer{}, errNoLine
	}
	id, under := l.begin(w, frame.MaxCalls-1) // one is left for a ping
	if under == 0 {
		return answer{}, errNoLine
	}
	sent, err := l.send(ctx, id, kind, body, under == 1)
	if err != nil {
		l.unsent(id, began, ctx.Err() == context.DeadlineExceeded)
		switch {
		case ctx.Err() != nil && !sent:
			return answer{}, &cutError{context.Cause(ctx)}
		case ctx.Err() != nil:
			return answer{}, context.Cause(ctx)
		case !sent:
			return answer{}, errNoLine
		}
		return answer{}, err
	}
	select {
	case <-w.came:
		return w.answer()
	case <-ctx.Done():
	}
	l.giveUp(id, kind, began, ctx.Err() == context.DeadlineExceeded)
	return answer{}, context.Cause(ctx)
}

// giveUp gives a call up for which nobody waits any more; late: its time was over. A server takes
// only so many calls at a time, and one that was given up counts until the server was told.
func (l *line) giveUp(id uint32, kind frame.Kind, began time.Time, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[id] == nil { // the answer has come
		return
	}
	delete(l.calls, id)
	if late {
		l.doubt(began)
	}
	if l.err == nil && (kind == frame.Hold || kind == frame.Beat) {
		l.leaving++
		l.group.Go(func() { l.leave(id) })
	}
}

// unsent forgets a call of which not all was sent; late: its time was over while it waited for its
// turn, or was being written.
func (l *line) unsent(id uint32, began time.Time, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, id)
	if late {
		l.doubt(began)
	}
}

// doubt notes that the time of a call was over. The line may be dead if nothing at all was heard
// since the call began. The lock is held.
func (l *line) doubt(began time.Time) {
	if l.doubted.IsZero() && !l.conn.Heard().After(began) {
		l.doubted = time.Now()
	}
}

// inDoubt tells whether the line may be dead.
func (l *line) inDoubt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.doubted.IsZero() && l.conn.Heard().After(l.doubted) {
		l.doubted = time.Time{}
	}
	return !l.doubted.IsZero()
}

// begin gives a call an id, and says how many are under way with it; 0 = it has no room.
func (l *line) begin(w *waiting, most int) (id uint32, under int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || len(l.calls)+l.leaving >= most {
		return 0, 0
	}
	for l.last++; l.calls[l.last] != nil; l.last++ {
	}
	l.calls[l.last] = w
	l.used = time.Now()
	return l.last, len(l.calls) + l.leaving
}

// forget lets an answer go; false says that it has come.
func (l *line) forget(id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.calls[id]
	delete(l.calls, id)
	return w != nil
}

// send sends a request, for not much longer than its caller has time: who does not read it is cut.
func (l *line) send(
	ctx context.Context, id uint32, kind frame.Kind, body stream.Body, alone bool,
) (sent bool, err error) {
	if !alone { // else the server has read all there was, and takes a piece at once
		defer l.conn.Hurry(ctx)()
	}
	return l.conn.Send(ctx, id, kind, body)
}

// leave tells the server that nobody waits for an answer. It is no call's time that this takes.
func (l *line) leave(id uint32) {
	_, _ = l.conn.Send(context.Background(), id, frame.Leave, stream.None) // else the line ends
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving--
}

// answer is what came.
func (w *waiting) answer() (answer, error) {
	switch {
	case w.err != nil:
		return answer{}, w.err
	case w.kind == frame.Answer:
		return answer{body: w.body}, nil
	}
	r, err := frame.ParseRefused(w.body)
	if err != nil {
		return answer{}, fmt.Errorf("read refusal: %w", err)
	}
	header := http.Header{"Content-Type": {"application/problem+json"}}
	if r.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(r.RetryAfter/time.Second)))
	}
	return answer{}, newError(r.Status, header, r.Problem)
}

// read reads answers until the line ends.
func (l *line) read() {
	for {
		h, err := l.conn.Next()
		if err == nil {
			err = l.piece(h)
		}
		if err != nil {
			l.fail(fmt.Errorf("read from the stream: %w", err))
			return
		}
	}
}

// piece reads a piece of an answer. What nobody waits for is read away.
func (l *line) piece(h frame.Header) error {
	l.mu.Lock()
	w := l.calls[h.ID]
	if w != nil && !h.More {
		delete(l.calls, h.ID)
	}
	l.mu.Unlock()
	if w == nil {
		return l.conn.Skip(h.Size)
	}
	if len(w.body)+h.Size > maxAnswer || h.Kind != frame.Answer && h.Kind != frame.Refusal {
		err := fmt.Errorf("an answer of kind %d with more than %d bytes", h.Kind, len(w.body))
		if l.forget(h.ID) || !h.More {
			w.err = err
			w.came <- struct{}{}
		}
		return err
	}
	if from, size := len(w.body), len(w.body)+h.Size; size > cap(w.body) {
		room := size
		if h.More {
			room = max(size, 4*cap(w.body))
		}
		w.body = append(make([]byte, 0, room), w.body[:from]...)
	}
	w.kind = h.Kind
	from := len(w.body)
	w.body = w.body[:from+h.Size]
	err := l.conn.Read(w.body[from:])
	if !h.More { // else it is still among the calls
		if err != nil {
			w.err = fmt.Errorf("read from the stream: %w", err)
		}
		w.came <- struct{}{}
	}
	return err
}

// fail ends the line for a reason: calls under way fail with it. The watch closes the connection.
func (l *line) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(why)
}

// failLocked is fail with the lock held.
func (l *line) failLocked(why error) {
	if l.err == nil {
		l.err = why
		close(l.quit)
	}
}

// watch asks for signs of life, closes a line that nobody uses, and ends one that failed.
func (l *line) watch() {
	look := time.NewTicker(lineLook)
	defer look.Stop()
	var asked time.Time // for a sign
	for open := true; open; {
		select {
		case <-l.quit:
			open = false
		case now := <-look.C:
			asked = l.look(now, asked)
		}
	}
	l.mu.Lock()
	why := l.err
	l.mu.Unlock()
	l.over(why)
	l.failCalls(why)
	if why == errUnused {
		l.conn.Close(websocket.StatusNormalClosure, "")
	}
	l.conn.Cut()
}

// failCalls ends the calls that wait for their answers, before the connection is closed: that may
// take some seconds.
func (l *line) failCalls(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, w := range l.calls {
		delete(l.calls, id)
		w.err = why
		w.came <- struct{}{}
	}
}

// look looks at the line; asked is since when a sign is waited for.
func (l *line) look(now, asked time.Time) time.Time {
	under, doubted := l.endUnused(now), l.inDoubt()
	quiet := now.Sub(l.conn.Heard())
	switch {
	case l.conn.Stuck(now, time.Hour, lineWrite) != nil:
		l.fail(errSilent)
	case quiet < lineQuiet && !doubted:
		return time.Time{}
	case asked.IsZero() && (under > 0 || doubted):
		l.group.Go(l.ping)
		return now
	case !asked.IsZero() && now.Sub(asked) > lineSign:
		l.fail(errSilent)
	}
	return asked
}

// endUnused ends a line that nobody uses. It says how many calls are under way: none begins beside
// the decision.
func (l *line) endUnused(now time.Time) (under int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if under = len(l.calls); under == 0 && l.leaving == 0 && now.Sub(l.used) > lineIdle {
		l.failLocked(errUnused)
	}
	return under
}

// ping asks for a sign; whatever is read is one.
func (l *line) ping() {
	w := &waiting{came: make(chan struct{}, 1)}
	if id, under := l.begin(w, frame.MaxCalls); under > 0 {
		_, _ = l.conn.Send(context.Background(), id, frame.Ping, stream.None)
	}
}

// end ends the line and waits until all of it has.
func (l *line) end(why error) {
	l.fail(why)
	l.group.Wait()
}
