package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/task"
)

// Limits of what waits to be sent to a task's log. Beyond them lines are dropped and counted: a handler never waits
// for its log, and a flood costs no memory.
const (
	maxLine     = 8 << 10   // bytes; longer lines are cut into several
	maxPending  = 256 << 10 // bytes per task
	logPause    = 200 * time.Millisecond
	logPatience = 10 * time.Second // for one call
	lineWeight  = 64               // what a line costs besides its text
)

// Logf writes a line (or several) to the log of the task that ctx, a handler's, belongs to; elsewhere it does nothing. It
// never waits: lines gather, and when they come faster than they can be sent, some are dropped and the log says how many.
func Logf(ctx context.Context, format string, args ...any) {
	if handOf(ctx) == nil {
		return
	}
	w := Lines(ctx, "log")
	fmt.Fprintf(w, format, args...)
	w.Close()
}

// Logger is a logger that writes to the log of the task that ctx belongs to.
func Logger(ctx context.Context) *slog.Logger {
	if handOf(ctx) == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(Lines(ctx, "log"), &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 { // the line has its own
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Lines is a writer whose lines go to the log of the task that ctx belongs to, under the name of a stream (stdout, stderr
// or a word of your own). It never fails and never waits. Close writes a last line that has no end. It is for one
// goroutine at a time.
func Lines(ctx context.Context, stream string) io.WriteCloser {
	return &splitter{hand: handOf(ctx), stream: cutText(stream, task.MaxStage)}
}

// splitter cuts what is written into lines.
type splitter struct {
	hand   *hand
	stream string
	part   []byte // of a line whose end has not come; at most maxLine
	last   string // the last line that isn't empty
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := -1
		for i, c := range p[:min(len(p), maxLine-len(s.part))] {
			if c == '\n' {
				end = i
				break
			}
		}
		if end >= 0 {
			s.part = append(s.part, p[:end]...)
			p = p[end+1:]
			s.emit(len(s.part))
			continue
		}
		take := min(len(p), maxLine-len(s.part))
		s.part, p = append(s.part, p[:take]...), p[take:]
		if len(s.part) == maxLine {
			s.emit(wholeRunes(s.part))
		}
	}
	return n, nil
}

// emit sends the first n bytes of the part as a line and keeps the rest.
func (s *splitter) emit(n int) {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(s.part[:n]), "\r"), "\uFFFD")
	s.part = append(s.part[:0], s.part[n:]...)
	if text != "" {
		s.last = text
	}
	if s.hand != nil {
		s.hand.log.add(s.hand, task.LogLine{Time: time.Now(), Stream: s.stream, Text: text})
	}
}

// Close writes the last line, when it has no end.
func (s *splitter) Close() error {
	if len(s.part) > 0 {
		s.emit(len(s.part))
	}
	return nil
}

// wholeRunes is the length of b without a rune that is cut off at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// lines are what waits to be sent to one task's log.
type lines struct {
	sending sync.Mutex // held by who sends, so that lines keep their order

	mu      sync.Mutex
	pending []task.LogLine
	bytes   int // of pending
	dropped int // since the last one that was sent
	closed  bool
}

func (l *lines) add(h *hand, line task.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return
	case l.bytes+len(line.Text) > maxPending:
		l.dropped++
		return
	}
	l.pending = append(l.pending, line)
	l.bytes += len(line.Text) + lineWeight
	if len(l.pending) == 1 {
		hint(h.worker.logged)
	}
}

// takeAll is what waits, with a word about what was dropped.
func (l *lines) takeAll() []task.LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.pending
	if l.dropped > 0 {
		all = append(all, task.LogLine{Time: time.Now(), Stream: "rota", Text: fmt.Sprintf("%d lines dropped", l.dropped)})
	}
	l.pending, l.bytes, l.dropped = nil, 0, 0
	return all
}

// send sends what waits. What can't be sent counts as dropped.
func (l *lines) send(ctx context.Context, h *hand) {
	l.sending.Lock()
	defer l.sending.Unlock()
	all := l.takeAll()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	if err := h.worker.config.Queue.Log(ctx, h.task.ID, all); err != nil {
		h.worker.config.Log.Warn("log lines lost", "task", h.task.ID.String(), "lines", len(all), "error", err)
		l.mu.Lock()
		l.dropped += len(all)
		l.mu.Unlock()
	}
}

// close sends the last lines and takes no more. It runs in the lane: a handler that logs much waits here, not while it works.
func (l *lines) close(h *hand) {
	l.mu.Lock()
	l.closed = true
	idle := len(l.pending) == 0 && l.dropped == 0
	l.mu.Unlock()
	if !idle {
		l.send(context.Background(), h)
	}
}

// logs sends the lines of running tasks, a moment after they come, until ctx ends.
func (w *Worker) logs(ctx context.Context) {
	for {
		select {
		case <-w.logged:
		case <-ctx.Done():
			return
		}
		sleep(ctx, logPause)
		w.mu.Lock()
		hands := append([]*hand(nil), w.held...)
		w.mu.Unlock()
		for _, h := range hands {
			h.log.send(ctx, h)
		}
	}
}
