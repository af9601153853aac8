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

// fire handles the due times of schedules up to now, in as few transactions as fireBatchMax allows.
func (f *Firer) fire(ctx context.Context, due []*store.Schedule, now int64) error {
	states, err := f.states(ctx, due)
	if err != nil {
		return err
	}
	var b fireBatch
	var wrong []error
	for i := range states {
		s := &states[i]
		d := s.due(now)
		if err := f.cancel(ctx, s, d.cancel); err != nil {
			wrong = append(wrong, err) // the schedule stays due
			continue
		}
		b.add(s, d.part, func(at int64) int64 {
			return at + s.times.jitter(&s.Schedule.Schedule, at)
		})
		if b.size >= fireBatchMax {
			if err := f.commit(ctx, b); err != nil {
				return errors.Join(append(wrong, err)...)
			}
			b = fireBatch{}
		}
	}
	return errors.Join(append(wrong, f.commit(ctx, b))...)
}

// commit writes a batch. If the store refused a part of it, or more is due already, the next round
// comes soon.
func (f *Firer) commit(ctx context.Context, b fireBatch) error {
	done, err := f.sendOrSkip(ctx, b)
	if err != nil {
		return err
	}
	now := f.now()
	for i, part := range done {
		for k := range part.Fires {
			f.conf.Handled(&part.Fires[k])
		}
		switch asked := &b.parts[i]; {
		case part.Refused == store.FireMoved || part.Refused == "" && asked.Then <= now:
			f.soon(0)
		case part.Refused == store.FireEarly:
			f.soon(lateness(now, asked.Next))
		}
	}
	return nil
}

// sendOrSkip sends a batch. A due time whose task is refused, for example because its queue takes
// no context of that size, is written as skipped, with the reason.
func (f *Firer) sendOrSkip(ctx context.Context, b fireBatch) (done []store.FiredPart, err error) {
	got, err := f.send(ctx, b)
	invalid := (*task.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return got.Parts, err
	}
	for i := range b.parts {
		one := fireBatch{parts: b.parts[i : i+1], tasks: b.tasks[i : i+1]}
		if got, err = f.send(ctx, one); errors.As(err, &invalid) {
			one.skip("its task is refused: " + invalid.Error())
			got, err = f.send(ctx, one)
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

// soon lets the next round begin after wait, at most a beat. It waits for 10 ms at least, because
// another node may be about to do the same.
func (f *Firer) soon(wait time.Duration) {
	const pause = 10 * time.Millisecond
	f.conf.Clock.After(min(max(wait, pause), f.conf.Beat), f.Hear)
}

// send plans the tasks of a batch and writes them with its rows. It tries again after an unknown
// outcome: if the first try was committed, the store refuses or leaves the same parts.
func (f *Firer) send(ctx context.Context, b fireBatch) (got store.Fired, err error) {
	if len(b.parts) == 0 {
		return got, nil
	}
	const tries = 3
	firing := store.Firing{Node: f.conf.Node, Parts: b.parts}
	for try := range tries {
		if try == 0 || errors.Is(err, store.ErrConflict) { // the clock went back: the ids are taken
			if err := f.draft(ctx, &b, &firing); err != nil {
				return got, err
			}
		}
		if got, err = f.store.Fire(ctx, firing); err == nil {
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
	f.hint(&b)
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
func (f *Firer) draft(ctx context.Context, b *fireBatch, firing *store.Firing) error {
	tasks := slices.Concat(b.tasks...)
	if len(tasks) == 0 {
		return nil
	}
	sub, ids, err := f.conf.Tasks.Draft(ctx, tasks)
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
func (f *Firer) hint(b *fireBatch) {
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
		f.conf.Tasks.Hear(queue, nil)
	}
}

// cancel cancels the tasks that a new one replaces. A task that is final already, or gone, is left
// alone.
func (f *Firer) cancel(ctx context.Context, s *scheduleState, list []task.ID) error {
	for _, id := range list {
		err := f.conf.Tasks.Act(ctx, task.KindCancelled, "schedule "+s.Name, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("replace the task %s of schedule %q: %w", id, s.Name, err)
		}
	}
	return nil
}

// states reads what decisions about schedules need. A schedule that this node can't read is left
// out.
func (f *Firer) states(ctx context.Context, list []*store.Schedule) ([]scheduleState, error) {
	if len(list) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(list))
	var guarded []string
	for _, s := range list {
		names = append(names, s.Name)
		if s.Overlap != task.OverlapAllow {
			guarded = append(guarded, s.Name)
		}
	}
	followers, err := f.followers(ctx, names)
	if err != nil {
		return nil, err
	}
	open, err := f.open(ctx, guarded)
	if err != nil {
		return nil, err
	}
	states := make([]scheduleState, 0, len(list))
	for _, s := range list {
		t, err := f.times.of(s)
		if err != nil {
			f.unreadable(s, err)
			continue
		}
		states = append(states, scheduleState{
			Schedule: s, times: t, open: open[s.Name], followed: len(followers[s.Name]) > 0,
		})
	}
	return states, nil
}

// unreadable logs, once for each version of a schedule, that this node can't tell when it is due:
// the node is older than the one that accepted the schedule, or lacks its time zone.
func (f *Firer) unreadable(s *store.Schedule, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faulty[s.Name] != s.Version {
		f.faulty[s.Name] = s.Version
		f.conf.Log.Error("this node can't fire a schedule", "schedule", s.Name, "error", err)
	}
}

// followers are the schedules that follow the named ones, by the names that they follow.
func (f *Firer) followers(
	ctx context.Context, names []string,
) (map[string][]*store.Schedule, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := f.store.Schedules(ctx, store.ScheduleQuery{Follows: names})
	if err != nil {
		return nil, fmt.Errorf("read followers: %w", err)
	}
	by := map[string][]*store.Schedule{}
	for i := range list {
		for _, parent := range list[i].Parents() {
			by[parent] = append(by[parent], &list[i])
		}
	}
	return by, nil
}

// open are the open fires of schedules, by their names.
func (f *Firer) open(ctx context.Context, names []string) (map[string][]store.OpenFire, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := f.store.OpenFires(ctx, store.OpenQuery{Schedules: names})
	if err != nil {
		return nil, fmt.Errorf("read open fires: %w", err)
	}
	by := map[string][]store.OpenFire{}
	for i := range list {
		by[list[i].Schedule] = append(by[list[i].Schedule], list[i])
	}
	return by, nil
}
