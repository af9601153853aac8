package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/rotahq/rota/task"
)

// deed is what a line of a ledger is about.
type deed string

const (
	asked        deed = "asked"        // a submitter is about to submit the task
	acknowledged deed = "acknowledged" // its submission was answered
	begun        deed = "begun"        // a handler has a hand-out of it
	answered     deed = "answered"     // a report about it was accepted
	sent         deed = "sent"         // a submitter is about to send it a signal
	heard        deed = "heard"        // that signal was acknowledged
	stands       deed = "stands"       // it is in the store
	stepped      deed = "stepped"      // so is this step of it
	died         deed = "died"         // a node was killed
)

// line is one line of a ledger. All but those about nodes are about one task, which is known by its
// mark: a name that its submitter gave it, in its context.
type line struct {
	Deed deed
	Mark string  `json:",omitempty"`
	At   int64   // when, in microseconds since 1970; of stepped: when it was over, for the store
	Who  string  `json:",omitempty"` // submitter, worker or node
	ID   task.ID `json:",omitzero"`  // but of asked

	Want task.State `json:",omitempty"` // of asked: how it must end
	Work work       `json:",omitempty"` // of asked: what its handler does
	Sum  uint32     `json:",omitempty"` // of asked, begun: of its context
	// of begun: how long the handler is going to take, in microseconds
	Lasts int64  `json:",omitempty"`
	Stage string `json:",omitempty"` // of begun
	Told  string `json:",omitempty"` // of begun: what ended the wait before the stage

	Token  string      `json:",omitempty"` // of begun, answered
	Status task.Status `json:",omitempty"` // of answered
	Kind   task.Kind   `json:",omitempty"` // of answered, stepped
	Text   string      `json:",omitempty"` // of answered, stepped: the error's text

	Seq   int32 `json:",omitempty"` // of stepped
	Fence int64 `json:",omitempty"` // of stepped: the span's token at the hand-out
	Final bool  `json:",omitempty"` // of stepped
}

// book is a ledger that is being written.
type book struct {
	mu   sync.Mutex
	file *os.File
}

// openBook opens a ledger to write at its end. Several processes may.
func openBook(path string) (*book, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &book{file: f}, nil
}

// write returns once the lines are on the disk.
func (b *book) write(lines ...line) error {
	if len(lines) == 0 {
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return fmt.Errorf("write ledger: %w", err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.file.Write(text.Bytes())
	if err := errors.Join(err, b.file.Sync()); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

func (b *book) close() error { return b.file.Close() }

// read reads a ledger. A last line without an end is of somebody who was killed before he went on:
// it does not count.
func read(path string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(line{}, err)
			return
		}
		defer f.Close()
		for r := bufio.NewReaderSize(f, 1<<20); ; {
			text, err := r.ReadSlice('\n')
			var l line
			if err == nil {
				err = json.Unmarshal(text, &l)
			} else if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("read ledger %s: %w", path, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
