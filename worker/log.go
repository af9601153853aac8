package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// maxLine is the longest line in bytes; longer ones are cut into several.
const maxLine = 8 << 10

// Logf writes a line (or several) to the log of the task or job that ctx, a handler's, belongs to;
// elsewhere it does nothing. It never waits: lines gather and are sent until the server has
// accepted them. When that takes too long some in the middle are dropped, and the log says how
// many. A line stands there twice when the server took it and its answer was lost.
func Logf(ctx context.Context, format string, args ...any) {
	if log, _ := logOf(ctx); log == nil {
		return
	}
	w := Lines(ctx, "log")
	fmt.Fprintf(w, format, args...)
	w.Close()
}

// Logger is a logger that writes to the log of the task or job that ctx belongs to.
func Logger(ctx context.Context) *slog.Logger {
	if log, _ := logOf(ctx); log == nil {
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

// Lines is a writer whose lines go to the log of the task or job that ctx belongs to, under the
// name of a stream (stdout, stderr or a word of your own). The replicas of a job share its log, so
// the stream's name ends with the replica's number there, as in stdout.0. It never fails and never
// waits. Close writes a last line that has no end. It is for one goroutine at a time.
func Lines(ctx context.Context, stream string) io.WriteCloser { return linesTo(ctx, stream) }

func linesTo(ctx context.Context, stream string) *splitter {
	log, suffix := logOf(ctx)
	return &splitter{log: log, stream: cutText(stream, wire.MaxStream-len(suffix)) + suffix}
}

// workKey finds the hand-out or the run in a handler's context.
type workKey struct{}

// logOf is the log that belongs to a handler's context, nil elsewhere, and what its streams' names
// end with.
func logOf(ctx context.Context) (log *lines, suffix string) {
	switch work := ctx.Value(workKey{}).(type) {
	case *hand:
		return &work.log, ""
	case *run:
		return &work.log, "." + strconv.Itoa(work.replica)
	}
	return nil, ""
}

// splitter cuts what is written into lines.
type splitter struct {
	log    *lines // nil = the lines go nowhere
	stream string
	part   []byte // of a line whose end has not come; at most maxLine
	cut    bool   // the line before was cut, and nothing has come of its rest yet
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
			if rest := string(s.part); s.cut && (rest == "" || rest == "\r") {
				s.part, s.cut = s.part[:0], false // its end, not a line of its own
				continue
			}
			s.emit(len(s.part))
			s.cut = false
			continue
		}
		take := min(len(p), maxLine-len(s.part))
		s.part, p = append(s.part, p[:take]...), p[take:]
		if len(s.part) == maxLine {
			s.emit(wholeRunes(s.part))
			s.cut = true
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
	if s.log != nil {
		if r, ok := s.log.owner.(*run); ok {
			r.sign(time.Now())
		}
		s.log.add(task.LogLine{Time: time.Now(), Stream: s.stream, Text: text})
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
