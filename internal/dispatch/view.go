package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A waiting view looks at the store again, because the task may end through another node: soon at
// first, then more seldom.
const (
	pollFirst = 50 * time.Millisecond
	pollLast  = 2 * time.Second
)

// views tell how things stand, mostly as the store says; what only this node knows they add. They
// change nothing that memory has.
type views struct {
	*core
	usual usual // how long stages take
}

// Task waits up to wait for a task to become final, then answers with what there is.
// store.ErrNotFound.
func (vs *views) Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error) {
	if wait > 0 {
		if err := vs.Await(ctx, id, wait); err != nil && ctx.Err() == nil {
			return task.View{}, err
		}
		ctx = context.WithoutCancel(ctx) // who waited in vain learns how it stands
	}
	return vs.view(ctx, id)
}

// Await returns when a task is final or unknown, wait is over, or ctx ends. It reads nothing of the
// task that may be large.
func (vs *views) Await(ctx context.Context, id task.ID, wait time.Duration) error {
	until := time.Now().Add(wait)
	for poll := pollFirst; ctx.Err() == nil && !isClosed(vs.stop); poll = min(2*poll, pollLast) {
		vs.mu.Lock()
		news := vs.mem.watchers.add(id)
		vs.release()
		stood, err := vs.store.Stand(ctx, []task.ID{id})
		left := time.Until(until)
		if err != nil || !stood[0].Found || stood[0].Final || left <= 0 {
			vs.stopWatching(id, news)
			vs.note(err)
			return err
		}
		timer := time.NewTimer(min(left, poll))
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		case <-vs.stop:
		}
		timer.Stop()
		vs.stopWatching(id, news)
	}
	return nil
}

func (vs *views) stopWatching(id task.ID, news chan struct{}) {
	vs.mu.Lock()
	defer vs.release()
	vs.mem.watchers.remove(id, news)
}

// view reads a task and adds what only memory knows.
func (vs *views) view(ctx context.Context, id task.ID) (task.View, error) {
	v, err := vs.store.Task(ctx, id)
	if err != nil {
		vs.note(err)
		return v, err
	}
	vs.mu.Lock()
	defer vs.release()
	vs.mem.complete(&v)
	return v, nil
}

// Contexts tells what the stages of a task were handed, oldest first. See contract.Views.
func (vs *views) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	page, next, err = vs.store.Contexts(ctx, q)
	vs.note(err)
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

func (ws workers) handouts(clock *storeClock) map[task.ID]store.Live {
	live := map[task.ID]store.Live{}
	for _, w := range ws {
		for _, it := range w.out {
			if it.asked {
				continue // whether it begins the store decides
			}
			live[it.id] = store.Live{
				Worker: w.name, Started: clock.read(it.started), Attempt: it.attempt + 1,
			}
		}
		for s, p := range w.plainOut() {
			live[s.id()] = store.Live{
				Worker: w.name, Started: clock.read(p.started), Attempt: 1,
			}
		}
	}
	return live
}

// Tasks lists tasks, newest first; see the store's contract for paging.
func (vs *views) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) ([]task.View, task.ID, error) {
	if f.Stuck != nil {
		return vs.stuck(ctx, f, after, limit)
	}
	f.Live = vs.live()
	page, next, err := vs.store.Tasks(ctx, f, after, limit)
	if err != nil {
		vs.note(err)
		return nil, task.ID{}, err
	}
	return page, next, nil
}

// Counts are the store's, with what runs here and is too young to be in the store.
func (vs *views) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	counts, err := vs.store.Counts(ctx, queues...)
	if err != nil {
		vs.note(err)
		return nil, err
	}
	vs.mu.Lock()
	defer vs.release()
	young := vs.mem.workers.young()
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
func (vs *views) Gates(
	ctx context.Context, queues ...string,
) (now int64, gates []store.Gate, err error) {
	now, gates, err = vs.store.Gates(ctx, queues...)
	vs.note(err)
	return now, gates, err
}

// KeyGates says how group keys of a queue stand beside the limits of each key, and what time it is
// by the store's clock.
func (vs *views) KeyGates(
	ctx context.Context, queue string, keys []string,
) (now int64, gates []store.KeyGate, err error) {
	now, gates, err = vs.store.KeyGates(ctx, queue, keys)
	vs.note(err)
	return now, gates, err
}

// Minutes says what happened in each queue minute by minute, from a minute on.
func (vs *views) Minutes(
	ctx context.Context, from, whole int64,
) ([]history.QueueMinute, error) {
	list, err := vs.store.Minutes(ctx, from, whole)
	vs.note(err)
	return list, err
}

// young counts what runs here without a row in the store, by queue. What the store is asked about
// does not run, or has its row already.
func (ws workers) young() map[string]int64 {
	young := map[string]int64{}
	for _, w := range ws {
		for _, it := range w.out {
			if !it.row && !it.asked {
				young[it.queue.name]++
			}
		}
		for s := range w.plainOut() {
			young[s.span.queue.name]++
		}
	}
	return young
}

// Waiting is how many holds wait for tasks of a queue.
func (vs *views) Waiting(queue string) int {
	vs.mu.Lock()
	defer vs.release()
	if q := vs.mem.queues[queue]; q != nil {
		return q.waiting.Len()
	}
	return 0
}

// Log adds lines to a task's log. store.ErrNotFound.
func (vs *views) Log(ctx context.Context, id task.ID, lines []task.LogLine) error {
	err := vs.store.AppendLog(ctx, id, lines)
	vs.note(err)
	return err
}

// Lines reads a task's log from a position on.
func (vs *views) Lines(
	ctx context.Context, id task.ID, from int64, limit int,
) (store.LogPage, error) {
	page, err := vs.store.Log(ctx, id, from, limit)
	vs.note(err)
	return page, err
}

// QueuesOf are the queues of tasks, in the same order; "" for one that is unknown. What this node
// holds it knows without the store.
func (vs *views) QueuesOf(ctx context.Context, ids []task.ID) ([]string, error) {
	queues := make([]string, len(ids))
	var unknown []task.ID
	var at []int
	vs.mu.Lock()
	for i, id := range ids {
		if s := vs.mem.find(id); s.cell != nil {
			queues[i] = s.span.queue.name
		} else {
			unknown = append(unknown, id)
			at = append(at, i)
		}
	}
	vs.release()
	if len(unknown) == 0 {
		return queues, nil
	}
	stood, err := vs.store.Stand(ctx, unknown)
	if err != nil {
		vs.note(err)
		return nil, fmt.Errorf("read the queues of tasks: %w", err)
	}
	for k, i := range at {
		queues[i] = stood[k].Queue
	}
	return queues, nil
}

// Queues lists the configurations, by name.
func (vs *views) Queues(ctx context.Context) ([]task.Queue, error) {
	list, err := vs.store.Queues(ctx)
	if err != nil {
		vs.note(err)
		return nil, err
	}
	return list, nil
}

// Keys says how much work the group keys of a queue have, and what is said of them.
func (vs *views) Keys(ctx context.Context, queue string) (store.KeyUses, error) {
	uses, err := vs.store.Keys(ctx, names.Canonical(queue))
	vs.note(err)
	return uses, err
}
