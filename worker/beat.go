package worker

import (
	"context"
	"errors"
	"time"

	"github.com/rotahq/rota/task"
)

// beats tells the server every few seconds what the worker holds, and does what the answer says, until ctx ends. When no
// beat was answered for SelfStop, counted from the sending of the last answered one, it stops the handlers: from then on
// the server may give their tasks to others. When beats are answered again, the worker goes on. A first beat that is denied
// ends the worker.
func (w *Worker) beats(ctx context.Context, deny context.CancelCauseFunc) {
	answered := time.Now() // when the last answered beat was sent; none yet
	known := false         // one was answered
	patience := w.config.SelfStop
	for ctx.Err() == nil {
		sent := time.Now()
		pause, err := w.beat(ctx, answered.Add(patience))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			answered, known = sent, true
			patience = min(w.config.SelfStop, pause*12/5) // a server that wants faster beats gives up sooner: after three
			w.resume()
		case !known && denied(err):
			deny(err)
			return
		default:
			w.config.Log.Warn("beat not answered", "worker", w.config.Name, "error", err)
			pause = w.config.Beat / 5
		}
		if left := time.Until(answered.Add(patience)); left > 0 {
			sleep(ctx, min(pause, left))
		} else {
			w.cutOff(time.Since(answered))
			sleep(ctx, pause)
		}
	}
}

// denied tells whether an error means that the server does not let this worker in, which trying again will not change.
func denied(err error) bool {
	var d interface{ Denied() bool }
	return errors.As(err, &d) && d.Denied()
}

// beat sends one beat and returns the pause until the next. It waits for the answer no longer than a beat, or until the
// worker must stop itself.
func (w *Worker) beat(ctx context.Context, stop time.Time) (pause time.Duration, err error) {
	limit := w.config.Beat
	if left := time.Until(stop); left > 0 {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	hands, b := w.say()
	answer, err := w.config.Queue.Beat(ctx, b)
	if err != nil {
		return 0, err
	}
	w.obey(hands, answer.Tasks)
	if answer.Beat > 0 && answer.Beat < w.config.Beat {
		return answer.Beat, nil
	}
	return w.config.Beat, nil
}

// say is the beat that tells how things stand, and the hands it names, in its order.
func (w *Worker) say() ([]*hand, task.Beat) {
	b := task.Beat{
		Worker: w.config.Name, Incarnation: w.incarnation, Capacity: float64(w.config.Capacity),
		Labels: w.config.Labels, Zone: w.config.Zone,
	}
	if w.config.Load != nil {
		b.Load = w.config.Load()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	hands := append([]*hand(nil), w.held...)
	b.Tasks = make([]task.Held, len(hands))
	for i, h := range hands {
		b.Tasks[i] = task.Held{ID: h.task.ID, Token: h.task.Token, Progress: h.progress, Note: h.note}
	}
	return hands, b
}

// obey stops the handlers that the server wants stopped. The answer names tasks, not hand-outs: of two hand-outs of one
// task, the first action is for the one that the beat named first.
func (w *Worker) obey(hands []*hand, actions []task.HeldAction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := 0 // actions come in the beat's order, though some may be left out
	for _, a := range actions {
		h := (*hand)(nil)
		for i := range hands {
			if at := (next + i) % len(hands); hands[at] != nil && hands[at].task.ID == a.ID {
				h, hands[at], next = hands[at], nil, at+1
				break
			}
		}
		switch {
		case h == nil || a.Action == task.ActionContinue:
		case w.release(h): // it had not begun
		case a.Action == task.ActionCancel:
			h.stop(ErrCancelled)
		case a.Action == task.ActionStale:
			h.stop(ErrStale)
		}
	}
}

// resume lets tasks be taken.
func (w *Worker) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		w.open = true
		hint(w.room)
	}
}

// cutOff stops all handlers and takes nothing new.
func (w *Worker) cutOff(silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		return
	}
	w.open = false
	w.stopHold()
	w.config.Log.Error("cut off: stopping all handlers", "worker", w.config.Name, "unanswered", silent, "tasks", len(w.held))
	for _, h := range w.held {
		w.release(h)
		h.stop(ErrCutOff)
	}
}

// leave says goodbye: whatever the worker still holds goes back at once.
func (w *Worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Beat)
	defer cancel()
	_, b := w.say()
	b.Leaving = true
	if _, err := w.config.Queue.Beat(ctx, b); err != nil {
		w.config.Log.Warn("can't say goodbye", "worker", w.config.Name, "error", err)
	}
}
