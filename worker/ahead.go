package worker

import (
	"context"
	"time"

	"github.com/rotahq/rota/task"
)

const (
	lookGap      = 3 * time.Millisecond
	startsWithin = 20 * time.Millisecond  // what is held ahead should start so soon
	lateAfter    = 100 * time.Millisecond // what waited so long for a lane goes back unrun
)

// pace is how fast handlers end, as a moving mean over the long polls. The zero value has seen
// nothing.
type pace struct {
	at        time.Time // of the last look
	finished  int64     // hand-outs until then
	perSecond float64
}

// reach looks again, unless it just did, and says how many hand-outs start within startsWithin at
// the present pace. finished counts all since the worker began. Handlers that happen to end
// together make no pace: looks are at least lookGap apart.
func (p *pace) reach(now time.Time, finished int64) int {
	switch elapsed := now.Sub(p.at); {
	case p.at.IsZero():
		p.at, p.finished = now, finished
	case elapsed >= lookGap:
		p.perSecond = (p.perSecond + float64(finished-p.finished)/elapsed.Seconds()) / 2
		p.at, p.finished = now, finished
	}
	return int(p.perSecond * startsWithin.Seconds())
}

// vacant is how many more hand-outs may be held. Worker.mu is held.
func (w *Worker) vacant() int {
	free := task.Units(w.config.Capacity)*task.Unit - w.reserved
	return int(free/task.Unit) + w.ahead - w.unfinished
}

// release gives a hand-out back unrun and says true, unless it has begun. Worker.mu is held.
func (w *Worker) release(h *hand) bool {
	if h.begun.Swap(true) {
		return false
	}
	w.end(h, task.Release())
	return true
}

// returns gives back what waits too long for a lane, as when handlers became slower than they were.
func (w *Worker) returns(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-w.queued:
		case <-ctx.Done():
		}
		for w.giveBack(lateAfter) && ctx.Err() == nil {
			sleep(ctx, lateAfter/2)
		}
	}
}

// giveBack gives back what arrived at least age ago and has not begun, and says whether something
// younger waits. After that nothing is held ahead until the pace is known again.
func (w *Worker) giveBack(age time.Duration) (waits bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		switch {
		case h.begun.Load():
		case now.Sub(h.arrived) < age:
			waits = true
		case w.release(h):
			w.stats.Returned++
			w.pace, w.ahead = pace{}, 0
		}
	}
	return waits
}
