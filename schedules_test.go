package rota

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	s := task.DefaultSchedule("pulse")
	s.Cron, s.Queue = "* * * * * *", "q"
	if err := n.PutSchedule(ctx, s); err != nil {
		t.Fatal(err)
	}
	if <-ran == (task.ID{}) {
		t.Error("a task without an id")
	}
	if err := n.PauseSchedule(ctx, "pulse", true); err != nil {
		t.Error(err)
	}
	status, err := n.Schedule(ctx, "pulse")
	if err != nil || status.Owner != "n" || status.Last.IsZero() || !status.Next.After(status.Last) || !status.Paused {
		t.Errorf("status %+v, %v", status, err)
	}
	id, err := n.RunSchedule(ctx, "pulse")
	if err != nil {
		t.Error(err)
	}
	for <-ran != id { // those before it were due
	}
	if err := n.DeleteSchedule(ctx, "pulse"); err != nil {
		t.Error(err)
	}
	if _, err := n.Schedule(ctx, "pulse"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

func TestBadScheduleIsRefusedWithThePlace(t *testing.T) {
	n := start(t, Config{})
	s := task.DefaultSchedule("pulse")
	s.Cron, s.Queue, s.Calendar = "0 25 * * *", "q", "holidays"
	err := n.PutSchedule(t.Context(), s)
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), `hour "25"`) || !strings.Contains(err.Error(), `no calendar "holidays"`) {
		t.Errorf("error %v", err)
	}
	if err := n.PutCalendar(t.Context(), task.Calendar{Name: "holidays", Skip: []string{"2026-12-25"}}); err != nil {
		t.Error(err)
	}
	if s.Cron = "0 5 * * *"; n.PutSchedule(t.Context(), s) != nil {
		t.Error("a good one is refused")
	}
}
