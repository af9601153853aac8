package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// hand is one hand-out from its arrival until its report is answered.
type hand struct {
	worker *Worker
	task   task.Handout
	log    lines
	begun  atomic.Bool // a lane runs it, or it went back unrun: whoever sets it decides
	// its handler gave the outcome to a transaction of its own, which may have committed
	committed atomic.Bool

	// Guarded by Worker.mu.
	index    int // where it stands in Worker.held
	arrived  time.Time
	cancel   context.CancelCauseFunc         // of the handler's context, once it was looked at
	over     bool                            // the handler has returned
	expired  bool                            // its time was over, and the server is to settle it
	stopped  error                           // why it was told to stop, the first reason
	outcome  task.Outcome                    // when the handler has returned
	reported func(task.Outcome, task.Answer) // told when the report is answered; see Reported
	progress float64
	note     string
}

// stop ends the handler's context, or has it begin with an ended one. Worker.mu is held.
func (h *hand) stop(cause error) {
	if h.stopped == nil {
		h.stopped = cause
	}
	if h.cancel != nil {
		h.cancel(h.stopped)
	}
}

// lane runs one task after the other.
func (w *Worker) lane(work context.Context, lanes *sync.WaitGroup) {
	over := false
	defer func() {
		if !over {
			// a handler called runtime.Goexit, as t.FailNow does: another lane takes this one's
			// place
			lanes.Go(func() { w.lane(work, lanes) })
		}
	}()
	for h := range w.starts {
		if !h.begun.Swap(true) {
			w.run(work, h)
		}
	}
	over = true
}

// errGone is the failure of a handler that ended its goroutine.
var errGone = errors.New("the handler ended its goroutine instead of returning")

// run runs one task to its outcome.
func (w *Worker) run(work context.Context, h *hand) {
	ctx := &handContext{work: work, hand: h}
	o := task.Retry(errGone)
	defer func() { w.finish(h, o, ctx.end()) }()
	o = w.call(ctx, h)
}

// call calls the handler; a panic is a failed attempt.
func (w *Worker) call(ctx context.Context, h *hand) (o task.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = panicked(ctx, p)
		}
	}()
	if h.task.Fault != "" {
		return task.Fail(errors.New(h.task.Fault))
	}
	handler := w.handlers[h.task.Queue]
	if handler == nil { // nothing that we asked for
		return task.Release()
	}
	return handler(ctx, h.task)
}

// panicked tells of a panic of a task's handler, and is the outcome. It is called by what
// recovered.
func panicked(ctx context.Context, p any) task.Outcome {
	stack := debug.Stack()
	Logf(ctx, "panic: %v\n%s", p, stack)
	if h, _ := ctx.Value(workKey{}).(*hand); h != nil {
		h.panicked("handler panicked", p, stack)
	}
	return task.Retry(fmt.Errorf("panic: %v", p))
}

// panicked logs and counts a panic of what was given to the worker.
func (h *hand) panicked(what string, p any, stack []byte) {
	w := h.worker
	w.config.Log.Error(what, "queue", h.task.Queue, "task", h.task.ID.String(), "panic", p, "stack",
		string(stack))
	w.mu.Lock()
	w.stats.Panics++
	w.mu.Unlock()
}

// finish gives the outcome to the reports and frees the lane. The task's log goes first: it is
// closed with the outcome.
func (w *Worker) finish(h *hand, o task.Outcome, cause error) {
	if o.Kind == task.KindRetry && wasStopped(cause) {
		o = task.Release()
	}
	o = sound(o)
	h.log.close()
	if o.Kind == task.KindRetry && cause == ErrDeadline {
		w.expire(h, o)
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished++
	w.end(h, o)
}

// wasStopped tells whether a handler's context ended because of its worker: a retry that it returns
// then is no failure of the task.
func wasStopped(cause error) bool {
	return cause == ErrStopping || cause == ErrCutOff || cause == ErrSuperseded
}

// expire frees the lane of a handler that was stopped because its attempt's time is over. The
// server settles that attempt, as a timeout: a report of the handler's failure would come first or
// too late, as chance has it, and be recorded as a retry or not at all. Beats name the hand-out
// until then.
func (w *Worker) expire(h *hand, o task.Outcome) {
	w.mu.Lock()
	w.finished++
	h.expired, h.outcome = true, o
	waits := waiting(nil, h, task.Answer{})
	w.freed()
	w.mu.Unlock()
	tellReported(waits)
}

// end gives an outcome to the reports. Worker.mu is held.
func (w *Worker) end(h *hand, o task.Outcome) {
	h.outcome = o
	w.unreported = append(w.unreported, h)
	w.freed()
	hint(w.ended)
}

// freed says that a lane is free again. Worker.mu is held.
func (w *Worker) freed() {
	w.unfinished--
	if w.unfinished == 0 || w.vacant() == 1 {
		hint(w.room)
	}
	if w.cramped {
		hint(w.look)
	}
}

// maxOutcome is how many bytes of context and result travel in one report: the server's limit for a
// request, and some room.
const maxOutcome = 31 << 20

// sound makes an outcome that the server would refuse a failure that says why: one refused report
// must not be sent for ever.
func sound(o task.Outcome) task.Outcome {
	problem := limits.CheckOutcome(&o)
	switch {
	case problem != "":
	case o.Context != nil && wire.CheckValue(o.Context) != "":
		problem = "context: " + wire.CheckValue(o.Context)
	case o.Result != nil && wire.CheckValue(o.Result) != "":
		problem = "result: " + wire.CheckValue(o.Result)
	case checkChildren(o.Spawn) != "":
		problem = checkChildren(o.Spawn)
	case len(o.Context)+len(o.Result) > maxOutcome:
		problem = fmt.Sprintf(
			"context and result of %d bytes are more than the %d that a report may carry",
			len(o.Context)+len(o.Result), maxOutcome,
		)
	default:
		if len(o.Error) > limits.MaxError {
			o.Error = strings.ToValidUTF8(o.Error[:limits.MaxError], "")
		}
		return o
	}
	return task.Fail(fmt.Errorf("the handler's outcome is wrong: %s", problem))
}

// checkChildren says what is wrong with the contexts of children; "" = nothing.
func checkChildren(children []task.Submission) string {
	size := 0
	for i := range children {
		s, problem := &children[i], ""
		if size += len(s.Context); s.Err != nil {
			problem = s.Err.Error()
		} else if len(s.Context) > 0 {
			problem = wire.CheckValue(s.Context)
		}
		if problem != "" {
			return fmt.Sprintf("spawn[%d].context: %s", i, problem)
		}
	}
	if size > maxOutcome {
		return fmt.Sprintf("spawn: contexts of %d bytes are more than the %d that a report may "+
			"carry: add some before, with AddChildren", size, maxOutcome)
	}
	return ""
}

func (h *hand) at() *Worker { return h.worker }

func (h *hand) subject() slog.Attr { return slog.String("task", h.task.ID.String()) }

func (h *hand) deliver(ctx context.Context, all []task.LogLine) error {
	return h.worker.config.Queue.Log(ctx, h.task.ID, all)
}

// Progress tells how far a task's handler has come, 0 to 1, with a word for people; it travels with
// the next beat. ctx is the handler's; elsewhere it does nothing.
func Progress(ctx context.Context, share float64, note string) {
	h, _ := ctx.Value(workKey{}).(*hand)
	if h == nil || !(share >= 0 && share <= 1) {
		return
	}
	h.worker.mu.Lock()
	defer h.worker.mu.Unlock()
	h.progress, h.note = share, cutText(note, maxNote)
}

// maxNote is the longest note in bytes.
const maxNote = 256

// cutText is s as valid UTF-8 of at most limit bytes.
func cutText(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
