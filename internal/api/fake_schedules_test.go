package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// clockwork looks after schedules as the fake of the moment says: two of them, one with everything
// and one that follows it.
type clockwork struct{ now func() *fake }

// clockworkOf is that of e's fake when it has one, else of a new one.
func clockworkOf(e Engine) clockwork {
	switch e := e.(type) {
	case *stage:
		return clockwork{e.now}
	case *fake:
		return clockwork{func() *fake { return e }}
	}
	f := newFake()
	return clockwork{func() *fake { return f }}
}

func (c clockwork) list() []store.ScheduleView {
	at := moment.UnixMicro()
	mail, nightly := limits.DefaultSchedule("mail"), limits.DefaultSchedule("nightly")
	mail.After, mail.Queue = "nightly", "mail"
	nightly.Cron = "30 2 * * *"
	nightly.Zone = "Europe/Berlin"
	nightly.Calendar = "de"
	nightly.Queue = "reports"
	nightly.Stage = "collect"
	nightly.Starts = moment
	nightly.Context = json.RawMessage(odd)
	nightly.Priority = time.Minute
	nightly.MaxAttempts = 3
	nightly.Timeout = time.Hour
	nightly.Overlap = task.OverlapSkip
	nightly.Misfire = task.MisfireAll
	nightly.MisfireWindow = 2 * time.Hour
	nightly.Jitter = task.Jitter{Share: .25}
	nightly.Notices = task.Notices{
		On:      []task.Notice{task.NoticeDead, task.NoticeSlow},
		Origins: []task.Origin{task.OriginSchedule}, Slow: 20 * time.Minute,
	}
	day := 24 * time.Hour.Microseconds()
	return []store.ScheduleView{
		{Schedule: store.Schedule{Schedule: mail, Version: 1, Created: at, Next: store.Never}},
		{
			Schedule: store.Schedule{
				Schedule: nightly, Version: 7, Created: at, First: at + day, Next: at + day,
				Last: &store.Fire{
					Schedule: "nightly", At: at, Outcome: task.FireFired, Task: idOf(0),
					Ended: task.KindDone,
				},
			},
			Owner: "n1",
		},
	}
}

func (c clockwork) find(name string) (store.ScheduleView, error) {
	for _, v := range c.list() {
		if v.Name == name {
			return v, nil
		}
	}
	return store.ScheduleView{}, fmt.Errorf("schedule %q: %w", name, store.ErrNotFound)
}

func (c clockwork) Put(_ context.Context, edits ...store.ScheduleEdit) ([]store.Edited, error) {
	var e task.InvalidError
	now := make([]store.Edited, len(edits))
	for i := range edits {
		at := "body"
		if len(edits) > 1 {
			at = fmt.Sprintf("body.schedules[%d]", i)
		}
		limits.CheckSchedule(&edits[i].Schedule, &e, at)
		if edits[i].Cron == "never" {
			e.Add(at+".cron", "is no expression")
		}
		v, err := c.find(edits[i].Name)
		now[i] = store.Edited{ScheduleView: v, Created: err != nil}
		now[i].Schedule.Schedule = edits[i].Schedule
		now[i].Version++
		now[i].Last = nil // nobody asked for it
		now[i].First, now[i].Next = edits[i].First, max(edits[i].First, 1)
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	return now, c.now().change("put schedules %+v", edits)
}

func (c clockwork) Pause(_ context.Context, name string, paused bool) (store.ScheduleView, error) {
	v, err := c.find(name)
	if err != nil {
		return v, err
	}
	v.Paused = paused
	return v, c.now().change("pause schedule %s %v", name, paused)
}

func (c clockwork) Delete(_ context.Context, name string) error {
	if _, err := c.find(name); err != nil {
		return err
	}
	if name == "nightly" {
		return fmt.Errorf("mail follows schedule %q: %w", name, store.ErrConflict)
	}
	return c.now().change("delete schedule %s", name)
}

func (c clockwork) Schedules(
	_ context.Context, q store.ScheduleQuery,
) ([]store.ScheduleView, error) {
	list := slices.DeleteFunc(c.list(), func(v store.ScheduleView) bool {
		return v.Name <= q.After || q.Names != nil && !slices.Contains(q.Names, v.Name) ||
			q.Calendar != "" && v.Calendar != q.Calendar
	})
	for i := range list {
		if !q.Last {
			list[i].Last = nil
		}
	}
	if q.Limit > 0 {
		list = list[:min(q.Limit, len(list))]
	}
	return list, c.now().err
}

func (c clockwork) Stands(_ context.Context, late int64) ([]store.ScheduleStand, error) {
	stands := []store.ScheduleStand{
		{Queue: "mail", All: 3, Paused: 1}, {Queue: "scan", All: 4, Late: 2},
	}
	return stands, c.now().err
}

func (c clockwork) Overdue(context.Context) (time.Duration, error) {
	return 12 * time.Second, c.now().err
}

func (c clockwork) RunNow(_ context.Context, name string) (store.Fire, error) {
	if _, err := c.find(name); err != nil {
		return store.Fire{}, err
	}
	at := moment.UnixMicro()
	return store.Fire{
		Schedule: name, At: at, Through: at, Count: 1, Origin: task.OriginManual,
		Outcome: task.FireFired, Task: idOf(1), Node: "n1", Time: at,
	}, c.now().change("run schedule %s", name)
}

func (c clockwork) Backfill(
	_ context.Context, name string, r store.BackfillRequest,
) (store.Backfilled, error) {
	if _, err := c.find(name); err != nil {
		return store.Backfilled{}, err
	}
	if r.From == 0 || r.To <= r.From {
		return store.Backfilled{}, &task.InvalidError{
			Fields: []task.FieldError{{Location: "body.to", Message: "must lie after from"}},
		}
	}
	done := store.Backfilled{Times: []int64{r.From, r.To - 1}, Fired: 1}
	if r.DryRun {
		return done, c.now().err
	}
	for _, at := range done.Times {
		done.Fires = append(done.Fires, store.Fire{
			At: at, Through: at, Count: 1, Origin: task.OriginBackfill, Outcome: task.FireQueued,
			Node: "n1", Time: r.To,
		})
	}
	return done, c.now().change("backfill schedule %s %+v", name, r)
}

func (c clockwork) Fires(_ context.Context, q store.FireQuery) ([]store.Fire, error) {
	if _, err := c.find(q.Schedule); err != nil {
		return nil, err
	}
	at, day := moment.UnixMicro(), 24*time.Hour.Microseconds()
	all := []store.Fire{
		{At: at, Through: at, Count: 1, Origin: task.OriginSchedule, Outcome: task.FireFired,
			Task: idOf(0), Ended: task.KindDone, Node: "n1", Time: at + 1000},
		{At: at - day, Through: at - day, Count: 1, Origin: task.OriginSchedule,
			Outcome: task.FireSkipped, Reason: "the task of 10:00 is not final", Node: "n2",
			Time:  at,
			Ended: task.KindCancelled}, // it was told of
		{At: at - 9*day, Through: at - 2*day, Count: 8, Origin: task.OriginSchedule,
			Outcome: task.FireMissed, Reason: "192h late", Node: "n2", Time: at},
	}
	all = slices.DeleteFunc(all, func(f store.Fire) bool {
		return q.Schedule != "nightly" || q.After != 0 && f.At >= q.After || f.Through < q.From ||
			q.To != 0 && f.At >= q.To ||
			q.Outcomes != nil && !slices.Contains(q.Outcomes, f.Outcome)
	})
	return all[:min(q.Limit, len(all))], c.now().err
}

func (c clockwork) RunOf(_ context.Context, name string, at int64) (store.RunView, error) {
	if _, err := c.find(name); err != nil {
		return store.RunView{}, err
	}
	root := store.FireKey{Schedule: name, At: at}
	fire := func(name, queue string, parents ...store.FireKey) store.RunFire {
		return store.RunFire{Queue: queue, Fire: store.Fire{
			Schedule: name, At: at, Origin: task.OriginAfter, Outcome: task.FireFired, Run: root,
			Parents: parents, Time: at + int64(len(parents)), Task: task.ID{Batch: 1024},
		}}
	}
	v := store.RunView{Root: root, Whole: true, Fires: []store.RunFire{
		fire("end", "mail", root, store.FireKey{Schedule: "left", At: at}),
		fire("left", "reports", root), fire(name, "mail"),
	}}
	v.Fires[1].State, v.Fires[1].Ended = task.Dead, task.KindFail
	v.Fires[1].Began, v.Fires[1].Finished = moment, moment.Add(time.Second)
	v.Fires[1].Worker, v.Fires[1].Error = "w", "no disk"
	v.Tree()
	return v, c.now().err
}

func (c clockwork) Audit(_ context.Context, name string, from, to int64) (store.Audit, error) {
	if _, err := c.find(name); err != nil {
		return store.Audit{}, err
	}
	a := store.Audit{
		Schedule: name, From: from, To: to, Demanded: 12, Fired: 3, Skipped: 1, Missed: 8, Aside: 2,
		Late: 1500,
	}
	if from != 0 {
		a.Demanded, a.Holes, a.Strays = 13, []int64{from + 1e6}, []int64{from + 2e6}
	}
	return a, c.now().err
}

func (c clockwork) Preview(_ context.Context, r store.PreviewRequest) (store.Preview, error) {
	var e task.InvalidError
	if r.Cron == "" {
		e.Add("body.cron", "nothing stands here")
	}
	if r.Count < 1 || r.Count > 1000 {
		e.Add("body.count", "must be 1 to 1000")
	}
	if err := e.Err(); err != nil {
		return store.Preview{}, err
	}
	at := moment.Truncate(time.Second).UnixMicro()
	return store.Preview{
		Times:    []int64{at, at + 3600e6},
		Notes:    []store.PreviewNote{{At: at, Text: "clocks are set back"}},
		Sentence: fmt.Sprintf("asked %+v", r), Chinese: "每天", Zone: "Europe/Berlin",
	}, c.now().err
}

func (c clockwork) PutCalendar(
	_ context.Context, calendar task.Calendar,
) (created bool, err error) {
	var e task.InvalidError
	if limits.CheckCalendar(&calendar, &e, "body"); e.Err() != nil {
		return false, &e
	}
	return calendar.Name != "de", c.now().change("put calendar %+v", calendar)
}

func (c clockwork) Calendars(context.Context) ([]task.Calendar, error) {
	return []task.Calendar{{Name: "de", Skip: []string{"2026-12-26", "2026-12-25"}},
		{Name: "odd", Keep: []string{"2027-01-01"}}}, c.now().err
}

func (c clockwork) DeleteCalendar(_ context.Context, name string) error {
	switch name {
	case "de":
		return fmt.Errorf("schedule nightly has calendar %q: %w", name, store.ErrConflict)
	case "odd":
		return c.now().change("delete calendar %s", name)
	}
	return fmt.Errorf("calendar %q: %w", name, store.ErrNotFound)
}
