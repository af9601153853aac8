package client

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// nightlyAndMail are the schedules of the API's stories.
func nightlyAndMail(t *testing.T) (mail, nightly Schedule) {
	t.Helper()
	id, err := task.ParseID("1jwrrkvpcj00710")
	if err != nil {
		t.Fatal(err)
	}
	mail = Schedule{Schedule: limits.DefaultSchedule("mail"), Version: 1, Created: aMoment}
	nightly = Schedule{Schedule: limits.DefaultSchedule("nightly")}
	mail.After, mail.Queue, mail.Zone = "nightly", "mail", "UTC"
	nightly.Cron = "30 2 * * *"
	nightly.Zone = "Europe/Berlin"
	nightly.Calendar = "de"
	nightly.Queue = "reports"
	nightly.Stage = "collect"
	nightly.Starts = aMoment
	nightly.Priority = time.Minute
	nightly.MaxAttempts = 3
	nightly.Timeout = time.Hour
	nightly.Context = json.RawMessage(`{ "a" :1e400, "a":9007199254740993,"s":"<&>` + "\u2028" +
		`\ud800", "e":[ ] }`)
	nightly.Overlap = task.OverlapSkip
	nightly.Misfire = task.MisfireAll
	nightly.MisfireWindow = 2 * time.Hour
	nightly.Jitter = task.Jitter{Share: .25}
	nightly.Notices = task.Notices{
		On:      []task.Notice{task.NoticeDead, task.NoticeSlow},
		Origins: []task.Origin{task.OriginSchedule}, Slow: 20 * time.Minute,
	}
	nightly.Version = 7
	nightly.Created = aMoment
	nightly.Next = aMoment.Add(24 * time.Hour)
	nightly.Last = aMoment
	nightly.NextChosen = true
	nightly.LastTask = id
	nightly.LastOutcome = "done"
	nightly.Owner = "n1"
	mail.Notices.On, mail.Notices.Origins = []task.Notice{}, []task.Origin{}
	return mail, nightly
}

func TestSchedulesAreReadAsTheAPIWritesThem(t *testing.T) {
	c := told(t)
	mail, nightly := nightlyAndMail(t)
	all, err := c.Schedules(t.Context())
	if diff := cmp.Diff([]Schedule{mail, nightly}, all); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	one, err := c.Schedule(t.Context(), "nightly")
	if diff := cmp.Diff(nightly, one); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	nightly.Context = json.RawMessage(`{"a":1}`) // encoding/json would strip spaces
	for _, s := range []Schedule{mail, nightly} {
		var again Schedule
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if diff := cmp.Diff(s, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestSchedulesAreChangedAsTheAPIReadsIt(t *testing.T) {
	c := told(t)
	for name, change := range map[string]ScheduleChange{
		"new": {Cron: new("0 3 * * *"), Queue: new("mail")},
		"nightly": {
			Cron: new("0 4 * * *"), Ends: new(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
			Starts: new(time.Time{}), Context: json.RawMessage("null"),
			Jitter:  &task.Jitter{Max: 30 * time.Second},
			Notices: &NoticesChange{Origins: new([]task.Origin{})}, Paused: new(true),
			Priority: new(time.Duration(0)),
		},
		"mail": {Jitter: &task.Jitter{Share: .5}, Stage: new("s"), Calendar: new("de"),
			Zone: new("Asia/Tokyo"), Title: new("订单邮件"), Owner: new("ana@example.com")},
	} {
		if s, err := c.PutSchedule(t.Context(), name, change); err != nil ||
			s.Name != name ||
			change.Owner != nil && (s.Responsible != *change.Owner || s.Title != *change.Title) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	s, err := c.PutSchedule(t.Context(), "nightly", ScheduleChange{
		Next:    new(time.Date(2026, 11, 1, 12, 0, 0, 5e8, time.FixedZone("", 7200))),
		Context: json.RawMessage("[ 1.0 ]"), Overlap: new(task.OverlapQueue),
		Misfire: new(task.MisfireSkip), MisfireWindow: new(time.Hour), MaxAttempts: new(0),
		Timeout: new(time.Duration(0)),
		Notices: &NoticesChange{On: &[]task.Notice{task.NoticeDone}, Slow: new(time.Duration(0))},
	})
	if err != nil || string(s.Context) != "[ 1.0 ]" ||
		!s.Next.Equal(time.Date(2026, 11, 1, 10, 0, 0, 5e8, time.UTC)) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.PutSchedule(
		t.Context(), "nightly", ScheduleChange{Next: new(time.Time{})},
	); err != nil {
		t.Error(err)
	}
	if _, err := c.PutSchedule(
		t.Context(), "nightly", ScheduleChange{After: new("mail")},
	); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]ScheduleChange{
		"joined": {After: new("mail,nightly"), AfterMode: new(task.AfterAny),
			AfterOn: new(task.AfterEnded), AfterDelay: new(30 * time.Second), Queue: new("mail")},
		"mail": {Manual: new(true), OnDead: new(task.OnDeadStop), Parallel: new(2)},
	} {
		if s, err := c.PutSchedule(t.Context(), name, change); err != nil ||
			name == "joined" && (s.After != "mail,nightly" || s.AfterDelay != 30*time.Second) ||
			name == "mail" && (!s.Manual || s.Parallel != 2 || s.OnDead != task.OnDeadStop) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if _, err := c.PutSchedule(
		t.Context(), "nightly", ScheduleChange{Context: json.RawMessage("{")},
	); !errors.Is(err, ErrInvalid) {
		t.Errorf("a context that is no JSON: %v", err)
	}
	receipts, err := c.PutSchedules(t.Context(), []NamedChange{
		{"mail", ScheduleChange{Paused: new(true)}},
		{"new", ScheduleChange{
			Cron: new("* * * * *"), Queue: new("mail"), Context: json.RawMessage(`{ "a" :1e400}`),
		}},
		{"nightly", ScheduleChange{}},
	})
	if err != nil || len(receipts) != 3 || receipts[0].Created || !receipts[1].Created ||
		receipts[2].Version != 8 || receipts[2].Next.IsZero() {
		t.Errorf("%+v, %v", receipts, err)
	}
	if none, err := c.PutSchedules(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	for name, call := range map[string]func() error{
		"pause":  func() error { return c.PauseSchedule(t.Context(), "nightly") },
		"resume": func() error { return c.ResumeSchedule(t.Context(), "mail") },
		"delete": func() error { return c.DeleteSchedule(t.Context(), "mail") },
		"put calendar": func() error {
			return c.PutCalendar(t.Context(), task.Calendar{
				Name: "new", Keep: []string{"2026-12-01"},
			})
		},
		"delete calendar": func() error { return c.DeleteCalendar(t.Context(), "odd") },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunIsReadAsTheAPIWritesIt(t *testing.T) {
	run, err := told(t).ScheduleRun(t.Context(), "nightly",
		time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))
	if err != nil || run.Schedule != "nightly" || run.Fires != 3 || !run.Whole ||
		len(run.Tree) != 1 || len(run.Tree[0].Children) != 1 ||
		run.Tree[0].Children[0].Children[0].Schedule != "end" {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestFiresAreReadAsTheAPIWritesThem(t *testing.T) {
	c := told(t)
	_, nightly := nightlyAndMail(t)
	fires, next, err := c.Fires(t.Context(), "nightly", FireFilter{}, "", 0)
	day := 24 * time.Hour
	at := func(d time.Duration) view.Time { return view.Time{Time: aMoment.Add(d)} }
	want := []view.Fire{
		{At: at(0), Through: at(0), Count: 1, Origin: task.OriginSchedule,
			Outcome: task.FireFired, Task: view.TaskID{ID: nightly.LastTask}, Ended: "done",
			Node:  "n1",
			Fired: at(time.Millisecond), After: []view.FireKey{}},
		{At: at(-day), Through: at(-day), Count: 1, Origin: task.OriginSchedule,
			Outcome: task.FireSkipped, Reason: "the task of 10:00 is not final", Node: "n2",
			Fired: at(0), After: []view.FireKey{}},
		{At: at(-9 * day), Through: at(-2 * day), Count: 8,
			Origin: task.OriginSchedule, Outcome: task.FireMissed, Reason: "192h late", Node: "n2",
			Fired: at(0), After: []view.FireKey{}},
	}
	if diff := cmp.Diff(want, fires); err != nil || diff != "" || next != "" {
		t.Errorf("%v, next %q %s", err, next, diff)
	}
	for _, f := range want {
		var again view.Fire
		text, err := json.Marshal(f)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if diff := cmp.Diff(f, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	if one, _, err := c.Fires(
		t.Context(), "nightly", FireFilter{Outcome: task.FireSkipped}, "", 0,
	); err != nil || len(one) != 1 {
		t.Errorf("%v, %v", one, err)
	}
	f := FireFilter{
		Since: time.Date(2026, 9, 25, 0, 0, 0, 0, time.UTC),
		Until: time.Date(2026, 9, 26, 0, 0, 0, 0, time.UTC),
	}
	if one, _, err := c.Fires(t.Context(), "nightly", f, "", 0); err != nil || len(one) != 1 {
		t.Errorf("%v, %v", one, err)
	}
	if _, next, err := c.Fires(
		t.Context(), "nightly", FireFilter{}, "", 1,
	); err != nil || next == "" {
		t.Errorf("next %q, %v", next, err)
	}
	if f, err := c.RunSchedule(t.Context(), "nightly"); err != nil ||
		f.Origin != task.OriginManual || f.Task == (view.TaskID{}) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestBackfillsAuditsAndPreviewsTravelWhole(t *testing.T) {
	c := told(t)
	from, to := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)
	done, err := c.BackfillSchedule(t.Context(), "nightly", Backfill{From: from, To: to, Limit: 2})
	if err != nil || len(done.Times) != 2 || done.Fired != 1 || len(done.Fires) != 2 ||
		done.Fires[0].Outcome != task.FireQueued {
		t.Errorf("%+v, %v", done, err)
	}
	done, err = c.BackfillSchedule(t.Context(), "nightly", Backfill{
		From: from, To: to, DryRun: true,
	})
	if err != nil || len(done.Times) != 2 || len(done.Fires) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	whole, err := c.AuditSchedule(t.Context(), "nightly", time.Time{}, time.Time{})
	want := view.Audit{
		Schedule: "nightly", Complete: true, Demanded: 12, Fired: 3, Skipped: 1, Missed: 8,
		Aside: 2, Holes: []view.Time{}, Strays: []view.Time{},
		Late: view.Duration(1500 * time.Microsecond),
	}
	if diff := cmp.Diff(want, whole); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	part, err := c.AuditSchedule(t.Context(), "nightly", from, to)
	if err != nil || part.Complete || len(part.Holes) != 1 || len(part.Strays) != 1 ||
		!part.From.Equal(from) || !part.To.Equal(to) {
		t.Errorf("%+v, %v", part, err)
	}
	p, err := c.PreviewSchedule(t.Context(), PreviewRequest{
		Cron: "H 2 * * *", Zone: "Europe/Berlin", Calendar: "de", Name: "nightly",
		From: time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), Count: 2,
	})
	if err != nil || len(p.Times) != 2 || len(p.Notes) != 1 ||
		!p.Notes[0].At.Equal(p.Times[0].Time) ||
		p.Zone != "Europe/Berlin" || p.Chinese == "" || !strings.Contains(p.Sentence, "H 2 * * *") {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.PreviewSchedule(
		t.Context(), PreviewRequest{Cron: "@daily"},
	); err != nil || len(p.Times) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestCalendarsAreReadAsTheAPIWritesThem(t *testing.T) {
	c := told(t)
	all, err := c.Calendars(t.Context())
	want := []view.CalendarLine{
		{Name: "de", Skip: 2, First: "2026-12-25", Last: "2026-12-26"},
		{Name: "odd", Keep: 1, First: "2027-01-01", Last: "2027-01-01"},
	}
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	one, err := c.Calendar(t.Context(), "de")
	if err != nil || len(one.Skip) != 2 || len(one.Keep) != 0 || one.Name != "de" {
		t.Errorf("%+v, %v", one, err)
	}
}
