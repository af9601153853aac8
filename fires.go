package rota

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Fires lists what came of a schedule's due times, newest first: at most limit (0 = 100, at most
// 1,000). It goes on with f.Until the At of the last. ErrNotFound, *task.InvalidError.
func (n *Node) Fires(
	ctx context.Context, schedule string, f client.FireFilter, limit int,
) ([]client.Fire, error) {
	if err := inOrder("until", "since", f.Since, f.Until); err != nil {
		return nil, err
	}
	if limit < 0 || limit > maxPage {
		return nil, &task.InvalidError{
			Fields: []task.FieldError{
				{Location: "limit",
					Message: fmt.Sprintf("must be 1 to %d, or 0 for %d", maxPage, standardPage)},
			},
		}
	}
	q := store.FireQuery{
		Schedule: schedule, From: microsOf(f.Since), To: microsOf(f.Until), Newest: true,
		Limit: cmp.Or(limit, standardPage),
	}
	if f.Outcome != "" {
		q.Outcomes = []task.FireOutcome{f.Outcome}
	}
	list, err := n.firer.Fires(ctx, q)
	return firesOf(list), err
}

// AuditSchedule compares what was due after from, up to and with to, with what came of it; zero
// times are no bounds. ErrNotFound, *task.InvalidError.
func (n *Node) AuditSchedule(
	ctx context.Context, name string, from, to time.Time,
) (client.Audit, error) {
	if err := inOrder("to", "from", from, to); err != nil {
		return client.Audit{}, err
	}
	a, err := n.firer.Audit(ctx, name, microsOf(from), microsOf(to))
	if err != nil {
		return client.Audit{}, err
	}
	return client.Audit{
		Schedule: a.Schedule, Complete: a.Complete(), From: timeAt(a.From), To: timeAt(a.To),
		Demanded: a.Demanded, Fired: a.Fired, Skipped: a.Skipped,
		Missed: a.Missed, Queued: a.Queued, Aside: a.Aside, Holes: timesAt(a.Holes),
		Strays: timesAt(a.Strays),
		Late:   (time.Duration(a.Late) * time.Microsecond).String(),
	}, nil
}

// BackfillSchedule submits the tasks of due times that were missed or skipped, at most
// task.MaxBackfill. After an error some may have been: it can be done again, and what was fired
// stays as it is. ErrNotFound, *task.InvalidError.
func (n *Node) BackfillSchedule(
	ctx context.Context, name string, b client.Backfill,
) (client.Backfilled, error) {
	done, err := n.firer.Backfill(ctx, name, store.BackfillRequest{
		From: microsOf(b.From), To: microsOf(b.To), Limit: b.Limit, DryRun: b.DryRun,
	})
	return client.Backfilled{Times: timesAt(done.Times), Fired: done.Fired,
		Fires: firesOf(done.Fires)}, err
}

// PreviewSchedule says when an expression is due, without a schedule. *task.InvalidError.
func (n *Node) PreviewSchedule(
	ctx context.Context, r client.PreviewRequest,
) (client.Preview, error) {
	p, err := n.firer.Preview(ctx, store.PreviewRequest{
		Cron: r.Cron, Zone: r.Zone, Calendar: r.Calendar, Name: r.Name, From: microsOf(r.From),
		Count: cmp.Or(r.Count, standardPreview),
	})
	if err != nil {
		return client.Preview{}, err
	}
	out := client.Preview{
		Times: timesAt(p.Times), Sentence: p.Sentence, Chinese: p.Chinese, Zone: p.Zone,
	}
	for _, note := range p.Notes {
		out.Notes = append(out.Notes, client.PreviewNote{At: timeAt(note.At), Text: note.Text})
	}
	return out, nil
}

// How long a list is, if nobody says, and at most; they are those of the REST API.
const (
	standardPage = 100
	maxPage      = 1000
)

// standardPreview is how many due times a preview shows.
const standardPreview = 10

// PutCalendar creates or replaces a calendar that schedules name. *task.InvalidError.
func (n *Node) PutCalendar(ctx context.Context, c task.Calendar) error {
	_, err := n.firer.PutCalendar(ctx, c)
	return err
}

// Calendars lists all calendars, by name.
func (n *Node) Calendars(ctx context.Context) ([]task.Calendar, error) {
	return n.firer.Calendars(ctx)
}

// DeleteCalendar forgets a calendar. ErrNotFound, ErrConflict when a schedule has it.
func (n *Node) DeleteCalendar(ctx context.Context, name string) error {
	return n.firer.DeleteCalendar(ctx, name)
}

func firesOf(list []store.Fire) []client.Fire {
	fires := make([]client.Fire, len(list))
	for i := range list {
		f := &list[i]
		fires[i] = client.Fire{
			At: timeAt(f.At), Through: timeAt(f.Through), Count: f.Count, Origin: f.Origin,
			Outcome: f.Outcome, Reason: f.Reason,
			Task: f.Task, Ended: f.End(), Node: f.Node, Fired: timeAt(f.Time),
		}
	}
	return fires
}

// inOrder refuses a time that lies before another; zero times are no bounds.
func inOrder(end, begin string, from, to time.Time) error {
	var e task.InvalidError
	if !to.IsZero() && to.Before(from) {
		e.Add(end, "lies before %s", begin)
	}
	return e.Err()
}

// microsOf is a time as the store knows it; 0 = the zero time.
func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeAt(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func timesAt(micros []int64) []time.Time {
	list := make([]time.Time, len(micros))
	for i, at := range micros {
		list[i] = timeAt(at)
	}
	return list
}
