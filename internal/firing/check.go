package firing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// checker checks edits, by what they refer to, before anything is changed.
type checker struct {
	*core
	reads *reads
}

// draw checks edits, and draws up the change that makes them. before are the schedules that stand.
func (c *checker) draw(
	ctx context.Context, edits []store.ScheduleEdit, before map[string]*store.Schedule,
) (store.ScheduleChange, error) {
	var e task.InvalidError
	if len(edits) > limits.MaxSchedules {
		e.Add("body.schedules", "%d are too many: at most %d in one call", len(edits),
			limits.MaxSchedules)
		return store.ScheduleChange{}, &e
	}
	known, err := c.references(ctx, edits)
	if err != nil {
		return store.ScheduleChange{}, err
	}
	change := store.ScheduleChange{Puts: make([]store.SchedulePut, len(edits))}
	for i := range edits {
		location := "body"
		if len(edits) > 1 {
			location = fmt.Sprintf("body.schedules[%d]", i)
		}
		change.Puts[i] = c.put(&e, location, &edits[i], before[edits[i].Name], known)
		if len(e.Fields) >= limits.MaxFaults {
			break
		}
	}
	return change, e.Err()
}

// references are what schedules may refer to by name.
type references struct {
	calendars map[string]*task.Calendar
	after     map[string][]string // by schedule: those that it follows
	circle    []string            // that they would make; nil = none
}

// references reads what the edits refer to.
func (c *checker) references(ctx context.Context, edits []store.ScheduleEdit) (references, error) {
	known := references{after: map[string][]string{}}
	var leaders []string
	for i := range edits {
		leaders = append(leaders, edits[i].Parents()...)
		if edits[i].Calendar != "" && known.calendars == nil {
			list, err := c.store.Calendars(ctx)
			if err != nil {
				return known, fmt.Errorf("read calendars: %w", err)
			}
			known.calendars = map[string]*task.Calendar{}
			for k := range list {
				known.calendars[list[k].Name] = &list[k]
			}
		}
	}
	above, err := c.reads.ancestors(ctx, leaders, nil)
	for name, is := range above {
		known.after[name] = is.Parents()
	}
	puts := make([]store.SchedulePut, len(edits))
	for i := range edits {
		puts[i].Schedule = edits[i].Schedule
		known.after[edits[i].Name] = edits[i].Parents()
	}
	known.circle = store.Circle(puts, known.after)
	return known, err
}

// put checks an edit, and says what is to be put in the place of what stands, nil when nothing
// does.
func (c *checker) put(
	e *task.InvalidError, location string, edit *store.ScheduleEdit, before *store.Schedule,
	known references,
) store.SchedulePut {
	p := store.SchedulePut{Schedule: edit.Schedule, First: edit.First / 1000 * 1000, Since: c.now()}
	if before != nil {
		p.Version, p.Next = before.Version, before.Next
		p.Since = c.since(before, p.Since)
		if p.First == before.First && before.First < before.Next {
			p.First = 0 // it came meanwhile
		}
	}
	n := len(e.Fields)
	limits.CheckSchedule(&edit.Schedule, e, location)
	if json.Valid(edit.Context) {
		// else Check has said so; the rest of what messages want of a value
		if problem := wire.CheckValue(edit.Context); problem != "" {
			e.Add(location+".context", "%s", problem)
		}
	}
	known.check(e, location, edit)
	t := c.table(e, location, edit, known)
	if t != nil && p.First != 0 {
		switch {
		case edit.After != "":
			e.Add(location+".next", "can't be chosen: the schedule follows another one")
		case edit.Manual:
			e.Add(location+".next", "can't be chosen: the schedule is manual")
		case p.First <= p.Since:
			e.Add(location+".next", "%s is not in the future", t.show(p.First))
		case p.First < t.starts || p.First > t.ends:
			e.Add(location+".next", "%s is not between starts and ends", t.show(p.First))
		}
	}
	if len(e.Fields) == n {
		t.first = p.First
		p.Then, p.Days = t.next(p.Since), known.calendars[edit.Calendar]
	}
	return p
}

// since is from when on another version of a schedule holds that is made now: not before the last
// due time that was handled, which can lie in the future when the store's clock was set back, and
// before the next one.
func (c *checker) since(s *store.Schedule, now int64) int64 {
	since := max(min(now, s.Next-1), s.Since)
	if t, err := c.times.of(s); err == nil {
		for at := t.next(since); at < s.Next; at = t.next(at) {
			since = at
		}
	}
	return since
}

// check checks what a schedule refers to.
func (r *references) check(e *task.InvalidError, location string, edit *store.ScheduleEdit) {
	if edit.Calendar != "" && r.calendars[edit.Calendar] == nil {
		e.Add(location+".calendar", "there is no calendar %q", edit.Calendar)
	}
	if edit.After == "" {
		if edit.Calendar != "" && edit.Manual {
			e.Add(location+".calendar", "is for schedules with cron: this one is manual")
		}
		return
	}
	if edit.Calendar != "" {
		e.Add(location+".calendar", "is for schedules with cron: this one is due whenever %q was",
			edit.After)
	}
	for _, parent := range edit.Parents() {
		if _, ok := r.after[parent]; !ok {
			e.Add(location+".after", "there is no schedule %q", parent)
			return
		}
	}
	// one that follows itself is refused for that
	if i := slices.Index(r.circle, edit.Name); i >= 0 && len(r.circle) > 1 {
		e.Add(location+".after", "makes a circle: %s",
			store.CircleText(slices.Concat(r.circle[i:], r.circle[:i])))
	}
}

// table makes the timetable of a schedule that is to be, nil when there is none.
func (c *checker) table(
	e *task.InvalidError, location string, edit *store.ScheduleEdit, known references,
) *timetable {
	s := store.Schedule{Schedule: edit.Schedule, Days: known.calendars[edit.Calendar]}
	t, err := c.times.of(&s)
	if errors.Is(err, errZone) { // the expression may be wrong, too
		addFault(e, location, err)
		s.Zone = ""
		t, err = c.times.of(&s)
	}
	if err != nil {
		addFault(e, location, err)
		return nil
	}
	return t
}
