package firing

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/sqlite"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// BenchmarkRound fires 10,000 schedules that are due at the same minute, on SQLite: what the last
// of them is late by. A second figure is what a round costs that finds nothing due.
func BenchmarkRound(b *testing.B) {
	const schedules = 10_000
	ctx := context.Background()
	var minute atomic.Int64
	begin := time.Now().Truncate(time.Minute)
	now := func() time.Time { return begin.Add(time.Duration(minute.Load())) }
	db, err := sqlite.Open(ctx, sqlite.Config{
		Path: filepath.Join(b.TempDir(), "bench.db"), Now: now,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	lease, err := db.Acquire(ctx, "node/n", "n", time.Hour, nil)
	if err != nil {
		b.Fatal(err)
	}
	clock := tick.New(tick.Config{})
	tasks, err := dispatch.New(ctx, dispatch.Config{
		Store: db, Holder: store.Holder{Node: "n", Token: lease.Token}, Clock: clock,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer tasks.Close(ctx)
	f, err := New(Config{Store: db, Tasks: tasks, Clock: clock, Node: "n", Alone: true, Now: now})
	if err != nil {
		b.Fatal(err)
	}
	edits := make([]store.ScheduleEdit, schedules)
	for i := range edits {
		edits[i].Schedule = limits.DefaultSchedule(fmt.Sprint("s", i))
		edits[i].Cron, edits[i].Queue = "* * * * *", "q"
	}
	if _, err := f.Put(ctx, edits...); err != nil {
		b.Fatal(err)
	}
	b.Run("Due", func(b *testing.B) {
		for b.Loop() {
			minute.Add(int64(time.Minute))
			if err := f.Round(ctx, now()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/schedules, "µs/fire")
	})
	b.Run("NothingDue", func(b *testing.B) {
		for b.Loop() {
			if err := f.Round(ctx, now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What it costs to change a calendar that ten thousand schedules have.
func BenchmarkPutCalendar(b *testing.B) {
	const schedules = 10_000
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	lease, err := db.Acquire(ctx, "node/n", "n", time.Hour, nil)
	if err != nil {
		b.Fatal(err)
	}
	clock := tick.New(tick.Config{})
	tasks, err := dispatch.New(ctx, dispatch.Config{
		Store: db, Holder: store.Holder{Node: "n", Token: lease.Token}, Clock: clock,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer tasks.Close(ctx)
	f, err := New(Config{Store: db, Tasks: tasks, Clock: clock, Node: "n", Alone: true})
	if err != nil {
		b.Fatal(err)
	}
	days := task.Calendar{Name: "c", Skip: []string{"2030-01-01"}}
	if _, err := f.PutCalendar(ctx, days); err != nil {
		b.Fatal(err)
	}
	edits := make([]store.ScheduleEdit, schedules)
	for i := range edits {
		edits[i].Schedule = limits.DefaultSchedule(fmt.Sprint("s", i))
		edits[i].Cron, edits[i].Queue, edits[i].Calendar = "0 3 * * *", "q", "c"
	}
	if _, err := f.Put(ctx, edits...); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		days.Skip = []string{fmt.Sprintf("2030-01-%02d", 2+i%28)}
		if _, err := f.PutCalendar(ctx, days); err != nil {
			b.Fatal(err)
		}
	}
}
