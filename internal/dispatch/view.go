package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A waiting view looks at the store again, because the task may end through another node: soon at
// first, then more seldom.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = 2 * time.Second
)

// Task waits up to wait for a task to become final, then answers with what there is.
// store.ErrNotFound.
func (d *Dispatcher) Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error) {
	if wait > 0 {
		if err := d.Await(ctx, id, wait); err != nil && ctx.Err() == nil {
			return task.View{}, err
		}
		ctx = context.WithoutCancel(ctx) // who waited in vain learns how it stands
	}
	return d.view(ctx, id)
}

// Await returns when a task is final or unknown, wait is over, or ctx ends. It reads nothing of the
// task that may be large.
func (d *Dispatcher) Await(ctx context.Context, id task.ID, wait time.Duration) error {
	until := time.Now().Add(wait)
	for poll := pollFirst; ctx.Err() == nil && !isClosed(d.stop); poll = min(2*poll, pollLast) {
		d.mu.Lock()
		news := d.mem.watchers.add(id)
		d.release()
		stood, err := d.store.Stand(ctx, []task.ID{id})
		left := time.Until(until)
		if err != nil || !stood[0].Found || stood[0].Final || left <= 0 {
			d.stopWatching(id, news)
			d.note(err)
			return err
		}
		timer := time.NewTimer(min(left, poll))
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		case <-d.stop:
		}
		timer.Stop()
		d.stopWatching(id, news)
	}
	return nil
}

func (d *Dispatcher) stopWatching(id task.ID, news chan struct{}) {
	d.mu.Lock()
	defer d.release()
	d.mem.watchers.remove(id, news)
}

// view reads a task and adds what only memory knows.
func (d *Dispatcher) view(ctx context.Context, id task.ID) (task.View, error) {
	v, err := d.store.Task(ctx, id)
	if err != nil {
		d.note(err)
		return v, err
	}
	d.mu.Lock()
	defer d.release()
	d.mem.complete(&v)
	return v, nil
}

// Contexts tells what the stages of a task were handed, oldest first. See contract.Views.
func (d *Dispatcher) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	page, next, err = d.store.Contexts(ctx, q)
	d.note(err)
	return page, next, err
}

// complete adds to what the store says of a task what only memory knows: who runs it.
func (m *memory) complete(v *task.View) {
	it := m.item(v.ID)
	if it == nil || v.State.Final() || it.place != out && (it.place != settling || !it.given()) {
		return
	}
	if it.asked {
		return // whether it begins the store decides
	}
	stands := func(s task.Step) bool { return s.Seq == it.seq }
	if slices.ContainsFunc(v.Steps, stands) {
		return // a transaction recorded the outcome, and nobody told this node yet
	}
	v.State = task.Running
	v.Worker = it.worker.name
	v.Attempt = int(it.attempt) + 1
	v.Started = time.UnixMicro(m.clock.read(it.started)).UTC()
	v.Progress, v.Note = it.progress, it.note
	v.Expires = time.Time{} // it has begun
}

// watchers are callers that wait for tasks to become final.
type watchers map[task.ID][]chan struct{}

// add asks to be told when a task becomes final.
func (ws watchers) add(id task.ID) chan struct{} {
	news := make(chan struct{})
	ws[id] = append(ws[id], news)
	return news
}

func (ws watchers) remove(id task.ID, news chan struct{}) {
	list := ws[id]
	for i, c := range list {
		if c == news {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(ws, id)
		return
	}
	ws[id] = list
}

// tell wakes those who wait for the task.
func (ws watchers) tell(id task.ID, do *effects) {
	if len(ws) == 0 {
		return
	}
	do.ended = append(do.ended, ws[id]...)
	delete(ws, id)
}

// live lists the hand-outs in memory.
func (d *Dispatcher) live() map[task.ID]store.Live {
	d.mu.Lock()
	defer d.release()
	return d.mem.handouts()
}

func (m *memory) handouts() map[task.ID]store.Live {
	live := map[task.ID]store.Live{}
	for _, w := range m.workers {
		for _, it := range w.out {
			if it.asked {
				continue // whether it begins the store decides
			}
			live[it.id] = store.Live{
				Worker: w.name, Started: m.clock.read(it.started), Attempt: it.attempt + 1,
			}
		}
		for s, p := range w.plainOut() {
			live[s.id()] = store.Live{
				Worker: w.name, Started: m.clock.read(p.started), Attempt: 1,
			}
		}
	}
	return live
}

// Tasks lists tasks, newest first; see the store's contract for paging.
func (d *Dispatcher) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) ([]task.View, task.ID, error) {
	if f.Stuck != nil {
		return d.stuck(ctx, f, after, limit)
	}
	f.Live = d.live()
	page, next, err := d.store.Tasks(ctx, f, after, limit)
	if err != nil {
		d.note(err)
		return nil, task.ID{}, err
	}
	return page, next, nil
}

// Counts are the store's, with what runs here and is too young to be in the store.
func (d *Dispatcher) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	counts, err := d.store.Counts(ctx, queues...)
	if err != nil {
		d.note(err)
		return nil, err
	}
	d.mu.Lock()
	defer d.release()
	young := d.mem.workers.young()
	for i := range counts {
		c := &counts[i].Counts
		n := min(young[counts[i].Queue], c.Ready)
		c.Ready, c.Running = c.Ready-n, c.Running+n
		if c.Ready == 0 {
			counts[i].OldestReady = 0
		}
	}
	return counts, nil
}

// Gates says how queues stand beside their limits, and what time it is by the store's clock.
func (d *Dispatcher) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	now, gates, err = d.store.Gates(ctx, queues...)
	d.note(err)
	return now, gates, err
}

// KeyGates says how group keys of a queue stand beside the limits of each key, and what time it is
// by the store's clock.
func (d *Dispatcher) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, gates []store.KeyGate, err error) {
	now, gates, err = d.store.KeyGates(ctx, queue, keys)
	d.note(err)
	return now, gates, err
}

// Minutes says what happened in each queue minute by minute, from a minute on.
func (d *Dispatcher) Minutes(
	ctx context.Context, from, whole int64,
) ([]history.QueueMinute, error) {
	list, err := d.store.Minutes(ctx, from, whole)
	d.note(err)
	return list, err
}

// young counts what runs here without a row in the store, by queue. What the store is asked about
// does not run, or has its row already.
func (ws workers) young() map[string]int64 {
	young := map[string]int64{}
	for _, w := range ws {
		for _, it := range w.out {
			if !it.row && !it.asked {
				young[it.queue.conf.Name]++
			}
		}
		for s := range w.plainOut() {
			young[s.span.queue.conf.Name]++
		}
	}
	return young
}

// Waiting is how many holds wait for tasks of a queue.
func (d *Dispatcher) Waiting(queue string) int {
	d.mu.Lock()
	defer d.release()
	if q := d.mem.queues[queue]; q != nil {
		return q.waiting.Len()
	}
	return 0
}

// Log adds lines to a task's log. store.ErrNotFound.
func (d *Dispatcher) Log(ctx context.Context, id task.ID, lines []task.LogLine) error {
	err := d.store.AppendLog(ctx, id, lines)
	d.note(err)
	return err
}

// Lines reads a task's log from a position on.
func (d *Dispatcher) Lines(
	ctx context.Context, id task.ID, from int64, limit int,
) (store.LogPage, error) {
	page, err := d.store.Log(ctx, id, from, limit)
	d.note(err)
	return page, err
}

// QueuesOf are the queues of tasks, in the same order; "" for one that is unknown. What this node
// holds it knows without the store.
func (d *Dispatcher) QueuesOf(ctx context.Context, ids []task.ID) ([]string, error) {
	queues := make([]string, len(ids))
	var unknown []task.ID
	var at []int
	d.mu.Lock()
	for i, id := range ids {
		if s := d.mem.find(id); s.cell != nil {
			queues[i] = s.span.queue.conf.Name
		} else {
			unknown = append(unknown, id)
			at = append(at, i)
		}
	}
	d.release()
	if len(unknown) == 0 {
		return queues, nil
	}
	stood, err := d.store.Stand(ctx, unknown)
	if err != nil {
		d.note(err)
		return nil, fmt.Errorf("read the queues of tasks: %w", err)
	}
	for k, i := range at {
		queues[i] = stood[k].Queue
	}
	return queues, nil
}
