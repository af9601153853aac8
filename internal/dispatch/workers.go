package dispatch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What operators say of workers and queues stands in leases, and every node's beat reads those: a
// word said at one node holds at all of them a beat later.
const (
	remembered = 365 * 24 * time.Hour // how long the store remembers a word
	// its token grows with each change of a queue's configuration
	queuesWord = "queues/changed"
)

// Words are the prefixes of the leases that HearStore wants to see.
func Words() []string { return []string{store.DrainPrefix, queuesWord} }

// recall takes in what operators said, at any node, as a call of the store found it that was asked
// then.
func (m *memory) recall(asked, now time.Time, words []store.Lease) {
	drained := map[string]store.Drain{}
	for i := range words {
		l := &words[i]
		if name, what, ok := store.DrainOf(l); ok {
			drained[name] = what
			m.worker(name, time.Time{})
		} else if l.Name == queuesWord {
			m.hearChange(l.Token)
		}
	}
	var news []string
	for name, w := range m.workers {
		what, yes := drained[name]
		if (w.drained != yes || w.given != what) && asked.After(w.wordAt) {
			news = append(news, name)
		}
	}
	slices.Sort(news)
	for _, name := range news {
		what, yes := drained[name]
		m.workers[name].drain(yes, what, now)
	}
}

// drain lets a worker give up work, or take it again.
func (w *worker) drain(yes bool, what store.Drain, now time.Time) {
	w.drained, w.given, w.taken = yes, what, false
	w.reorder()
	w.match(now)
}

// takeAway takes from workers what they still have in hands when the time is up that they were
// given to give it up; of a part until they have no more than the rest, as what is taken may come
// back while the store fails, those tasks first that began last. A job that begins there later
// waits for tasks to end, as everywhere.
func (ws workers) takeAway(storeNow int64, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(ws)) {
		w := ws[name]
		if w.given.By == 0 || w.given.By > storeNow {
			continue
		}
		excess := w.hands()
		if !w.draining() {
			if !w.measured || w.taken {
				continue
			}
			excess -= max(w.lanes(), 0)
			w.taken = excess <= 0
		}
		if excess <= 0 {
			continue
		}
		list := w.sorted()
		slices.SortStableFunc(list, func(a, b *item) int { return b.started.Compare(a.started) })
		for _, it := range list[:min(excess, len(list))] {
			it.end(task.KindRelease, "its worker was to have given it up by now", now)
		}
	}
}

// Workers lists what this node knows of workers, by name.
func (wc *workerCalls) Workers(context.Context) ([]task.Worker, error) {
	now := time.Now()
	wc.mu.Lock()
	defer wc.release()
	return wc.mem.workers.list(wc.conf.Holder.Node, now), nil
}

func (ws workers) list(node string, now time.Time) []task.Worker {
	list := make([]task.Worker, 0, len(ws))
	for _, name := range slices.Sorted(maps.Keys(ws)) {
		w := ws[name]
		state := w.state(now)
		list = append(list, task.Worker{
			Name: w.name, Node: node, State: state,
			Active:   state == task.WorkerActive || state == task.WorkerDraining,
			Draining: w.draining(), Shed: w.given.Shed.Float(), DrainBy: drainBy(w.given),
			Capacity: w.capacity, Used: w.reserved.Float() + float64(w.hands()),
			Load: w.shares, Labels: maps.Clone(w.labels), Zone: w.zone, Running: w.hands(),
			Free: max(w.room(), 0), Queues: slices.Sorted(maps.Keys(w.asked)),
			Jobs: w.jobs, Version: w.build, Seen: w.seen,
		})
	}
	return list
}

// drainBy is when what is left is taken from a worker; the zero time = never.
func drainBy(d store.Drain) time.Time {
	if d.By == 0 {
		return time.Time{}
	}
	return time.UnixMicro(d.By)
}

// state is how the worker stands.
func (w *worker) state(now time.Time) task.WorkerState {
	switch {
	case w.left:
		return task.WorkerLeft
	case len(w.waiting) == 0 && now.Sub(w.seen) >= max(limits.DefaultSilence, w.patience):
		return task.WorkerSilent
	case w.draining():
		return task.WorkerDraining
	}
	return task.WorkerActive
}

// DrainWorker makes a worker give up work. It is remembered across restarts.
func (wc *workerCalls) DrainWorker(ctx context.Context, name string, what store.Drain) error {
	wc.mu.Lock()
	w := wc.mem.workers[name]
	wc.release()
	if w == nil {
		return fmt.Errorf("drain worker %q: %w", name, store.ErrNotFound)
	}
	word, err := what.Lease(name)
	if err == nil {
		_, err = wc.store.AcquireAll(ctx, anyNode, []store.Lease{word}, remembered, math.MaxInt64)
	}
	if err != nil {
		wc.note(err)
		return fmt.Errorf("remember drain of worker %q: %w", name, err)
	}
	wc.said(w, true, what)
	return nil
}

// UndrainWorker lets a worker take work again.
func (wc *workerCalls) UndrainWorker(ctx context.Context, name string) error {
	forgotten, err := wc.forgetDrain(ctx, name)
	if err != nil {
		wc.note(err)
		return fmt.Errorf("forget the drain of worker %q: %w", name, err)
	}
	wc.mu.Lock()
	w := wc.mem.workers[name]
	wc.release()
	switch {
	case w != nil:
		wc.said(w, false, store.Drain{})
	case !forgotten: // else another node was told that it drains, and may be gone
		return fmt.Errorf("undrain worker %q: %w", name, store.ErrNotFound)
	}
	return nil
}

// said takes in at once what was written down of a worker: older words are out of date.
func (wc *workerCalls) said(w *worker, drained bool, what store.Drain) {
	now := time.Now()
	wc.mu.Lock()
	defer wc.release()
	w.wordAt = now
	w.drain(drained, what, now)
}

// forgetDrain removes what was written of a worker, at whichever node, and reports whether anything
// was.
func (wc *workerCalls) forgetDrain(ctx context.Context, name string) (found bool, err error) {
	word := store.DrainPrefix + name
	got, err := wc.store.Beat(ctx, nil, remembered, word)
	if err != nil {
		return false, err
	}
	words := slices.DeleteFunc(got.Leases, func(l store.Lease) bool { return l.Name != word })
	if len(words) == 0 {
		return false, nil
	}
	return true, wc.store.EndAll(ctx, words, true)
}

// DeleteWorker gives back what a worker holds and forgets it.
func (wc *workerCalls) DeleteWorker(ctx context.Context, name string) error {
	wc.mu.Lock()
	w := wc.mem.workers[name]
	if w == nil {
		wc.release()
		return fmt.Errorf("delete worker %q: %w", name, store.ErrNotFound)
	}
	w.drop(time.Now())
	wc.release()
	if _, err := wc.forgetDrain(ctx, name); err != nil {
		wc.note(err)
		return fmt.Errorf("forget worker %q: %w", name, err)
	}
	return nil
}

// drop gives back what a worker holds, and forgets it once it holds nothing.
func (w *worker) drop(now time.Time) {
	w.compare(nil, false, true, now)
	w.retire()
	w.beats = true // what could not be given back is found by its silence
	if w.hands() == 0 {
		delete(w.memory.workers, w.name)
	}
}

// Reserve notes what a worker's jobs take of its capacity, and lets a beat of it that waits be
// answered: its orders changed.
func (wc *workerCalls) Reserve(worker string, load task.Units) {
	wc.mu.Lock()
	defer wc.release()
	wc.mem.reserve(worker, load, time.Now())
}

func (m *memory) reserve(worker string, load task.Units, now time.Time) {
	w := m.worker(worker, now)
	w.reserved = load
	w.reorder()
	w.match(now)
	w.changed()
}
