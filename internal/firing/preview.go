package firing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// maxPreview is how many due times one preview shows.
const maxPreview = 1000

// Preview says when an expression is due, and how that reads. *task.InvalidError.
func (vs *views) Preview(ctx context.Context, r store.PreviewRequest) (store.Preview, error) {
	var e task.InvalidError
	if r.Count < 1 || r.Count > maxPreview {
		e.Add("body.count", "must be 1 to %d", maxPreview)
	}
	s := store.Schedule{
		Schedule: task.Schedule{Name: r.Name, Cron: r.Cron, Zone: r.Zone, Calendar: r.Calendar},
	}
	if r.Calendar != "" {
		calendars, err := vs.store.Calendars(ctx)
		if err != nil {
			return store.Preview{}, fmt.Errorf("preview: read calendars: %w", err)
		}
		i := slices.IndexFunc(calendars, func(c task.Calendar) bool { return c.Name == r.Calendar })
		if i < 0 {
			e.Add("body.calendar", "there is no calendar %q", r.Calendar)
		} else {
			s.Days = &calendars[i]
		}
	}
	t, err := vs.times.of(&s)
	switch {
	case err != nil:
		addFault(&e, "body", err)
	case t.cron == nil:
		e.Add("body.cron", "is missing")
	}
	if e.Err() != nil {
		return store.Preview{}, &e
	}
	return t.preview(cmp.Or(r.From, vs.now()), r.Count), nil
}

// preview shows the first due times after a time.
func (t *timetable) preview(from int64, count int) store.Preview {
	p := store.Preview{
		Sentence: t.cron.Describe(cron.English), Chinese: t.cron.Describe(cron.Chinese),
	}
	zone := t.zone
	for at := t.cron.Next(time.UnixMicro(from)); !at.IsZero() &&
		len(p.Times) < count; at = t.cron.Next(at) {
		if len(p.Times) == 0 {
			zone = at.Location() // an expression may name another one
		} else if zone != at.Location() {
			zone = t.zone
		}
		p.Times = append(p.Times, at.UnixMicro())
		if text := t.cron.Note(at); text != "" {
			p.Notes = append(p.Notes, store.PreviewNote{At: at.UnixMicro(), Text: text})
		}
	}
	p.Zone = zone.String()
	return p
}
