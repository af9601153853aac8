package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// ScheduleIn is the body that changes a schedule. What is left out stays as it is, or gets its
// default in a new one. It is exported as TaskItem is.
type ScheduleIn struct {
	Cron          *string            `json:"cron,omitempty" maxLength:"1000" doc:"when it is due; see the documentation of package cron"`
	After         *parents           `json:"after,omitempty" doc:"schedules to follow, in place of cron: a name, or a list of at most 32"`
	AfterMode     *task.AfterMode    `json:"after_mode,omitempty" enum:"all,any" doc:"of several: all of their tasks that belong together must have ended (the default), or any"`
	AfterOn       *task.AfterOn      `json:"after_on,omitempty" enum:"done,failed,ended" doc:"how they must have ended: well (the default), dead, or in any way"`
	AfterDelay    *duration          `json:"after_delay,omitempty" doc:"how long after that the task is due, at most 720h"`
	Manual        *bool              `json:"manual,omitempty" doc:"no due times, in place of cron: it runs by hand, by a backfill, or as a follower"`
	Zone          *string            `json:"zone,omitempty" doc:"of cron's times of day, as in Europe/Berlin; UTC"`
	Calendar      *string            `json:"calendar,omitempty" doc:"on whose days it is due; empty = on all"`
	Starts        *momentOrNone      `json:"starts,omitempty" doc:"not due before"`
	Ends          *momentOrNone      `json:"ends,omitempty" doc:"not due after"`
	Next          *momentOrNone      `json:"next,omitempty" doc:"the next due time, whatever cron says; from there on cron's. It stays until it has come, or cron, after, zone, calendar or starts change; empty = as cron says"`
	Paused        *bool              `json:"paused,omitempty" doc:"due times are skipped"`
	Queue         *string            `json:"queue,omitempty" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128" doc:"needed of a new one"`
	Stage         *string            `json:"stage,omitempty" maxLength:"256"`
	Context       json.RawMessage    `json:"context,omitempty" doc:"of the tasks: any JSON value of at most 64 KiB, kept byte for byte; null = none"`
	Priority      *duration          `json:"priority,omitempty" doc:"head start of the tasks in their queue"`
	MaxAttempts   *int               `json:"max_attempts,omitempty" minimum:"0" maximum:"1000000" doc:"per stage; 0 = the queue's"`
	Timeout       *duration          `json:"timeout,omitempty" doc:"of one attempt; 0s = the queue's"`
	StartWithin   *duration          `json:"start_within,omitempty" doc:"so long after it is due a task expires, unless it was handed out by then; 0s = no limit"`
	Meta          *map[string]string `json:"meta,omitempty" maxProperties:"16" doc:"that the tasks carry, all of it, see POST /v1/tasks; empty = none"`
	Overlap       *task.Overlap      `json:"overlap,omitempty" enum:"allow,skip,queue,replace" doc:"when a task of an earlier due time is not final: submit all the same (the default), skip the due time, let it wait for its turn, or cancel the earlier ones"`
	Parallel      *int               `json:"parallel,omitempty" minimum:"0" maximum:"10000" doc:"so many of its tasks may run at once before overlap decides, which is skip unless it is given; 0 = one, or any number with overlap allow"`
	OnDead        *task.OnDead       `json:"on_dead,omitempty" enum:"continue,stop" doc:"when its task is dead: go on (the default), or pause the schedule until it is resumed"`
	Misfire       *task.Misfire      `json:"misfire,omitempty" enum:"skip,once,all" doc:"of due times handled more than a minute late: none, the newest (the default) or the newest 100 are fired; the others are missed"`
	MisfireWindow *duration          `json:"misfire_window,omitempty" doc:"what is later than this is missed in any case; 24h"`
	Jitter        *jitter            `json:"jitter,omitempty" doc:"the task is due so much after its due time, at random: at most a duration, or a share (0 to 1) of the time to the next"`
	Notify        *noticesIn         `json:"notify,omitempty"`
	Title         *string            `json:"title,omitempty" maxLength:"256" doc:"what people call it, in any language; empty = nothing"`
	Owner         *string            `json:"owner,omitempty" maxLength:"256" doc:"who answers for it, a name or a mail address; empty = nobody. It is answered as responsible: owner is answered as the node that fires it"`
}

type noticesIn struct {
	On      *[]task.Notice `json:"on,omitempty" maxItems:"100" doc:"of what about its tasks there is to be an event, schedule.WORD: submitted, failed, timeout, dead, done, slow, missed"`
	Origins *[]task.Origin `json:"origins,omitempty" maxItems:"100" doc:"only about tasks that came so: schedule, manual, backfill, after, retry; none = all"`
	Slow    *duration      `json:"slow,omitempty" doc:"slow is a task that is not final so long after it was submitted"`
}

// change applies what was given. A schedule is due by cron, after others or by hand: who gives one
// takes the others away. So do a limit and the overlap that has none.
func (in *ScheduleIn) change(s *task.Schedule) {
	if in.Cron != nil && *in.Cron != "" {
		s.After, s.Manual = "", false
	}
	if in.After != nil && *in.After != "" || in.Manual != nil && *in.Manual {
		s.Cron = ""
	}
	set(&s.Cron, in.Cron)
	set(&s.After, (*string)(in.After))
	set(&s.Manual, in.Manual)
	if s.After == "" {
		s.AfterMode, s.AfterOn, s.AfterDelay = task.AfterAll, task.AfterDone, 0
	}
	set(&s.AfterMode, in.AfterMode)
	set(&s.AfterOn, in.AfterOn)
	setSpan(&s.AfterDelay, in.AfterDelay)
	switch {
	case in.Parallel != nil && *in.Parallel > 0 && in.Overlap == nil &&
		s.Overlap == task.OverlapAllow:
		s.Overlap = task.OverlapSkip
	case in.Overlap != nil && *in.Overlap == task.OverlapAllow && in.Parallel == nil:
		s.Parallel = 0
	}
	set(&s.Parallel, in.Parallel)
	set(&s.OnDead, in.OnDead)
	set(&s.Zone, in.Zone)
	set(&s.Calendar, in.Calendar)
	set(&s.Starts, (*time.Time)(in.Starts))
	set(&s.Ends, (*time.Time)(in.Ends))
	set(&s.Paused, in.Paused)
	set(&s.Queue, in.Queue)
	set(&s.Stage, in.Stage)
	if string(in.Context) == "null" {
		s.Context = nil
	} else if in.Context != nil {
		s.Context = in.Context
	}
	setSpan(&s.Priority, in.Priority)
	set(&s.MaxAttempts, in.MaxAttempts)
	setSpan(&s.Timeout, in.Timeout)
	setSpan(&s.StartWithin, in.StartWithin)
	if set(&s.Meta, in.Meta); len(s.Meta) == 0 {
		s.Meta = nil
	}
	set(&s.Overlap, in.Overlap)
	set(&s.Misfire, in.Misfire)
	setSpan(&s.MisfireWindow, in.MisfireWindow)
	set(&s.Jitter, (*task.Jitter)(in.Jitter))
	if n := in.Notify; n != nil {
		set(&s.Notices.On, n.On)
		set(&s.Notices.Origins, n.Origins)
		setSpan(&s.Notices.Slow, n.Slow)
	}
	set(&s.Title, in.Title)
	set(&s.Responsible, in.Owner)
}

// edit is what the schedule is to be. was is what it is; nil = it is new.
func (in *ScheduleIn) edit(name string, was *store.ScheduleView) store.ScheduleEdit {
	var next *int64
	if in.Next != nil {
		next = new(instant(*in.Next).micros())
	}
	return store.Amend(name, was, in.change, next)
}

var putScheduleDoc = described{
	op: huma.Operation{
		OperationID: "put-schedule", Method: http.MethodPut, Path: "/v1/schedules/{name}",
		Tags:    []string{"Schedules"},
		Summary: "Create a schedule or change it",
		Description: "What is left out stays as it is; in a new one it gets its default. What is due before the answer is handled by what the schedule " +
			"was. A change while the schedule is due gives one task at most.",
		Parameters: []*huma.Param{scheduleParameter},
	},
	status:  http.StatusOK,
	example: `{"cron":"30 2 * * MON-FRI","zone":"Europe/Berlin","queue":"reports","context":{"kind":"sales"},"overlap":"skip","jitter":"30s"}`,
	body:    ScheduleIn{}, answer: scheduleWhole{},
	also: map[int]any{http.StatusCreated: scheduleWhole{}},
}

func (c *scheduleCalls) put(w *answer, r *http.Request) error {
	name := r.PathValue("name")
	if !limits.ValidName(name) {
		return wrong("path.name", "%.40q %s", name, limits.NameRule)
	}
	var in ScheduleIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	now, err := c.change(r.Context(), w.who, []NamedSchedule{{name, in}})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if now[0].Created {
		status = http.StatusCreated
	}
	c.door.write(w, status, func(b []byte) []byte {
		return appendSchedule(b, &now[0].ScheduleView)
	})
	return nil
}

// changeTries is how often a change of schedules is made again that other nodes' changes spoiled.
const changeTries = 10

// change puts schedules, whose names are valid and come once each.
func (c *scheduleCalls) change(
	ctx context.Context, who principal, list []NamedSchedule,
) (now []store.Edited, err error) {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	// what was left out is read first; what other nodes change meanwhile is found stale
	c.changing.Lock()
	defer c.changing.Unlock()
	for range changeTries {
		if now, err = c.merge(ctx, who, names, list); !errors.Is(err, store.ErrStale) {
			return now, err
		}
	}
	return nil, fmt.Errorf("%w: others change it all the time: %v", store.ErrBusy, err)
}

// merge puts schedules once, what is left out as it stands.
func (c *scheduleCalls) merge(
	ctx context.Context, who principal, names []string, list []NamedSchedule,
) ([]store.Edited, error) {
	// the answer of several has none
	views, err := c.schedules.Schedules(ctx, store.ScheduleQuery{
		Names: names, Last: len(list) == 1,
	})
	if err != nil {
		return nil, err
	}
	was := make(map[string]*store.ScheduleView, len(views))
	for i := range views {
		was[views[i].Name] = &views[i]
	}
	edits := make([]store.ScheduleEdit, len(list))
	for i := range list {
		edits[i] = list[i].edit(list[i].Name, was[list[i].Name])
	}
	if err := c.mayPut(ctx, who, was, edits); err != nil {
		return nil, err
	}
	now, err := c.schedules.Put(ctx, edits...)
	for i := range now {
		if w := was[now[i].Name]; w != nil {
			now[i].Last = w.Last
		}
	}
	return now, err
}

// NamedSchedule is a schedule in a list that is put. It is exported as TaskItem is.
type NamedSchedule struct {
	Name string `json:"name" pattern:"^[\\p{L}\\p{Nd}_][\\p{L}\\p{Nd}\\p{M}._:@+-]*$" maxLength:"128"`
	ScheduleIn
}

type schedulesIn struct {
	Schedules []NamedSchedule `json:"schedules" nullable:"false" maxItems:"10000"`
}

// schedulesOut answers it.
type schedulesOut struct {
	Schedules []view.ScheduleReceipt `json:"schedules" nullable:"false"`
}

var putSchedulesDoc = described{
	op: huma.Operation{
		OperationID: "put-schedules", Method: http.MethodPut, Path: "/v1/schedules",
		Tags: []string{"Schedules"}, Summary: "Create or change many schedules",
		Description: "Each as by a call of its own, but all or none. The answer is in the same order. Schedules that are not named stay as they are.",
	},
	status:  http.StatusOK,
	example: `{"schedules":[{"name":"nightly","cron":"30 2 * * *","queue":"reports"},{"name":"nightly-mail","after":"nightly","queue":"mail"}]}`,
	body:    schedulesIn{}, answer: schedulesOut{},
}

func (c *scheduleCalls) putAll(w *answer, r *http.Request) error {
	var in schedulesIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	var now []store.Edited
	var err error
	if len(in.Schedules) > 0 { // no name at all would read every schedule
		now, err = c.change(r.Context(), w.who, in.Schedules)
	}
	if err != nil {
		return inList(err, len(in.Schedules))
	}
	out := schedulesOut{make([]view.ScheduleReceipt, len(now))}
	for i := range now {
		item := scheduleOf(&now[i].ScheduleView)
		out.Schedules[i] = view.ScheduleReceipt{
			Name: item.Name, Created: now[i].Created, Version: item.Version,
			Next: view.Time{Time: time.Time(item.Next)},
		}
	}
	w.note("changed", len(now))
	c.door.writeValue(w, http.StatusOK, out)
	return nil
}

// check refuses what can't be looked up.
func (in *schedulesIn) check() error {
	if len(in.Schedules) > limits.MaxSchedules {
		return wrong("body.schedules", "%d are more than %d", len(in.Schedules),
			limits.MaxSchedules)
	}
	var e task.InvalidError
	first := make(map[string]int, len(in.Schedules))
	for i := range in.Schedules {
		name := in.Schedules[i].Name
		before, twice := first[name]
		first[name] = i
		if len(e.Fields) == limits.MaxFaults {
			break
		}
		switch {
		case !limits.ValidName(name):
			e.Add(fmt.Sprintf("body.schedules[%d].name", i), "%.40q %s", name, limits.NameRule)
		case twice:
			e.Add(fmt.Sprintf("body.schedules[%d].name", i), "%q is the name of [%d] already", name,
				before)
		}
	}
	return e.Err()
}

// inList moves the places of an error into the list that a single schedule came in.
func inList(err error, n int) error {
	var invalid *task.InvalidError
	if n != 1 || !errors.As(err, &invalid) {
		return err
	}
	moved := *invalid
	moved.Fields = make([]task.FieldError, len(invalid.Fields))
	for i, f := range invalid.Fields {
		moved.Fields[i] = task.FieldError{
			Location: "body.schedules[0]" + strings.TrimPrefix(f.Location, "body"),
			Message:  f.Message,
		}
	}
	return &moved
}

// jitter is a share as a number, or a duration.
type jitter task.Jitter

func (j jitter) MarshalJSON() ([]byte, error) {
	if j.Share != 0 {
		return json.Marshal(j.Share)
	}
	return json.Marshal(duration{j.Max})
}

func (j *jitter) UnmarshalJSON(b []byte) error {
	*j = jitter{}
	var text duration
	if json.Unmarshal(b, &j.Share) != nil && json.Unmarshal(b, &text) != nil {
		return errors.New(
			`must be a duration like "30s", or a share of the time to the next due time, 0 to 1`,
		)
	}
	j.Max = text.Duration
	return nil
}

// Schema describes it in the OpenAPI document.
func (jitter) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf: []*huma.Schema{
			duration{}.Schema(r), {Type: huma.TypeNumber, Minimum: new(0.0), Maximum: new(1.0)},
		},
		Examples: []any{"30s"},
	}
}

// parents are names of schedules: one as a text, several as a list.
type parents wire.Parents

func (p parents) MarshalJSON() ([]byte, error)  { return wire.Parents(p).MarshalJSON() }
func (p *parents) UnmarshalJSON(b []byte) error { return (*wire.Parents)(p).UnmarshalJSON(b) }

// Schema describes it in the OpenAPI document.
func (parents) Schema(huma.Registry) *huma.Schema {
	name := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{
		OneOf: []*huma.Schema{
			name, {Type: huma.TypeArray, Items: name, MaxItems: new(limits.MaxParents)},
		},
		Examples: []any{"nightly", []any{"load-a", "load-b"}},
	}
}

// momentOrNone is an instant that may be taken away: by an empty text.
type momentOrNone instant

func (t *momentOrNone) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = momentOrNone{}
		return nil
	}
	return (*instant)(t).UnmarshalText(b)
}

// Schema describes it in the OpenAPI document.
func (momentOrNone) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Description: "a time by RFC 3339; empty = none",
		Examples: []any{"2026-12-01T00:00:00Z"},
	}
}

// mayPut looks at schedules that are about to be put: at what they are, at what they are to be, and
// at those that they are to follow from now on.
func (c *scheduleCalls) mayPut(
	ctx context.Context, who principal, was map[string]*store.ScheduleView,
	edits []store.ScheduleEdit,
) error {
	if who.scope == nil {
		return nil
	}
	var after []string
	for i := range edits {
		is, before := &edits[i].Schedule, was[edits[i].Name]
		if !who.scope.queue(is.Queue) || before != nil && !who.scope.queue(before.Queue) {
			return refuse(http.StatusForbidden,
				"schedule %.140q is of a queue that is not in the scope of this token", is.Name)
		}
		if is.After != "" && (before == nil || before.After != is.After) {
			after = append(after, is.Parents()...)
		}
	}
	return c.door.maySchedules(ctx, who, after...)
}
