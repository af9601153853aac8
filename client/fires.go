package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// RunSchedule submits a schedule's task now, aside of its due times, paused or not. It is not
// repeated once it may have arrived.
func (c *Client) RunSchedule(ctx context.Context, name string) (view.Fire, error) {
	var f view.Fire
	if err := c.send(
		ctx, request{method: http.MethodPost, path: schedulePath(name) + "/run"}, &f,
	); err != nil {
		return view.Fire{}, fmt.Errorf("run schedule %q: %w", name, err)
	}
	return f, nil
}

// FireFilter selects fires. Zero fields select everything.
type FireFilter struct {
	Outcome task.FireOutcome
	Since   time.Time // due at or after
	Until   time.Time // due before
}

// Fires lists what came of a schedule's due times, newest first: at most limit (0 = 100, at most
// 1,000) from cursor on ("" = the start). next is the cursor of the following page, "" after the
// last. A page of one outcome may be short, even empty, while next is not "".
func (c *Client) Fires(
	ctx context.Context, name string, f FireFilter, cursor string, limit int,
) (fires []view.Fire, next string, err error) {
	q := paged(url.Values{}, cursor, limit)
	for name, value := range map[string]string{"outcome": string(f.Outcome),
		"since": moment(f.Since), "until": moment(f.Until)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var p page[view.Fire]
	if err := c.get(ctx, request{path: schedulePath(name) + "/fires", query: q}, &p); err != nil {
		return nil, "", fmt.Errorf("list fires of schedule %q: %w", name, err)
	}
	return p.Items, p.Next, nil
}

// ScheduleRun shows the run to which the fire of a schedule at a due time belongs: the fire with
// which it began, and all that followed it by way of After, with the states and times of their
// tasks. A time in whole seconds or milliseconds finds the newest fire in that second or
// millisecond.
func (c *Client) ScheduleRun(
	ctx context.Context, name string, at time.Time,
) (view.ScheduleRun, error) {
	var run view.ScheduleRun
	path := schedulePath(name) + "/runs/" + segment(at.UTC().Format(time.RFC3339Nano))
	if err := c.get(ctx, request{path: path}, &run); err != nil {
		return view.ScheduleRun{}, fmt.Errorf("show the run of schedule %q: %w", name, err)
	}
	return run, nil
}

// Backfill asks for the tasks of due times of the past that were not fired.
type Backfill struct {
	From, To time.Time // due at or after From, before To
	Limit    int       // tasks of the schedule at a time; 0 = all at once
	DryRun   bool      // only say which
}

// BackfillSchedule submits the tasks of due times that were missed or skipped, at most
// 10,000. After ErrOutcomeUnknown it can be done again: what was fired stays as it is.
func (c *Client) BackfillSchedule(
	ctx context.Context, name string, b Backfill,
) (view.Backfilled, error) {
	var done view.Backfilled
	body, err := json.Marshal(struct {
		From   string `json:"from"`
		To     string `json:"to"`
		Limit  int    `json:"limit,omitempty"`
		DryRun bool   `json:"dry_run,omitempty"`
	}{moment(b.From), moment(b.To), b.Limit, b.DryRun})
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPost, path: schedulePath(name) + "/backfill", body: body,
				safe: b.DryRun}, &done)
	}
	if err != nil {
		return view.Backfilled{}, fmt.Errorf("backfill schedule %q: %w", name, err)
	}
	return done, nil
}

// AuditSchedule compares what was due after from, up to and with to, with what came of it; zero
// times are no bounds.
func (c *Client) AuditSchedule(
	ctx context.Context, name string, from, to time.Time,
) (view.Audit, error) {
	q := url.Values{}
	for name, t := range map[string]time.Time{"from": from, "to": to} {
		if !t.IsZero() {
			q.Set(name, moment(t))
		}
	}
	var a view.Audit
	if err := c.get(ctx, request{path: schedulePath(name) + "/audit", query: q}, &a); err != nil {
		return view.Audit{}, fmt.Errorf("audit schedule %q: %w", name, err)
	}
	return a, nil
}

// PreviewRequest asks when an expression is due.
type PreviewRequest struct {
	Cron     string    `json:"cron"`
	Zone     string    `json:"zone,omitempty"`
	Calendar string    `json:"calendar,omitempty"`
	Name     string    `json:"name,omitempty"`  // of a schedule, which chooses what H stands for
	From     time.Time `json:"from,omitzero"`   // due times after it; zero = now
	Count    int       `json:"count,omitempty"` // at most 1,000; 0 = 10
}

// PreviewSchedule says when an expression is due, without a schedule.
func (c *Client) PreviewSchedule(ctx context.Context, r PreviewRequest) (view.Preview, error) {
	var p view.Preview
	body, err := json.Marshal(r)
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPost, path: "/v1/schedules/preview", body: body, safe: true},
			&p)
	}
	if err != nil {
		return view.Preview{}, fmt.Errorf("preview %.80q: %w", r.Cron, err)
	}
	return p, nil
}
