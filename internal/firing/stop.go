package firing

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// EventStopped is the kind of events about schedules that were paused because their task is dead.
const EventStopped = EventPrefix + "stopped"

// stops tells whether an open fire is one whose task's death pauses its schedule.
func (s *scheduleState) stops(o *store.OpenFire) bool {
	return s.OnDead == task.OnDeadStop && o.Outcome == task.FireFired && o.Found && o.Final &&
		failed(o.Kind)
}

// stop pauses a schedule because a task of it is dead, and closes the fire of that task in the same
// transaction: so it is paused once for each death, and whoever resumes it is not overruled by a
// node that is late. The event is there before; its key is made of the death.
func (w *watcher) stop(
	ctx context.Context, s *scheduleState, o *store.OpenFire, end store.FireEnd,
) error {
	if !s.Paused {
		if _, err := w.store.Append(ctx, []store.Event{s.stopped(o)}); err != nil {
			return fmt.Errorf("append that schedule %q is stopped: %w", s.Name, err)
		}
		w.conf.EventsAdded()
	}
	err := w.edits.edit(ctx, func() error {
		open, err := w.stillOpen(ctx, end)
		if err != nil || !open {
			return err
		}
		before, err := w.edits.settled(ctx, store.ScheduleQuery{Names: []string{s.Name}})
		if err != nil {
			return err
		}
		is := before[s.Name]
		switch {
		case is == nil:
			return nil
		case is.OnDead != task.OnDeadStop: // it was changed meanwhile
			return w.end(ctx, []store.FireEnd{end})
		}
		to := again(is)
		to.Paused = true
		change, err := w.checker.draw(ctx, []store.ScheduleEdit{to}, before)
		if err != nil {
			return err
		}
		change.Ends = []store.FireEnd{end}
		_, err = w.edits.change(ctx, change)
		return err
	})
	if err != nil {
		return fmt.Errorf("stop schedule %q: %w", s.Name, err)
	}
	return nil
}

// stillOpen tells whether nobody has written down yet how a fire's task ended.
func (w *watcher) stillOpen(ctx context.Context, e store.FireEnd) (bool, error) {
	list, err := w.store.Fires(ctx, store.FireQuery{Schedule: e.Schedule, From: e.At, To: e.At + 1})
	if err != nil {
		return false, fmt.Errorf("read the fire: %w", err)
	}
	for i := range list {
		if row := &list[i]; row.At == e.At {
			return row.Open() && row.Task == e.Task && row.Seq <= e.Seq, nil
		}
	}
	return false, nil
}

// stopped is the event that a schedule was paused because a task of it is dead.
func (s *scheduleState) stopped(o *store.OpenFire) store.Event {
	text := fmt.Sprintf("schedule %s is paused: the task of %s (%s) is dead", s.Name,
		s.times.show(o.At), o.Task)
	fields := map[string]string{
		"at":   time.UnixMicro(o.At).UTC().Format("2006-01-02T15:04:05.000Z"),
		"task": o.Task.String(), "queue": s.Queue,
	}
	if o.Error != "" {
		text += ": " + o.Error
		fields["error"] = o.Error
	}
	return store.Event{
		Key:  fmt.Sprintf("%s/%s/%s/%d", EventStopped, s.Name, o.Task, o.Step),
		Kind: EventStopped, Subject: s.Name, Fields: fields,
		Text: text + "; rota schedule resume lets it go on",
	}
}
