package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

const (
	maxContext  = 32 << 20 // bytes; no queue takes more
	gatherTasks = 2_000    // tasks in one call
	gatherBytes = 4 << 20  // contexts in one call, one more context aside
)

// errNotUTF8 is a line that no JSON string can hold as it is.
var errNotUTF8 = errors.New("not UTF-8")

// gather is a run of lines that travel together.
type gather struct {
	tasks []task.Submission
	line  int64 // of its first task
	read  int64 // bytes of stdin up to its end
	end   error // why there are no more: io.EOF, or what is wrong with the line that follows
}

// submitLines submits a task like s for each line of stdin, in their order, and prints the ids. Memory stays flat: while one
// gather is on its way the next one is read. An interrupt lets that gather arrive, so that nobody has to guess which lines
// became tasks.
func (a *app) submitLines(ctx context.Context, c *client.Client, s task.Submission) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gathers := make(chan gather)
	go readGathers(ctx, a.in, s, gathers) // not waited for: nothing can interrupt a read of stdin but the end of the process

	r := a.newReceipts(s.Queue)
	for {
		var g gather
		select {
		case g = <-gathers:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), r.finish())
		}
		if len(g.tasks) > 0 {
			receipts, err := c.Submit(context.WithoutCancel(ctx), g.tasks)
			if err != nil {
				return errors.Join(fmt.Errorf("lines %d to %d: %w", g.line, g.line+int64(len(g.tasks))-1, err), r.finish())
			}
			if err := r.print(receipts, g.read); err != nil {
				return err
			}
		}
		if errors.Is(g.end, io.EOF) {
			return r.finish()
		}
		if g.end != nil {
			return errors.Join(g.end, r.finish())
		}
	}
}

// receipts prints ids as they come, and their sum.
type receipts struct {
	*app
	queue     string
	out       *bufio.Writer
	silent    bool  // no ids: a terminal shows progress instead, JSON a sum
	size      int64 // of stdin in bytes, 0 when nobody can know
	submitted int64
	progress  *progress
}

func (a *app) newReceipts(queue string) *receipts {
	_, onTerminal := terminal(a.out)
	return &receipts{
		app: a, queue: queue, out: bufio.NewWriter(a.out), silent: onTerminal || a.wantsJSON(), size: inputSize(a.in),
		progress: a.newProgress(),
	}
}

// print prints the ids of a gather; read is how much of stdin was read for it and those before it.
func (r *receipts) print(all []task.Receipt, read int64) error {
	r.submitted += int64(len(all))
	for _, receipt := range all {
		if !r.silent {
			fmt.Fprintln(r.out, receipt.ID)
		}
	}
	share := -1.0
	if r.size > 0 {
		share = float64(read) / float64(r.size)
	}
	r.progress.step(r.now(), r.submitted, share, "tasks")
	return r.out.Flush()
}

// finish tells the sum, also when something went wrong: a person goes on from there.
func (r *receipts) finish() error {
	r.progress.clear()
	took := r.now().Sub(r.progress.started).Seconds()
	if r.wantsJSON() {
		return r.printJSON(struct {
			Queue     string  `json:"queue"`
			Submitted int64   `json:"submitted"`
			Seconds   float64 `json:"seconds"`
		}{r.queue, r.submitted, took})
	}
	_, err := fmt.Fprintf(r.err, "%s tasks submitted to %s in %.1fs\n", count(r.submitted), r.queue, took)
	return err
}

// inputSize is how much there is to read, or 0 when nobody can know.
func inputSize(r io.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// lineReader cuts its input into gathers.
type lineReader struct {
	r    *bufio.Reader
	line int64 // lines read
	read int64 // bytes read
}

// readGathers sends gathers of tasks like s until the input ends or has something wrong; the last one says which.
func readGathers(ctx context.Context, in io.Reader, s task.Submission, to chan<- gather) {
	l := &lineReader{r: bufio.NewReaderSize(in, 256<<10)}
	for end := error(nil); end == nil; {
		g := l.gather(s)
		end = g.end
		select {
		case to <- g:
		case <-ctx.Done():
			return
		}
	}
}

// gather reads lines into tasks like s until there are enough, or until reading on would have to wait.
func (l *lineReader) gather(s task.Submission) gather {
	g := gather{line: l.line + 1}
	for size := 0; len(g.tasks) < gatherTasks && size < gatherBytes; {
		text, err := l.next()
		if err == nil {
			if s.Context, err = contextOf(text); err != nil {
				err = fmt.Errorf("line %d: %w", l.line, err)
			}
		}
		if err != nil {
			g.end = err
			break
		}
		g.tasks = append(g.tasks, s)
		if size += len(s.Context); l.r.Buffered() == 0 {
			break
		}
	}
	g.read = l.read
	return g
}

// next reads one line without its end, into memory of its own. After the last line it answers io.EOF.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.r.ReadSlice('\n')
		line = append(line, piece...)
		l.read += int64(len(piece))
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = nil // the last line may lack its end
		}
		if errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxContext {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read line %d: %w", l.line+1, err)
		}
		l.line++
		if len(line) > maxContext {
			return nil, fmt.Errorf("line %d: longer than %s", l.line, bytesText(maxContext))
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}

// contextOf is the context that a line stands for: itself when it is JSON, else the JSON string of it.
func contextOf(line []byte) (json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errNotUTF8
	}
	if json.Valid(line) {
		return bytes.TrimSpace(line), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(line)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
