package firing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// editTries is how often an edit is made again when somebody else changed or fired a schedule
// between its reading and its writing.
const editTries = 10

// edits are what people make of schedules and calendars. What is due by then is fired first.
type edits struct {
	*core
	checker *checker
	reads   *reads
	writes  *writes
	claims  *claims
}

// Put makes schedules be what edits say, all or none. What is due by then is handled by what they
// were. *task.InvalidError, below body when it is one edit, else below body.schedules[i];
// store.ErrStale when one is not the version any more that its edit was made from; store.ErrBusy
// when others change them all the time.
func (ed *edits) Put(ctx context.Context, edits ...store.ScheduleEdit) ([]store.Edited, error) {
	if len(edits) == 0 {
		return nil, nil
	}
	names := make([]string, len(edits))
	for i := range edits {
		names[i] = edits[i].Name
	}
	var out []store.Edited
	err := ed.edit(ctx, func() error {
		before, err := ed.settled(ctx, store.ScheduleQuery{Names: names})
		if err != nil {
			return err
		}
		if err := stale(edits, before); err != nil {
			return err
		}
		change, err := ed.checker.draw(ctx, edits, before)
		if err != nil {
			return err
		}
		stand, err := ed.change(ctx, change)
		if err != nil {
			return err
		}
		out = make([]store.Edited, len(stand))
		for i, v := range ed.claims.withOwners(stand) {
			out[i] = store.Edited{ScheduleView: v, Created: before[v.Name] == nil}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("put schedules: %w", err)
	}
	return out, nil
}

// stale is store.ErrStale when a schedule is not what its edit was made from.
func stale(edits []store.ScheduleEdit, before map[string]*store.Schedule) error {
	for i := range edits {
		version := int64(store.FromNone)
		if s := before[edits[i].Name]; s != nil {
			version = s.Version
		}
		if edits[i].From != 0 && edits[i].From != version {
			return fmt.Errorf("schedule %q: %w", edits[i].Name, store.ErrStale)
		}
	}
	return nil
}

// edit makes a change, again when it met another one, or when nobody knows whether it was made.
func (ed *edits) edit(ctx context.Context, change func() error) (err error) {
	for try := range editTries {
		err = change()
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnknown) {
			break
		}
		if err := pause(ctx, time.Duration(1+try)*5*time.Millisecond); err != nil {
			return err
		}
	}
	ed.Hear() // what is due next may be due earlier
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: others change it all the time: %v", store.ErrBusy, err)
	}
	return err
}

// change makes a change that was checked. What it refers to may be gone since: then it is checked
// again.
func (ed *edits) change(ctx context.Context, c store.ScheduleChange) ([]store.Schedule, error) {
	stand, err := ed.store.ChangeSchedules(ctx, c)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: %v", store.ErrConflict, err)
	}
	return stand, err
}

// settled reads schedules, by name, and fires what is due of them first.
func (ed *edits) settled(
	ctx context.Context, q store.ScheduleQuery,
) (map[string]*store.Schedule, error) {
	var by map[string]*store.Schedule
	for {
		list, err := ed.store.Schedules(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read schedules: %w", err)
		}
		now, before := ed.now(), by
		by = make(map[string]*store.Schedule, len(list))
		var due []*store.Schedule
		moved := before == nil
		for i := range list {
			s := &list[i]
			if by[s.Name] = s; s.Next <= now {
				due = append(due, s)
				moved = moved || before[s.Name] == nil || before[s.Name].Next != s.Next
			}
		}
		if len(due) == 0 || !moved { // what did not move is not due yet, by the store's clock
			return by, nil
		}
		if err := ed.writes.fire(ctx, due, now); err != nil {
			return nil, err
		}
	}
}

// again is the edit that leaves a schedule as it is.
func again(s *store.Schedule) store.ScheduleEdit {
	e := store.ScheduleEdit{Schedule: s.Schedule}
	if s.First >= s.Next {
		e.First = s.First
	}
	return e
}

// Pause lets a schedule's due times leave rows only, or submit tasks again. store.ErrNotFound.
func (ed *edits) Pause(ctx context.Context, name string, paused bool) (store.ScheduleView, error) {
	s, err := ed.reads.one(ctx, name)
	if err != nil {
		return store.ScheduleView{}, err
	}
	out := []store.Schedule{*s}
	err = ed.edit(ctx, func() error {
		before, err := ed.settled(ctx, store.ScheduleQuery{Names: []string{name}})
		if err != nil {
			return err
		}
		if s = before[name]; s == nil {
			return fmt.Errorf("schedule %q: %w", name, store.ErrNotFound)
		}
		if out[0] = *s; s.Paused == paused {
			return nil
		}
		to := again(s)
		to.Paused = paused
		change, err := ed.checker.draw(ctx, []store.ScheduleEdit{to}, before)
		if err != nil {
			return err
		}
		stand, err := ed.change(ctx, change)
		if err == nil {
			out = stand
		}
		return err
	})
	if err != nil {
		return store.ScheduleView{}, err
	}
	return ed.claims.withOwners(out)[0], nil
}

// Delete forgets a schedule and what came of its due times; tasks stay. store.ErrNotFound;
// store.ErrConflict when another one follows it.
func (ed *edits) Delete(ctx context.Context, name string) error {
	return ed.store.DeleteSchedule(ctx, name)
}

// PutCalendar creates or replaces a calendar. What is due by then of the schedules that have it is
// handled by its old days. *task.InvalidError.
func (ed *edits) PutCalendar(ctx context.Context, c task.Calendar) (created bool, err error) {
	var e task.InvalidError
	if limits.CheckCalendar(&c, &e, "body"); e.Err() != nil {
		return false, &e
	}
	err = ed.edit(ctx, func() error {
		before, err := ed.settled(ctx, store.ScheduleQuery{Calendar: c.Name})
		if err != nil {
			return err
		}
		list, err := ed.store.Calendars(ctx)
		if err != nil {
			return err
		}
		created = !slices.ContainsFunc(list, func(old task.Calendar) bool {
			return old.Name == c.Name
		})
		change, err := ed.redraw(&c, before)
		if err != nil {
			return err
		}
		_, err = ed.change(ctx, change)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("put calendar %q: %w", c.Name, err)
	}
	return created, nil
}

// redraw draws up the change of a calendar, and with it of the schedules that have it.
func (ed *edits) redraw(
	c *task.Calendar, before map[string]*store.Schedule,
) (store.ScheduleChange, error) {
	var e task.InvalidError
	change := store.ScheduleChange{Calendar: c}
	known := references{calendars: map[string]*task.Calendar{c.Name: c}}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		edit := again(before[name])
		change.Puts = append(change.Puts,
			ed.checker.put(&e, "schedule "+name, &edit, before[name], known))
	}
	return change, e.Err()
}

// DeleteCalendar forgets a calendar. store.ErrNotFound; store.ErrConflict when a schedule has it.
func (ed *edits) DeleteCalendar(ctx context.Context, name string) error {
	return ed.store.DeleteCalendar(ctx, name)
}
