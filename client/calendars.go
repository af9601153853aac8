package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

func calendarPath(name string) string { return "/v1/calendars/" + segment(name) }

// Calendars lists all calendars, by name.
func (c *Client) Calendars(ctx context.Context) ([]view.CalendarLine, error) {
	all, err := list[view.CalendarLine](ctx, c, "/v1/calendars")
	if err != nil {
		return nil, fmt.Errorf("list calendars: %w", err)
	}
	return all, nil
}

// Calendar reads one calendar.
func (c *Client) Calendar(ctx context.Context, name string) (view.Calendar, error) {
	var calendar view.Calendar
	if err := c.get(ctx, request{path: calendarPath(name)}, &calendar); err != nil {
		return view.Calendar{}, fmt.Errorf("read calendar %q: %w", name, err)
	}
	return calendar, nil
}

// PutCalendar creates a calendar or replaces its days. Schedules that have it go by the new days
// from now on.
func (c *Client) PutCalendar(ctx context.Context, calendar task.Calendar) error {
	body, err := json.Marshal(struct {
		Skip []string `json:"skip,omitempty"`
		Keep []string `json:"keep,omitempty"`
	}{calendar.Skip, calendar.Keep})
	if err == nil {
		err = c.send(ctx,
			request{
				method: http.MethodPut, path: calendarPath(calendar.Name), body: body, safe: true,
			}, nil)
	}
	if err != nil {
		return fmt.Errorf("put calendar %q: %w", calendar.Name, err)
	}
	return nil
}

// DeleteCalendar forgets a calendar. ErrConflict when a schedule has it.
func (c *Client) DeleteCalendar(ctx context.Context, name string) error {
	if err := c.send(
		ctx, request{method: http.MethodDelete, path: calendarPath(name)}, nil,
	); err != nil {
		return fmt.Errorf("delete calendar %q: %w", name, err)
	}
	return nil
}
