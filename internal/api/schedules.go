package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Schedules looks after what is due when. Errors are those of an [Engine].
type Schedules interface {
	// Put creates or replaces schedules, all or nothing, and answers them in the same order;
	// store.ErrStale when others changed one since it was read (store.ScheduleEdit.From). It checks
	// them: locations in an InvalidError are "body.…" of a single one, "body.schedules[i].…" of
	// several.
	Put(context.Context, ...store.ScheduleEdit) ([]store.Edited, error)
	// Pause pauses a schedule, or lets it go on.
	Pause(ctx context.Context, name string, paused bool) (store.ScheduleView, error)
	// Delete forgets a schedule; one that another follows is a store.ErrConflict.
	Delete(ctx context.Context, name string) error
	ScheduleList
	ScheduleStands
}

// ScheduleList lists schedules.
type ScheduleList interface {
	// Schedules lists those that are selected, by name.
	Schedules(context.Context, store.ScheduleQuery) ([]store.ScheduleView, error)
}

// ScheduleStands says how schedules stand.
type ScheduleStands interface {
	// Stands counts schedules by their queue; a next due time before late makes a late one.
	Stands(ctx context.Context, late int64) ([]store.ScheduleStand, error)
	// Overdue is how long ago the earliest due time was that nobody has handled; 0 = none is left.
	Overdue(context.Context) (time.Duration, error)
}

// ScheduleItem is a schedule and how it stands, without its context. It is exported as TaskItem is.
type ScheduleItem struct {
	Name          string            `json:"name"`
	Cron          string            `json:"cron" doc:"when it is due; empty = it follows others, or is manual"`
	After         parents           `json:"after" doc:"the schedules that it follows: a name, or a list of several"`
	AfterMode     string            `json:"after_mode" enum:"all,any" doc:"of several: how many of their tasks must have ended"`
	AfterOn       string            `json:"after_on" enum:"done,failed,ended" doc:"how they must have ended"`
	AfterDelay    duration          `json:"after_delay" doc:"how long after that the task is due"`
	Manual        bool              `json:"manual" doc:"it has no due times: it runs when somebody says so"`
	Zone          string            `json:"zone" doc:"of cron's times of day"`
	Calendar      string            `json:"calendar" doc:"on whose days it is due; empty = on all"`
	Starts        instant           `json:"starts" nullable:"true" doc:"not due before"`
	Ends          instant           `json:"ends" nullable:"true" doc:"not due after"`
	Paused        bool              `json:"paused" doc:"due times are skipped"`
	Queue         string            `json:"queue"`
	Stage         string            `json:"stage"`
	Priority      duration          `json:"priority" doc:"head start of the tasks in their queue"`
	MaxAttempts   int               `json:"max_attempts" doc:"0 = the queue's"`
	Timeout       duration          `json:"timeout" doc:"of one attempt; 0s = the queue's"`
	StartWithin   duration          `json:"start_within,omitzero" doc:"so long after it is due a task expires, unless it was handed out by then; left out = no limit"`
	Meta          map[string]string `json:"meta,omitempty" doc:"that the tasks carry; left out = nothing"`
	Overlap       string            `json:"overlap" enum:"allow,skip,queue,replace"`
	Parallel      int               `json:"parallel" doc:"so many of its tasks may run before overlap decides; 0 = one, or any number with allow"`
	OnDead        string            `json:"on_dead" enum:"continue,stop" doc:"what becomes of it when its task is dead"`
	Misfire       string            `json:"misfire" enum:"skip,once,all"`
	MisfireWindow duration          `json:"misfire_window"`
	Jitter        jitter            `json:"jitter"`
	Notify        noticesOf         `json:"notify"`
	Title         string            `json:"title" doc:"what people call it; empty = nothing"`
	Responsible   string            `json:"responsible" doc:"who answers for it, put as owner: a name or a mail address; empty = nobody said"`

	Version     int64   `json:"version" doc:"grows with every change"`
	Created     instant `json:"created" nullable:"true"`
	Next        instant `json:"next" nullable:"true" doc:"the next due time; null = there is none, or it follows others, or is manual"`
	NextChosen  bool    `json:"next_chosen" doc:"somebody chose next: what cron says before it is not due"`
	Last        instant `json:"last" nullable:"true" doc:"the newest due time that was fired"`
	LastTask    string  `json:"last_task" doc:"its task"`
	LastOutcome string  `json:"last_outcome" doc:"what became of that: fired, or how the task ended once it is final: done, fail, retry, timeout, lost, cancelled, removed"`
	Owner       string  `json:"owner" doc:"the node that fires it; empty = none does just now"`
}

// scheduleWhole is a schedule with its context; it documents what appendSchedule writes.
type scheduleWhole struct {
	ScheduleItem
	Context any `json:"context" doc:"of the tasks, byte for byte as it was given; null = none"`
}

type noticesOf struct {
	On      []task.Notice `json:"on" nullable:"false" doc:"of what about its tasks there is an event"`
	Origins []task.Origin `json:"origins" nullable:"false" doc:"only about tasks that came so; none = all"`
	Slow    duration      `json:"slow"`
}

func scheduleOf(v *store.ScheduleView) ScheduleItem {
	s := &v.Schedule.Schedule
	item := ScheduleItem{
		Name: s.Name, Cron: s.Cron, After: parents(s.After), AfterMode: string(s.AfterMode),
		AfterOn: string(s.AfterOn), AfterDelay: duration{s.AfterDelay}, Manual: s.Manual,
		Parallel: s.Parallel, OnDead: string(s.OnDead), Zone: cmp.Or(s.Zone, "UTC"),
		Calendar: s.Calendar, Starts: instant(s.Starts), Ends: instant(s.Ends),
		Paused: s.Paused, Queue: s.Queue, Stage: s.Stage, Priority: duration{s.Priority},
		MaxAttempts: s.MaxAttempts, Timeout: duration{s.Timeout},
		StartWithin: duration{s.StartWithin}, Meta: s.Meta,
		Overlap: string(s.Overlap), Misfire: string(s.Misfire),
		MisfireWindow: duration{s.MisfireWindow}, Jitter: jitter(s.Jitter),
		Notify: noticesOf{
			append([]task.Notice{}, s.Notices.On...), append([]task.Origin{}, s.Notices.Origins...),
			duration{s.Notices.Slow},
		},
		Title: s.Title, Responsible: s.Responsible,
		Version: v.Version, Created: instantAt(v.Created), LastOutcome: v.LastOutcome(),
		Owner: v.Owner,
	}
	if v.Next != store.Never {
		item.Next, item.NextChosen = instantAt(v.Next), v.First == v.Next
	}
	if f := v.Last; f != nil {
		item.Last, item.LastTask = instantAt(f.At), taskText(f.Task)
	}
	return item
}

// taskText is a task's id; "" = none.
func taskText(id task.ID) string {
	if id == (task.ID{}) {
		return ""
	}
	return id.String()
}

// appendSchedule appends a schedule. Its context goes in as it is: encoding/json would strip its
// spaces.
func appendSchedule(b []byte, v *store.ScheduleView) []byte {
	head := encoded(scheduleOf(v))
	b = append(b, head[:len(head)-1]...)
	b = append(append(b, `,"context":`...), opaque(v.Context)...)
	return append(b, '}')
}

// appendSchedules appends a page of them.
func appendSchedules(b []byte, list []store.ScheduleView, next string) []byte {
	b = append(b, `{"items":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSchedule(b, &list[i])
	}
	b = append(append(b, `],"next":`...), encoded(next)...)
	return append(b, '}')
}

// SchedulePath names a schedule.
type SchedulePath struct {
	Name string `path:"name" doc:"the schedule's name" example:"nightly"`
}

var scheduleParameter = &huma.Param{
	Name: "name", In: "path", Required: true, Description: "the schedule's name",
	Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"nightly"}},
}

var (
	getScheduleDoc = described{
		op: huma.Operation{
			OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/schedules/{name}",
			Tags:       []string{"Schedules"},
			Summary:    "Read a schedule, and how it stands",
			Parameters: []*huma.Param{scheduleParameter},
		},
		status: http.StatusOK, answer: scheduleWhole{},
	}
	listSchedulesDoc = described{
		op: huma.Operation{
			OperationID: "list-schedules", Method: http.MethodGet, Path: "/v1/schedules",
			Tags: []string{"Schedules"}, Summary: "List schedules by name, and how they stand",
			Description: "A page may be short while next is not: it ends when its contexts are large.",
			Parameters: []*huma.Param{
				queryParameter("calendar", "those that have this calendar", "", nil),
				limitParameter, queryParameter("cursor", "next of the page before", nil, nil),
			},
		},
		status: http.StatusOK, answer: list[scheduleWhole]{},
	}
)

// scheduleCalls are the calls about schedules.
type scheduleCalls struct {
	door      *API
	schedules Schedules

	// one change of schedules at a time at this node: they are read, changed and written, and a
	// change of another node between is read again
	changing sync.Mutex
}

func (c *scheduleCalls) register() {
	tags := []string{"Schedules"}
	c.door.described(putScheduleDoc, c.put)
	c.door.described(putSchedulesDoc, c.putAll)
	c.door.described(getScheduleDoc, c.get)
	c.door.described(listSchedulesDoc, c.list)
	operation(c.door, huma.Operation{
		OperationID: "delete-schedule", Method: http.MethodDelete, Path: "/v1/schedules/{name}",
		Tags:    tags,
		Summary: "Forget a schedule and what came of its due times; tasks that were submitted stay",
	}, func(ctx context.Context, in *SchedulePath) (*struct{}, error) {
		c.changing.Lock()
		defer c.changing.Unlock()
		return nil, c.schedules.Delete(ctx, in.Name)
	})
	c.pausing("pause",
		"Skip due times, each with a row that says so, until the schedule is resumed", true)
	c.pausing("resume", "Fire due times from now on again", false)
}

func (c *scheduleCalls) get(w *answer, r *http.Request) error {
	if _, err := knownQuery(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	list, err := c.schedules.Schedules(r.Context(), store.ScheduleQuery{
		Names: []string{name}, Last: true,
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("schedule %.140q: %w", name, store.ErrNotFound)
	}
	c.door.write(w, http.StatusOK, func(b []byte) []byte { return appendSchedule(b, &list[0]) })
	return nil
}

func (c *scheduleCalls) list(w *answer, r *http.Request) error {
	query, err := knownQuery(r, "calendar", "limit", "cursor")
	if err != nil {
		return err
	}
	limit, err := parseLimit(query)
	if err != nil {
		return err
	}
	after, err := parseCursor(scheduleShelf, query.Get("cursor"))
	if err != nil {
		return err
	}
	if err := c.door.room(r.Context(), &w.call, 2*fullPage); err != nil {
		return err
	}
	read := func(after string, n int) ([]store.ScheduleView, error) {
		return c.reached(r.Context(), w.who, store.ScheduleQuery{
			Calendar: query.Get("calendar"), After: after, Limit: n, Last: true,
		})
	}
	list, more, err := filled(after, limit, read, func(v *store.ScheduleView) (string, int) {
		return v.Name, len(v.Context)
	})
	if err != nil {
		return err
	}
	next := ""
	if n := len(list); n > 0 && more {
		next = cursor(scheduleShelf, list[n-1].Name)
	}
	c.door.write(w, http.StatusOK, func(b []byte) []byte { return appendSchedules(b, list, next) })
	return nil
}

// reached reads the schedules that a query selects in the scope of a caller's token: as many as its
// limit, fewer only when no others follow. It passes over those out of scope, so that pages are as
// if there were none: a cursor has the name of the schedule that its page ended with.
func (c *scheduleCalls) reached(
	ctx context.Context, who principal, q store.ScheduleQuery,
) ([]store.ScheduleView, error) {
	if who.scope == nil {
		return c.schedules.Schedules(ctx, q)
	}
	limit, found := q.Limit, []store.ScheduleView(nil)
	q.Limit = fullPage / largestItem // few: their contexts may be large
	for {
		piece, err := c.schedules.Schedules(ctx, q)
		if err != nil {
			return nil, err
		}
		found = append(found, visible(who, piece, func(v *store.ScheduleView) bool {
			return who.scope.queue(v.Queue)
		})...)
		if len(found) >= limit {
			return found[:limit], nil
		}
		if len(piece) < q.Limit {
			return found, nil
		}
		q.After = piece[len(piece)-1].Name
	}
}

// schedulePaused answers pause and resume.
type schedulePaused struct {
	Body struct {
		Name   string  `json:"name"`
		Paused bool    `json:"paused"`
		Next   instant `json:"next" nullable:"true" doc:"the next due time"`
	}
}

// pausing registers POST /v1/schedules/{name}/VERB.
func (c *scheduleCalls) pausing(verb, summary string, paused bool) {
	operation(c.door, huma.Operation{
		OperationID: verb + "-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{name}/" + verb, Tags: []string{"Schedules"}, Summary: summary,
	}, func(ctx context.Context, in *SchedulePath) (*schedulePaused, error) {
		c.changing.Lock()
		defer c.changing.Unlock()
		v, err := c.schedules.Pause(ctx, in.Name, paused)
		if err != nil {
			return nil, err
		}
		now := scheduleOf(&v)
		out := &schedulePaused{}
		out.Body.Name, out.Body.Paused, out.Body.Next = now.Name, now.Paused, now.Next
		return out, nil
	})
}
