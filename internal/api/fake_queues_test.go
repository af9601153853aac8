package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/forecast"
	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

func (f *fake) History(_ context.Context, q history.Question) ([]history.Period, error) {
	return history.NewAnswer(q).Periods(), f.err
}

// Known is a forecast of two queues and of two groups: mail is short of a worker, scan is paused.
func (f *fake) Known(time.Duration) (forecast.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return forecast.Seen{}, f.err
	}
	facts := forecast.Facts{Workers: []forecast.Worker{{Slots: 4, Queues: []string{"mail", "scan"}}}}
	for _, q := range f.queues[:min(len(f.queues), 2)] {
		record := forecast.Record{Runs: 36_000, Mean: 0.5, Second: 0.5}
		for range forecast.Window {
			record.Arrived = append(record.Arrived, 600)
			record.Waited = append(record.Waited, -1)
			record.Slots = append(record.Slots, -1)
		}
		facts.Queues = append(facts.Queues, forecast.Queue{
			Name: q.Name, Paused: q.Paused, Ready: 11, Running: 2, Record: record,
		})
	}
	return forecast.Seen{
		At: moment, Keep: 1, Model: forecast.New(facts), Missing: f.missing,
		Groups: []forecast.GroupNeed{
			{Group: "crawl", Workers: 3, Wanted: 3, In: -1, Why: "any 2 workers can die at once"},
			{Group: "tails", Workers: 8, Wanted: 9, In: 40, Why: "1 more like w1"},
		},
	}, nil
}

func (f *fake) Counts(_ context.Context, queues ...string) ([]store.QueueCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	var counts []store.QueueCounts
	for i, q := range f.queues {
		if len(queues) == 0 || slices.Contains(queues, q.Name) {
			n := int64(10 * (i + 1))
			counts = append(counts, store.QueueCounts{
				Queue: q.Name,
				Counts: task.Counts{Waiting: n, Ready: n + 1, Running: n + 2, Done: n + 3,
					Dead: n + 4, Cancelled: n + 5}, OldestReady: int64(1-i) * moment.UnixMicro(),
			})
		}
	}
	return counts, f.err
}

func (f *fake) Gates(_ context.Context, queues ...string) (int64, []store.Gate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gated = append(f.gated, strings.Join(queues, ","))
	var gates []store.Gate
	for _, g := range f.gates {
		if len(queues) == 0 || slices.Contains(queues, g.Queue) {
			gates = append(gates, g)
		}
	}
	return moment.UnixMicro(), gates, f.err
}

func (f *fake) KeyGates(
	_ context.Context, queue string, keys []string,
) (int64, []store.KeyGate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keyed = append(f.keyed, queue+": "+strings.Join(keys, ","))
	var gates []store.KeyGate
	for _, g := range f.keyGates {
		if g.Queue == queue && slices.Contains(keys, g.Key) {
			gates = append(gates, g)
		}
	}
	return moment.UnixMicro(), gates, f.err
}

func (f *fake) Keys(_ context.Context, queue string) (store.KeyUses, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uses := store.KeyUses{Now: moment.UnixMicro(), Cut: queue == "scan"}
	for _, key := range slices.Sorted(maps.Keys(f.rules)) {
		if rule := f.rules[key]; rule.Queue == queue {
			uses.Keys = append(uses.Keys, store.KeyUse{
				KeyRule: rule, Ready: int64(len(key)), Running: 1,
			})
		}
	}
	return uses, f.err
}

func (f *fake) ChangeKey(
	_ context.Context, c store.KeyChange,
) (changed store.Changed[store.KeyRule], _ error) {
	if err := f.queue(c.Queue); err != nil {
		return changed, err
	}
	pause, weight := c.Pause, 0
	if pause == store.Forever {
		pause = 0
	}
	if c.Weight != nil {
		weight = *c.Weight
	}
	var e task.InvalidError
	if limits.CheckKey(c.Key, pause, weight, &e); e.Err() != nil {
		return changed, e.Err()
	}
	if c.Key == "one-too-many" {
		return changed, fmt.Errorf("change key: %w", store.ErrKeyRules)
	}
	err := f.change("key %s/%s pause %v resume %v weight %v", c.Queue, c.Key, c.Pause,
		c.Resume, weight)
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.rules[c.Queue+"/"+c.Key]
	was.Queue, was.Key = c.Queue, c.Key
	changed.Is = rules.ChangeKeyRule(was, &c, moment.UnixMicro())
	f.rules[c.Queue+"/"+c.Key] = changed.Is
	if c.Key == "far" {
		changed.Unheard = []string{"b"}
	}
	return changed, err
}

// Minutes tells of one minute, which is among those that are asked for first.
func (f *fake) Minutes(
	_ context.Context, from, whole int64,
) (list []history.QueueMinute, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.minute == 0 {
		f.minute = from + 30
	}
	for i, q := range f.queues {
		n := int64(i + 1)
		if f.minute >= from {
			m := history.QueueMinute{Queue: q.Name, Minute: f.minute}
			m.Counts = history.Counts{
				Submitted: 70 * n, Done: 50 * n, Dead: 2 * n, Cancelled: n, Retried: 5 * n,
				Lost: 3 * n, Passed: 11 * n, Snoozed: 4 * n, Released: 6 * n, TimedOut: 7 * n,
				Woken: 8 * n,
			}
			for range 57 * min(n, 3) {
				m.Waited.Add(3000)
				m.Run.Add(250_000)
			}
			list = append(list, m)
		}
	}
	return list, f.err
}

func (f *fake) ChangeQueue(
	_ context.Context, name string, change store.Change[task.Queue],
) (store.Changed[task.Queue], error) {
	got := store.Changed[task.Queue]{Is: limits.DefaultQueue(name), Created: true}
	for _, known := range f.queues {
		if known.Name == name {
			got = store.Changed[task.Queue]{Is: known}
		}
	}
	err := change(&got.Is, !got.Created)
	if err == nil {
		var e task.InvalidError
		limits.CheckQueue(&got.Is, &e, "body")
		err = e.Err()
	}
	if err == nil {
		err = f.change("put %+v", got.Is)
	}
	if name == "far" {
		got.Unheard = []string{"b"}
	}
	return got, err
}

func (f *fake) Queues(context.Context) ([]task.Queue, error) {
	return slices.Clone(f.queues), f.err
}

func (f *fake) queue(name string) error {
	for _, q := range f.queues {
		if q.Name == name {
			return nil
		}
	}
	return fmt.Errorf("queue %q: %w", name, store.ErrNotFound)
}

func (f *fake) PauseQueue(_ context.Context, name string, paused bool) error {
	if err := f.queue(name); err != nil {
		return err
	}
	return f.change("pause %s %v", name, paused)
}

func (f *fake) DeleteQueue(_ context.Context, name string, force bool) error {
	if err := f.queue(name); err != nil {
		return err
	}
	if !force {
		return fmt.Errorf("delete queue %q: %w", name, &store.InUse{
			Count: 1, Noun: "unfinished task",
		})
	}
	return f.change("delete queue %s", name)
}
