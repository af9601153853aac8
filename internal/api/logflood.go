package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// A log can be written faster than the store takes it, and the store has one writer for everything. So a log gets a share, all logs of a
// node get one, and submissions and reports go first: of logs one small piece is being written at a time, and their bodies leave half
// of the memory for bodies to others. What is above the share waits a moment, and of what is still above it the newest lines are
// kept, behind a line that says how many are missing.
const (
	logRate   = 256 << 10 // bytes a second of one log; a line costs lineCost bytes besides
	logBurst  = 1 << 20   // at once: as much as a log keeps
	nodeRate  = 4 << 20   // of all logs at this node
	nodeBurst = 8 << 20
	lineCost  = 100

	// logEnough is how much of a share a call waits for, logWait how long at most.
	logEnough = 64 << 10
	logWait   = time.Second
	// logPiece is how many bytes of lines are written in one transaction.
	logPiece = 32 << 10
	// maxLogShares is how many logs that were written lately are known; the others share the node's share only.
	maxLogShares = 10_000
)

// share is a token bucket. Its methods are pure: time is an argument.
type share struct {
	rate, burst float64 // bytes a second, bytes
	left        float64
	at          time.Time
}

func (s *share) look(now time.Time) float64 {
	if passed := now.Sub(s.at).Seconds(); passed > 0 {
		s.left, s.at = min(s.left+passed*s.rate, s.burst), now
	}
	return s.left
}

// after is how long until there are n bytes.
func (s *share) after(n float64, now time.Time) time.Duration {
	if missing := min(n, s.burst) - s.look(now); missing > 0 {
		return time.Duration(missing / s.rate * float64(time.Second))
	}
	return 0
}

// logShare is the share of one log.
type logShare struct {
	share
	waits bool // a call waits for it; the next ones are dropped, and it says so
	lost  lost
}

// lost counts what was dropped.
type lost struct{ lines, bytes int }

// logGate is who may write how much into logs.
type logGate struct {
	mu    sync.Mutex
	node  share
	logs  map[string]*logShare
	swept time.Time     // when logs were looked through for those that can be forgotten
	piece chan struct{} // of size 1: a piece is being written
}

func newLogGate() *logGate {
	return &logGate{
		node: share{rate: nodeRate, burst: nodeBurst, left: nodeBurst}, logs: map[string]*logShare{}, piece: make(chan struct{}, 1),
	}
}

// enter begins a call on a log. It takes the end of the body at once if there is enough of a share, and says what was lost before it.
// Else the call has to wait and then to leave; and when another one waits already, s is nil: that one's line will count this one's lines.
func (g *logGate) enter(log string, body []byte, now time.Time) (s *logShare, wait time.Duration, end []byte, gone lost) {
	size := sizeOf(body)
	g.mu.Lock()
	defer g.mu.Unlock()
	s = g.logs[log]
	if s == nil {
		s = &logShare{share: share{rate: logRate, burst: logBurst, left: logBurst, at: now}}
		if g.forget(now); len(g.logs) < maxLogShares {
			g.logs[log] = s
		}
	}
	if s.waits {
		s.lost.lines += size.lines
		s.lost.bytes += size.bytes
		return nil, 0, nil, size
	}
	need := min(float64(size.bytes+lineCost*size.lines), logEnough)
	if wait = min(max(s.after(need, now), g.node.after(need, now)), logWait); wait > 0 {
		s.waits = true
		return s, wait, nil, lost{}
	}
	end, gone = g.take(s, body, now)
	return s, 0, end, gone
}

// forget drops what is as if it were new, when there is much, once a second at most.
func (g *logGate) forget(now time.Time) {
	if len(g.logs) < maxLogShares || now.Sub(g.swept) < time.Second {
		return
	}
	g.swept = now
	for name, s := range g.logs {
		if !s.waits && s.look(now) == s.burst {
			delete(g.logs, name)
		}
	}
}

// leave ends the wait of a call, and takes what there is of a share by then.
func (g *logGate) leave(s *logShare, body []byte, now time.Time) (end []byte, gone lost) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end, gone = g.take(s, body, now)
	gone.lines += s.lost.lines
	gone.bytes += s.lost.bytes
	s.waits, s.lost = false, lost{}
	return end, gone
}

// take takes the end of a body as far as there is a share for it, whole lines, and says what was lost before it. g is locked.
func (g *logGate) take(s *logShare, body []byte, now time.Time) (end []byte, gone lost) {
	end, cost := tailOf(body, min(s.look(now), g.node.look(now)))
	s.left -= cost
	g.node.left -= cost
	return end, sizeOf(body[:len(body)-len(end)])
}

// tailOf is the end of a body that costs at most so much: whole lines.
func tailOf(body []byte, most float64) (end []byte, cost float64) {
	from := len(body)
	for from > 0 {
		start := bytes.LastIndexByte(body[:from-1], '\n') + 1
		more := cost + float64(from-start) + lineCost
		if more > most {
			break
		}
		from, cost = start, more
	}
	return body[from:], cost
}

func sizeOf(body []byte) lost {
	n := bytes.Count(body, []byte("\n"))
	if len(body) > 0 && body[len(body)-1] != '\n' {
		n++
	}
	return lost{n, len(body)}
}

// takeLines reads the lines of a call on a log and writes them, as far as the log's share and the node's go.
func (a *API) takeLines(w *answer, r *http.Request, log string, write func(context.Context, []task.LogLine) error) error {
	body, err := a.body(w, r, a.conf.MaxBodies/2)
	if err != nil {
		return err
	}
	ctx := r.Context()
	s, wait, end, gone := a.logs.enter(log, body, time.Now())
	if s == nil {
		a.writeValue(w, http.StatusOK, logOut{Dropped: gone.lines})
		return nil
	}
	if wait > 0 {
		a.pause(ctx, nil, wait)
		end, gone = a.logs.leave(s, body, time.Now())
	}
	lines, err := wire.ParseLines(end)
	if err != nil {
		return err
	}
	now := time.Now()
	lines = stamped(lines, now)
	kept := len(lines)
	if gone.lines > 0 {
		a.metrics.logDropped.Add(float64(gone.lines))
		text := fmt.Sprintf("%d lines dropped, %d bytes: more than %d KiB/s of one log, or %d MiB/s of all at a node", gone.lines, gone.bytes, logRate>>10, nodeRate>>20)
		if kept > 0 {
			now = lines[0].Time
		}
		lines = append([]task.LogLine{{Time: now, Stream: "rota", Text: text}}, lines...)
		var cancel func()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), a.conf.AnswerWithin) // it says so even if its caller is gone
		defer cancel()
	}
	for first := true; first || len(lines) > 0; first = false { // a call without lines learns whether there is such a log
		n := pieceOf(lines)
		if err := a.writePiece(ctx, lines[:n], write); err != nil {
			return err
		}
		lines = lines[n:]
	}
	a.writeValue(w, http.StatusOK, logOut{Lines: kept, Dropped: gone.lines})
	return nil
}

// pieceOf is how many lines are written in one transaction.
func pieceOf(lines []task.LogLine) (n int) {
	for size := 0; n < len(lines) && (n == 0 || size < logPiece); n++ {
		size += len(lines[n].Text) + lineCost
	}
	return n
}

func (a *API) writePiece(ctx context.Context, lines []task.LogLine, write func(context.Context, []task.LogLine) error) error {
	select {
	case a.logs.piece <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-a.logs.piece }()
	return write(ctx, lines)
}
