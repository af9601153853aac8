package tasks

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/await"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

const (
	gatherTasks = 2_000   // tasks in one call
	gatherBytes = 4 << 20 // contexts in one call; a longer one travels alone
)

// errNotUTF8 is a line that no JSON string can hold as it is.
var errNotUTF8 = errors.New("not UTF-8")

// gather is a run of lines that travel together.
type gather struct {
	tasks []task.Submission
	line  int64 // of its first task
	read  int64 // bytes of the lines up to its end
	end   error // why there are no more: io.EOF, or what is wrong with the line that follows
}

// submitLines submits a task like s for each line of stdin, in their order, prints the ids, and
// waits for the tasks when s says so. Memory stays flat, but for the ids that are waited for: while
// one gather is on its way the next one is read. An interrupt lets that gather arrive, so that
// nobody has to guess which lines became tasks.
func (a commands) submitLines(ctx context.Context, c *client.Client, s submission) error {
	r := a.newReceipts(s)
	if name, isFile := strings.CutPrefix(s.text, "@"); s.isText && isFile {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read contexts: %w", err)
		}
		defer f.Close()
		r.from, r.size = f, inputSize(f)
	}
	err := r.submit(ctx, c, s.Submission)
	r.told()
	if err == nil && s.wait {
		err = r.await(ctx, c)
	}
	return errors.Join(err, r.finish())
}

// receipts prints ids as they come, and their sum.
type receipts struct {
	*app.App
	from    io.Reader // the lines
	context func(line []byte) (json.RawMessage, error)

	out      *bufio.Writer
	silent   bool  // no ids: a terminal shows progress instead, JSON a sum
	size     int64 // of the lines in bytes, 0 when nobody can know
	progress *term.Progress

	wait bool      // remember the ids
	ids  []task.ID // to wait for

	sum linesSum
}

// linesSum is what became of all lines, and its JSON.
type linesSum struct {
	Queue     string       `json:"queue"`
	Submitted int64        `json:"submitted"`
	Seconds   float64      `json:"seconds"`
	Done      *int64       `json:"done,omitempty"`  // of those that were waited for
	Failed    []failedTask `json:"failed,omitzero"` // ended without being done
}

type failedTask struct {
	ID    task.ID    `json:"id"`
	State task.State `json:"state"` // empty when nobody knows
	Error string     `json:"error"`
}

func (a commands) newReceipts(s submission) *receipts {
	_, onTerminal := term.Terminal(a.Out)
	context := contextOf
	if s.isText {
		context = textOf
	}
	return &receipts{
		App: a.App, from: a.In, context: context, out: bufio.NewWriter(a.Out), silent: onTerminal ||
			a.JSON(), size: inputSize(a.In), progress: a.Progress(),
		wait: s.wait, sum: linesSum{Queue: s.Queue},
	}
}

// submit submits line after line.
func (r *receipts) submit(ctx context.Context, c *client.Client, s task.Submission) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gathers := make(chan gather)
	// not waited for: nothing can interrupt a read of stdin but the end of the process
	go readGathers(ctx, r.from, r.context, s, gathers)
	for {
		var g gather
		select {
		case g = <-gathers:
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(g.tasks) > 0 {
			receipts, err := c.Submit(context.WithoutCancel(ctx), g.tasks...)
			if err != nil {
				return refusedLines(g, err)
			}
			if err := r.print(receipts, g.read); err != nil {
				return err
			}
		}
		if errors.Is(g.end, io.EOF) {
			return nil
		}
		if g.end != nil {
			return g.end
		}
	}
}

// refusedLines names the lines that a server did not take. What is wrong with them is no wrong
// usage of the command.
func refusedLines(g gather, err error) error {
	lines := fmt.Sprintf("line %d", g.line)
	if n := len(g.tasks); n > 1 {
		lines = fmt.Sprintf("lines %d to %d", g.line, g.line+int64(n)-1)
	}
	if errors.Is(err, client.ErrInvalid) {
		return fmt.Errorf("%s: %v", lines, err)
	}
	return fmt.Errorf("%s: %w", lines, err)
}

// print prints the ids of a gather; read is how much of stdin was read for it and those before it.
func (r *receipts) print(all []task.Receipt, read int64) error {
	r.sum.Submitted += int64(len(all))
	for _, receipt := range all {
		if r.wait {
			r.ids = append(r.ids, receipt.ID)
		}
		if !r.silent {
			fmt.Fprintln(r.out, receipt.ID)
		}
	}
	share := -1.0
	if r.size > 0 {
		share = float64(read) / float64(r.size)
	}
	r.progress.Step(r.Now(), r.sum.Submitted, share, "tasks")
	return r.out.Flush()
}

// say tells a person something between two states of the progress line.
func (r *receipts) say(text string) {
	r.progress.Clear()
	fmt.Fprintln(r.Err, text)
}

func (r *receipts) seconds() float64 { return r.Now().Sub(r.progress.Started).Seconds() }

// told tells how many were submitted, also when something went wrong: a person goes on from there.
func (r *receipts) told() {
	if !r.JSON() {
		r.say(fmt.Sprintf("%s tasks submitted to %s in %.1fs", term.Count(r.sum.Submitted),
			r.sum.Queue, r.seconds()))
	}
}

// await waits for all tasks that were submitted and tells of each that was not done.
func (r *receipts) await(ctx context.Context, c *client.Client) error {
	w := await.Tasks{Client: c, Say: r.say}
	over, done := 0, int64(0)
	r.sum.Done, r.sum.Failed = &done, []failedTask{}
	w.All(ctx, r.ids, func(e await.Ended) {
		if ctx.Err() != nil && e.Err != nil {
			return
		}
		over++
		if err := cmp.Or(e.Err, await.Verdict(e.View)); err != nil {
			r.sum.Failed = append(r.sum.Failed, failedTask{e.ID, e.View.State, err.Error()})
			r.say(err.Error())
		} else {
			done++
		}
		r.progress.Step(r.Now(), int64(over), float64(over)/float64(len(r.ids)),
			fmt.Sprintf("of %s tasks ended", term.Count(len(r.ids))))
	})
	r.progress.Clear()
	if !r.JSON() {
		fmt.Fprintf(r.Err, "%s tasks done in %.1fs\n", term.Count(done), r.seconds())
	}
	if over < len(r.ids) {
		r.say(fmt.Sprintf("%s tasks have not ended; they go on", term.Count(len(r.ids)-over)))
		return context.Cause(ctx)
	}
	if failed := len(r.sum.Failed); failed > 0 {
		return fmt.Errorf("%s of %s tasks were not done", term.Count(failed),
			term.Count(len(r.ids)))
	}
	return nil
}

// finish prints the sum for programs.
func (r *receipts) finish() error {
	if !r.JSON() {
		return nil
	}
	r.sum.Seconds = r.seconds()
	return r.PrintJSON(r.sum)
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
	r       *bufio.Reader
	context func(line []byte) (json.RawMessage, error) // that a line stands for
	line    int64                                      // lines read
	read    int64                                      // bytes read
	held    json.RawMessage                            // of the last line: the gather had no room
}

// readGathers sends gathers of tasks like s until the input ends or has something wrong; the last
// one says which.
func readGathers(
	ctx context.Context, in io.Reader, context func(line []byte) (json.RawMessage, error),
	s task.Submission, to chan<- gather,
) {
	l := &lineReader{r: bufio.NewReaderSize(in, 256<<10), context: context}
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

// gather reads lines into tasks like s until there are enough, or until reading on would have to
// wait.
func (l *lineReader) gather(s task.Submission) gather {
	g := gather{line: l.line + 1}
	if l.held != nil {
		g.line = l.line
	}
	for size := 0; len(g.tasks) < gatherTasks && size < gatherBytes; {
		if s.Context, l.held = l.held, nil; s.Context == nil {
			if s.Context, g.end = l.nextContext(); g.end != nil {
				break
			}
		}
		if len(g.tasks) > 0 && size+len(s.Context) > gatherBytes {
			l.held = s.Context
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

// nextContext is what the next line stands for. After the last line it answers io.EOF.
func (l *lineReader) nextContext() (json.RawMessage, error) {
	text, err := l.next()
	if err != nil {
		return nil, err
	}
	context, err := l.context(text)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", l.line, err)
	}
	return context, nil
}

// next reads one line without its end, into memory of its own. After the last line it answers
// io.EOF.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.r.ReadSlice('\n')
		line = append(line, piece...)
		l.read += int64(len(piece))
		if errors.Is(err, io.EOF) && len(line) > 0 {
			err = nil // the last line may lack its end
		}
		if errors.Is(err, bufio.ErrBufferFull) && len(line) <= app.MaxContext {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read line %d: %w", l.line+1, err)
		}
		l.line++
		if len(line) > app.MaxContext {
			return nil, fmt.Errorf("line %d: longer than %s", l.line, term.Bytes(app.MaxContext))
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}

// contextOf is the context that a line stands for: itself when it is JSON, else the JSON string of
// it.
func contextOf(line []byte) (json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errNotUTF8
	}
	if json.Valid(line) {
		return bytes.TrimSpace(line), nil
	}
	return textOf(line)
}

// textOf is the JSON string of a text.
func textOf(text []byte) (json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errNotUTF8
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(text)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
