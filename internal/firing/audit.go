package firing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// edge is how much sooner than rows are pruned audits stop looking for them: they go while an audit
// reads on.
const edge = time.Hour

// Audit compares the due times of a schedule after from, up to and with to, with what has a row;
// 0 = unbounded. It looks at what is handled and kept: nothing after the cursor, nothing older than
// store.FiresKept. store.ErrNotFound.
func (vs *views) Audit(ctx context.Context, name string, from, to int64) (store.Audit, error) {
	now := vs.now()
	from = max(from, now-(store.FiresKept-edge).Microseconds())
	eras, err := vs.store.Eras(ctx, name, from)
	if err != nil {
		return store.Audit{}, fmt.Errorf("audit schedule %q: %w", name, err)
	}
	is := &eras[len(eras)-1]
	from = max(from, eras[0].Since)
	to = max(min(cmp.Or(to, store.Never), now, is.Next-1), from)
	due := demand{at: from, to: to, stop: ctx.Err}
	for i := range eras {
		t, err := vs.times.of(&eras[i])
		if err != nil {
			return store.Audit{},
				fmt.Errorf("audit schedule %q: version %d: %w", name, eras[i].Version, err)
		}
		due.eras = append(due.eras, era{eras[i].Since, cmp.Or(eras[i].Until, store.Never), t})
	}
	a := newAuditor(store.Audit{Schedule: name, From: from, To: to}, &due)
	const page = 1000
	q := store.FireQuery{Schedule: name, From: from + 1, To: to + 1, Limit: page}
	for {
		list, err := vs.store.Fires(ctx, q)
		if err != nil {
			return store.Audit{}, fmt.Errorf("audit schedule %q: %w", name, err)
		}
		for i := range list {
			a.row(&list[i])
		}
		if len(list) < page {
			found := a.end()
			if ctx.Err() != nil { // then it was not looked at to the end
				return store.Audit{}, context.Cause(ctx)
			}
			return found, nil
		}
		q.After = list[page-1].At
	}
}

// demand are the due times of a schedule through its eras, one after the other.
type demand struct {
	eras   []era
	at, to int64 // the last one; none is after to
	// stop is asked every now and then whether to go on; when it answers an error there are no more
	// due times. nil = nobody is asked.
	stop  func() error
	count int
}

// lookUp is after how many due times an audit looks whether its caller is still there: some
// milliseconds.
const lookUp = 1024

// era is a time during which a schedule said the same: its due times after since, up to and with
// until.
type era struct {
	since, until int64
	times        *timetable
}

// next is the next due time; store.Never.
func (d *demand) next() int64 {
	if d.count++; d.count%lookUp == 0 && d.stop != nil && d.stop() != nil {
		d.eras = nil
	}
	for len(d.eras) > 0 {
		e := &d.eras[0]
		if at := e.times.next(max(d.at, e.since)); at <= min(e.until, d.to) {
			d.at = at
			return at
		}
		d.eras = d.eras[1:]
	}
	return store.Never
}

// auditor goes over due times and rows side by side, from the oldest on.
type auditor struct {
	store.Audit
	demand *demand
	due    int64        // the first due time that was not compared; store.Never
	shared []store.Fire // rows that may stand for it, too
}

func newAuditor(a store.Audit, d *demand) *auditor {
	return &auditor{Audit: a, demand: d, due: d.next()}
}

// row compares a row with the due times up to it.
func (a *auditor) row(f *store.Fire) {
	a.upTo(f.At)
	switch {
	case a.due == f.At:
		a.count(f)
		a.due = a.demand.next()
		if f.Outcome == task.FireFired && f.Origin == task.OriginSchedule {
			a.Late = max(a.Late, f.Time-f.At)
		}
	case f.At <= a.From: // it begins before what is looked at
	case f.Through > f.At: // the first of those that share it has a row of its own since
	case f.Origin == task.OriginSchedule:
		a.Strays = shown(a.Strays, f.At)
	default:
		a.Aside++
	}
	if f.Through > f.At {
		a.shared = append(a.shared, *f)
	}
}

// upTo goes over the due times before a time: they have no row of their own.
func (a *auditor) upTo(at int64) {
	for a.due < at {
		a.shared = slices.DeleteFunc(a.shared, func(f store.Fire) bool { return f.Through < a.due })
		if len(a.shared) > 0 {
			a.count(&a.shared[0])
		} else {
			a.Demanded++
			a.Holes = shown(a.Holes, a.due)
		}
		a.due = a.demand.next()
	}
}

// count counts a due time that has a row.
func (a *auditor) count(f *store.Fire) {
	a.Demanded++
	switch f.Outcome {
	case task.FireFired:
		a.Fired++
	case task.FireSkipped:
		a.Skipped++
	case task.FireMissed:
		a.Missed++
	case task.FireQueued:
		a.Queued++
	}
}

// shown adds a time to those that are shown, as long as there is room.
func shown(times []int64, at int64) []int64 {
	if len(times) == store.MaxHoles {
		return times
	}
	return append(times, at)
}

// end goes over the due times behind the last row.
func (a *auditor) end() store.Audit {
	a.upTo(store.Never)
	return a.Audit
}
