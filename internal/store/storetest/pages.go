package storetest

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// PageFilters are the filters whose pages BenchmarkPages measures. The store is as its benchmark
// fills it: what is called rare is the oldest.
func PageFilters(now time.Time) []store.Filter {
	day := 24 * time.Hour
	return []store.Filter{
		{},
		{Queue: "q7"},
		{Queue: "rare"},
		{Stage: "first"},
		{Stage: "rare"},
		{Worker: "w7"},
		{Worker: "rare"},
		{Worker: "nobody", Queue: "q7"},
		{Key: "same"},
		{Key: "same", Queue: "rare"},
		{Since: now.Add(-time.Hour).UnixMicro()},
		{Since: now.Add(-8 * day).UnixMicro(), Until: now.Add(-7 * day).UnixMicro(), Queue: "q7"},
		{Until: now.Add(-8 * day).UnixMicro()},
		{State: task.Done},
		{State: task.Done, Queue: "rare"},
		{State: task.Done, Worker: "rare"},
		{State: task.Done, Stage: "rare"},
		{State: task.Dead},
		{State: task.Dead, Queue: "q7"},
		{State: task.Dead, Queue: "rare"},
		{State: task.Dead, Stage: "rare"},
		{State: task.Dead, Worker: "rare"},
		{State: task.Dead, Since: now.Add(-time.Hour).UnixMicro()},
		{State: task.Cancelled},
		{State: task.Cancelled, Queue: "rare"},
		{State: task.Waiting},
		{State: task.Waiting, Queue: "q7"},
		{State: task.Waiting, Queue: "rare"},
		{State: task.Waiting, Stage: "rare"},
		{State: task.Ready},
		{State: task.Ready, Queue: "rare"},
		{State: task.Ready, Stage: "rare"},
		{State: task.Ready, Worker: "w7"},
		{State: task.Running},
		{State: task.Running, Queue: "q7"},
		{State: task.Running, Queue: "rare"},
		{State: task.Running, Worker: "w7"},
		{State: task.Running, Worker: "nobody"},
		{Error: regexp.MustCompile("rare")},
		{State: task.Dead, Error: regexp.MustCompile("rare")},
	}
}

// BenchmarkPages measures for each filter the first page, the page that took longest, and the whole
// walk. Pages have 100 tasks, and no walk is followed for more than a thousand pages or two
// seconds. cpu is what the store has used so far: on a busy machine it says more than the time.
func BenchmarkPages(b *testing.B, s Store, cpu func() time.Duration) {
	for _, f := range PageFilters(time.Now()) {
		b.Run(nameOf(f), func(b *testing.B) {
			var first, whole time.Duration
			var took []time.Duration
			found := 0
			began := cpu()
			for b.Loop() {
				var after task.ID
				took, found, whole, began = took[:0], 0, 0, cpu()
				for whole < 2*time.Second && len(took) < 1000 {
					start := time.Now()
					page, next, err := s.Tasks(b.Context(), f, after, 100)
					if err != nil {
						b.Fatal(err)
					}
					d := time.Since(start)
					took = append(took, d)
					whole += d
					found += len(page)
					if after = next; after == (task.ID{}) {
						break
					}
				}
			}
			used := cpu() - began
			first = took[0]
			slices.Sort(took)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(first), "ms-first")
			b.ReportMetric(ms(took[len(took)/2]), "ms-p50")
			b.ReportMetric(ms(took[len(took)-1]), "ms-max")
			b.ReportMetric(ms(used)/float64(len(took)), "cpu-ms/page")
			b.ReportMetric(float64(len(took)), "pages")
			b.ReportMetric(float64(found), "found")
		})
	}
}

// nameOf is a filter as the name of a benchmark.
func nameOf(f store.Filter) string {
	name := fmt.Sprintf("queue=%s/state=%s/stage=%s/worker=%s/key=%s", f.Queue, f.State, f.Stage,
		f.Worker, f.Key)
	if f.Since > 0 {
		name += "/since"
	}
	if f.Until > 0 {
		name += "/until"
	}
	if f.Error != nil {
		name += "/error=" + f.Error.String()
	}
	return name
}
