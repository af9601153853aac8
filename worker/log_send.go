package worker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotahq/rota/task"
)

// Limits of what waits to be sent to a log: a handler never waits for its log, and a flood costs no
// memory.
const (
	maxWaiting  = 512 << 10 // bytes per log; as much again may be under way
	lineWeight  = 64        // what a line costs besides its text
	logPause    = 200 * time.Millisecond
	logPatience = 10 * time.Second // for one call
	// calls that fail while beats are answered, beyond which a log's lines are given up
	maxRefusals = 30
)

// logPauses are the pauses after calls that failed: shorter than those of reports, so that a log is
// there before its outcome.
var logPauses = task.Backoff{Initial: logPause, Max: 2 * time.Second, Factor: 2, Jitter: 0.5}

// lines are what waits to be sent to the log of one task, or of one run of a job. Most tasks log
// nothing, so it begins small.
type lines struct {
	owner   speaker // fixed
	mu      sync.Mutex
	closed  bool
	waiting *lineQueue // nil before the first line
}

// speaker has a log: a hand-out, or a run of a job.
type speaker interface {
	at() *Worker
	deliver(ctx context.Context, all []task.LogLine) error // to the server, all or none
	// what the lines are about, for the worker's own log
	subject() slog.Attr
}

// lineQueue keeps lines in their order until the server has accepted them. What is too much goes
// from the middle: how it began and what came last tell the most.
type lineQueue struct {
	sending sync.Mutex // held by who sends, so that lines keep their order
	// sent, but not accepted yet: they go first, and as they are; guarded by sending
	flight []task.LogLine

	// Guarded by lines.mu.
	// each up to half of maxWaiting; last begins when first is full
	first, last           []task.LogLine
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
		all = append(all, task.LogLine{
			Time: q.last[0].Time, Stream: "rota", Text: fmt.Sprintf("%d lines dropped", q.dropped),
		})
	}
	all = append(all, q.last...)
	q.first, q.last, q.firstBytes, q.lastBytes, q.dropped = nil, nil, 0, 0, 0
	return all
}

func (l *lines) add(line task.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.waiting == nil {
		l.waiting = new(lineQueue)
	}
	l.waiting.add(line)
	hint(l.owner.at().logged)
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
func (l *lines) send(ctx context.Context) error {
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
		if err := l.deliver(ctx, q.flight); err != nil {
			return err
		}
		q.flight = nil
	}
	return nil
}

func (l *lines) deliver(ctx context.Context, all []task.LogLine) error {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	return l.owner.deliver(ctx, all)
}

// flush sends what waits, if that takes no longer than d.
func (l *lines) flush(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = l.send(ctx) // whoever looks after the lines tries again
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

// close takes no more lines and waits until the last ones are sent, so that they are there before a
// task's outcome; but not for longer than SendGrace: then the outcome goes first, and logs goes on
// trying. It runs where the handler ran: one that logs much waits here, not while it works. (Speech
// outlives the handlers, so its context would end nothing here.)
func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	idle := l.waiting == nil
	l.mu.Unlock()
	if idle {
		return
	}
	w := l.owner.at()
	ctx, cancel := context.WithTimeout(context.Background(), w.config.SendGrace)
	defer cancel()
	for failures := 1; ctx.Err() == nil; failures++ {
		if l.send(ctx) == nil {
			return
		}
		hint(w.logged)
		sleep(ctx, logPauses.Delay(failures, rand.Uint64()))
	}
}

// logs sends the lines of tasks and jobs, a moment after they come, until ctx ends. What can't be
// sent is sent again until it is accepted, also when a task's outcome was reported long ago; only a
// server that answers beats and refuses lines all the same is not believed for ever.
func (w *Worker) logs(ctx context.Context) {
	unsent := map[*lines]int{} // with lines to send, and how often they were refused
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-w.logged:
		case <-ctx.Done():
			continue
		}
		w.mu.Lock()
		open := w.open
		look := func(l *lines) {
			if _, known := unsent[l]; !known && l.pending() {
				unsent[l] = 0
			}
		}
		for _, h := range w.held {
			look(&h.log)
		}
		for _, r := range w.runs {
			look(&r.log)
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
			w.config.Log.Warn("can't send log lines, trying again", "worker", w.config.Name, "logs",
				len(unsent), "error", err)
		}
		failures++
		hint(w.logged)
	}
	if len(unsent) > 0 {
		w.config.Log.Error("log lines lost: the worker ends", "worker", w.config.Name, "logs",
			len(unsent))
	}
}

// sendLogs sends these lines and forgets those that were accepted. open says that beats are
// answered: then it is the lines that are refused, and after too many refusals they are lost.
func (w *Worker) sendLogs(ctx context.Context, unsent map[*lines]int, open bool) (failed error) {
	for l, refusals := range unsent {
		err := l.send(ctx)
		switch {
		case err == nil:
			delete(unsent, l)
			continue
		case ctx.Err() != nil:
			return err
		case open && refusals+1 == maxRefusals:
			delete(unsent, l)
			w.config.Log.Error("log lines lost", "worker", w.config.Name, l.owner.subject(),
				"lines", l.giveUp(), "error", err)
			continue
		case open:
			unsent[l]++
		}
		failed = err
	}
	return failed
}
