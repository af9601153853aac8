package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

const gatherFiles = 1_000 // files in one submission

// entry is a line of the ledger: a file, as it was when its task was submitted.
type entry struct {
	ID task.ID `json:"id"`
	subject
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // nanoseconds since 1970
	Rest     bool  `json:"rest"`     // submitted after the kill
}

// walker submits a task for each regular file below a folder, in gathers, and writes the ledger of
// what was acknowledged: so memory stays flat however many files there are, and the check at the
// end has something to go by.
type walker struct {
	root   string
	avoid  os.FileInfo // the demo's own folder, which changes as it is read
	submit func(context.Context, ...task.Submission) ([]task.Receipt, error)
	ledger *json.Encoder
	most   int64         // it takes no more files; 0 = all there are
	first  int64         // after that many files the walk waits, once; 0 = never
	resume chan struct{} // closed to end that wait

	seen      int64        // files that were visited
	cut       bool         // there are more than most
	holding   atomic.Bool  // it has submitted the first files, and waits or has waited
	submitted atomic.Int64 // the rest belongs to walk
	gathered  []entry
	rest      bool // the wait is over
	special   list // neither files nor folders: links, devices, sockets
	closed    list // folders that can't be read
}

// list is a count with its first few members.
type list struct {
	count   int64
	members []string
}

const listed = 10 // members of a list that are shown

func (l *list) add(member string) {
	if l.count++; l.count <= listed {
		l.members = append(l.members, member)
	}
}

// walk walks to the end, and submits what it finds.
func (w *walker) walk(ctx context.Context) error {
	err := w.each(ctx, func(name string, e fs.DirEntry) error { return w.add(ctx, name, e) })
	if err == nil {
		err = w.flush(ctx)
	}
	return err
}

// countRegular counts what a walk would submit now. It reads folders only, no files.
func countRegular(
	ctx context.Context, root string, avoid os.FileInfo, most int64,
) (n int64, err error) {
	w := &walker{root: root, avoid: avoid, most: most}
	err = w.each(ctx, func(string, fs.DirEntry) error { return nil })
	return w.seen, err
}

// each visits the regular files. An error of one folder is noted and passed by, any other ends the
// walk.
func (w *walker) each(ctx context.Context, visit func(string, fs.DirEntry) error) error {
	return filepath.WalkDir(w.root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			w.closed.add(fmt.Sprintf("%s: %s", term.OneLine(name), reason(err)))
			return nil
		case e.IsDir():
			if info, err := e.Info(); err == nil && os.SameFile(info, w.avoid) {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			w.special.add(fmt.Sprintf("%s: %s", term.OneLine(name), kindOf(e.Type())))
			return nil
		}
		if w.most > 0 && w.seen == w.most {
			w.cut = true
			return fs.SkipAll
		}
		w.seen++
		return visit(name, e)
	})
}

// kindOf is what a file is that is none, in a word.
func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "special"
}

// add gathers one file. One that vanished since its folder was read is a file all the same: its
// task will say so.
func (w *walker) add(ctx context.Context, name string, e fs.DirEntry) error {
	n := entry{subject: subjectOf(name), Rest: w.rest}
	if info, err := e.Info(); err == nil {
		n.Size, n.Modified = info.Size(), info.ModTime().UnixNano()
	}
	w.gathered = append(w.gathered, n)
	if !w.rest && w.submitted.Load()+int64(len(w.gathered)) == w.first {
		return w.hold(ctx)
	}
	if len(w.gathered) < gatherFiles {
		return nil
	}
	return w.flush(ctx)
}

// hold submits the last of the first files, and waits until the rest may follow.
func (w *walker) hold(ctx context.Context) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	w.holding.Store(true)
	select {
	case <-w.resume:
		w.rest = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush submits what was gathered.
func (w *walker) flush(ctx context.Context) error {
	if len(w.gathered) == 0 {
		return nil
	}
	tasks := make([]task.Submission, len(w.gathered))
	for i, n := range w.gathered {
		text, err := json.Marshal(fileFacts{subject: n.subject})
		if err != nil {
			return fmt.Errorf("encode context of %q: %w", n.Path, err)
		}
		tasks[i] = task.Submission{Queue: queue, Stage: stageRead, Context: text}
	}
	receipts, err := w.submit(ctx, tasks...)
	if err != nil {
		return err
	}
	for i := range w.gathered {
		w.gathered[i].ID = receipts[i].ID
		if err := w.ledger.Encode(w.gathered[i]); err != nil {
			return fmt.Errorf("write ledger: %w", err)
		}
	}
	w.submitted.Add(int64(len(w.gathered)))
	w.gathered = w.gathered[:0]
	return nil
}

// readLedger shows the entries of a ledger one after the other.
func readLedger(name string, show func(entry) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var e entry
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read ledger: %w", err)
		}
		if err := show(e); err != nil {
			return err
		}
	}
}
