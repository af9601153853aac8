package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/task"
)

// spec is what a schedule says as stores keep it: all but its name. Context is no RawMessage, which
// would lose its spaces.
type spec struct {
	Title       string `json:"title,omitempty"`
	Responsible string `json:"responsible,omitempty"`

	Cron     string `json:"cron,omitempty"`
	After    string `json:"after,omitempty"` // names with commas between them
	Manual   bool   `json:"manual,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Calendar string `json:"calendar,omitempty"`
	Starts   int64  `json:"starts,omitempty"`
	Ends     int64  `json:"ends,omitempty"`
	Paused   bool   `json:"paused,omitempty"`

	Queue       string            `json:"queue"`
	Stage       string            `json:"stage,omitempty"`
	Context     []byte            `json:"context,omitempty"`
	Priority    time.Duration     `json:"priority,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Timeout     time.Duration     `json:"timeout,omitempty"`
	StartWithin time.Duration     `json:"start_within,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`

	// defaults are left out: a spec that was written before there were these is equal
	AfterMode  task.AfterMode `json:"after_mode,omitempty"`
	AfterOn    task.AfterOn   `json:"after_on,omitempty"`
	AfterDelay time.Duration  `json:"after_delay,omitempty"`
	Parallel   int            `json:"parallel,omitempty"`
	OnDead     task.OnDead    `json:"on_dead,omitempty"`

	Overlap       task.Overlap  `json:"overlap"`
	Misfire       task.Misfire  `json:"misfire"`
	MisfireWindow time.Duration `json:"misfire_window"`
	JitterShare   float64       `json:"jitter_share,omitempty"`
	JitterMax     time.Duration `json:"jitter_max,omitempty"`
	On            []task.Notice `json:"on,omitempty"`
	Origins       []task.Origin `json:"origins,omitempty"`
	Slow          time.Duration `json:"slow,omitempty"`
}

// Spec is what a schedule says as stores keep it. Two schedules of one name that have the same one
// are equal: times that differ by less than a microsecond, or by their location, don't count.
func Spec(s *task.Schedule) ([]byte, error) {
	return json.Marshal(spec{
		Title: s.Title, Responsible: s.Responsible,
		Cron: s.Cron, After: s.After, Manual: s.Manual, Zone: s.Zone, Calendar: s.Calendar,
		Starts: micros(s.Starts), Ends: micros(s.Ends), Paused: s.Paused,
		AfterMode: unless(task.AfterAll, s.AfterMode), AfterOn: unless(task.AfterDone, s.AfterOn),
		AfterDelay: s.AfterDelay, Parallel: s.Parallel,
		OnDead: unless(task.OnDeadContinue, s.OnDead),
		Queue:  s.Queue, Stage: s.Stage, Context: s.Context, Priority: s.Priority,
		MaxAttempts: s.MaxAttempts, Timeout: s.Timeout, StartWithin: s.StartWithin, Meta: s.Meta,
		Overlap: s.Overlap, Misfire: s.Misfire, MisfireWindow: s.MisfireWindow,
		JitterShare: s.Jitter.Share, JitterMax: s.Jitter.Max,
		On: s.Notices.On, Origins: s.Notices.Origins, Slow: s.Notices.Slow,
	})
}

// unless is a word for a column, "" when it is the default.
func unless[T ~string](usual, word T) T {
	if word == usual {
		return ""
	}
	return word
}

// SetSpec is the inverse of Spec; the name stays.
func (s *Schedule) SetSpec(b []byte) error {
	var c spec
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("read schedule %q: %w", s.Name, err)
	}
	s.Schedule = task.Schedule{
		Name: s.Name, Title: c.Title, Responsible: c.Responsible,
		Cron: c.Cron, After: c.After, Manual: c.Manual, Zone: c.Zone,
		Calendar: c.Calendar, Starts: instant(c.Starts), Ends: instant(c.Ends), Paused: c.Paused,
		AfterMode:  cmp.Or(c.AfterMode, task.AfterAll),
		AfterOn:    cmp.Or(c.AfterOn, task.AfterDone),
		AfterDelay: c.AfterDelay, Parallel: c.Parallel,
		OnDead: cmp.Or(c.OnDead, task.OnDeadContinue),
		Queue:  c.Queue, Stage: c.Stage, Context: c.Context, Priority: c.Priority,
		MaxAttempts: c.MaxAttempts, Timeout: c.Timeout, StartWithin: c.StartWithin, Meta: c.Meta,
		Overlap: c.Overlap, Misfire: c.Misfire, MisfireWindow: c.MisfireWindow, Jitter: task.Jitter{
			Share: c.JitterShare, Max: c.JitterMax,
		},
		Notices: task.Notices{On: c.On, Origins: c.Origins, Slow: c.Slow},
	}
	return nil
}

// Become is what p makes of the schedule that was there, nil = none: a new version that begins at
// p.Since, or, changed false, the same. days are those of the calendar that p names, and replaced
// says that the same change replaces it. past is the greatest version of any schedule that is gone.
// ErrConflict: see SchedulePut.
func (p *SchedulePut) Become(
	was *Schedule, days *task.Calendar, replaced bool, past, now int64,
) (is Schedule, changed bool, err error) {
	text, err := Spec(&p.Schedule)
	if err != nil {
		return is, false, err
	}
	is = Schedule{
		Schedule: task.Schedule{Name: p.Name}, Version: past + 1, Since: p.Since, First: p.First,
		Next: p.Then, Created: now,
	}
	if err := is.SetSpec(text); err != nil {
		return is, false, err
	}
	if was == nil {
		if p.Version != 0 {
			return is, false, fmt.Errorf("schedule %q is gone: %w", p.Name, ErrConflict)
		}
		return is, true, p.sawDays(days)
	}
	old, err := Spec(&was.Schedule)
	if err != nil {
		return is, false, err
	}
	// none is chosen, or what was chosen is handled
	first := p.First == was.First || p.First == 0 && was.First < was.Next
	switch {
	case first && !replaced && bytes.Equal(old, text):
		return *was, false, nil
	case p.Version != was.Version || p.Next != was.Next:
		return is, false,
			fmt.Errorf("schedule %q was changed or fired meanwhile: %w", p.Name, ErrConflict)
	case p.Since >= was.Next || p.Since < was.Since:
		return is, false, fmt.Errorf("schedule %q is due at %d: %w", p.Name, was.Next, ErrConflict)
	}
	is.Version, is.Created = was.Version+1, was.Created
	return is, true, p.sawDays(days)
}

// sawDays is ErrConflict when the put was made by other days than these.
func (p *SchedulePut) sawDays(days *task.Calendar) error {
	if p.Days == nil || days != nil && slices.Equal(p.Days.Skip, days.Skip) &&
		slices.Equal(p.Days.Keep, days.Keep) {
		return nil
	}
	return fmt.Errorf("calendar %q of schedule %q was changed meanwhile: %w", p.Calendar, p.Name,
		ErrConflict)
}

// days are those of a calendar as stores keep them.
type days struct {
	Skip []string `json:"skip,omitempty"`
	Keep []string `json:"keep,omitempty"`
}

// Days are the days of a calendar as stores keep them. Two calendars of one name that have the same
// ones are equal.
func Days(c *task.Calendar) ([]byte, error) { return json.Marshal(days{c.Skip, c.Keep}) }

// ReadDays is the inverse of Days.
func ReadDays(name string, b []byte) (*task.Calendar, error) {
	var d days
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read calendar %q: %w", name, err)
	}
	return &task.Calendar{Name: name, Skip: d.Skip, Keep: d.Keep}, nil
}

// Parents are a fire's parents as stores keep them; "" = none.
func Parents(list []FireKey) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	keys := make([]parentKey, len(list))
	for i, k := range list {
		keys[i] = parentKey(k)
	}
	text, err := json.Marshal(keys)
	return string(text), err
}

// parentKey is a FireKey as stores keep it.
type parentKey struct {
	Schedule string `json:"s"`
	At       int64  `json:"at"`
}

// ReadParents is the inverse of Parents.
func ReadParents(text string) (list []FireKey, err error) {
	if text == "" {
		return nil, nil
	}
	var keys []parentKey
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return nil, fmt.Errorf("read the parents of a fire: %w", err)
	}
	for _, k := range keys {
		list = append(list, FireKey(k))
	}
	return list, nil
}

// micros is a time as stores keep it; 0 = none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is the inverse of micros.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
