package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Schedule is a schedule, and how it stands.
type Schedule struct {
	task.Schedule
	Version     int64 // grows with every change
	Created     time.Time
	Next        time.Time // the next due time; zero = there is none, or it follows another schedule
	NextChosen  bool      // somebody chose Next: what Cron says before it is not due
	Last        time.Time // the newest due time that was fired; zero = none was yet
	LastTask    task.ID
	LastOutcome string // fired, or how LastTask ended once it is final
	// the node that fires it; "" = none does just now. Whom people call the owner is Responsible
	Owner string
}

// ScheduleChange says what to change of a schedule; nil leaves it as it is, or at its default in a
// new one.
type ScheduleChange struct {
	Cron          *string // when it is due: see package cron
	After         *string // schedules to follow, in place of Cron, with commas between them
	AfterMode     *task.AfterMode
	AfterOn       *task.AfterOn
	AfterDelay    *time.Duration
	Manual        *bool      // no due times, in place of Cron
	Zone          *string    // as in Europe/Berlin
	Calendar      *string    // on whose days it is due; "" = on all
	Starts        *time.Time // the zero time takes it away, as of Ends
	Ends          *time.Time
	Next          *time.Time // the next due time, whatever Cron says; zero = as Cron says
	Paused        *bool
	Queue         *string // needed of a new one
	Stage         *string
	Context       json.RawMessage // of the tasks, byte for byte; null = none
	Priority      *time.Duration
	MaxAttempts   *int
	Timeout       *time.Duration
	StartWithin   *time.Duration     // of the tasks, from when each is due; 0 = no limit
	Meta          *map[string]string // that the tasks carry, all of it; empty = none
	Overlap       *task.Overlap
	Parallel      *int // so many may run at once before Overlap decides
	OnDead        *task.OnDead
	Misfire       *task.Misfire
	MisfireWindow *time.Duration
	Jitter        *task.Jitter
	Notices       *NoticesChange
	Title         *string // what people call it; "" = nothing
	Owner         *string // becomes Responsible: who answers for it; "" = nobody
}

// NoticesChange says what to change of what there are events of.
type NoticesChange struct {
	On      *[]task.Notice
	Origins *[]task.Origin
	Slow    *time.Duration
}

// scheduleFields is a schedule's configuration in the API's JSON, but for its context; nil fields
// are left out.
type scheduleFields struct {
	Name          string             `json:"name,omitempty"`
	Cron          *string            `json:"cron,omitempty"`
	After         *wire.Parents      `json:"after,omitempty"`
	AfterMode     *task.AfterMode    `json:"after_mode,omitempty"`
	AfterOn       *task.AfterOn      `json:"after_on,omitempty"`
	AfterDelay    *duration          `json:"after_delay,omitempty"`
	Manual        *bool              `json:"manual,omitempty"`
	Zone          *string            `json:"zone,omitempty"`
	Calendar      *string            `json:"calendar,omitempty"`
	Starts        *momentOrNone      `json:"starts,omitempty"`
	Ends          *momentOrNone      `json:"ends,omitempty"`
	Next          *momentOrNone      `json:"next,omitempty"`
	Paused        *bool              `json:"paused,omitempty"`
	Queue         *string            `json:"queue,omitempty"`
	Stage         *string            `json:"stage,omitempty"`
	Priority      *duration          `json:"priority,omitempty"`
	MaxAttempts   *int               `json:"max_attempts,omitempty"`
	Timeout       *duration          `json:"timeout,omitempty"`
	StartWithin   *duration          `json:"start_within,omitempty"`
	Meta          *map[string]string `json:"meta,omitempty"`
	Overlap       *task.Overlap      `json:"overlap,omitempty"`
	Parallel      *int               `json:"parallel,omitempty"`
	OnDead        *task.OnDead       `json:"on_dead,omitempty"`
	Misfire       *task.Misfire      `json:"misfire,omitempty"`
	MisfireWindow *duration          `json:"misfire_window,omitempty"`
	Jitter        *jitter            `json:"jitter,omitempty"`
	Notify        *noticesChanged    `json:"notify,omitempty"`
	Title         *string            `json:"title,omitempty"`
	Owner         *string            `json:"owner,omitempty"`
}

type noticesChanged struct {
	On      *[]task.Notice `json:"on,omitempty"`
	Origins *[]task.Origin `json:"origins,omitempty"`
	Slow    *duration      `json:"slow,omitempty"`
}

// append appends the change in the API's JSON; name "" is left out. The context goes in as it is:
// encoding/json would change its bytes. location is where it stands in the call's body.
func (s *ScheduleChange) append(b []byte, name, location string) ([]byte, error) {
	f := scheduleFields{
		Name: name, Cron: s.Cron, After: (*wire.Parents)(s.After), AfterMode: s.AfterMode,
		AfterOn: s.AfterOn, AfterDelay: (*duration)(s.AfterDelay), Manual: s.Manual,
		Parallel: s.Parallel, OnDead: s.OnDead, Zone: s.Zone, Calendar: s.Calendar,
		Paused: s.Paused,
		Starts: (*momentOrNone)(s.Starts), Ends: (*momentOrNone)(s.Ends),
		Next:  (*momentOrNone)(s.Next),
		Queue: s.Queue, Stage: s.Stage, Priority: (*duration)(s.Priority),
		MaxAttempts: s.MaxAttempts, Timeout: (*duration)(s.Timeout),
		StartWithin: (*duration)(s.StartWithin), Meta: s.Meta,
		Overlap: s.Overlap, Misfire: s.Misfire, MisfireWindow: (*duration)(s.MisfireWindow),
		Jitter: (*jitter)(s.Jitter), Title: s.Title, Owner: s.Owner,
	}
	if n := s.Notices; n != nil {
		f.Notify = &noticesChanged{n.On, n.Origins, (*duration)(n.Slow)}
	}
	head, err := json.Marshal(f)
	if err != nil || s.Context == nil {
		return append(b, head...), err
	}
	if problem := wire.CheckValue(s.Context); problem != "" {
		return nil, invalid(task.FieldError{Location: location + ".context", Message: problem})
	}
	b = append(b, head[:len(head)-1]...)
	if len(head) > len("{}") {
		b = append(b, ',')
	}
	b = append(append(b, `"context":`...), s.Context...)
	return append(b, '}'), nil
}

// scheduleView is a schedule in the API's JSON.
type scheduleView struct {
	Name          string            `json:"name"`
	Cron          string            `json:"cron"`
	After         wire.Parents      `json:"after"`
	AfterMode     task.AfterMode    `json:"after_mode"`
	AfterOn       task.AfterOn      `json:"after_on"`
	AfterDelay    duration          `json:"after_delay"`
	Manual        bool              `json:"manual"`
	Zone          string            `json:"zone"`
	Calendar      string            `json:"calendar"`
	Starts        *time.Time        `json:"starts"`
	Ends          *time.Time        `json:"ends"`
	Paused        bool              `json:"paused"`
	Queue         string            `json:"queue"`
	Stage         string            `json:"stage"`
	Context       json.RawMessage   `json:"context"`
	Priority      duration          `json:"priority"`
	MaxAttempts   int               `json:"max_attempts"`
	Timeout       duration          `json:"timeout"`
	StartWithin   duration          `json:"start_within,omitzero"`
	Meta          map[string]string `json:"meta,omitempty"`
	Overlap       task.Overlap      `json:"overlap"`
	Parallel      int               `json:"parallel"`
	OnDead        task.OnDead       `json:"on_dead"`
	Misfire       task.Misfire      `json:"misfire"`
	MisfireWindow duration          `json:"misfire_window"`
	Jitter        jitter            `json:"jitter"`
	Notify        noticesView       `json:"notify"`
	Title         string            `json:"title"`
	Responsible   string            `json:"responsible"`
	Version       int64             `json:"version"`
	Created       *time.Time        `json:"created"`
	Next          *time.Time        `json:"next"`
	NextChosen    bool              `json:"next_chosen"`
	Last          *time.Time        `json:"last"`
	LastTask      idOrNone          `json:"last_task"`
	LastOutcome   string            `json:"last_outcome"`
	Owner         string            `json:"owner"`
}

type noticesView struct {
	On      []task.Notice `json:"on"`
	Origins []task.Origin `json:"origins"`
	Slow    duration      `json:"slow"`
}

// MarshalJSON writes the schedule as the API does.
func (s Schedule) MarshalJSON() ([]byte, error) {
	on, origins := append([]task.Notice{}, s.Notices.On...),
		append([]task.Origin{}, s.Notices.Origins...)
	return json.Marshal(scheduleView{
		Name: s.Name, Cron: s.Cron, After: wire.Parents(s.After), AfterMode: s.AfterMode,
		AfterOn: s.AfterOn, AfterDelay: duration(s.AfterDelay), Manual: s.Manual,
		Parallel: s.Parallel, OnDead: s.OnDead, Zone: s.Zone, Calendar: s.Calendar,
		Starts: orNone(s.Starts), Ends: orNone(s.Ends), Paused: s.Paused,
		Queue: s.Queue, Stage: s.Stage, Context: s.Context, Priority: duration(s.Priority),
		MaxAttempts: s.MaxAttempts, Timeout: duration(s.Timeout),
		StartWithin: duration(s.StartWithin), Meta: s.Meta,
		Overlap: s.Overlap, Misfire: s.Misfire, MisfireWindow: duration(s.MisfireWindow),
		Jitter: jitter(s.Jitter),
		Notify: noticesView{on, origins, duration(s.Notices.Slow)},
		Title:  s.Title, Responsible: s.Responsible, Version: s.Version,
		Created: orNone(s.Created),
		Next:    orNone(s.Next), NextChosen: s.NextChosen, Last: orNone(s.Last),
		LastTask: idOrNone(s.LastTask), LastOutcome: s.LastOutcome, Owner: s.Owner,
	})
}

// UnmarshalJSON reads the schedule as the API writes it.
func (s *Schedule) UnmarshalJSON(b []byte) error {
	var v scheduleView
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*s = Schedule{
		Schedule: task.Schedule{
			Name: v.Name, Cron: v.Cron, After: string(v.After), AfterMode: v.AfterMode,
			AfterOn: v.AfterOn, AfterDelay: time.Duration(v.AfterDelay), Manual: v.Manual,
			Parallel: v.Parallel, OnDead: v.OnDead, Zone: v.Zone, Calendar: v.Calendar,
			Starts: orZero(v.Starts), Ends: orZero(v.Ends), Paused: v.Paused,
			Queue: v.Queue, Stage: v.Stage, Context: opaque(v.Context),
			Priority: time.Duration(v.Priority), MaxAttempts: v.MaxAttempts,
			Timeout: time.Duration(v.Timeout), StartWithin: time.Duration(v.StartWithin),
			Meta: v.Meta, Overlap: v.Overlap, Misfire: v.Misfire,
			MisfireWindow: time.Duration(v.MisfireWindow),
			Jitter:        task.Jitter(v.Jitter), Notices: task.Notices{
				On: v.Notify.On, Origins: v.Notify.Origins, Slow: time.Duration(v.Notify.Slow),
			},
			Title: v.Title, Responsible: v.Responsible,
		},
		Version: v.Version, Created: orZero(v.Created), Next: orZero(v.Next),
		NextChosen: v.NextChosen, Last: orZero(v.Last), LastTask: task.ID(v.LastTask),
		LastOutcome: v.LastOutcome, Owner: v.Owner,
	}
	return nil
}

func schedulePath(name string) string { return "/v1/schedules/" + segment(name) }

// Schedules lists all schedules, by name.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	all, err := list[Schedule](ctx, c, "/v1/schedules")
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return all, nil
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	var s Schedule
	if err := c.get(ctx, request{path: schedulePath(name)}, &s); err != nil {
		return Schedule{}, fmt.Errorf("read schedule %q: %w", name, err)
	}
	return s, nil
}

// PutSchedule creates a schedule or changes it, and returns all of it.
func (c *Client) PutSchedule(
	ctx context.Context, name string, change ScheduleChange,
) (Schedule, error) {
	var s Schedule
	body, err := change.append(nil, "", "body")
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPut, path: schedulePath(name), body: body, safe: true}, &s)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("put schedule %q: %w", name, err)
	}
	return s, nil
}

// NamedChange changes the schedule of a name.
type NamedChange struct {
	Name string
	ScheduleChange
}

// PutSchedules creates or changes schedules, at most 10,000, all or none; the receipts
// are in the same order. Others stay as they are.
func (c *Client) PutSchedules(
	ctx context.Context, changes []NamedChange,
) ([]view.ScheduleReceipt, error) {
	body := []byte(`{"schedules":[`)
	for i := range changes {
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = changes[i].append(
			body, changes[i].Name, fmt.Sprintf("body.schedules[%d]", i),
		); err != nil {
			return nil, fmt.Errorf("put schedule %q: %w", changes[i].Name, err)
		}
	}
	body = append(body, "]}"...)
	var answer struct {
		Schedules []view.ScheduleReceipt `json:"schedules"`
	}
	if err := c.send(ctx,
		request{method: http.MethodPut, path: "/v1/schedules", body: body, safe: true},
		&answer); err != nil {
		return nil, fmt.Errorf("put schedules: %w", err)
	}
	return answer.Schedules, nil
}

// DeleteSchedule forgets a schedule and what came of its due times; tasks that were submitted stay.
// ErrConflict when another one follows it.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: schedulePath(name)}, nil,
	); err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

// PauseSchedule lets due times be skipped, each with a row that says so.
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodPost, path: schedulePath(name) + "/pause", safe: true}, nil,
	); err != nil {
		return fmt.Errorf("pause schedule %q: %w", name, err)
	}
	return nil
}

// ResumeSchedule undoes PauseSchedule. What was due meanwhile stays skipped.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	if err := c.send(ctx,
		request{method: http.MethodPost, path: schedulePath(name) + "/resume", safe: true},
		nil); err != nil {
		return fmt.Errorf("resume schedule %q: %w", name, err)
	}
	return nil
}

// jitter is a share as a number, or a duration.
type jitter task.Jitter

func (j jitter) MarshalJSON() ([]byte, error) {
	if j.Share != 0 {
		return json.Marshal(j.Share)
	}
	return json.Marshal(duration(j.Max))
}

func (j *jitter) UnmarshalJSON(b []byte) error {
	*j = jitter{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*duration)(&j.Max))
	}
	return json.Unmarshal(b, &j.Share)
}

// momentOrNone is a time that may be taken away: by an empty text.
type momentOrNone time.Time

func (t momentOrNone) MarshalText() ([]byte, error) { return []byte(moment(time.Time(t))), nil }

// idOrNone is a task's id, or an empty text.
type idOrNone task.ID

func (id idOrNone) MarshalText() ([]byte, error) {
	if id == (idOrNone{}) {
		return nil, nil
	}
	return task.ID(id).MarshalText()
}

func (id *idOrNone) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = idOrNone{}
		return nil
	}
	return (*task.ID)(id).UnmarshalText(b)
}
