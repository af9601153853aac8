package rota

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

func TestScheduleFiresAndIsSteered(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := Open(ctx, Config{Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan task.ID, 100)
	n.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
		ran <- h.ID
		return task.Finish(nil)
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if _, err := n.PutSchedule(
		ctx, "pulse", client.ScheduleChange{Cron: new("* * * * * *"), Queue: new("q")},
	); err != nil {
		t.Fatal(err)
	}
	if <-ran == (task.ID{}) {
		t.Error("a task without an id")
	}
	if err := n.PauseSchedule(ctx, "pulse"); err != nil {
		t.Error(err)
	}
	status, err := n.Schedule(ctx, "pulse")
	if err != nil || status.Owner != "n" || status.Last.IsZero() ||
		!status.Next.After(status.Last) || !status.Paused {
		t.Errorf("status %+v, %v", status, err)
	}
	fire, err := n.RunSchedule(ctx, "pulse")
	if err != nil {
		t.Error(err)
	}
	for <-ran != fire.Task.ID { // those before it were due
	}
	if err := n.DeleteSchedule(ctx, "pulse"); err != nil {
		t.Error(err)
	}
	if _, err := n.Schedule(ctx, "pulse"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

func TestNodeTellsOfSchedulesWhatTheAPIDoes(t *testing.T) {
	n := start(t, Config{})
	ctx := t.Context()
	if err := n.PutCalendar(
		ctx, task.Calendar{Name: "holidays", Skip: []string{"2021-12-25"}},
	); err != nil {
		t.Fatal(err)
	}
	const cron = "0 12 25 12 *"
	if _, err := n.PutSchedule(ctx, "yearly",
		client.ScheduleChange{Cron: new(cron), Queue: new("q"),
			Calendar: new("holidays")}); err != nil {
		t.Fatal(err)
	}
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	done, err := n.BackfillSchedule(ctx, "yearly", client.Backfill{
		From: year(2020), To: year(2024),
	})
	if err != nil || len(done.Times) != 3 || len(done.Fires) != 3 ||
		!done.Times[0].Equal(time.Date(2020, 12, 25, 12, 0, 0, 0, time.UTC)) {
		t.Fatalf("backfilled %+v, %v", done, err)
	}
	if err := n.Cancel(ctx, done.Fires[2].Task.ID); err != nil {
		t.Error(err)
	}
	fires, _, err := n.Fires(ctx, "yearly",
		client.FireFilter{Outcome: task.FireFired, Since: year(2021)}, "", 0)
	if err != nil || len(fires) != 2 || fires[0].Ended != "cancelled" || fires[1].Ended != "" ||
		fires[0].Task != done.Fires[2].Task {
		t.Errorf("fires %+v, %v", fires, err)
	}
	if rest, _, err := n.Fires(
		ctx, "yearly", client.FireFilter{Until: fires[1].At.Time}, "", 1,
	); err != nil || len(rest) != 1 || !rest[0].At.Equal(done.Times[0].Time) {
		t.Errorf("what comes after them %+v, %v", rest, err)
	}
	list, err := n.Schedules(ctx)
	if err != nil || len(list) != 1 || list[0].LastOutcome != "cancelled" ||
		list[0].LastTask != fires[0].Task.ID || list[0].Next.IsZero() {
		t.Errorf("schedules %+v, %v", list, err)
	}
	if a, err := n.AuditSchedule(
		ctx, "yearly", time.Time{}, time.Time{},
	); err != nil || !a.Complete || a.Schedule != "yearly" {
		t.Errorf("audit %+v, %v", a, err)
	}
	p, err := n.PreviewSchedule(ctx, client.PreviewRequest{
		Cron: cron, Calendar: "holidays", From: year(2021), Count: 1,
	})
	if err != nil || len(p.Times) != 1 || p.Times[0].Year() != 2022 {
		t.Errorf("preview %+v, %v", p, err)
	}
	if list, err := n.Calendars(ctx); err != nil || len(list) != 1 ||
		list[0].Skip != 1 || list[0].First != "2021-12-25" {
		t.Errorf("calendars %+v, %v", list, err)
	}
	if err := n.DeleteCalendar(ctx, "holidays"); !errors.Is(err, ErrConflict) {
		t.Errorf("deletion of a calendar that a schedule has: %v", err)
	}
	_, _, late := n.Fires(
		ctx, "yearly", client.FireFilter{Since: year(2022), Until: year(2021)}, "", 0,
	)
	_, _, long := n.Fires(ctx, "yearly", client.FireFilter{}, "", 1001)
	_, audit := n.AuditSchedule(ctx, "yearly", year(2022), year(2021))
	_, preview := n.PreviewSchedule(ctx, client.PreviewRequest{Cron: "61 * * * *"})
	for _, err := range []error{late, long, audit, preview} {
		if invalid := (*task.InvalidError)(nil); !errors.As(err, &invalid) {
			t.Errorf("error %v, want an invalid one", err)
		}
	}
	if _, _, err := n.Fires(
		ctx, "nobody", client.FireFilter{}, "", 0,
	); !errors.Is(err, ErrNotFound) {
		t.Errorf("fires of nobody: %v", err)
	}
}

func TestBadScheduleIsRefusedWithThePlace(t *testing.T) {
	n := start(t, Config{})
	s := client.ScheduleChange{Cron: new("0 25 * * *"), Queue: new("q"), Calendar: new("holidays")}
	_, err := n.PutSchedule(t.Context(), "pulse", s)
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), `hour "25"`) ||
		!strings.Contains(err.Error(), `no calendar "holidays"`) {
		t.Errorf("error %v", err)
	}
	if err := n.PutCalendar(
		t.Context(), task.Calendar{Name: "holidays", Skip: []string{"2026-12-25"}},
	); err != nil {
		t.Error(err)
	}
	s.Cron = new("0 5 * * *")
	if _, err := n.PutSchedule(t.Context(), "pulse", s); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
}
