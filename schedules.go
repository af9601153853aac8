package rota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/firing"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

var (
	_ api.Schedules = (*firing.Firer)(nil)
	_ api.Fires     = (*firing.Firer)(nil)
	_ api.Almanac   = (*firing.Firer)(nil)
)

// openSchedules makes the firer. It fires nothing by itself before Run.
func (n *Node) openSchedules() (err error) {
	n.firer, err = firing.New(firing.Config{
		Store: n.store, Tasks: n.tasks, Clock: n.clock, Node: n.conf.Name, Now: n.storeTime,
		Beat: n.conf.Beat, Alone: n.alone(), Log: n.log,
		Owners: func() map[string]string {
			return n.rounds.Cluster().Owned
		}, EventsAdded: n.sender.Look,
	})
	if err != nil {
		return err
	}
	look := func(ctx context.Context, c scheduler.Claim) { n.firer.Look(ctx, c.Key) }
	return n.rounds.Claim(scheduler.Kind{Name: firing.Kind, Keys: n.firer.Keys, Look: look})
}

// PutSchedule creates a schedule or changes it, as the client's PutSchedule does: what the change
// does not give stays as it is, a pause and an operator's settings included, or gets its default in
// a new schedule, which needs Queue, and Cron or After. What is due by then is handled by what it
// was. *task.InvalidError, ErrBusy.
func (n *Node) PutSchedule(ctx context.Context, name string, change client.ScheduleChange) error {
	var next *int64
	if change.Next != nil {
		next = new(microsOf(*change.Next))
	}
	for range changeTries {
		views, err := n.firer.Schedules(ctx, store.ScheduleQuery{Names: []string{name}})
		if err != nil {
			return err
		}
		var was *store.ScheduleView
		if len(views) > 0 {
			was = &views[0]
		}
		if _, err = n.firer.Put(
			ctx, store.Amend(name, was, change.Apply, next),
		); !errors.Is(err, store.ErrStale) {
			return err
		}
	}
	return fmt.Errorf("put schedule %q: %w: others change it all the time", name, ErrBusy)
}

// changeTries is how often a change of a schedule is made again that another one has overtaken.
const changeTries = 10

// PauseSchedule lets a schedule's due times leave rows that say so, and no tasks; or, with false,
// submit tasks again. ErrNotFound.
func (n *Node) PauseSchedule(ctx context.Context, name string, paused bool) error {
	_, err := n.firer.Pause(ctx, name, paused)
	return err
}

// DeleteSchedule forgets a schedule and what came of its due times. Its tasks stay. ErrNotFound,
// ErrConflict when another schedule follows it.
func (n *Node) DeleteSchedule(ctx context.Context, name string) error {
	return n.firer.Delete(ctx, name)
}

// Schedule says how a schedule stands. ErrNotFound.
func (n *Node) Schedule(ctx context.Context, name string) (ScheduleStatus, error) {
	list, err := n.firer.Schedules(ctx, store.ScheduleQuery{Names: []string{name}, Last: true})
	if err != nil {
		return ScheduleStatus{}, err
	}
	if len(list) == 0 {
		return ScheduleStatus{}, fmt.Errorf("schedule %q: %w", name, ErrNotFound)
	}
	return statusOf(&list[0]), nil
}

// Schedules lists all schedules, by name, and how they stand.
func (n *Node) Schedules(ctx context.Context) ([]ScheduleStatus, error) {
	var all []ScheduleStatus
	q := store.ScheduleQuery{Last: true, Limit: maxPage}
	for {
		list, err := n.firer.Schedules(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range list {
			all = append(all, statusOf(&list[i]))
		}
		if len(list) < q.Limit {
			return all, nil
		}
		q.After = list[len(list)-1].Name
	}
}

// ScheduleStatus is a schedule and how it stands.
type ScheduleStatus struct {
	task.Schedule
	Next        time.Time // the next due time; zero = there is none, or it follows another schedule
	Last        time.Time // the newest due time that was fired; zero = none was yet
	LastTask    task.ID
	LastOutcome string // fired, or how LastTask ended once it is final
	Owner       string // the node that fires it; "" = none does just now
}

func statusOf(v *store.ScheduleView) ScheduleStatus {
	s := ScheduleStatus{Schedule: v.Schedule.Schedule, LastOutcome: v.LastOutcome(), Owner: v.Owner}
	if v.Next != store.Never {
		s.Next = timeAt(v.Next)
	}
	if v.Last != nil {
		s.Last, s.LastTask = timeAt(v.Last.At), v.Last.Task
	}
	return s
}

// RunSchedule submits a schedule's task now, whether or not it is paused and whatever it says of
// overlap. ErrNotFound, ErrOutcomeUnknown.
func (n *Node) RunSchedule(ctx context.Context, name string) (task.ID, error) {
	fire, err := n.firer.RunNow(ctx, name)
	return fire.Task, err
}
