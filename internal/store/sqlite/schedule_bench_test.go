package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// plans makes n schedules that are due from now on.
func (c *client) plans(n int) []store.Schedule {
	c.Helper()
	var list []store.Schedule
	for len(list) < n {
		var change store.ScheduleChange
		for i := len(list); i < min(len(list)+10_000, n); i++ {
			s := limits.DefaultSchedule(fmt.Sprintf("schedule-%06d", i))
			s.Cron, s.Queue, s.Context = "* * * * *", "q", []byte(context100)
			now := c.clock()
			change.Puts = append(change.Puts, store.SchedulePut{
				Schedule: s, Since: now - 1, Then: now,
			})
		}
		got, err := c.ChangeSchedules(c.Context(), change)
		if err != nil {
			c.Fatal(err)
		}
		list = append(list, got...)
	}
	return list
}

// firing fires schedules from where they stand, a task each.
func (c *client) firing(list []store.Schedule, watch bool) store.Firing {
	b := c.batch(len(list), len(list), false)
	f := store.Firing{Node: "a", NewQueues: []string{"q"}, Batches: []store.Batch{b}}
	for i := range list {
		s := &list[i]
		id := task.ID{Batch: b.ID, N: int32(i)}
		f.Parts = append(f.Parts,
			store.FirePart{Schedule: s.Name, Version: s.Version, Next: s.Next, Then: s.Next + 1000,
				Fires: []store.Fire{
					{At: s.Next, Origin: task.OriginSchedule, Outcome: task.FireFired, Task: id,
						Watch: watch},
				}})
	}
	return f
}

// What it costs to fire schedules, by how many share a transaction, among ten thousand.
func BenchmarkFire(b *testing.B) {
	for _, scene := range []struct {
		size  int
		watch bool
	}{{1, false}, {500, false}, {1000, false}, {1000, true}} {
		b.Run(fmt.Sprintf("schedules=%d/watch=%v", scene.size, scene.watch), func(b *testing.B) {
			c := join(b, open(b, Config{Path: filepath.Join(b.TempDir(), "rota.db")}))
			all := c.plans(10_000)
			b.ReportAllocs()
			cpu := cpuTime()
			done, from := 0, 0
			for b.Loop() {
				list := all[from : from+scene.size]
				if from += scene.size; from == len(all) {
					from = 0
				}
				got, err := c.Fire(b.Context(), c.firing(list, scene.watch))
				if err != nil {
					b.Fatal(err)
				}
				for i := range list {
					if got.Parts[i].Refused != "" {
						b.Fatal(got.Parts[i].Refused)
					}
					list[i].Next += 1000
				}
				done += scene.size
			}
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(done), "cpu-ns/fire")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/fire")
		})
	}
}

// What a beat pays to find that none of a hundred thousand schedules is due, and what there is.
func BenchmarkDueAmongAHundredThousand(b *testing.B) {
	c := join(b, open(b, Config{Path: filepath.Join(b.TempDir(), "rota.db")}))
	first := c.plans(100_000)[0].Next
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			if list, err := c.Due(
				b.Context(), store.DueQuery{Until: first - 1, Limit: 1000},
			); err != nil || len(list) > 0 {
				b.Fatal(list, err)
			}
		}
	})
	b.Run("a thousand", func(b *testing.B) {
		for b.Loop() {
			if list, err := c.Due(
				b.Context(), store.DueQuery{Until: store.Never, Limit: 1000},
			); err != nil || len(list) != 1000 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("keys", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.ScheduleKeys(b.Context(), 256); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.OpenFires(b.Context(), store.OpenQuery{Limit: 1000}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("start", func(b *testing.B) {
		path := c.path
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			s, err := Open(b.Context(), Config{Path: path})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}

// What it costs to make ten thousand schedules, and to change them all.
func BenchmarkChangeTenThousandSchedules(b *testing.B) {
	const many = 10_000
	b.Run("make", func(b *testing.B) {
		dir := b.TempDir()
		cpu, done := cpuTime(), 0
		for ; b.Loop(); done += many {
			c := join(b, open(b, Config{Path: filepath.Join(dir, fmt.Sprint(done, ".db"))}))
			c.plans(many)
		}
		b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(done), "cpu-ns/schedule")
	})
	b.Run("replace", func(b *testing.B) {
		c := join(b, open(b, Config{Path: filepath.Join(b.TempDir(), "rota.db")}))
		list := c.plans(many)
		cpu, done := cpuTime(), 0
		for ; b.Loop(); done += many {
			var change store.ScheduleChange
			for i := range list {
				s := &list[i]
				p := store.SchedulePut{
					Schedule: s.Schedule, Version: s.Version, Next: s.Next, Since: s.Since,
					Then: s.Next,
				}
				p.Paused = !p.Paused
				change.Puts = append(change.Puts, p)
			}
			var err error
			if list, err = c.ChangeSchedules(b.Context(), change); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(done), "cpu-ns/schedule")
	})
}

// What it costs to say how schedules stand, which a node does while somebody looks at the overview
// or at metrics.
func BenchmarkScheduleStands(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("schedules=%d", n), func(b *testing.B) {
			c := join(b, open(b, Config{Path: filepath.Join(b.TempDir(), "rota.db")}))
			c.plans(n)
			cpu := cpuTime()
			for b.Loop() {
				list, err := c.ScheduleStands(b.Context(), c.clock()-10_000_000)
				if err != nil || len(list) != 1 || list[0].All != int64(n) {
					b.Fatalf("%+v, %v", list, err)
				}
			}
			b.ReportMetric(float64(cpuTime()-cpu)/1e6/float64(b.N), "CPU-ms/op")
		})
	}
}
