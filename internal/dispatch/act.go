package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// bulk is how many tasks one transaction of ActAll changes.
const bulk = 1000

// Act does one thing to one task from outside: task.KindCancelled, KindMoved (run now), KindReplayed (a dead one begins again)
// or KindRemoved. by is who asked. Errors: rows.ErrNotFound, rows.ErrConflict with the reason.
func (d *Dispatcher) Act(ctx context.Context, kind task.Kind, by string, id task.ID) error {
	acted, err := d.act(ctx, kind, by, []task.ID{id})
	if err != nil {
		return err
	}
	switch a := acted[0]; {
	case a.Changed:
		return nil
	case !a.Found:
		return fmt.Errorf("task %s: %w", id, rows.ErrNotFound)
	default:
		return fmt.Errorf("task %s is %s, so it can't be %s: %w", id, a.Was, kind, rows.ErrConflict)
	}
}

// ActAll does it to all tasks that the filter selects, in pieces; a dry run only counts. What a piece changed stays changed
// when a later one fails.
func (d *Dispatcher) ActAll(ctx context.Context, kind task.Kind, by string, f rows.Filter, dryRun bool) (matched, changed int64, err error) {
	f.Live = d.live()
	var after task.ID
	for {
		page, next, err := d.store.Tasks(ctx, f, after, bulk)
		if err != nil {
			d.note(err)
			return matched, changed, fmt.Errorf("list tasks: %w", err)
		}
		ids := make([]task.ID, 0, len(page))
		for i := range page {
			if kind.Fits(page[i].State) {
				ids = append(ids, page[i].ID)
			}
		}
		matched += int64(len(ids))
		if !dryRun && len(ids) > 0 {
			acted, err := d.act(ctx, kind, by, ids)
			if err != nil {
				return matched, changed, err
			}
			for _, a := range acted {
				if a.Changed {
					changed++
				}
			}
		}
		if after = next; after == (task.ID{}) {
			return matched, changed, nil
		}
	}
}

// achieved tells whether a task stands as it would after the action.
func achieved(kind task.Kind, a rows.Acted) bool {
	switch kind {
	case task.KindCancelled:
		return a.Was == task.Cancelled
	case task.KindReplayed:
		return a.Found && !a.Was.Final()
	}
	return kind == task.KindRemoved && !a.Found
}

func (d *Dispatcher) act(ctx context.Context, kind task.Kind, by string, ids []task.ID) ([]rows.Acted, error) {
	acted := make([]rows.Acted, len(ids))
	actions := make([]rows.Action, 0, len(ids))
	before := make([]*item, 0, len(ids)) // of the actions: what memory knew of their tasks
	index := make([]int, 0, len(ids))
	at := micros(time.Now())
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, ErrClosed
	}
	for i, id := range ids {
		it := d.items[id]
		if it != nil && (it.place == out || it.place == settling) && kind != task.KindCancelled {
			acted[i] = rows.Acted{ID: id, Queue: it.queue.conf.Name, Found: true, Was: task.Running}
			continue
		}
		action := rows.Action{ID: id, Kind: kind, By: by, Rank: at, Due: at}
		if it != nil && it.place == out {
			action.Worker, action.Started, action.Error = it.worker.name, micros(it.started), "asked for by "+by
		}
		actions = append(actions, action)
		before = append(before, it)
		index = append(index, i)
	}
	d.mu.Unlock()
	if len(actions) == 0 {
		return acted, nil
	}
	var got []rows.Acted
	tries := 0
	err := d.again(func() (err error) {
		tries++
		got, err = d.store.Act(d.ctx, actions)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s tasks: %w", kind, err)
	}
	for i := range got {
		if tries > 1 && !got[i].Changed { // the try whose outcome was unknown may have done it
			got[i].Changed = achieved(kind, got[i])
		}
	}
	d.learn(kind, got, before, at)
	for i := range got {
		acted[index[i]] = got[i]
	}
	return acted, nil
}

// learn changes memory by what was done to tasks. A moved or replayed one may have been taken with its new span before the
// answer came: then memory knows it already.
func (d *Dispatcher) learn(kind task.Kind, got []rows.Acted, before []*item, at int64) {
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	for i := range got {
		g := &got[i]
		if !g.Changed {
			continue
		}
		moved := kind == task.KindMoved || kind == task.KindReplayed
		if it := d.items[g.ID]; it != nil && (it == before[i] || !moved) {
			if w := it.worker; w != nil && w.beats && (it.place == out || it.place == settling) {
				if w.cancelled == nil {
					w.cancelled = map[handKey]struct{}{}
				}
				w.cancelled[keyOf(it.id, it.token)] = struct{}{}
				w.changed()
			}
			d.forget(it)
			d.match(it.queue, now, &a) // a neighbour, or its worker's room
		}
		if moved {
			d.sign(d.queue(g.Queue), at, at, now)
		} else {
			d.tellWatchers(g.ID)
		}
	}
}
