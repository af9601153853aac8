package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// reportBytes is how much one flight of reports may weigh, a single report aside.
const reportBytes = 8 << 20

// flights is how many requests with reports are under way at a time. An answer waits for the
// server's disk; until the reports arrive the server counts their tasks as this worker's load, so
// the next ones must not wait for that answer.
const flights = 16

// reports sends outcomes until ctx ends. The first flight leaves at once, further ones when nothing
// is left to run, or after Linger: so a busy worker makes few large requests, and a slow task holds
// up nobody's report for long.
func (w *Worker) reports(ctx context.Context) {
	var air sync.WaitGroup
	defer air.Wait()
	var linger <-chan time.Time
	lingered := false
	for {
		hands, reports := w.board(lingered)
		if hands != nil {
			air.Go(func() { w.fly(ctx, hands, reports) })
			linger, lingered = nil, false
			continue
		}
		select {
		case <-w.ended:
			runtime.Gosched() // handlers that are about to end join this flight
			if linger == nil {
				linger = time.After(w.config.Linger)
			}
		case <-linger:
			linger, lingered = nil, true
		case <-ctx.Done():
			return
		}
	}
}

// board takes the next flight out of the unreported hands, when it is time for one. After a failure
// there is one flight at a time, half as large as the one that failed.
func (w *Worker) board(lingered bool) ([]*hand, []task.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, limit := len(w.unreported), limits.MaxReports
	if w.failures > 0 {
		limit = w.reduced
	}
	switch {
	case left == 0, w.flying >= flights:
		return nil, nil
	case w.flying > 0 && (w.failures > 0 || w.unfinished > 0 && !lingered):
		return nil, nil
	}
	n, bytes := 0, 0
	for ; n < left && n < limit; n++ {
		o := &w.unreported[n].outcome
		bytes += len(o.Context) + len(o.Result) + len(o.Error)
		for k := range o.Spawn { // so that no flight has more of them than a call may have
			bytes += max(len(o.Spawn[k].Context), reportBytes/task.MaxSubmissions)
		}
		if n > 0 && bytes > reportBytes {
			break
		}
	}
	hands := w.unreported[:n:n]
	if w.unreported = w.unreported[n:]; len(w.unreported) == 0 {
		w.unreported = nil
	}
	w.flying++
	reports := make([]task.Report, n)
	for i, h := range hands {
		reports[i] = h.report()
	}
	return hands, reports
}

// fly makes one request. What fails goes behind the others and is repeated after a pause, each time
// half as large: so one report that can't be sent stops no other for long.
func (w *Worker) fly(ctx context.Context, hands []*hand, reports []task.Report) {
	defer w.land() // deferred, as for one who is told of an outcome and calls runtime.Goexit
	answers, err := w.report(ctx, reports)
	if len(reports) == 1 && errors.Is(err, task.ErrTooLarge) {
		// no request takes it: sent again it would be refused again, for ever
		answers, err = []task.Answer{
			{ID: reports[0].ID, Status: task.Invalid, Detail: err.Error()},
		}, nil
	}
	if err == nil && len(answers) != len(reports) {
		err = fmt.Errorf("%d answers to %d reports", len(answers), len(reports))
	}
	failures := 0
	w.mu.Lock()
	if err == nil {
		w.failures = 0
	} else {
		w.failures++
		failures, w.reduced = w.failures, max(len(reports)/2, 1)
		w.unreported = append(w.unreported, hands...)
	}
	w.mu.Unlock()
	switch {
	case err == nil:
		w.settle(hands, answers)
	case ctx.Err() == nil:
		if failures == 1 {
			w.config.Log.Warn("can't report, trying again", "worker", w.config.Name, "reports",
				len(reports), "error", err)
		}
		sleep(ctx, pauses.Delay(failures, rand.Uint64()))
	}
}

// patience is how long a call may take besides what it asks for: within it a client repeats it, and
// obeys a server that asks for a pause. Some ask for hours, and are back long before.
const patience = 2 * time.Minute

// report makes the call, and gives it up when it takes too long: it may be made again at any time.
func (w *Worker) report(ctx context.Context, reports []task.Report) ([]task.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.config.Queue.Report(ctx, w.config.Name, reports)
}

// land takes in that a flight is over.
func (w *Worker) land() {
	w.mu.Lock()
	w.flying--
	w.mu.Unlock()
	hint(w.ended)
}

// settle lets go of what was answered. An outcome that the server finds invalid is reported once
// more, as a failure.
func (w *Worker) settle(hands []*hand, answers []task.Answer) {
	tellReported(w.letGo(hands, answers))
}

// letGo is settle without telling anybody; it answers who waits to be told.
func (w *Worker) letGo(hands []*hand, answers []task.Answer) (waits []listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, h := range hands {
		switch answers[i].Status {
		case task.Recorded, task.Repeated:
			w.stats.Recorded++
		case task.Invalid:
			if h.outcome.Kind != task.KindFail || h.outcome.Result != nil {
				h.outcome = task.Fail(fmt.Errorf("the server refused the outcome: %s",
					answers[i].Detail))
				w.unreported = append(w.unreported, h)
				hint(w.ended)
				continue
			}
			fallthrough
		default:
			w.stats.Refused++
			w.config.Log.Warn("outcome refused", "worker", w.config.Name, "task",
				h.task.ID.String(),
				"outcome", h.outcome.Kind.String(), "status", string(answers[i].Status), "detail",
				answers[i].Detail)
		}
		w.drop(h)
		waits = waiting(waits, h, answers[i])
	}
	hint(w.settled)
	hint(w.room)
	return waits
}

// drop forgets a hand-out. Worker.mu is held.
func (w *Worker) drop(h *hand) {
	last := len(w.held) - 1
	w.held[h.index] = w.held[last]
	w.held[h.index].index = h.index
	w.held[last] = nil
	w.held = w.held[:last]
}

// flush waits until everything is reported, at most SendGrace.
func (w *Worker) flush(ctx context.Context) error {
	cause := errors.New("the time for it is over")
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.SendGrace, cause)
	defer cancel()
	for {
		w.mu.Lock()
		left := 0
		for _, h := range w.held {
			if !h.expired { // the server settles those
				left++
			}
		}
		w.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-w.settled:
		case <-ctx.Done():
			return fmt.Errorf("report the last %d outcomes of %q: %w", left, w.config.Name,
				context.Cause(ctx))
		}
	}
}
