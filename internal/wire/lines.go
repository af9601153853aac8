package wire

import (
	"bytes"
	"fmt"

	"github.com/rotahq/rota/task"
)

// Limits of a log call.
const (
	MaxLines  = 10_000 // lines
	MaxStream = 128    // bytes of a stream's name
)

var lineFields = []string{"time", "stream", "text"}

// AppendLines appends the body of POST /v1/tasks/{id}/logs: one JSON object a line.
func AppendLines(b []byte, lines []task.LogLine) []byte {
	for _, l := range lines {
		b = append(b, '{')
		if !l.Time.IsZero() {
			b = append(b, `"time":`...)
			b = appendTime(b, l.Time)
			b = append(b, ',')
		}
		b = append(b, `"stream":`...)
		b = appendString(b, l.Stream)
		b = append(b, `,"text":`...)
		b = appendString(b, l.Text)
		b = append(b, "}\n"...)
	}
	return b
}

// ParseLines reads the body of POST /v1/tasks/{id}/logs. Empty lines are skipped; a time that is
// left out is zero.
func ParseLines(b []byte) ([]task.LogLine, error) {
	var lines []task.LogLine
	for n := 0; len(b) > 0; n++ {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		if skipSpace(line, 0) == len(line) {
			continue
		}
		if len(lines) == MaxLines {
			message := fmt.Sprintf("more than %d lines", MaxLines)
			return nil, &Error{
				Value: true, Fields: []task.FieldError{{Location: "body", Message: message}},
			}
		}
		l, err := parseLine(line, n)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// parseLine reads line number n, counted from 0.
func parseLine(line []byte, n int) (l task.LogLine, err error) {
	var d decoder
	d.begin(line)
	o := d.object(lineFields)
	for o.next() {
		d.peek()
		at := d.i
		switch o.name {
		case "time":
			l.Time = d.time()
		case "stream":
			if l.Stream = d.str(""); len(l.Stream) > MaxStream {
				d.failValue(at, "must be at most %d bytes", MaxStream)
			}
		case "text":
			l.Text = d.str("")
		}
	}
	o.need("text")
	return l, d.end(fmt.Sprintf("body[%d]", n))
}
