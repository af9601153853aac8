package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// reading is a file as this process reads it itself, to check what the workers say.
type reading struct {
	size     int64
	modified int64 // nanoseconds since 1970
	sha256   string
	err      error
}

// readDirectly shares no code with the workers' readings.
func readDirectly(name string) (r reading) {
	f, err := os.Open(name)
	if err != nil {
		return reading{err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return reading{err: err}
	}
	r.modified = info.ModTime().UnixNano()
	h := sha256.New()
	if r.size, err = io.Copy(h, f); err != nil {
		return reading{err: err}
	}
	r.sha256 = hex.EncodeToString(h.Sum(nil))
	return r
}

// fileVerdict is what the check finds of one file.
type fileVerdict int

const (
	fileSame       fileVerdict = iota // the task's digest is that of the direct reading
	fileUnreadable                    // for the worker, and for this process too
	fileChanged                       // it was written, moved or removed while the demo ran
	fileWrong                         // anything else: not accounted for
)

// compare holds a task's result against a direct reading. text says why it is not the same.
func (e entry) compare(v task.View, r reading) (verdict fileVerdict, text string) {
	switch v.State {
	case task.Done:
	case "":
		return fileWrong, fmt.Sprintf("the server knows nothing of its task %v", e.ID)
	default:
		return fileWrong, fmt.Sprintf("its task %v is %s", e.ID, v.State)
	}
	var a account
	if err := json.Unmarshal(v.Result, &a); err != nil {
		return fileWrong, fmt.Sprintf("the result of its task %v: %v", e.ID, err)
	}
	if a.name() != e.name() {
		return fileWrong, fmt.Sprintf("its task %v is about %s", e.ID, term.OneLine(a.Path))
	}
	touched := r.err != nil || r.modified != e.Modified || r.size != e.Size
	switch {
	case r.err != nil && a.Unreadable != "":
		return fileUnreadable, a.Unreadable
	case touched && (a.Changed || a.Unreadable != "" || a.SHA256 != r.sha256):
		return fileChanged, "changed while the demo ran"
	case a.Changed:
		return fileWrong, "two readings of the workers differ"
	case a.Unreadable != "":
		return fileWrong, "the worker could not read it: " + a.Unreadable
	case a.Size != r.size || a.SHA256 != r.sha256:
		return fileWrong,
			fmt.Sprintf("the task says %d bytes, %.12s…; they are %d, %.12s…", a.Size, a.SHA256,
				r.size, r.sha256)
	}
	return fileSame, ""
}

// window is a stretch of time, empty as long as began is zero.
type window struct{ began, ended time.Time }

// span widens the window.
func (w *window) span(began, ended time.Time) {
	if w.began.IsZero() || began.Before(w.began) {
		w.began = began
	}
	if ended.After(w.ended) {
		w.ended = ended
	}
}

// totals is the sum of the check.
type totals struct {
	mu         sync.Mutex
	files      int64
	bytes      int64
	stages     int64
	reruns     int64 // hand-outs that came to nothing, so that the stage ran again
	unreadable list
	changed    list
	wrong      list

	// Tasks that were done without a re-run, and when their stages ran. Those with one waited for
	// it, and are left out.
	steady int64
	first  window // of the files submitted before the kill
	rest   window // of those submitted after it
}

// atWork is for how long workers worked: before the kill, and after it. The wait for the kill lies
// between the two, that for the lost task's hand-out after them.
func (t *totals) atWork() time.Duration {
	return t.first.ended.Sub(t.first.began) + t.rest.ended.Sub(t.rest.began)
}

// time adds a task to the time at work.
func (t *totals) time(e entry, v task.View) {
	w := &t.first
	if e.Rest {
		w = &t.rest
	}
	for _, s := range v.Steps {
		if !s.Started.IsZero() {
			w.span(s.Started, s.Finished)
		}
	}
	t.steady++
}

// add counts one file and the steps of its task.
func (t *totals) add(e entry, v task.View, r reading) {
	verdict, text := e.compare(v, r)
	line := fmt.Sprintf("%s: %s", term.OneLine(e.Path), term.OneLine(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files++
	before := t.reruns
	for _, s := range v.Steps {
		switch s.Kind {
		case task.KindNext, task.KindDone:
			t.stages++
		case task.KindLost, task.KindTimeout, task.KindRetry:
			t.reruns++
		}
	}
	if v.State == task.Done && t.reruns == before {
		t.time(e, v)
	}
	switch verdict {
	case fileSame:
		t.bytes += r.size
	case fileUnreadable:
		t.unreadable.add(line)
	case fileChanged:
		t.changed.add(line)
	default:
		t.wrong.add(line)
	}
}

const checkers = 8 // files checked at a time

// check reads every file of the ledger directly, and compares it with its task as the server tells
// of it.
func check(
	ctx context.Context, ledger string, view func(context.Context, task.ID) (task.View, error),
	each func(n int64),
) (*totals, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := new(totals)
	entries := make(chan entry)
	var wg sync.WaitGroup
	for range checkers {
		wg.Go(func() {
			for e := range entries {
				v, err := view(ctx, e.ID)
				if err != nil && !errors.Is(err, client.ErrNotFound) {
					stop(fmt.Errorf("check %q: %w", e.Path, err))
					continue
				}
				t.add(e, v, readDirectly(e.name()))
			}
		})
	}
	n := int64(0)
	err := readLedger(ledger, func(e entry) error {
		select {
		case entries <- e:
			n++
			each(n)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(entries)
	wg.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return t, err
}
