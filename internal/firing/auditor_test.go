package firing

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// day is when the scenes of audits begin.
var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// hour is a time of that day.
func hour(h int) int64 { return day + int64(h)*time.Hour.Microseconds() }

// table makes the timetable of an expression.
func table(t testing.TB, expression string, first int64) *timetable {
	t.Helper()
	times, err := newTimetables().of(&store.Schedule{
		Schedule: task.Schedule{Cron: expression}, First: first,
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// audited audits rows against eras.
func audited(a store.Audit, eras []era, list []store.Fire) store.Audit {
	made := newAuditor(a, &demand{eras: eras, at: a.From, to: a.To})
	for i := range list {
		made.row(&list[i])
	}
	return made.end()
}

func TestAuditComparesRowsWithWhatWasDueThen(t *testing.T) {
	hourly, second := table(t, "0 * * * *", 0), table(t, "0 */2 * * *", 0)
	always := []era{{hour(0), store.Never, hourly}}
	row := func(h int, outcome task.FireOutcome) store.Fire {
		return store.Fire{
			At: hour(h), Through: hour(h), Count: 1, Origin: task.OriginSchedule, Outcome: outcome,
			Time: hour(h) + int64(h),
		}
	}
	span := func(from, through, count int) store.Fire {
		f := row(from, task.FireMissed)
		f.Through, f.Count = hour(through), int64(count)
		return f
	}
	by := func(origin task.Origin, f store.Fire) store.Fire {
		f.Origin = origin
		return f
	}
	late := func(f store.Fire, by int64) store.Fire {
		f.Time = f.At + by
		return f
	}
	fired, skipped, missed, queued := task.FireFired, task.FireSkipped, task.FireMissed,
		task.FireQueued
	for _, c := range []struct {
		what     string
		eras     []era
		from, to int64
		rows     []store.Fire
		want     store.Audit // but for From and To
	}{
		{"nothing was due", always, hour(0), hour(1) - 1, nil, store.Audit{}},
		{"each outcome", always, hour(0), hour(4),
			[]store.Fire{row(1, fired), row(2, skipped), row(3, missed), row(4, queued)},
			store.Audit{Demanded: 4, Fired: 1, Skipped: 1, Missed: 1, Queued: 1, Late: 1}},
		{"the latest of those that were fired", always, hour(0), hour(3),
			[]store.Fire{late(row(1, fired), 9), late(row(2, fired), 7), late(row(3, missed), 99)},
			store.Audit{Demanded: 3, Fired: 2, Missed: 1, Late: 9}},
		{"holes at the beginning, between and at the end", always, hour(0), hour(5),
			[]store.Fire{row(2, fired), row(4, fired)},
			store.Audit{Demanded: 5, Fired: 2, Late: 4, Holes: []int64{hour(1), hour(3), hour(5)}}},
		{"no rows at all", always, hour(1), hour(3), nil, store.Audit{
			Demanded: 2, Holes: []int64{hour(2), hour(3)},
		}},
		{"rows of times that were not due", always, hour(0), hour(2),
			[]store.Fire{
				late(row(1, fired), 0), {At: hour(1) + 1, Origin: task.OriginSchedule},
				late(row(2, fired), 0),
			},
			store.Audit{Demanded: 2, Fired: 2, Strays: []int64{hour(1) + 1}}},
		{"a shared row", always, hour(0), hour(5),
			[]store.Fire{span(1, 4, 4), late(row(5, fired), 0)},
			store.Audit{Demanded: 5, Fired: 1, Missed: 4}},
		{"a shared row that begins before", always, hour(2), hour(5),
			[]store.Fire{span(1, 4, 4), late(row(5, fired), 0)},
			store.Audit{Demanded: 3, Fired: 1, Missed: 2}},
		{"a shared row that goes on behind", always, hour(0), hour(3), []store.Fire{span(1, 4, 4)},
			store.Audit{Demanded: 3, Missed: 3}},
		{"a hole behind a shared row", always, hour(0), hour(4), []store.Fire{span(1, 3, 3)},
			store.Audit{Demanded: 4, Missed: 3, Holes: []int64{hour(4)}}},
		{"one of a shared row was backfilled", always, hour(0), hour(4),
			[]store.Fire{span(1, 4, 4), by(task.OriginBackfill, late(row(3, fired), 50))},
			store.Audit{Demanded: 4, Fired: 1, Missed: 3}},
		{"rows that nobody demanded", always, hour(0), hour(1), []store.Fire{
			by(task.OriginManual, store.Fire{At: hour(0) + 1}), late(row(1, fired), 0),
			by(task.OriginAfter, store.Fire{At: hour(1) + 1}), by(task.OriginBackfill, store.Fire{
				At: hour(1) + 2,
			}),
		}, store.Audit{Demanded: 1, Fired: 1, Aside: 3}},
		{"it was changed", []era{{hour(0), hour(3), hourly}, {hour(3), store.Never, second}},
			hour(0), hour(8),
			[]store.Fire{
				row(1, missed), row(2, missed), row(3, missed), row(4, missed), row(6, missed),
				row(8, missed),
			},
			store.Audit{Demanded: 6, Missed: 6}},
		{"it was changed, and fired by the old",
			[]era{{hour(0), hour(3), second}, {hour(3), store.Never, hourly}}, hour(0), hour(4),
			[]store.Fire{row(1, missed), row(2, missed), row(4, missed)}, store.Audit{
				Demanded: 2, Missed: 2, Strays: []int64{hour(1)},
			}},
		{"it followed another for a while",
			[]era{{hour(0), hour(1), hourly}, {hour(1), hour(3), table(t, "", 0)},
				{hour(3), store.Never, hourly}}, hour(0), hour(4),
			[]store.Fire{row(1, missed), by(task.OriginAfter, row(2, fired)), row(4, missed)},
			store.Audit{Demanded: 2, Missed: 2, Aside: 1}},
		{"somebody chose a due time",
			[]era{{hour(0), store.Never, table(t, "0 * * * *", hour(2)+5)}}, hour(0), hour(4),
			[]store.Fire{
				{At: hour(2) + 5, Origin: task.OriginSchedule, Outcome: missed}, row(3, missed),
				row(4, missed),
			},
			store.Audit{Demanded: 3, Missed: 3}},
		{"somebody chose one, and took it back",
			[]era{{hour(0), hour(1), table(t, "0 * * * *", hour(4))},
				{hour(1), store.Never, hourly}}, hour(0), hour(2),
			[]store.Fire{row(2, missed)}, store.Audit{Demanded: 1, Missed: 1}},
	} {
		a := store.Audit{Schedule: "s", From: c.from, To: c.to}
		c.want.Schedule, c.want.From, c.want.To = "s", c.from, c.to
		if got := audited(a, c.eras, c.rows); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.what, got, c.want)
		}
		if complete := len(c.want.Holes)+len(c.want.Strays) == 0; c.want.Complete() != complete {
			t.Errorf("%s: complete is %v", c.what, !complete)
		}
	}
}

// What an audit says of rows from which some were taken, and to which some were added, is what was
// taken and added.
func FuzzAuditFindsWhatIsMissingAndWhatIsTooMuch(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		luck := rand.New(rand.NewPCG(seed, 0))
		expressions := []string{
			"* * * * *", "*/7 * * * *", "0 * * * *", "@every 90s", "30 4 * * *", "@every 13m",
		}
		var eras []era
		due := map[int64]bool{}
		a := store.Audit{From: hour(2), To: hour(2) + luck.Int64N(hour(40)-hour(0))}
		for at := hour(0); at < a.To; {
			until := at + luck.Int64N(10*time.Hour.Microseconds())
			times := table(t, expressions[luck.IntN(len(expressions))], 0)
			eras = append(eras, era{at, until, times})
			for d := range times.cron.All(time.UnixMicro(max(at, a.From)),
				time.UnixMicro(min(until, a.To))) {
				due[d.UnixMicro()] = true
			}
			at = until
		}
		var list []store.Fire
		var holes, strays []int64
		demanded := int64(len(due))
		for at := range due {
			if luck.IntN(10) == 0 {
				holes = append(holes, at)
			} else {
				list = append(list, store.Fire{
					At: at, Through: at, Origin: task.OriginSchedule, Outcome: task.FireFired,
					Time: at,
				})
			}
		}
		for range luck.IntN(20) {
			if at := a.From + 1 + luck.Int64N(a.To-a.From); !due[at] {
				due[at] = true
				strays = append(strays, at)
				list = append(list, store.Fire{
					At: at, Through: at, Origin: task.OriginSchedule, Outcome: task.FireFired,
				})
			}
		}
		slices.SortFunc(list, func(a, b store.Fire) int { return int(a.At - b.At) })
		slices.Sort(holes)
		slices.Sort(strays)
		got := audited(a, eras, list)
		if !slices.Equal(got.Holes, first(holes)) || !slices.Equal(got.Strays, first(strays)) {
			t.Fatalf("holes %v, strays %v; want %v and %v", got.Holes, got.Strays, holes, strays)
		}
		if got.Demanded != demanded || got.Fired != demanded-int64(len(holes)) {
			t.Fatalf("%d demanded, %d fired; want %d and %d", got.Demanded, got.Fired, demanded,
				demanded-int64(len(holes)))
		}
	})
}

func first(times []int64) []int64 { return times[:min(len(times), store.MaxHoles)] }

// reader is a firer on a store that nobody fires, at a time of the scene's day.
func reader(t *testing.T) (*Firer, *model.Model, *contract.Clock) {
	clock := contract.NewClock()
	model := model.New(clock.Now)
	f, err := New(Config{
		Store: model, Tasks: noTasks{}, Clock: tick.New(tick.Config{}), Node: "a", Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, model, clock
}

// noTasks is a room of tasks that nobody enters.
type noTasks struct{ Tasks }

func TestAuditLooksOnlyAtWhatIsHandledAndKept(t *testing.T) {
	ctx := t.Context()
	f, model, clock := reader(t)
	if _, err := f.Audit(ctx, "s", 0, 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("audit of no schedule: %v", err)
	}
	start := clock.Now().Truncate(time.Minute)
	s := limits.DefaultSchedule("s")
	s.Cron, s.Queue = "* * * * *", "q"
	minute := func(n int) int64 { return start.Add(time.Duration(n) * time.Minute).UnixMicro() }
	put := store.SchedulePut{Schedule: s, Since: minute(0), Then: minute(1)}
	change := func(put store.SchedulePut) {
		t.Helper()
		if _, err := model.ChangeSchedules(
			ctx, store.ScheduleChange{Puts: []store.SchedulePut{put}},
		); err != nil {
			t.Fatal(err)
		}
	}
	change(put)
	clock.Advance(3000 * time.Minute)
	part := store.FirePart{Schedule: "s", Version: 1, Next: minute(1), Then: minute(2501)}
	for i := range 2500 { // several pages; the 500 after them are not handled
		part.Fires = append(part.Fires, store.Fire{
			At: minute(i + 1), Origin: task.OriginSchedule, Outcome: task.FireMissed,
		})
	}
	got, err := model.Fire(ctx, store.Firing{Node: "a", Parts: []store.FirePart{part}})
	if err != nil || got.Parts[0].Refused != "" {
		t.Fatal(got.Parts[0].Refused, err)
	}
	audit := func(what string, from, to int64, want store.Audit) {
		t.Helper()
		want.Schedule = "s"
		if got, err := f.Audit(ctx, "s", from, to); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", what, got, err, want)
		}
	}
	audit("everything", 0, 0, store.Audit{
		From: minute(0), To: minute(2501) - 1, Demanded: 2500, Missed: 2500,
	})
	audit("a part", minute(100), minute(200), store.Audit{
		From: minute(100), To: minute(200), Demanded: 100, Missed: 100,
	})
	audit("what is to come", minute(2600), 0, store.Audit{From: minute(2600), To: minute(2600)})
	put.Version, put.Next, put.Since, put.Then = 1, minute(2501), minute(2500), minute(100_000)
	put.Cron = "0 0 1 1 *"
	change(put)
	audit("after a change", minute(2400), 0, store.Audit{
		From: minute(2400), To: clock.Micros(), Demanded: 100, Missed: 100,
	})

	clock.Advance(store.FiresKept)
	for {
		if n, err := model.Prune(ctx, 1000); err != nil || n == 0 {
			break
		}
	}
	kept := clock.Micros() - (store.FiresKept - time.Hour).Microseconds()
	audit("long after", 0, 0, store.Audit{From: kept, To: minute(100_000) - 1})
}

func TestPreviewShowsDueTimesAndWhatIsUnusualAboutThem(t *testing.T) {
	f, model, clock := reader(t)
	ctx := t.Context()
	calendar := task.Calendar{Name: "feasts", Skip: []string{"2026-03-28"}}
	if _, err := model.ChangeSchedules(ctx, store.ScheduleChange{Calendar: &calendar}); err != nil {
		t.Fatal(err)
	}
	at := func(text string) int64 {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMicro()
	}
	spring := []int64{
		at("2026-03-27T01:30:00Z"), at("2026-03-29T01:00:00Z"), at("2026-03-30T00:30:00Z"),
	}
	note := "clocks go forward: 2026-03-29 02:30 does not exist in Europe/Berlin, so it is due at the end of the gap"
	now := clock.Now()
	for _, c := range []struct {
		request store.PreviewRequest
		want    store.Preview
	}{
		{store.PreviewRequest{
			Cron: "30 2 * * *", Zone: "Europe/Berlin", Calendar: "feasts",
			From: at("2026-03-26T12:00:00Z"), Count: 3,
		},
			store.Preview{
				Times: spring, Notes: []store.PreviewNote{{At: spring[1], Text: note}},
				Zone: "Europe/Berlin",
			}},
		// after nine o'clock
		{store.PreviewRequest{
			Cron: "CRON_TZ=Asia/Tokyo 0 9 * * *", From: at("2026-03-28T00:00:00Z"), Count: 1,
		},
			store.Preview{Times: []int64{at("2026-03-29T00:00:00Z")}, Zone: "Asia/Tokyo"}},
		{store.PreviewRequest{
			Cron: "CRON_TZ=Asia/Tokyo 0 9 * * *; 0 3 * * *", Zone: "Europe/Paris",
			From: at("2026-03-01T00:00:00Z"), Count: 2,
		},
			store.Preview{
				Times: []int64{at("2026-03-01T02:00:00Z"), at("2026-03-02T00:00:00Z")},
				Zone:  "Europe/Paris",
			}},
		{store.PreviewRequest{Cron: "0 0 1 1 *", From: at("2198-06-01T00:00:00Z"), Count: 9},
			store.Preview{Times: []int64{at("2199-01-01T00:00:00Z")}, Zone: "UTC"}},
		{store.PreviewRequest{Cron: "@hourly", Count: 1},
			store.Preview{
				Times: []int64{now.Truncate(time.Hour).Add(time.Hour).UnixMicro()}, Zone: "UTC",
			}},
	} {
		got, err := f.Preview(ctx, c.request)
		parsed, _ := cron.Parse(c.request.Cron, cron.Options{
			Zone: must(time.LoadLocation(c.request.Zone)),
		})
		c.want.Sentence = parsed.Describe(cron.English)
		c.want.Chinese = parsed.Describe(cron.Chinese)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v:\ngot  %+v, %v\nwant %+v", c.request, got, err, c.want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestPreviewNamesEverythingThatIsWrong(t *testing.T) {
	f, _, _ := reader(t)
	for _, c := range []struct {
		request store.PreviewRequest
		want    []string
	}{
		{store.PreviewRequest{Count: 1}, []string{"body.cron"}},
		{store.PreviewRequest{Cron: "61 * * * *", Calendar: "none", Count: 1001},
			[]string{"body.count", "body.calendar", "body.cron"}},
		{store.PreviewRequest{Cron: "* * * * *", Zone: "Mars/Olympus"},
			[]string{"body.count", "body.zone"}},
		{store.PreviewRequest{Cron: "0 0 30 2 *", Count: 1}, []string{"body.cron"}},
	} {
		_, err := f.Preview(context.Background(), c.request)
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", c.request, err)
			continue
		}
		var got []string
		for _, field := range invalid.Fields {
			got = append(got, field.Location)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: wrong are %v, want %v", c.request, got, c.want)
		}
	}
}

// BenchmarkAudit audits an hour of a schedule that fires every second, a row at a time.
func BenchmarkAudit(b *testing.B) {
	each := table(b, "* * * * * *", 0)
	for b.Loop() {
		a := newAuditor(store.Audit{From: day, To: hour(1)}, &demand{
			eras: []era{{day, store.Never, each}}, at: day, to: hour(1),
		})
		for at := day + 1e6; at <= hour(1); at += 1e6 {
			a.row(&store.Fire{
				At: at, Through: at, Origin: task.OriginSchedule, Outcome: task.FireFired, Time: at,
			})
		}
		if got := a.end(); !got.Complete() || got.Fired != 3600 {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/3600, "ns/row")
}

// A schedule that was due every second for months has millions of due times: whoever has left is
// not waited for.
func TestAuditEndsWithItsCaller(t *testing.T) {
	each := table(t, "* * * * * *", 0)
	from, to := int64(0), (90 * 24 * time.Hour).Microseconds()
	asked := 0
	d := &demand{eras: []era{{from, store.Never, each}}, at: from, to: to, stop: func() error {
		if asked++; asked == 3 {
			return context.Canceled
		}
		return nil
	}}
	a := newAuditor(store.Audit{From: from, To: to}, d)
	a.end()
	if asked != 3 || a.Demanded > 3*lookUp {
		t.Errorf("it went over %d due times, and looked up %d times", a.Demanded, asked)
	}
}
