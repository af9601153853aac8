// Package logshare bounds what logs cost a node.
//
// A log can be written faster than the store takes it, and the store has one writer for everything.
// So a log gets a share, all logs of a node get one, and submissions and reports go first: of logs
// one small piece is being written at a time. What is above the share waits a moment, and of what
// is still above it the newest lines are kept, behind a line that says how many are missing.
//
// A node has one Gate. Lines that come by its API and those of its own handlers pass through it.
package logshare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/bucket"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Config says how large the shares are, in bytes of the lines' JSON and a hundred for each line.
// Zero fields are the defaults.
type Config struct {
	LogRate   int // a second of one log; default 256 KiB
	LogBurst  int // of one log at once; default 1 MiB, as much as a log keeps
	NodeRate  int // a second of all logs; default 4 MiB
	NodeBurst int // of all logs at once; default 8 MiB
}

const (
	lineCost = 100
	// enough is how much of a share a call waits for.
	enough = 64 << 10
	// Wait is how long a call waits at most for its share.
	Wait = time.Second
	// Piece is how many bytes of lines are written in one transaction.
	Piece = 32 << 10
	// lastWords is how long the line that says what is missing may take after its caller is gone.
	lastWords = 10 * time.Second
	// maxLogShares is how many logs that were written lately are known; the others share the node's
	// share only.
	maxLogShares = 10_000
)

// logShare is the share of one log.
type logShare struct {
	bucket.Bucket
	waits bool // a call waits for it; the next ones are dropped, and it says so
	lost  lost
}

// lost counts what was dropped.
type lost struct{ lines, bytes int }

// Gate is who may write how much into logs.
type Gate struct {
	conf    Config
	dropped atomic.Int64

	mu    sync.Mutex
	node  bucket.Bucket
	logs  map[string]*logShare
	swept time.Time     // when logs were looked through for those that can be forgotten
	piece chan struct{} // of size 1: a piece is being written
}

// New makes a gate. Nothing has been written yet.
func New(conf Config) *Gate {
	conf.LogRate, conf.LogBurst = cmp.Or(conf.LogRate, 256<<10), cmp.Or(conf.LogBurst, 1<<20)
	conf.NodeRate, conf.NodeBurst = cmp.Or(conf.NodeRate, 4<<20), cmp.Or(conf.NodeBurst, 8<<20)
	burst := float64(conf.NodeBurst)
	return &Gate{
		conf: conf, node: bucket.Bucket{Rate: float64(conf.NodeRate), Burst: burst, Left: burst},
		logs: map[string]*logShare{}, piece: make(chan struct{}, 1),
	}
}

// Dropped is how many lines logs lack because there were too many.
func (g *Gate) Dropped() int64 { return g.dropped.Load() }

// Call is one call that adds lines to a log.
type Call struct {
	Log  string // its name: calls of the same name share
	Body []byte // the lines, one JSON object each
	// Parse reads the end of the body: whole lines. What has no time gets one.
	Parse func(end []byte) ([]task.LogLine, error)
	// Write writes lines down. It is called for one call at a time, with about Piece bytes, and at
	// least once, with no lines if there are none.
	Write func(context.Context, []task.LogLine) error
	// Pause waits for a while, at most until ctx ends; nil = until then.
	Pause func(ctx context.Context, d time.Duration)
}

// Write writes the lines of a call, as far as the log's share and the node's go, and answers how
// many it has written and how many it has dropped.
func (g *Gate) Write(ctx context.Context, c Call) (kept, dropped int, err error) {
	s, wait, end, gone := g.enter(c.Log, c.Body, time.Now())
	if s == nil {
		return 0, gone.lines, nil
	}
	if wait > 0 {
		if c.Pause == nil {
			c.Pause = pause
		}
		c.Pause(ctx, wait)
		end, gone = g.leave(s, c.Body, time.Now())
	}
	lines, err := c.Parse(end)
	if err != nil {
		return 0, 0, err
	}
	now := time.Now()
	for i := range lines {
		if lines[i].Time.IsZero() {
			lines[i].Time = now
		}
	}
	kept = len(lines)
	if gone.lines > 0 {
		g.dropped.Add(int64(gone.lines))
		lines = append([]task.LogLine{g.missing(lines, gone, now)}, lines...)
		var cancel func()
		// it says so even if its caller is gone
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	}
	for first := true; first || len(lines) > 0; first = false {
		// a call without lines learns whether there is such a log
		n := pieceOf(lines)
		if err := g.writePiece(ctx, lines[:n], c.Write); err != nil {
			return 0, 0, err
		}
		lines = lines[n:]
	}
	return kept, gone.lines, nil
}

// missing is the line that says what is missing before others.
func (g *Gate) missing(lines []task.LogLine, gone lost, now time.Time) task.LogLine {
	if len(lines) > 0 {
		now = lines[0].Time
	}
	text := fmt.Sprintf("%d lines dropped, %d bytes: more than %d KiB/s of one log, or %d MiB/s of all at a node",
		gone.lines, gone.bytes, g.conf.LogRate>>10, g.conf.NodeRate>>20)
	return task.LogLine{Time: now, Stream: "rota", Text: text}
}

// WriteLines is Write for lines that come from this process.
func (g *Gate) WriteLines(
	ctx context.Context, log string, lines []task.LogLine,
	write func(context.Context, []task.LogLine) error,
) error {
	parse := func(end []byte) ([]task.LogLine, error) {
		return lines[len(lines)-sizeOf(end).lines:], nil
	}
	_, _, err := g.Write(ctx, Call{
		Log: log, Body: wire.AppendLines(nil, lines), Parse: parse, Write: write,
	})
	return err
}

// pause waits for a while, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// enter begins a call on a log. It takes the end of the body at once if there is enough of a share,
// and says what was lost before it. Else the call has to wait and then to leave; and when another
// one waits already, s is nil: that one's line will count this one's lines.
func (g *Gate) enter(
	log string, body []byte, now time.Time,
) (s *logShare, wait time.Duration, end []byte, gone lost) {
	size := sizeOf(body)
	g.mu.Lock()
	defer g.mu.Unlock()
	s = g.logs[log]
	if s == nil {
		burst := float64(g.conf.LogBurst)
		s = &logShare{
			Bucket: bucket.Bucket{
				Rate: float64(g.conf.LogRate), Burst: burst, Left: burst, At: now,
			},
		}
		if g.forget(now); len(g.logs) < maxLogShares {
			g.logs[log] = s
		}
	}
	if s.waits {
		s.lost.lines += size.lines
		s.lost.bytes += size.bytes
		return nil, 0, nil, size
	}
	need := min(float64(size.bytes+lineCost*size.lines), enough)
	if wait = min(max(s.After(need, now), g.node.After(need, now)), Wait); wait > 0 {
		s.waits = true
		return s, wait, nil, lost{}
	}
	end, gone = g.take(s, body, now)
	return s, 0, end, gone
}

// forget drops what is as if it were new, when there is much, once a second at most.
func (g *Gate) forget(now time.Time) {
	if len(g.logs) < maxLogShares || now.Sub(g.swept) < time.Second {
		return
	}
	g.swept = now
	for name, s := range g.logs {
		if !s.waits && s.Look(now) == s.Burst {
			delete(g.logs, name)
		}
	}
}

// leave ends the wait of a call, and takes what there is of a share by then.
func (g *Gate) leave(s *logShare, body []byte, now time.Time) (end []byte, gone lost) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end, gone = g.take(s, body, now)
	gone.lines += s.lost.lines
	gone.bytes += s.lost.bytes
	s.waits, s.lost = false, lost{}
	return end, gone
}

// take takes the end of a body as far as there is a share for it, whole lines, and says what was
// lost before it. g is locked.
func (g *Gate) take(s *logShare, body []byte, now time.Time) (end []byte, gone lost) {
	end, cost := tailOf(body, min(s.Look(now), g.node.Look(now)))
	s.Left -= cost
	g.node.Left -= cost
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

// pieceOf is how many lines are written in one transaction.
func pieceOf(lines []task.LogLine) (n int) {
	for size := 0; n < len(lines) && (n == 0 || size < Piece); n++ {
		size += len(lines[n].Text) + lineCost
	}
	return n
}

func (g *Gate) writePiece(
	ctx context.Context, lines []task.LogLine, write func(context.Context, []task.LogLine) error,
) error {
	select {
	case g.piece <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-g.piece }()
	return write(ctx, lines)
}
