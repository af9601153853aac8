package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/overview"
	"github.com/rotahq/rota/internal/store"
)

// maxSeries is how many queues, and how many groups, have series of their own in the metrics. All
// others have one together, which no queue or group can be named like.
const (
	maxSeries = 1_000
	others    = "(others)"
)

// queueSeries chooses the queues that have series of their own: those that had them before, as long
// as they are there, then those with the most unfinished tasks.
type queueSeries struct {
	mu  sync.Mutex
	own map[string]bool
}

// choose is the counts to be shown, and of how many queues they are.
func (s *queueSeries) choose(counts []store.QueueCounts) (show []store.QueueCounts, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = len(counts)
	if all > maxSeries {
		counts = slices.Clone(counts)
		slices.SortFunc(counts, func(a, b store.QueueCounts) int {
			return cmp.Or(rank(s.own[b.Queue])-rank(s.own[a.Queue]),
				cmp.Compare(unfinished(&b), unfinished(&a)), cmp.Compare(a.Queue, b.Queue))
		})
		rest := store.QueueCounts{Queue: others}
		for i := range counts[maxSeries:] {
			add(&rest, &counts[maxSeries+i])
		}
		counts = append(counts[:maxSeries:maxSeries], rest)
	}
	s.own = make(map[string]bool, len(counts))
	for i := range counts {
		s.own[counts[i].Queue] = true
	}
	return counts, all
}

// split is what happened in the queues that were chosen last, and in all others together, also in
// those that are no more.
func (s *queueSeries) split(
	sums *overview.Sums,
) (own map[string]*history.Record, rest *history.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, rest = map[string]*history.Record{}, new(history.Record)
	for queue, r := range sums.Queues() {
		if s.own[queue] {
			own[queue] = r
		} else {
			rest.Merge(r)
		}
	}
	return own, rest
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func unfinished(c *store.QueueCounts) int64 {
	return c.Counts.Blocked + c.Counts.Waiting + c.Counts.Ready + c.Counts.Running
}

// add adds the counts of a queue to those of others.
func add(to, c *store.QueueCounts) {
	to.Counts.Blocked += c.Counts.Blocked
	to.Counts.Waiting += c.Counts.Waiting
	to.Counts.Ready += c.Counts.Ready
	to.Counts.Running += c.Counts.Running
	to.Counts.Done += c.Counts.Done
	to.Counts.Dead += c.Counts.Dead
	to.Counts.Cancelled += c.Counts.Cancelled
	to.Counts.Expired += c.Counts.Expired
	if to.OldestReady == 0 || c.OldestReady != 0 && c.OldestReady < to.OldestReady {
		to.OldestReady = c.OldestReady
	}
}

// boundedGroups is the groups to be shown: the first by name, and the others in one.
func boundedGroups(groups []store.GroupView) []store.GroupView {
	if len(groups) <= maxSeries {
		return groups
	}
	var rest store.GroupView
	rest.Name, rest.Budget.Workers = others, groups[maxSeries].Budget.Workers
	for i := range groups[maxSeries:] {
		g := &groups[maxSeries+i]
		rest.Pending += g.Pending
		rest.Starting += g.Starting
		rest.Running += g.Running
		rest.Failed += g.Failed
		rest.Moving += g.Moving
		rest.Ending += g.Ending
		rest.Budget.Workers = min(rest.Budget.Workers, g.Budget.Workers)
		rest.Read.Error = cmp.Or(rest.Read.Error, g.Read.Error)
	}
	return append(slices.Clone(groups[:maxSeries]), rest)
}

// gatherWithin is how long a scrape waits for the metrics. No collector waits for a store that is
// silent.
const gatherWithin = 5 * time.Second

// shared is f, asked once a second at most, by one at a time. It may answer with a value and an
// error. Close it at the end.
func shared[T any](f func() (T, error)) (ask func() (T, error), end func()) {
	type result struct {
		value T
		err   error
	}
	v := observe.New(observe.Config[result]{
		Ask: func(context.Context) (r result, _ error) {
			r.value, r.err = f()
			return r, nil
		},
		Fresh: time.Second,
	})
	return func() (T, error) {
		known, _ := v.Get(gatherWithin)
		return known.Value.value, known.Value.err
	}, v.Close
}
