package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// Almanac says when expressions are due, and keeps the calendars on whose days they are. Errors are
// those of an [Engine].
type Almanac interface {
	// Preview lists due times of an expression. Locations in an InvalidError are "body.…".
	Preview(context.Context, store.PreviewRequest) (store.Preview, error)
	// PutCalendar creates or replaces a calendar, for the schedules that have it, too. It checks
	// it: locations in an InvalidError are "body.…".
	PutCalendar(context.Context, task.Calendar) (created bool, err error)
	// Calendars lists all, by name.
	Calendars(context.Context) ([]task.Calendar, error)
	// DeleteCalendar forgets a calendar; one that a schedule has is a store.ErrConflict.
	DeleteCalendar(ctx context.Context, name string) error
}

// previewIn is the body of POST /v1/schedules/preview.
type previewIn struct {
	Cron     string   `json:"cron" maxLength:"1000" doc:"see the documentation of package cron"`
	Zone     string   `json:"zone,omitempty" doc:"of its times of day; UTC"`
	Calendar string   `json:"calendar,omitempty" doc:"on whose days it is due; left out = on all"`
	Name     string   `json:"name,omitempty" doc:"of the schedule, which chooses what H in cron stands for"`
	From     *instant `json:"from,omitempty" doc:"due times after it; left out = now"`
	Count    *int     `json:"count,omitempty" minimum:"1" maximum:"1000" doc:"so many; 10"`
}

// standardPreview is how many due times a preview shows.
const standardPreview = 10

var previewDoc = described{
	op: huma.Operation{
		OperationID: "preview-schedule", Method: http.MethodPost, Path: "/v1/schedules/preview",
		Tags:    []string{"Schedules"},
		Summary: "Say when an expression is due, without a schedule",
	},
	status:  http.StatusOK,
	example: `{"cron":"30 2 * * *","zone":"Europe/Berlin","from":"2026-10-24T00:00:00Z","count":3}`,
	body:    previewIn{}, answer: view.Preview{},
}

// calendarIn is the body of PUT /v1/calendars/{calendar}.
type calendarIn struct {
	Skip []string `json:"skip,omitempty" maxItems:"50000" doc:"days, as in 2026-12-25, on which nothing is due"`
	Keep []string `json:"keep,omitempty" maxItems:"50000" doc:"or the only days on which something is"`
}

// CalendarPath names a calendar.
type CalendarPath struct {
	Calendar string `path:"calendar" doc:"the calendar's name" example:"de"`
}

// calendarOf is the calendar as it is shown.
func calendarOf(c *task.Calendar) view.Calendar {
	return view.Calendar{
		Name: c.Name, Skip: append([]string{}, c.Skip...), Keep: append([]string{}, c.Keep...),
	}
}

var putCalendarDoc = described{
	op: huma.Operation{
		OperationID: "put-calendar", Method: http.MethodPut, Path: "/v1/calendars/{calendar}",
		Tags:        []string{"Schedules"},
		Summary:     "Create a calendar or replace its days",
		Description: "Schedules that have it go by the new days from now on. Days are those of a schedule's zone.",
		Parameters:  []*huma.Param{pathParameter("calendar", "the calendar's name")},
	},
	status: http.StatusOK, example: `{"skip":["2026-12-25","2026-12-26"]}`, body: calendarIn{},
	answer: view.Calendar{},
	also:   map[int]any{http.StatusCreated: view.Calendar{}},
}

// almanacCalls are the calls about due times of expressions, and about calendars.
type almanacCalls struct {
	door    *API
	almanac Almanac
}

func (c *almanacCalls) register() {
	tags := []string{"Schedules"}
	c.door.described(previewDoc, c.preview)
	c.door.described(putCalendarDoc, c.put)
	operation(c.door, huma.Operation{
		OperationID: "list-calendars", Method: http.MethodGet, Path: "/v1/calendars", Tags: tags,
		Summary: "List calendars by name, without their days",
	}, c.list)
	operation(c.door, huma.Operation{
		OperationID: "get-calendar", Method: http.MethodGet, Path: "/v1/calendars/{calendar}",
		Tags: tags, Summary: "Read a calendar",
	}, c.get)
	operation(c.door, huma.Operation{
		OperationID: "delete-calendar", Method: http.MethodDelete, Path: "/v1/calendars/{calendar}",
		Tags: tags, Summary: "Forget a calendar that no schedule has",
	}, func(ctx context.Context, in *CalendarPath) (*struct{}, error) {
		return nil, c.almanac.DeleteCalendar(ctx, in.Calendar)
	})
}

func (c *almanacCalls) preview(w *answer, r *http.Request) error {
	var in previewIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	asked := store.PreviewRequest{
		Cron: in.Cron, Zone: in.Zone, Calendar: in.Calendar, Name: in.Name, Count: standardPreview,
	}
	set(&asked.Count, in.Count)
	if in.From != nil {
		asked.From = in.From.micros()
	}
	p, err := c.almanac.Preview(r.Context(), asked)
	if err != nil {
		return err
	}
	out := view.Preview{
		Times: timesAt(p.Times), Notes: make([]view.PreviewNote, len(p.Notes)),
		Sentence: p.Sentence, Chinese: p.Chinese, Zone: p.Zone,
	}
	for i, n := range p.Notes {
		out.Notes[i] = view.PreviewNote{At: timeAt(n.At), Text: n.Text}
	}
	c.door.writeValue(w, http.StatusOK, out)
	return nil
}

func (c *almanacCalls) put(w *answer, r *http.Request) error {
	name := r.PathValue("calendar")
	if !limits.ValidName(name) {
		return wrong("path.calendar", "%.40q %s", name, limits.NameRule)
	}
	var in calendarIn
	if err := c.door.strict(w, r, &in); err != nil {
		return err
	}
	cal := task.Calendar{Name: name, Skip: in.Skip, Keep: in.Keep}
	created, err := c.almanac.PutCalendar(r.Context(), cal)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	c.door.writeValue(w, status, calendarOf(&cal))
	return nil
}

func (c *almanacCalls) list(ctx context.Context, in *Paging) (*listed[view.CalendarLine], error) {
	all, err := c.almanac.Calendars(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, func(cal *task.Calendar) string {
		return cal.Name
	}, calendarShelf, *in)
	if err != nil {
		return nil, err
	}
	items := make([]view.CalendarLine, len(page))
	for i := range page {
		cal := &page[i]
		items[i] = view.CalendarLine{Name: cal.Name, Skip: len(cal.Skip), Keep: len(cal.Keep)}
		if days := slices.Concat(cal.Skip, cal.Keep); len(days) > 0 {
			items[i].First, items[i].Last = slices.Min(days), slices.Max(days)
		}
	}
	return &listed[view.CalendarLine]{list[view.CalendarLine]{items, next}}, nil
}

func (c *almanacCalls) get(
	ctx context.Context, in *CalendarPath,
) (*struct{ Body view.Calendar }, error) {
	all, err := c.almanac.Calendars(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(cal task.Calendar) bool { return cal.Name == in.Calendar })
	if i < 0 {
		return nil, fmt.Errorf("calendar %.140q: %w", in.Calendar, store.ErrNotFound)
	}
	return &struct{ Body view.Calendar }{calendarOf(&all[i])}, nil
}
