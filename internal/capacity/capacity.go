// Package capacity knows, at a node, how many workers queues and groups need, and tells when they
// have too few for long.
//
//	Forecasts   gathers what forecasts are made of, at most every ten seconds whoever asks: the
//	            counts and the last minutes of all queues, the workers of all nodes, what groups
//	            ask of theirs. API, metrics and the watch share one gathering
//	Watch       has it gathered twice a minute, so that a node that nobody asks knows what it takes
//	            an hour to see: how many slots there were, how the demand of groups grew; and tells
//	            of queues and groups that want more workers than they have for five minutes: event
//	            capacity.short, by one node for all
//
// What it costs does not depend on how many tasks there are: a gathering reads counts and the last
// four minutes of each queue, once an hour of them; and of queues whose keys have limits or rules,
// while tasks of them are ready, the keys, of at most 20,000 tasks each and for a quarter of a second
// together. It takes a twentieth of the time at most.
package capacity

import (
	"context"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// Queues is what is asked of the queues.
type Queues interface {
	Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error)
	Queues(context.Context) ([]task.Queue, error)
	Minutes(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
}

// Workers lists those of all nodes, and names the nodes that did not answer.
type Workers interface {
	Workers(ctx context.Context, here bool) (list []task.Worker, missing []string, err error)
}

// Groups says what groups ask of their workers: a list for those that share some.
type Groups interface {
	Demands(context.Context) ([][]place.Demand, error)
}

// Config of forecasts. All of it is needed.
type Config struct {
	Queues  Queues
	Keys    Keys
	Workers Workers
	Groups  Groups
	// Keep is n: how many workers of a group are to be able to die at once.
	Keep func() int
	// Now is the store's time.
	Now func() time.Time
}

const (
	// every is how old a gathering may be before the next one.
	every = 10 * time.Second
	// rest is how many times as long as a gathering took nothing is gathered.
	rest = 20
	// within is how long one may take.
	within = 20 * time.Second
)

// Forecasts makes forecasts of what this node knows. Close it.
type Forecasts struct {
	conf  Config
	known *observe.Value[forecast.Seen]

	mu    sync.Mutex // guards the rest: one gathering at a time
	past  *forecast.Past
	trend *forecast.Trend
	keys  keyLooks
}

// New makes forecasts that know nothing yet.
func New(conf Config) *Forecasts {
	f := &Forecasts{conf: conf, past: forecast.NewPast(), trend: forecast.NewTrend()}
	f.keys.ask = conf.Keys
	f.known = observe.New(observe.Config[forecast.Seen]{
		Ask: f.gather, Fresh: every, Rest: rest, Within: within,
	})
	return f
}

// Known is what was gathered last. It waits for a gathering for at most so long; without any the
// error says why.
func (f *Forecasts) Known(patience time.Duration) (forecast.Seen, error) {
	known, _ := f.known.GetSoon(patience)
	switch {
	case !known.At.IsZero():
		return known.Value, nil
	case known.Err != nil:
		return forecast.Seen{}, known.Err
	}
	return forecast.Seen{}, store.ErrNotYet
}

// Close ends what is being gathered.
func (f *Forecasts) Close() { f.known.Close() }

// gather gathers once.
func (f *Forecasts) gather(ctx context.Context) (forecast.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.conf.Now()
	s := forecast.Seen{At: now, Keep: f.conf.Keep()}
	facts, missing, err := f.queues(ctx, now)
	if err != nil {
		return forecast.Seen{}, err
	}
	s.Model, s.Missing = forecast.New(facts), missing
	s.Groups, err = f.groups(ctx, now, s.Keep)
	return s, err
}

// queues gathers what is known of queues.
func (f *Forecasts) queues(
	ctx context.Context, now time.Time,
) (facts forecast.Facts, missing []string, err error) {
	counts, err := f.conf.Queues.Counts(ctx)
	if err != nil {
		return facts, nil, err
	}
	confs, err := f.conf.Queues.Queues(ctx)
	if err != nil || len(confs) == 0 { // then nobody need be asked for workers
		return facts, nil, err
	}
	workers, missing, err := f.conf.Workers.Workers(ctx, false)
	if err != nil {
		return facts, nil, err
	}
	minute := minuteOf(now)
	read, err := f.conf.Queues.Minutes(ctx, f.past.From(minute), f.past.Whole(minute, len(confs)))
	if err != nil {
		return facts, nil, err
	}
	there := make(map[string]bool, len(confs))
	for i := range confs {
		there[confs[i].Name] = true
	}
	f.past.Add(minute, read, there)
	slots := map[string]int{}
	for i := range workers {
		if w := &workers[i]; w.State == task.WorkerActive {
			n := slotsOf(w)
			facts.Workers = append(facts.Workers, forecast.Worker{Slots: n, Queues: w.Queues})
			for _, queue := range w.Queues {
				slots[queue] += n
			}
		}
	}
	stand := make(map[string]*task.Counts, len(counts))
	for i := range counts {
		stand[counts[i].Queue] = &counts[i].Counts
	}
	for i := range confs {
		c := &confs[i]
		if len(missing) == 0 {
			f.past.Saw(minute, c.Name, float64(slots[c.Name]))
		}
		q := forecast.Queue{
			Name: c.Name, Paused: c.Paused, MaxRunning: c.MaxRunning, Rate: c.Rate,
			Record: f.past.Of(c.Name, minute),
		}
		if n := stand[c.Name]; n != nil {
			q.Ready, q.Running = n.Ready, n.Running
		}
		facts.Queues = append(facts.Queues, q)
	}
	if err := f.keys.look(ctx, confs, facts.Queues); err != nil {
		return facts, nil, err
	}
	return facts, missing, nil
}

// slotsOf is how many tasks a worker may run at a time: what its jobs leave of its capacity. One
// that never said a capacity has as many as it was given, and one at least.
func slotsOf(w *task.Worker) int {
	if w.Capacity == 0 {
		return max(w.Running, 1)
	}
	return max(min(w.Running+w.Free, int(w.Capacity)), 0)
}

// groups gathers what is known of groups.
func (f *Forecasts) groups(
	ctx context.Context, now time.Time, keep int,
) (needs []forecast.GroupNeed, err error) {
	lists, err := f.conf.Groups.Demands(ctx)
	if err != nil {
		return nil, err
	}
	var all []place.Demand
	for _, list := range lists {
		all = append(all, list...)
	}
	f.trend.Saw(minuteOf(now), all)
	growths := f.trend.Growths(minuteOf(now))
	for _, list := range lists {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		needs = append(needs, forecast.Groups(list, growths, keep)...)
	}
	forecast.SortGroups(needs)
	return needs, nil
}

// minuteOf is the number of the minute since 1970 that a time lies in.
func minuteOf(t time.Time) int64 { return t.UnixMicro() / time.Minute.Microseconds() }
