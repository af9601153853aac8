//go:build chaos && unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// order is a task's context.
type order struct {
	Mark string
	Work work
	Pad  string `json:",omitempty"`
}

// work is what a handler does with a task.
type work string

const (
	quick   work = "quick"  // at once, or nearly so
	steady  work = "steady" // for 100 to 500 ms
	lengthy work = "long"   // 2 to 5 seconds
	stages  work = "stages" // three of them
	flaky   work = "flaky"  // two failures before
	snooze  work = "snooze" // not now
	fails   work = "fails"  // for good
)

// Workers of the library take from the first two queues and from those with limits, commands from
// the third.
const (
	queueShort   = "short"
	queueLong    = "long"
	queueCommand = "command"
)

func nowMicros() int64 { return time.Now().UnixMicro() }

// handout is what a handler has to know of a hand-out.
type handout struct {
	order
	seq   int32
	lasts time.Duration // how long it takes, which hangs on the hand-out alone
}

// takeUp writes down that a hand-out begins.
func takeUp(b *book, who string, id task.ID, token string, context []byte) (h handout, err error) {
	parsed, err := task.ParseToken(token)
	if err := errors.Join(err, json.Unmarshal(context, &h.order)); err != nil {
		return h, err
	}
	luck := id.Seed(parsed.Seq)
	h.seq, h.lasts = parsed.Seq, time.Duration(luck%50)*time.Millisecond
	switch h.Work {
	case steady:
		h.lasts = time.Duration(100+luck%400) * time.Millisecond
	case lengthy:
		h.lasts = 2*time.Second + time.Duration(luck%3000)*time.Millisecond
	}
	return h, b.write(line{
		Deed: begun, Mark: h.Mark, At: nowMicros(), Who: who, ID: id, Token: token,
		Sum: crc32.ChecksumIEEE(context), Lasts: h.lasts.Microseconds(),
	})
}

// witness is a worker's queue that writes down which reports are accepted, before the worker learns
// of it.
type witness struct {
	*client.Client
	name string
	book *book

	mu    sync.Mutex
	marks map[string]string // of the tasks in hand, by token
}

// beWorker is a worker until it is interrupted.
func beWorker() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := openBook(os.Getenv(envLedger))
	if err != nil {
		return err
	}
	defer b.close()
	c, err := client.New(client.Config{
		Servers: strings.Split(os.Getenv(envServers), ","), Timeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	w := &witness{Client: c, name: os.Getenv(envName), book: b, marks: map[string]string{}}
	lib, err := worker.New(worker.Config{
		Queue: w, Name: w.name, Capacity: 8, Beat: time.Second, StopGrace: time.Second,
	})
	if err != nil {
		return err
	}
	lib.Handle(queueShort, w.handle)
	lib.Handle(queueLong, w.handle)
	lib.Handle(queueKeyed, w.handle)
	lib.Handle(queueOrdered, w.handle)
	return lib.Run(ctx)
}

func (w *witness) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	a, err := w.Client.Hold(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range a.Tasks {
		var o order
		if err := json.Unmarshal(h.Context, &o); err != nil {
			return a, fmt.Errorf("task %v: %w", h.ID, err)
		}
		w.marks[h.Token] = o.Mark
	}
	return a, err
}

func (w *witness) Report(
	ctx context.Context, name string, reports []task.Report,
) ([]task.Answer, error) {
	answers, err := w.Client.Report(ctx, name, reports)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []line
	for i, a := range answers {
		r := reports[i]
		if a.Status == task.Recorded || a.Status == task.Repeated {
			lines = append(lines, line{
				Deed: answered, Mark: w.marks[r.Token], At: nowMicros(), Who: w.name, ID: r.ID,
				Token:  r.Token,
				Status: a.Status, Kind: r.Kind, Text: r.Error,
			})
		}
	}
	if err := w.book.write(lines...); err != nil {
		return nil, err
	}
	for i := range reports {
		delete(w.marks, reports[i].Token)
	}
	return answers, nil
}

// handle does what the order says. The error's text, whatever the outcome, is the token: it shows
// which hand-out an outcome is of.
func (w *witness) handle(ctx context.Context, h task.Handout) task.Outcome {
	do, err := takeUp(w.book, w.name, h.ID, h.Token, h.Context)
	if err != nil {
		return task.Fail(err)
	}
	select {
	case <-time.After(do.lasts):
	case <-ctx.Done():
		return task.Retry(context.Cause(ctx))
	}
	outcome := task.Finish(nil)
	switch {
	case do.Work == fails:
		outcome = task.Fail(nil)
	case do.Work == flaky && h.Attempt < 3:
		outcome = task.RetryAfter(20*time.Millisecond, nil)
	case do.Work == snooze && do.seq == 0:
		outcome = task.Snooze(50 * time.Millisecond)
	case do.Work == stages && h.Stage == "":
		outcome = task.Next("second", nil)
	case do.Work == stages && h.Stage == "second":
		outcome = task.Next("third", nil)
	}
	outcome.Error = h.Token
	return outcome
}

// beCommand does one task of `rota worker`.
func beCommand() error {
	b, err := openBook(os.Getenv(envLedger))
	if err != nil {
		return err
	}
	defer b.close()
	id, err := task.ParseID(os.Getenv("ROTA_TASK"))
	if err != nil {
		return err
	}
	context, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	do, err := takeUp(b, os.Getenv(envName), id, os.Getenv("ROTA_TOKEN"), context)
	time.Sleep(do.lasts) // a process of its own
	return err
}
