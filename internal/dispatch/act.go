package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// bulk is how many tasks one transaction of ActAll changes.
const bulk = 1000

// actions change tasks from outside, one or many: cancel, run now, replay, remove, edit.
type actions struct {
	*core
	views   *views   // tell the queues of tasks
	reloads *reloads // read anew what was kept from going out during an edit
}

// Act does one thing to one task from outside: task.KindCancelled, KindMoved (run now),
// KindReplayed (a final one begins again) or KindRemoved. by is who asked. Errors as of ActOn.
func (as *actions) Act(ctx context.Context, kind task.Kind, by string, id task.ID) error {
	return as.ActOn(ctx, store.Action{Kind: kind, By: by}, id)
}

// ActOn does to one task what the Kind, By, Replay and Tree of an action say. Errors:
// store.ErrNotFound, store.ErrConflict with the reason, as for a replay from a stage in which the
// task never was.
func (as *actions) ActOn(ctx context.Context, what store.Action, id task.ID) error {
	acted, err := as.act(ctx, what, []task.ID{id}, nil)
	if err != nil {
		return err
	}
	if a := acted[0]; !a.Changed && a.Found && what.Kind.Fits(a.Was) && what.Replay.Stage != nil {
		return fmt.Errorf("task %s never was in stage %q: %w", id, *what.Replay.Stage,
			store.ErrConflict)
	}
	return refusal(&acted[0], what.Kind)
}

// refusal says why an action did not happen; nil: it did.
func refusal(a *store.Acted, kind task.Kind) error {
	switch {
	case a.Changed:
		return nil
	case !a.Found:
		return fmt.Errorf("task %s: %w", a.ID, store.ErrNotFound)
	case a.Held != "":
		return fmt.Errorf("task %s is held by node %q: %w", a.ID, a.Held, store.ErrHeld)
	default:
		return fmt.Errorf("task %s is %s, so it can't be %s: %w", a.ID, a.Was, kind,
			store.ErrConflict)
	}
}

// ActAll does what the Kind, By and Replay of an action say to tasks that the filter selects,
// newest first, from below after on (zero = the newest); a dry run only counts. It does so much as
// one page of a list finds, and says where to go on, zero at the end. A replay without a state in
// its filter is of dead tasks alone: what ended as it should is not done again because nobody
// thought of it.
func (as *actions) ActAll(
	ctx context.Context, what store.Action, f store.Filter, after task.ID, dryRun bool,
) (store.ActedAll, error) {
	return as.actPage(ctx, what.Kind, f, after, bulk, dryRun,
		func(page []task.View) ([]store.Acted, error) {
			ids := make([]task.ID, len(page))
			for i := range page {
				ids[i] = page[i].ID
			}
			return as.act(ctx, what, ids, func(i int, a *store.Action) {
				if a.Kind == task.KindReplayed {
					a.When = page[i].State
				}
			})
		})
}

// actPage does something to those of a page of the tasks that a filter selects to which it may be
// done.
func (as *actions) actPage(
	ctx context.Context, kind task.Kind, f store.Filter, after task.ID, size int, dryRun bool,
	do func([]task.View) ([]store.Acted, error),
) (store.ActedAll, error) {
	if f.Stuck != nil { // stores don't know it, and would take what is not stuck as well
		e := &task.InvalidError{}
		e.Add("body.filter.stuck", "only lists know it: what seems stuck is to be looked at first")
		return store.ActedAll{}, e
	}
	f.Live = as.live()
	page, next, err := as.store.Tasks(ctx, f, after, size)
	if err != nil {
		as.note(err)
		return store.ActedAll{}, fmt.Errorf("list tasks: %w", err)
	}
	page = slices.DeleteFunc(page, func(v task.View) bool { return !meant(kind, f.State, v.State) })
	all := store.ActedAll{Matched: int64(len(page)), Next: next}
	if dryRun || len(page) == 0 {
		return all, nil
	}
	acted, err := do(page)
	if err != nil {
		return store.ActedAll{}, err
	}
	for _, a := range acted {
		if a.Changed {
			all.Changed++
		}
	}
	return all, nil
}

// meant tells whether a call about many tasks is about one in a state; asked is the state of the
// call's filter, "" = none.
func meant(kind task.Kind, asked, s task.State) bool {
	return kind.Fits(s) && (kind != task.KindReplayed || asked != "" || s == task.Dead)
}

// act does what an action says to tasks; their ids, and what this node knows of them, it fills in.
// each completes the action of one of the tasks, nil = all are the same.
func (as *actions) act(
	ctx context.Context, what store.Action, ids []task.ID, each func(int, *store.Action),
) ([]store.Acted, error) {
	as.mu.Lock()
	if as.mem.closed {
		as.release()
		return nil, ErrClosed
	}
	a := as.mem.planActs(what, ids, time.Now())
	if each != nil {
		for i := range a.actions {
			each(a.index[i], &a.actions[i])
		}
	}
	as.release()
	if len(a.actions) == 0 {
		return a.acted, nil
	}
	var got []store.Acted
	err := as.again(func() (err error) {
		got, err = as.store.Act(as.ctx, a.actions)
		return err
	})
	if what.Kind == task.KindEdited {
		defer func() { as.endEdits(a.actions, a.unchanged(got)) }()
	}
	if err != nil {
		return nil, fmt.Errorf("%s tasks: %w", what.Kind, err)
	}
	as.mu.Lock()
	defer as.release()
	as.mem.learn(what, got, a.before, a.at, time.Now())
	if what.Kind != task.KindEdited && what.Kind != task.KindMoved {
		as.mem.waits.lookAround() // at its children, and at whoever waits for it as one
	}
	for i := range got {
		a.acted[a.index[i]] = got[i]
	}
	return a.acted, nil
}

// acts is what the store is to do to tasks, and what is known without it.
type acts struct {
	acted   []store.Acted // of all tasks, in their order; filled in where memory knows
	actions []store.Action
	before  []*item // of the actions: what memory knew of their tasks
	index   []int   // of the actions: where their tasks stand in acted
	at      int64
}

// unchanged are the items that memory knew of tasks to which nothing was done, as far as is known.
func (a *acts) unchanged(got []store.Acted) (list []*item) {
	for i, it := range a.before {
		if it != nil && (i >= len(got) || !got[i].Changed) {
			list = append(list, it)
		}
	}
	return list
}

// planActs says what an action is for each of the tasks.
func (m *memory) planActs(what store.Action, ids []task.ID, now time.Time) (a acts) {
	a.at = m.clock.read(now)
	a.acted = make([]store.Acted, len(ids))
	mark := m.nextBatch(a.at) // an id that nothing else has: a repetition is known by it
	for i, id := range ids {
		it := m.item(id)
		if it != nil && (it.place == out || it.place == settling) &&
			what.Kind != task.KindCancelled {
			a.acted[i] = store.Acted{
				ID: id, Queue: it.queue.name, Found: true, Was: task.Running,
			}
			continue
		}
		action := what
		action.ID, action.Mark, action.Rank, action.Due = id, mark, a.at, a.at
		if it != nil && it.place == out {
			action.Worker = it.worker.name
			action.Started = m.clock.read(it.started)
			action.Error = "asked for by " + what.By
		}
		if what.Kind == task.KindEdited {
			action.Holder = m.conf.Holder
			m.edits.begin(id)
			if it != nil {
				it.reserve()
			}
		}
		a.actions = append(a.actions, action)
		a.before = append(a.before, it)
		a.index = append(a.index, i)
	}
	return a
}

// learn changes memory by what was done to tasks. A moved, replayed or edited one may have been
// taken with its new span before the answer came: then memory knows it already.
func (m *memory) learn(
	what store.Action, got []store.Acted, before []*item, at int64, now time.Time,
) {
	kind, due, rank := what.Kind, at, at
	if kind == task.KindEdited {
		if rank = unknownRank; what.Edit.Due != nil {
			due = *what.Edit.Due
		}
	}
	moved := kind == task.KindMoved || kind == task.KindReplayed || kind == task.KindEdited
	for i := range got {
		g := &got[i]
		if !g.Changed {
			continue
		}
		if it := m.item(g.ID); it != nil && (it == before[i] || !moved) {
			it.leave(g.Queue, !moved, now)
		}
		switch {
		case g.Was == task.Blocked && moved: // by an edit, which leaves it so
		case moved:
			m.queue(g.Queue).signAt(rank, due, at, now)
		default:
			m.watchers.tell(g.ID, &m.do)
		}
	}
}

// leave takes an item out of memory, and of its worker's hands, to which something was done; over
// says that it ended.
func (it *item) leave(queue string, over bool, now time.Time) {
	m := it.queue.memory
	if it.given() { // its worker's next beat asks the store how it ended
		it.worker.changed()
	}
	if it.place == out {
		it.sweep()
		m.placeFree(queue, spot{it.span, it.cell}, over, now)
	} else if it.owns {
		m.placeFree(queue, spot{it.span, it.cell}, true, now)
	}
	it.forget()
	it.queue.match(now) // a neighbour, or its worker's room
}
