package story

import (
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Journal keeps the lines of a log, and hands them on.
type Journal struct {
	to io.Writer

	mu    sync.Mutex
	lines []string
}

// NewJournal is an empty journal that hands its lines on, as to testing.T.Output.
func NewJournal(to io.Writer) *Journal { return &Journal{to: to} }

// Log is a log that is kept in the journal.
func (j *Journal) Log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// Write takes one line.
func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return j.to.Write(line)
}

// Count is how many lines have a text in them.
func (j *Journal) Count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
