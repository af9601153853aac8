package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rotahq/rota/task"
)

// Fire is what came of a due time of a schedule.
type Fire struct {
	At      time.Time // the due time
	Through time.Time // the last of the due times that this stands for, and
	Count   int64     // how many they are: 1, or more that were missed in a row
	Origin  task.Origin
	Outcome task.FireOutcome
	Reason  string // why it was not fired
	Task    task.ID
	Ended   string // how the task ended; "" = it is not final, or nobody knows any more
	Node    string // that wrote it down
	Fired   time.Time
}

// fireView is a fire in the API's JSON.
type fireView struct {
	At      time.Time        `json:"at"`
	Through time.Time        `json:"through"`
	Count   int64            `json:"count"`
	Origin  task.Origin      `json:"origin"`
	Outcome task.FireOutcome `json:"outcome"`
	Reason  string           `json:"reason"`
	Task    idOrNone         `json:"task"`
	Ended   string           `json:"ended"`
	Node    string           `json:"node"`
	Fired   time.Time        `json:"fired"`
}

// MarshalJSON writes the fire as the API does.
func (f Fire) MarshalJSON() ([]byte, error) {
	return json.Marshal(fireView{f.At, f.Through, f.Count, f.Origin, f.Outcome, f.Reason,
		idOrNone(f.Task), f.Ended, f.Node, f.Fired})
}

// UnmarshalJSON reads the fire as the API writes it.
func (f *Fire) UnmarshalJSON(b []byte) error {
	var v fireView
	err := json.Unmarshal(b, &v)
	*f = Fire{
		v.At, v.Through, v.Count, v.Origin, v.Outcome, v.Reason, task.ID(v.Task), v.Ended, v.Node,
		v.Fired,
	}
	return err
}

// RunSchedule submits a schedule's task now, aside of its due times, paused or not. It is not
// repeated once it may have arrived.
func (c *Client) RunSchedule(ctx context.Context, name string) (Fire, error) {
	var f Fire
	if err := c.send(
		ctx, request{method: http.MethodPost, path: schedulePath(name) + "/run"}, &f,
	); err != nil {
		return Fire{}, fmt.Errorf("run schedule %q: %w", name, err)
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
) (fires []Fire, next string, err error) {
	q := paged(url.Values{}, cursor, limit)
	for name, value := range map[string]string{"outcome": string(f.Outcome),
		"since": moment(f.Since), "until": moment(f.Until)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var p page[Fire]
	if err := c.get(ctx, request{path: schedulePath(name) + "/fires", query: q}, &p); err != nil {
		return nil, "", fmt.Errorf("list fires of schedule %q: %w", name, err)
	}
	return p.Items, p.Next, nil
}

// Backfill asks for the tasks of due times of the past that were not fired.
type Backfill struct {
	From, To time.Time // due at or after From, before To
	Limit    int       // tasks of the schedule at a time; 0 = all at once
	DryRun   bool      // only say which
}

// Backfilled answers a Backfill.
type Backfilled struct {
	Times []time.Time `json:"times"` // due times that get a task, oldest first
	Fired int64       `json:"fired"` // due times of the range that were fired or queued already
	Fires []Fire      `json:"fires"` // what was written; none of a dry run
}

// BackfillSchedule submits the tasks of due times that were missed or skipped, at most
// task.MaxBackfill. After ErrOutcomeUnknown it can be done again: what was fired stays as it is.
func (c *Client) BackfillSchedule(
	ctx context.Context, name string, b Backfill,
) (Backfilled, error) {
	var done Backfilled
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
		return Backfilled{}, fmt.Errorf("backfill schedule %q: %w", name, err)
	}
	return done, nil
}

// Audit compares what was due with what came of it.
type Audit struct {
	Schedule string    `json:"schedule"`
	Complete bool      `json:"complete"` // every due time has its row, and no other has one
	From     time.Time `json:"from"`     // what was looked at: due times after it,
	To       time.Time `json:"to"`       // up to and with it
	Demanded int64     `json:"demanded"` // due times by what the schedule was at the time
	Fired    int64     `json:"fired"`
	Skipped  int64     `json:"skipped"`
	Missed   int64     `json:"missed"`
	Queued   int64     `json:"queued"`
	// rows that nobody demanded: by hand, backfilled, following
	Aside  int64       `json:"aside"`
	Holes  []time.Time `json:"holes"`  // due times without a row, the first 1,000
	Strays []time.Time `json:"strays"` // rows of times that were not due, the first 1,000
	// the longest that a fired one was late, as Go writes durations
	Late string `json:"late"`
}

// AuditSchedule compares what was due after from, up to and with to, with what came of it; zero
// times are no bounds.
func (c *Client) AuditSchedule(
	ctx context.Context, name string, from, to time.Time,
) (Audit, error) {
	q := url.Values{}
	for name, t := range map[string]time.Time{"from": from, "to": to} {
		if !t.IsZero() {
			q.Set(name, moment(t))
		}
	}
	var a Audit
	if err := c.get(ctx, request{path: schedulePath(name) + "/audit", query: q}, &a); err != nil {
		return Audit{}, fmt.Errorf("audit schedule %q: %w", name, err)
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

// Preview answers a PreviewRequest.
type Preview struct {
	Times    []time.Time   `json:"times"`
	Notes    []PreviewNote `json:"notes"` // what is unusual about some of them
	Sentence string        `json:"sentence"`
	Chinese  string        `json:"chinese"`
	Zone     string        `json:"zone"` // in which the times are best read
}

// PreviewNote says what is unusual about a due time.
type PreviewNote struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// PreviewSchedule says when an expression is due, without a schedule.
func (c *Client) PreviewSchedule(ctx context.Context, r PreviewRequest) (Preview, error) {
	var p Preview
	body, err := json.Marshal(r)
	if err == nil {
		err = c.send(ctx,
			request{method: http.MethodPost, path: "/v1/schedules/preview", body: body, safe: true},
			&p)
	}
	if err != nil {
		return Preview{}, fmt.Errorf("preview %.80q: %w", r.Cron, err)
	}
	return p, nil
}
