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

// volley is what one transaction fires: parts, and the tasks of those of their fires that are fired, in their order.
type volley struct {
	parts []store.FirePart
	tasks [][]task.Submission // by part
	size  int                 // rows
}

// volleyMax is about how many rows one transaction writes, so that it keeps no others waiting for long.
const volleyMax = 1000

// add adds a part. due says when the tasks of its fires are due.
func (v *volley) add(s *subject, p store.FirePart, due func(at int64) int64) {
	var tasks []task.Submission
	for i := range p.Fires {
		if f := &p.Fires[i]; f.Outcome == task.FireFired {
			tasks = append(tasks, s.submission(due(f.At)))
		}
	}
	v.parts = append(v.parts, p)
	v.tasks = append(v.tasks, tasks)
	v.size += len(p.Fires)
}

// fire handles what is due of schedules, in a few transactions.
func (f *Firer) fire(ctx context.Context, due []*store.Schedule, now int64) error {
	subjects, err := f.subjects(ctx, due)
	if err != nil {
		return err
	}
	var v volley
	var wrong []error
	for i := range subjects {
		s := &subjects[i]
		r := s.due(now)
		if err := f.cancel(ctx, s, r.cancel); err != nil {
			wrong = append(wrong, err) // it stays due
			continue
		}
		v.add(s, r.part, func(at int64) int64 { return at + s.times.jitter(&s.Schedule.Schedule, at) })
		if v.size >= volleyMax {
			if err := f.shoot(ctx, v); err != nil {
				return errors.Join(append(wrong, err)...)
			}
			v = volley{}
		}
	}
	return errors.Join(append(wrong, f.shoot(ctx, v))...)
}

// shoot fires a volley of due times, and sees to it that what was not done is looked at again soon.
func (f *Firer) shoot(ctx context.Context, v volley) error {
	done, err := f.sendOrSkip(ctx, v)
	if err != nil {
		return err
	}
	now := f.now()
	for i, part := range done {
		switch asked := &v.parts[i]; {
		case part.Refused == store.FireMoved || part.Refused == "" && asked.Then <= now:
			f.soon(0)
		case part.Refused == store.FireEarly:
			f.soon(lateness(now, asked.Next))
		}
	}
	return nil
}

// sendOrSkip is send, but the due times whose tasks are refused, as they are when a queue takes no context of that size, are skipped and say so.
func (f *Firer) sendOrSkip(ctx context.Context, v volley) (done []store.FiredPart, err error) {
	got, err := f.send(ctx, v)
	invalid := (*task.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return got.Parts, err
	}
	for i := range v.parts {
		one := volley{parts: v.parts[i : i+1], tasks: v.tasks[i : i+1]}
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

// skip lets the due times of a volley that were to be fired be skipped.
func (v *volley) skip(reason string) {
	for i := range v.parts {
		v.tasks[i] = nil
		for k := range v.parts[i].Fires {
			if f := &v.parts[i].Fires[k]; f.Outcome == task.FireFired {
				f.Outcome, f.Reason, f.Watch = task.FireSkipped, reason, false
			}
		}
	}
}

// soon lets the next round come after a while, a short one at least: others may be at the same.
func (f *Firer) soon(wait time.Duration) {
	const pause = 10 * time.Millisecond
	f.conf.Clock.After(min(max(wait, pause), f.conf.Beat), f.Hear)
}

// send drafts the tasks of a volley and writes them down with its rows. Done again after an unknown outcome it finds what it had done refused, or left.
func (f *Firer) send(ctx context.Context, v volley) (got store.Fired, err error) {
	if len(v.parts) == 0 {
		return got, nil
	}
	const tries = 3
	firing := store.Firing{Node: f.conf.Node, Parts: v.parts}
	for try := range tries {
		if try == 0 || errors.Is(err, store.ErrConflict) { // the clock went back: other ids
			if err := f.draft(ctx, &v, &firing); err != nil {
				return got, err
			}
		}
		if got, err = f.store.Fire(ctx, firing); err == nil {
			break
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return got, fmt.Errorf("fire %d schedules: %w", len(v.parts), err)
		}
		if try+1 < tries {
			if err := pause(ctx, time.Duration(1+try)*20*time.Millisecond); err != nil {
				return got, err
			}
		}
	}
	f.hint(&v)
	if err != nil {
		return got, fmt.Errorf("fire %d schedules: %w", len(v.parts), err)
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

// draft plans the tasks, and says in the rows which they are.
func (f *Firer) draft(ctx context.Context, v *volley, firing *store.Firing) error {
	tasks := slices.Concat(v.tasks...)
	if len(tasks) == 0 {
		return nil
	}
	sub, ids, err := f.conf.Tasks.Draft(ctx, tasks)
	if err != nil {
		return fmt.Errorf("draft %d tasks: %w", len(tasks), err)
	}
	firing.NewQueues, firing.Batches = sub.NewQueues, sub.Batches
	for i := range v.parts {
		fires := v.parts[i].Fires
		for k := range fires {
			if fires[k].Outcome == task.FireFired {
				fires[k].Task, ids = ids[0], ids[1:]
			}
		}
	}
	return nil
}

// hint tells the dispatcher which queues have tasks.
func (f *Firer) hint(v *volley) {
	const few = 16
	queues := map[string]bool{}
	for _, tasks := range v.tasks {
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

// cancel ends the tasks that one takes the place of. One that is over already needs no end.
func (f *Firer) cancel(ctx context.Context, s *subject, list []task.ID) error {
	for _, id := range list {
		err := f.conf.Tasks.Act(ctx, task.KindCancelled, "schedule "+s.Name, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("replace the task %s of schedule %q: %w", id, s.Name, err)
		}
	}
	return nil
}

// subjects reads what decisions about schedules need besides. One that this node can't read is passed over.
func (f *Firer) subjects(ctx context.Context, list []*store.Schedule) ([]subject, error) {
	if len(list) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(list))
	var guarded []string
	for _, s := range list {
		if names = append(names, s.Name); s.Overlap != task.OverlapAllow {
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
	subjects := make([]subject, 0, len(list))
	for _, s := range list {
		t, err := f.times.of(s)
		if err != nil {
			f.unreadable(s, err)
			continue
		}
		subjects = append(subjects, subject{Schedule: s, times: t, open: open[s.Name], followed: len(followers[s.Name]) > 0})
	}
	return subjects, nil
}

// unreadable says once of a schedule that this node can't tell when it is due: its rota is older than the one that took it, or lacks a zone.
func (f *Firer) unreadable(s *store.Schedule, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faulty[s.Name] != s.Version {
		f.faulty[s.Name] = s.Version
		f.conf.Log.Error("this node can't fire a schedule", "schedule", s.Name, "error", err)
	}
}

// followers are the schedules that follow others, by the name of those.
func (f *Firer) followers(ctx context.Context, names []string) (map[string][]*store.Schedule, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := f.store.Schedules(ctx, store.ScheduleQuery{Follows: names})
	if err != nil {
		return nil, fmt.Errorf("read followers: %w", err)
	}
	by := map[string][]*store.Schedule{}
	for i := range list {
		by[list[i].After] = append(by[list[i].After], &list[i])
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
