package firing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// fireBatch is what one transaction writes: the rows of due times, schedule by schedule, and the
// tasks that it submits for them.
type fireBatch struct {
	parts []store.FirePart // one for each schedule
	// of each part: one for each fire whose outcome is fired, in their order
	tasks [][]task.Submission
	size  int // the number of rows in all parts
}

// fireBatchMax is about how many rows one transaction writes. More would keep other writers
// waiting.
const fireBatchMax = 1000

// add adds the part of one schedule. due answers when the task of a due time is to run.
func (b *fireBatch) add(s *scheduleState, p store.FirePart, due func(at int64) int64) {
	var tasks []task.Submission
	for i := range p.Fires {
		if f := &p.Fires[i]; f.Outcome == task.FireFired {
			tasks = append(tasks, s.submission(due(f.At)))
		}
	}
	b.parts = append(b.parts, p)
	b.tasks = append(b.tasks, tasks)
	b.size += len(p.Fires)
}

// writes put down what comes of due times, and submit the tasks of those that are fired.
type writes struct {
	*core
	reads *reads
}

// fire handles the due times of schedules up to now, in as few transactions as fireBatchMax allows.
func (w *writes) fire(ctx context.Context, due []*store.Schedule, now int64) error {
	states, err := w.reads.states(ctx, due)
	if err != nil {
		return err
	}
	var b fireBatch
	var wrong []error
	for i := range states {
		s := &states[i]
		d := s.due(now)
		if err := w.cancel(ctx, s, d.cancel); err != nil {
			wrong = append(wrong, err) // the schedule stays due
			continue
		}
		b.add(s, d.part, func(at int64) int64 {
			return at + s.times.jitter(&s.Schedule.Schedule, at)
		})
		if b.size >= fireBatchMax {
			if err := w.commit(ctx, b); err != nil {
				return errors.Join(append(wrong, err)...)
			}
			b = fireBatch{}
		}
	}
	return errors.Join(append(wrong, w.commit(ctx, b))...)
}

// commit writes a batch. If the store refused a part of it, or more is due already, the next round
// comes soon.
func (w *writes) commit(ctx context.Context, b fireBatch) error {
	done, err := w.sendOrSkip(ctx, b)
	if err != nil {
		return err
	}
	now := w.now()
	for i, part := range done {
		for k := range part.Fires {
			w.conf.Handled(&part.Fires[k])
		}
		switch asked := &b.parts[i]; {
		case part.Refused == store.FireMoved || part.Refused == "" && asked.Then <= now:
			w.soon(0)
		case part.Refused == store.FireEarly:
			w.soon(lateness(now, asked.Next))
		}
	}
	return nil
}

// sendOrSkip sends a batch. A due time whose task is refused, for example because its queue takes
// no context of that size, is written as skipped, with the reason.
func (w *writes) sendOrSkip(ctx context.Context, b fireBatch) (done []store.FiredPart, err error) {
	got, err := w.send(ctx, b)
	invalid := (*task.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return got.Parts, err
	}
	for i := range b.parts {
		one := fireBatch{parts: b.parts[i : i+1], tasks: b.tasks[i : i+1]}
		if got, err = w.send(ctx, one); errors.As(err, &invalid) {
			one.skip("its task is refused: " + invalid.Error())
			got, err = w.send(ctx, one)
		}
		if err != nil {
			return nil, err
		}
		done = append(done, got.Parts...)
	}
	return done, nil
}

// skip makes fires that were to submit a task skipped ones.
func (b *fireBatch) skip(reason string) {
	for i := range b.parts {
		b.tasks[i] = nil
		for k := range b.parts[i].Fires {
			if f := &b.parts[i].Fires[k]; f.Outcome == task.FireFired {
				f.Outcome, f.Reason, f.Watch = task.FireSkipped, reason, false
			}
		}
	}
}

// sendAll sends a batch that may be larger than one transaction is to be, and answers for each of
// its parts. A part whose task is refused is skipped, and says so.
func (w *writes) sendAll(ctx context.Context, v fireBatch) (done []store.FiredPart, err error) {
	for from, to := 0, 0; from < len(v.parts); from = to {
		one := fireBatch{}
		for ; to < len(v.parts) && one.size < fireBatchMax; to++ {
			one.size += len(v.parts[to].Fires)
		}
		one.parts, one.tasks = v.parts[from:to], v.tasks[from:to]
		got, err := w.sendOrSkip(ctx, one)
		if err != nil {
			return nil, err
		}
		done = append(done, got...)
	}
	return done, nil
}

// soon lets the next round begin after wait, at most a beat. It waits for 10 ms at least, because
// another node may be about to do the same.
func (w *writes) soon(wait time.Duration) {
	const pause = 10 * time.Millisecond
	w.conf.Clock.After(min(max(wait, pause), w.conf.Beat), w.Hear)
}

// send plans the tasks of a batch and writes them with its rows. It tries again after an unknown
// outcome: if the first try was committed, the store refuses or leaves the same parts.
func (w *writes) send(ctx context.Context, b fireBatch) (got store.Fired, err error) {
	if len(b.parts) == 0 {
		return got, nil
	}
	const tries = 3
	firing := store.Firing{Node: w.conf.Node, Parts: b.parts}
	for try := range tries {
		if try == 0 || errors.Is(err, store.ErrConflict) { // the clock went back: the ids are taken
			if err := w.draft(ctx, &b, &firing); err != nil {
				return got, err
			}
		}
		if got, err = w.store.Fire(ctx, firing); err == nil {
			break
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return got, fmt.Errorf("fire %d schedules: %w", len(b.parts), err)
		}
		if try+1 < tries {
			if err := pause(ctx, time.Duration(1+try)*20*time.Millisecond); err != nil {
				return got, err
			}
		}
	}
	w.hint(&b)
	if err != nil {
		return got, fmt.Errorf("fire %d schedules: %w", len(b.parts), err)
	}
	return got, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// draft gives the tasks of a batch their ids, and writes each id into the row of its due time.
func (w *writes) draft(ctx context.Context, b *fireBatch, firing *store.Firing) error {
	tasks := slices.Concat(b.tasks...)
	if len(tasks) == 0 {
		return nil
	}
	sub, ids, err := w.conf.Tasks.Draft(ctx, tasks)
	if err != nil {
		return fmt.Errorf("draft %d tasks: %w", len(tasks), err)
	}
	firing.NewQueues, firing.Batches = sub.NewQueues, sub.Batches
	for i := range b.parts {
		fires := b.parts[i].Fires
		for k := range fires {
			if fires[k].Outcome == task.FireFired {
				fires[k].Task = ids[0]
				ids = ids[1:]
			}
		}
	}
	return nil
}

// hint tells the dispatcher which queues have new tasks; of more than 16 it says that any may have.
func (w *writes) hint(b *fireBatch) {
	const few = 16
	queues := map[string]bool{}
	for _, tasks := range b.tasks {
		for i := range tasks {
			queues[tasks[i].Queue] = true
		}
	}
	if len(queues) > few {
		queues = map[string]bool{"": true}
	}
	for queue := range queues {
		w.conf.Tasks.Hear(queue, nil)
	}
}

// cancel cancels the tasks that a new one replaces. A task that is final already, or gone, is left
// alone.
func (w *writes) cancel(ctx context.Context, s *scheduleState, list []task.ID) error {
	for _, id := range list {
		err := w.conf.Tasks.Act(ctx, task.KindCancelled, "schedule "+s.Name, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("replace the task %s of schedule %q: %w", id, s.Name, err)
		}
	}
	return nil
}

// outOfBand writes fires of one schedule whose cursor stays where it is, and answers them as they
// stand. most is how many of its tasks may run then, 0 = any number. errMeanwhile;
// store.ErrConflict, also when others fired meanwhile and that made too many.
func (w *writes) outOfBand(
	ctx context.Context, s *scheduleState, fires []store.Fire, over bool, most int32,
) ([]store.Fire, error) {
	now := w.now()
	var v fireBatch
	v.add(s, store.FirePart{Schedule: s.Name, Version: s.Version, Fires: fires, Over: over,
		Most: most}, func(int64) int64 {
		return now
	})
	got, err := w.send(ctx, v)
	if err != nil {
		return nil, err
	}
	part := got.Parts[0]
	if part.Refused == store.FireGone {
		return nil, fmt.Errorf("%s: %w", part.Refused, store.ErrNotFound)
	}
	if part.Refused != "" {
		return nil, fmt.Errorf("%s: %w", part.Refused, store.ErrConflict)
	}
	written := part.Fires
	for _, at := range part.Left { // by an earlier try, of which nobody knew the outcome
		list, err := w.store.Fires(ctx, store.FireQuery{Schedule: s.Name, From: at, To: at + 1})
		if err != nil {
			return nil, fmt.Errorf("read what was fired: %w", err)
		}
		written = append(written, list...)
	}
	if len(written) == 0 {
		return nil, errMeanwhile
	}
	return written, nil
}

// errMeanwhile: what was read is not so any more.
var errMeanwhile = fmt.Errorf("the schedule was changed meanwhile: %w", store.ErrConflict)
