package pagebench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// pageRead is something that people read. One with pages gives where to go on.
type pageRead struct {
	name string
	do   func(after task.ID) (next task.ID, err error)
	from []task.ID // where walks begin
}

// Run measures what people read of a store that Fill filled, and tells it as a table: how long a
// read took, in the middle and at most. A list is followed from its beginning and from its middle.
// cpu is what the store has used so far: on a busy machine it says more than the time. What took
// long is read again, up to five times, and the shortest counts.
func Run(b *testing.B, s contract.Store, cpu func() time.Duration) {
	list, err := pageReads(b.Context(), s, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| read | reads | median ms | worst ms | CPU of median | of worst |\n")
	table.WriteString("|---|---|---|---|---|---|\n")
	for _, r := range list {
		b.Run(r.name, func(b *testing.B) {
			var took, used []time.Duration
			for b.Loop() {
				took, used = nil, nil
				for _, at := range r.from {
					t, u, err := follow(&r, at, cpu)
					if err != nil {
						b.Fatal(err)
					}
					took = append(took, t...)
					used = append(used, u...)
				}
			}
			slices.Sort(took)
			slices.Sort(used)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			middle, last := len(took)/2, len(took)-1
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(took[middle]), "ms-p50")
			b.ReportMetric(ms(took[last]), "ms-max")
			b.ReportMetric(ms(used[middle]), "cpu-ms-p50")
			b.ReportMetric(ms(used[last]), "cpu-ms-max")
			b.ReportMetric(float64(len(took)), "reads")
			fmt.Fprintf(&table, "| %s | %d | %.1f | %.1f | %.1f | %.1f |\n", r.name, len(took),
				ms(took[middle]), ms(took[last]), ms(used[middle]), ms(used[last]))
		})
	}
	fmt.Print("\n", table.String()) // what a benchmark with others in it logs is shown to nobody
}

// follow reads pages from a place on, for a while.
func follow(
	r *pageRead, at task.ID, cpu func() time.Duration,
) (took, used []time.Duration, err error) {
	const pages, often, quick = 8, 5, 5 * time.Millisecond
	for range pages {
		var next task.ID
		least, needed := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for range often {
			began, start := cpu(), time.Now()
			if next, err = r.do(at); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", r.name, err)
			}
			least = min(least, time.Since(start))
			needed = min(needed, cpu()-began)
			if least < quick {
				break
			}
		}
		took = append(took, least)
		used = append(used, needed)
		if next == (task.ID{}) {
			break
		}
		at = next
	}
	return took, used, nil
}

// states are what a list may ask for; "" = all.
var states = append([]task.State{""}, task.States...)

// pageFilters are filters of which each is asked for together with each state.
func pageFilters(now time.Time) []store.Filter {
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMicro() }
	const day = 24 * time.Hour
	return []store.Filter{
		{},
		{Queue: "q7"},
		{Queue: "few7"},
		{Queue: "rare"},
		{Stage: "first"},
		{Stage: "rare"},
		{Worker: "w7"},
		{Worker: "rare"},
		{Worker: "nobody", Queue: "q7"},
		{Key: "same"},
		{Since: ago(time.Hour)},
		{Since: ago(4 * day), Until: ago(3 * day), Queue: "q7"},
		{Until: ago(days*day - 6*time.Hour)},
		{Meta: store.MetaOf(map[string]string{"customer": "c70"})},
		{Meta: store.MetaOf(map[string]string{"customer": "rare"})},
		{Error: regexp.MustCompile("10.0.0.7:.*timeout")},
		{Error: regexp.MustCompile("rare")},
		{Stage: "rare", Worker: "w7", Meta: store.MetaOf(map[string]string{"customer": "rare"})},
	}
}

// pageReads are the lists, and what else there is to read.
func pageReads(ctx context.Context, s contract.Store, now time.Time) ([]pageRead, error) {
	middle := task.ID{Batch: store.BatchID(now.Add(-3*24*time.Hour).UnixMicro(), 0)}
	starts := []task.ID{{}, middle}
	var list []pageRead
	for _, state := range states {
		for _, f := range pageFilters(now) {
			f.State = state
			list = append(list, pageRead{nameOf(f), tasksOf(ctx, s, f, 100), starts})
		}
		list = append(list, pageRead{
			nameOf(store.Filter{State: state}) + " by 1000",
			tasksOf(ctx, s, store.Filter{State: state}, 1000), starts,
		}, pageRead{
			nameOf(store.Filter{State: state, Stage: "rare"}) + " by 1000",
			tasksOf(ctx, s, store.Filter{State: state, Stage: "rare"}, 1000), starts,
		})
	}
	some, err := someOf(ctx, s)
	if err != nil {
		return nil, err
	}
	list = append(list, familyReads(ctx, s, some, middle)...)
	for _, r := range slices.Concat(countReads(ctx, s, now), taskReads(ctx, s, some),
		otherReads(ctx, s, now)) {
		list = append(list, pageRead{
			r.name, func(task.ID) (task.ID, error) { return task.ID{}, r.do() },
			[]task.ID{{}, {}, {}},
		})
	}
	return list, nil
}

func tasksOf(
	ctx context.Context, s contract.Store, f store.Filter, limit int,
) func(task.ID) (task.ID, error) {
	return func(after task.ID) (task.ID, error) {
		_, next, err := s.Tasks(ctx, f, after, limit)
		return next, err
	}
}

// oneRead is something that has no pages.
type oneRead struct {
	name string
	do   func() error
}

// someOf finds tasks by what Fill made of them: by names of what they are good for.
func someOf(ctx context.Context, s contract.Store) (map[string]task.ID, error) {
	some := map[string]task.ID{}
	for name, f := range map[string]store.Filter{
		"done":     {Queue: "q7", State: task.Done},
		"ready":    {Queue: "q7", State: task.Ready},
		"fair":     {Queue: "fair", State: task.Ready},
		"running":  {Queue: "q7", State: task.Running},
		"family":   {Queue: "parents", State: task.Blocked},
		"parent":   {Queue: "parents", State: task.Done},
		"tried":    {Queue: "tried"},
		"awaiting": {Queue: "blocked", State: task.Blocked},
	} {
		page, next, err := s.Tasks(ctx, f, task.ID{}, 20)
		for err == nil && len(page) == 0 && next != (task.ID{}) {
			page, next, err = s.Tasks(ctx, f, next, 20)
		}
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, errors.New("the store was filled by another version: it has no task that is " +
				name)
		}
		some[name] = page[len(page)/2].ID
	}
	return some, nil
}

func familyReads(
	ctx context.Context, s contract.Store, some map[string]task.ID, middle task.ID,
) (list []pageRead) {
	family := some["family"]
	for _, state := range states {
		list = append(list, pageRead{
			"children " + string(state), func(after task.ID) (task.ID, error) {
				_, next, err := s.Children(ctx, store.ChildrenQuery{
					Parent: family, State: state, After: after, Limit: 100,
				})
				return next, err
			}, []task.ID{{}, {Batch: family.Batch + 200<<2}},
		})
	}
	return list
}

func countReads(ctx context.Context, s contract.Store, now time.Time) (list []oneRead) {
	list = append(list, oneRead{"counts of all queues", func() error {
		_, err := s.Counts(ctx)
		return err
	}})
	for _, q := range []string{"q7", "few7", "rare", "backlog", "fair", "asleep", "blocked"} {
		list = append(list, oneRead{"counts of " + q, func() error {
			_, err := s.Counts(ctx, q)
			return err
		}}, oneRead{"keys of " + q, func() error {
			_, err := s.Keys(ctx, q)
			return err
		}}, oneRead{"run times of " + q, func() error {
			_, err := s.RunTimes(ctx, q, 2000)
			return err
		}})
	}
	hundred := make([]string, 100)
	for i := range hundred {
		hundred[i] = fmt.Sprintf("few%d", i)
	}
	return append(list, oneRead{"counts of 100 queues", func() error {
		_, err := s.Counts(ctx, hundred...)
		return err
	}}, oneRead{"ready of 100 queues", func() error {
		_, err := s.Ready(ctx, hundred)
		return err
	}}, oneRead{"queues", func() error {
		_, err := s.Queues(ctx)
		return err
	}}, oneRead{"gates", func() error {
		_, _, err := s.Gates(ctx)
		return err
	}}, oneRead{"run times of q7, of 20000 steps", func() error {
		_, err := s.RunTimes(ctx, "q7", 20_000)
		return err
	}}, oneRead{"minutes of the last two", func() error {
		_, err := s.Minutes(ctx, now.Unix()/60-2, now.Unix()/60-2)
		return err
	}}, oneRead{"minutes of the last hour", func() error {
		_, err := s.Minutes(ctx, now.Unix()/60-60, now.Unix()/60-60)
		return err
	}})
}

func taskReads(ctx context.Context, s contract.Store, some map[string]task.ID) (list []oneRead) {
	names := []string{
		"done", "ready", "fair", "running", "family", "parent", "tried", "awaiting",
	}
	for _, name := range names {
		id := some[name]
		list = append(list, oneRead{"task " + name, func() error {
			_, err := s.Task(ctx, id)
			return err
		}}, oneRead{"stand of " + name, func() error {
			_, err := s.Stand(ctx, []task.ID{id})
			return err
		}}, oneRead{"ahead of " + name, func() error {
			_, err := s.Ahead(ctx, id, 2000)
			return err
		}}, oneRead{"tree of " + name, func() error {
			list, err := s.Families(ctx, store.FamilyQuery{
				IDs: []task.ID{id}, Children: 999, After: 10_000,
			})
			if err == nil && len(list) > 0 && len(list[0].Children) > 0 {
				_, err = s.Families(ctx, store.FamilyQuery{IDs: list[0].Children, After: 10_000})
			}
			return err
		}})
	}
	tried := some["tried"]
	return append(list, oneRead{"log, its beginning", func() error {
		_, err := s.Log(ctx, tried, 0, 1000)
		return err
	}}, oneRead{"log, its end", func() error {
		_, err := s.Log(ctx, tried, 9900, 1000)
		return err
	}})
}

func otherReads(ctx context.Context, s contract.Store, now time.Time) (list []oneRead) {
	events := func(name string, q store.EventQuery) {
		q.Limit = 100
		list = append(list, oneRead{"events " + name, func() error {
			for range 10 { // as many looks as the API gives a page
				page, err := s.Events(ctx, q)
				if err != nil || page.Next == q.After {
					return err
				}
				if q.Limit -= len(page.Events); q.Limit <= 0 {
					return nil
				}
				q.After = page.Next
			}
			return nil
		}})
	}
	events("", store.EventQuery{})
	events("since an hour", store.EventQuery{Since: now.Add(-time.Hour).UnixMicro()})
	events("of a rare kind", store.EventQuery{Kinds: []string{"node.*"}})
	events("of no kind", store.EventQuery{Kinds: []string{"nothing"}})
	for _, of := range []history.Series{{}, {Queue: "q7"}, {Queue: "q7", Stage: "first"},
		{Worker: "w7"}} {
		for name, times := range map[string][2]time.Duration{
			"hour": {time.Hour, time.Minute}, "day": {24 * time.Hour, time.Minute},
			"60 days": {60 * 24 * time.Hour, time.Hour},
		} {
			q, err := history.NewQuestion(of, now.Add(-times[0]), now, times[1],
				history.Kept{}.Complete(), now)
			list = append(list, oneRead{
				fmt.Sprintf("stats of %s%s%s, %s", of.Queue, of.Stage, of.Worker, name),
				func() error {
					if err != nil {
						return err
					}
					_, err := s.History(ctx, q)
					return err
				},
			})
		}
	}
	slices.SortFunc(list, func(a, b oneRead) int { return strings.Compare(a.name, b.name) })
	return append(list, oneRead{"schedules", func() error {
		_, err := s.Schedules(ctx, store.ScheduleQuery{Limit: 101, Last: true})
		return err
	}}, oneRead{"schedules that stand", func() error {
		_, err := s.ScheduleStands(ctx, now.UnixMicro())
		return err
	}}, oneRead{"schedules due", func() error {
		_, err := s.Due(ctx, store.DueQuery{Until: now.UnixMicro(), Limit: 1000})
		return err
	}}, oneRead{"fires of a schedule", func() error {
		_, err := s.Fires(ctx, store.FireQuery{Schedule: "s1000-7", Newest: true, Limit: 100})
		return err
	}}, oneRead{"leases", func() error {
		_, err := s.LeasesOf(ctx, "")
		return err
	}}, oneRead{"groups", func() error {
		_, err := s.Groups(ctx)
		return err
	}}, oneRead{"seats", func() error {
		_, err := s.Seats(ctx, 0)
		return err
	}})
}

// nameOf is a filter as the name of a benchmark.
func nameOf(f store.Filter) string {
	name := "tasks"
	for _, part := range [...][2]string{
		{"state", string(f.State)}, {"queue", f.Queue}, {"stage", f.Stage}, {"worker", f.Worker},
		{"key", f.Key}, {"meta", string(f.Meta)},
	} {
		if part[1] != "" {
			name += " " + part[0] + ":" + part[1]
		}
	}
	if f.Since > 0 {
		name += " since"
	}
	if f.Until > 0 {
		name += " until"
	}
	if f.Error != nil {
		name += " error:" + f.Error.String()
	}
	return name
}
