package worker

import (
	"context"
	"errors"
	"time"

	"github.com/rotahq/rota/task"
)

// errNews ends a long poll, so that the next beat can say what changed here.
var errNews = errors.New("there is news to tell")

// beatGap is the least time between two beats: what changes within it is told together.
const beatGap = 20 * time.Millisecond

// ask is how a beat asks for its answer.
type ask struct {
	limit   time.Duration // it is waited for so long
	wait    time.Duration // the server may wait so long for news; 0 = it answers at once
	version string        // of the last answer; news is what came after it
}

// beats tells the server every few seconds what the worker holds and runs, and does what the answer
// says, until ctx ends. When no beat was answered for SelfStop, counted from the sending of the
// last answered one, it stops the handlers: from then on the server may give their tasks and jobs
// to others. When beats are answered again, the worker goes on. A first beat that is denied ends
// the worker, and so does any that is superseded.
//
// A worker with jobs lets the server wait with its answer, so that orders come at once. It waits
// for less than a beat: a poll that is never answered must leave time for others before the worker
// stops itself.
func (w *Worker) beats(ctx context.Context, deny context.CancelCauseFunc) {
	limits := guard{answered: time.Now(), tasks: w.config.SelfStop, jobs: w.config.SelfStop}
	known := false // a beat was answered
	how := ask{limit: w.config.Beat}
	for ctx.Err() == nil {
		sent := time.Now()
		answer, err := w.beat(ctx, how, sent.Add(limits.left(sent)))
		pause := w.config.Beat
		for _, wanted := range []time.Duration{answer.Beat, answer.Jobs.Silence / 3} {
			if wanted > 0 {
				pause = min(pause, wanted)
			}
		}
		rest := w.listen
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			known = true
			limits.renew(sent, pause, w.config.SelfStop, answer.Jobs.Silence, w.ownStop)
			w.goesTasks.Store(int64(limits.tasks))
			w.goesJobs.Store(int64(limits.jobs))
			w.resume()
			how, pause = w.next(how, answer, time.Since(sent), pause)
		case err == errNews:
			// to be said in a beat that is answered at once, or steady news would leave none to be
			// answered
			how, pause = ask{limit: w.config.Beat / 2, version: how.version}, 0
		case superseded(err), !known && denied(err):
			deny(err)
			return
		default:
			w.config.Log.Warn("beat not answered", "worker", w.config.Name, "error", err)
			if len(w.groups) > 0 {
				how = ask{limit: w.config.Beat / 2}
			}
			pause, rest = w.config.Beat/5, sleep
		}
		now := time.Now()
		w.cutOff(limits, now)
		left := limits.left(now)
		if left == 0 {
			sleep(ctx, pause)
			continue
		}
		rest(ctx, min(pause, left))
		if left <= pause { // no beat fits in between
			w.cutOff(limits, now.Add(left))
		}
	}
}

// next is how the beat after an answered one asks, and the pause before it. A server that did not
// wait when it was asked to, and had no news, is asked again after a whole beat.
func (w *Worker) next(
	how ask, answer task.BeatAnswer, took, beat time.Duration,
) (ask, time.Duration) {
	if len(w.groups) == 0 {
		return how, beat
	}
	pause := beat
	if took >= how.wait/2 || answer.Version != how.version {
		pause = 0
	}
	wait := beat * 3 / 5
	return ask{limit: wait + w.config.Beat/5, wait: wait, version: answer.Version}, pause
}

// listen waits for d, or less when there is news to tell, but at least beatGap.
func (w *Worker) listen(ctx context.Context, d time.Duration) {
	sleep(ctx, beatGap)
	if d <= beatGap {
		select { // the beat that follows tells them
		case <-w.news:
		default:
		}
		return
	}
	t := time.NewTimer(d - beatGap)
	defer t.Stop()
	select {
	case <-w.news:
	case <-t.C:
	case <-ctx.Done():
	}
}

// denied tells whether an error means that the server does not let this worker in, which trying
// again will not change.
func denied(err error) bool {
	var d interface{ Denied() bool }
	return errors.As(err, &d) && d.Denied()
}

// superseded tells whether an error means that a newer worker has this one's name: the server hears
// that one.
func superseded(err error) bool {
	var s interface{ Superseded() bool }
	return errors.As(err, &s) && s.Superseded()
}

// beat sends one beat and obeys its answer. It waits for it no longer than until the worker must
// stop itself.
func (w *Worker) beat(ctx context.Context, how ask, stop time.Time) (task.BeatAnswer, error) {
	limit := how.limit
	if left := time.Until(stop); left > 0 {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if how.wait == 0 {
		giveUp = func(error) {}
	}
	w.lookForTouches()
	hands, b := w.say(giveUp)
	b.Wait, b.Version = min(how.wait, limit), how.version
	answer, err := w.config.Queue.Beat(ctx, b)
	if err != nil {
		if context.Cause(ctx) == errNews {
			err = errNews
		}
		return task.BeatAnswer{}, err
	}
	w.obey(hands, answer.Tasks)
	w.obeyOrders(answer.Jobs)
	return answer, nil
}

// say is the beat that tells how things stand, and the hands it names, in its order. News that
// comes later ends its poll by giveUp.
func (w *Worker) say(giveUp context.CancelCauseFunc) ([]*hand, task.Beat) {
	b := task.Beat{
		Worker: w.config.Name, Incarnation: w.incarnation, Capacity: float64(w.config.Capacity),
		Labels: w.config.Labels, Zone: w.config.Zone, Build: w.config.Version,
		Queues: w.queues,
	}
	if w.config.Load != nil {
		b.Load = w.config.Load()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.news:
	default:
	}
	w.stopPoll = giveUp
	w.sayJobs(&b)
	hands := append([]*hand(nil), w.held...)
	b.Tasks = make([]task.Held, len(hands))
	for i, h := range hands {
		b.Tasks[i] = task.Held{
			ID: h.task.ID, Token: h.task.Token, Progress: h.progress, Note: h.note,
		}
	}
	return hands, b
}

// obey stops the handlers that the server wants stopped. The answer names tasks, not hand-outs: of
// two hand-outs of one task, the first action is for the one that the beat named first.
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
		case h.expired: // it is settled
			w.drop(h)
			hint(w.settled)
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
	if w.halted = false; !w.open {
		w.open = true
		hint(w.room)
		hint(w.look)
	}
}

// cutOff stops the handlers whose time without an answered beat is over, and takes nothing new.
func (w *Worker) cutOff(limits guard, at time.Time) {
	tasks, jobs := limits.due(at)
	w.mu.Lock()
	defer w.mu.Unlock()
	tasks, jobs = tasks && w.open, jobs && !w.halted
	if tasks || jobs && len(w.groups) > 0 {
		w.config.Log.Error("cut off: stopping handlers", "worker", w.config.Name, "unanswered",
			at.Sub(limits.answered), "tasks", tasks, "jobs", jobs, "held", len(w.held), "runs",
			len(w.runs))
	}
	if tasks {
		w.open = false
		w.stopHold()
		for _, h := range w.held {
			w.release(h)
			h.stop(ErrCutOff)
		}
	}
	if jobs {
		w.open, w.halted = false, true
		for _, r := range w.runs {
			r.end(ErrCutOff)
		}
		w.sweep()
	}
}

// leave says goodbye: whatever the worker still holds goes back at once, and its jobs move.
func (w *Worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Beat)
	defer cancel()
	_, b := w.say(func(error) {})
	b.Leaving = true
	if _, err := w.config.Queue.Beat(ctx, b); err != nil {
		w.config.Log.Warn("can't say goodbye", "worker", w.config.Name, "error", err)
	}
}
