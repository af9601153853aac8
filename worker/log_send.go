package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotahq/rota/task"
)

// Limits of what waits to be sent to a task's log: a handler never waits for its log, and a flood costs no memory.
const (
	maxWaiting  = 512 << 10 // bytes per task; as much again may be under way
	lineWeight  = 64        // what a line costs besides its text
	logPause    = 200 * time.Millisecond
	logPatience = 10 * time.Second // for one call
	maxRefusals = 30               // calls that fail while beats are answered, beyond which a task's lines are given up
)

// logPauses are the pauses after calls that failed: shorter than those of reports, so that a log is there before its outcome.
var logPauses = task.Backoff{Initial: logPause, Max: 2 * time.Second, Factor: 2, Jitter: 0.5}

// lines are what waits to be sent to one task's log. Most tasks log nothing, so it begins small.
type lines struct {
	mu      sync.Mutex
	closed  bool
	waiting *lineQueue // nil before the first line
}

// lineQueue keeps lines in their order until the server has accepted them. What is too much goes from the middle: how it began
// and what came last tell the most.
type lineQueue struct {
	sending sync.Mutex     // held by who sends, so that lines keep their order
	flight  []task.LogLine // sent, but not accepted yet: they go first, and as they are; guarded by sending

	// Guarded by lines.mu.
	first, last           []task.LogLine // each up to half of maxWaiting; last begins when first is full
	firstBytes, lastBytes int
	dropped               int // between first and last
}

func (q *lineQueue) add(line task.LogLine) {
	const half = maxWaiting / 2
	weight := len(line.Text) + lineWeight
	if len(q.last) == 0 && q.firstBytes+weight <= half {
		q.first, q.firstBytes = append(q.first, line), q.firstBytes+weight
		return
	}
	q.last, q.lastBytes = append(q.last, line), q.lastBytes+weight
	for q.lastBytes > half {
		q.lastBytes -= len(q.last[0].Text) + lineWeight
		q.last[0] = task.LogLine{} // its text is not kept by the array
		q.last = q.last[1:]
		q.dropped++
	}
}

// takeAll empties the queue; a line of its own says how many others are missing there.
func (q *lineQueue) takeAll() []task.LogLine {
	all := q.first
	if q.dropped > 0 {
		all = append(all, task.LogLine{Time: q.last[0].Time, Stream: "rota", Text: fmt.Sprintf("%d lines dropped", q.dropped)})
	}
	all = append(all, q.last...)
	q.first, q.last, q.firstBytes, q.lastBytes, q.dropped = nil, nil, 0, 0, 0
	return all
}

func (l *lines) add(h *hand, line task.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.waiting == nil {
		l.waiting = new(lineQueue)
	}
	l.waiting.add(line)
	hint(h.worker.logged)
}

// takeAll is what waits, and was not yet sent.
func (l *lines) takeAll() []task.LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		return nil
	}
	return l.waiting.takeAll()
}

// queue is where lines wait; nil when there never was one.
func (l *lines) queue() *lineQueue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// pending tells whether lines wait that nobody is sending.
func (l *lines) pending() bool {
	q := l.queue()
	if q == nil || !q.sending.TryLock() {
		return false
	}
	defer q.sending.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(q.flight) > 0 || len(q.first) > 0
}

// send sends what waits. What could not be sent before goes in a call of its own, before the rest.
func (l *lines) send(ctx context.Context, h *hand) error {
	q := l.queue()
	if q == nil {
		return nil
	}
	q.sending.Lock()
	defer q.sending.Unlock()
	for range 2 {
		if len(q.flight) == 0 {
			q.flight = l.takeAll()
		}
		if len(q.flight) == 0 {
			return nil
		}
		if err := h.sendLines(ctx, q.flight); err != nil {
			return err
		}
		q.flight = nil
	}
	return nil
}

func (h *hand) sendLines(ctx context.Context, all []task.LogLine) error {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	return h.worker.config.Queue.Log(ctx, h.task.ID, all)
}

// giveUp forgets what waits and answers how many lines that were.
func (l *lines) giveUp() int {
	q := l.queue()
	q.sending.Lock()
	defer q.sending.Unlock()
	n := len(q.flight) + len(l.takeAll())
	q.flight = nil
	return n
}

// close takes no more lines and waits until the last ones are sent, so that they are there before the outcome; but not for
// longer than SendGrace: then the outcome goes first, and logs goes on trying. It runs in the lane: a handler that logs
// much waits here, not while it works. (Speech outlives the lanes, so its context would end nothing here.)
func (l *lines) close(h *hand) {
	l.mu.Lock()
	l.closed = true
	idle := l.waiting == nil
	l.mu.Unlock()
	if idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.worker.config.SendGrace)
	defer cancel()
	for failures := 1; ctx.Err() == nil; failures++ {
		if l.send(ctx, h) == nil {
			return
		}
		hint(h.worker.logged)
		sleep(ctx, logPauses.Delay(failures, rand.Uint64()))
	}
}

// logs sends the lines of tasks, a moment after they come, until ctx ends. What can't be sent is sent again until it is
// accepted, also when the task's outcome was reported long ago; only a server that answers beats and refuses lines all the
// same is not believed for ever.
func (w *Worker) logs(ctx context.Context) {
	unsent := map[*hand]int{} // with lines to send, and how often they were refused
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-w.logged:
		case <-ctx.Done():
			continue
		}
		w.mu.Lock()
		open := w.open
		for _, h := range w.held {
			if _, known := unsent[h]; !known && h.log.pending() {
				unsent[h] = 0
			}
		}
		w.mu.Unlock()
		pause := logPause
		if failures > 0 {
			pause = logPauses.Delay(failures, rand.Uint64())
		}
		sleep(ctx, pause)
		err := w.sendLogs(ctx, unsent, open)
		switch {
		case err == nil:
			failures = 0
			continue
		case failures == 0 && ctx.Err() == nil:
			w.config.Log.Warn("can't send log lines, trying again", "worker", w.config.Name, "tasks", len(unsent), "error", err)
		}
		failures++
		hint(w.logged)
	}
	if len(unsent) > 0 {
		w.config.Log.Error("log lines lost: the worker ends", "worker", w.config.Name, "tasks", len(unsent))
	}
}

// sendLogs sends the lines of these hands and forgets those that were accepted. open says that beats are answered: then it
// is the lines that are refused, and after too many refusals they are lost.
func (w *Worker) sendLogs(ctx context.Context, unsent map[*hand]int, open bool) (failed error) {
	for h, refusals := range unsent {
		err := h.log.send(ctx, h)
		switch {
		case err == nil:
			delete(unsent, h)
			continue
		case ctx.Err() != nil:
			return err
		case open && refusals+1 == maxRefusals:
			delete(unsent, h)
			w.config.Log.Error("log lines lost", "worker", w.config.Name, "task", h.task.ID.String(), "lines", h.log.giveUp(), "error", err)
			continue
		case open:
			unsent[h]++
		}
		failed = err
	}
	return failed
}
