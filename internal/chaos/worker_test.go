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

// handout is what a handler has to know of a hand-out.
type handout struct {
	order
	seq   int32
	lasts time.Duration // how long it takes, which hangs on the hand-out alone
}

// takeUp writes down that a hand-out begins.
func takeUp(b *book, who string, of task.Handout) (h handout, err error) {
	parsed, err := task.ParseToken(of.Token)
	if err := errors.Join(err, json.Unmarshal(of.Context, &h.order)); err != nil {
		return h, err
	}
	luck := of.ID.Seed(parsed.Seq)
	h.seq, h.lasts = parsed.Seq, time.Duration(luck%50)*time.Millisecond
	switch h.Work {
	case steady:
		h.lasts = time.Duration(100+luck%400) * time.Millisecond
	case lengthy:
		h.lasts = 2*time.Second + time.Duration(luck%3000)*time.Millisecond
	}
	return h, b.write(line{
		Deed: begun, Mark: h.Mark, At: nowMicros(), Who: who, ID: of.ID, Token: of.Token,
		Sum: crc32.ChecksumIEEE(of.Context), Lasts: h.lasts.Microseconds(), Stage: of.Stage,
		Told: toldBy(of),
	})
}

// toldBy is what a hand-out tells of the end of a wait; "" = there was none.
func toldBy(h task.Handout) (what string) {
	switch {
	case h.TimedOut:
		return timedOut
	case h.Children != nil:
		return gathered(h.Children)
	case h.Signal != nil:
		if err := json.Unmarshal(h.Signal.Payload, &what); err != nil {
			return err.Error()
		}
	}
	return what
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
			lines = append(lines, w.born(a.Spawned, r.Spawn)...)
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

// born says which tasks the children of an accepted outcome are.
func (w *witness) born(ids []task.ID, children []task.Submission) (lines []line) {
	for i, id := range ids {
		var o order
		if err := json.Unmarshal(children[i].Context, &o); err != nil {
			panic(err) // this process wrote it
		}
		lines = append(lines, line{
			Deed: acknowledged, Mark: o.Mark, At: nowMicros(), Who: w.name, ID: id,
		})
	}
	return lines
}

// handle does what the order says. The error's text, whatever the outcome, is the token: it shows
// which hand-out an outcome is of.
func (w *witness) handle(ctx context.Context, h task.Handout) task.Outcome {
	do, err := takeUp(w.book, w.name, h)
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
	case do.Work == families && h.Stage == "":
		children, lines := brood(do.Mark, w.name)
		if err := w.book.write(lines...); err != nil {
			return task.Retry(err)
		}
		outcome = task.NextOn(task.Await{Children: task.AllChildren}, stageGather, nil).
			Spawning(children...)
	case do.Work == waits && h.Stage == "":
		outcome = task.NextOn(task.Await{
			Signal: signalName, Timeout: signalWithin, Else: stageLate,
		}, stageTold, nil)
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
	do, err := takeUp(b, os.Getenv(envName), task.Handout{
		ID: id, Token: os.Getenv("ROTA_TOKEN"), Context: context,
	})
	time.Sleep(do.lasts) // a process of its own
	return err
}
