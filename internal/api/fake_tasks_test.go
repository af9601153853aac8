package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func (f *fake) find(id task.ID) (*task.View, error) {
	for i := range f.tasks {
		if f.tasks[i].ID == id {
			return &f.tasks[i], nil
		}
	}
	return nil, fmt.Errorf("task %s: %w", id, store.ErrNotFound)
}

func (f *fake) Log(_ context.Context, id task.ID, lines []task.LogLine) error {
	if _, err := f.find(id); err != nil {
		return err
	}
	for i := range lines {
		if time.Since(lines[i].Time) < time.Minute {
			lines[i].Time = time.Time{} // stamped: any time will do
		}
	}
	return f.change("log %s %v", id, lines)
}

func (f *fake) ActOn(_ context.Context, what store.Action, id task.ID) error {
	v, err := f.find(id)
	kind, by, from := what.Kind, what.By, what.Replay
	if err == nil && from.Stage != nil && *from.Stage != v.Stage {
		return fmt.Errorf("task %s never was in stage %q: %w", id, *from.Stage, store.ErrConflict)
	}
	if from.Stage != nil {
		by += " in stage " + *from.Stage
	}
	if what.Tree {
		by += " with the tree"
	}
	if from != (store.Replay{}) {
		return f.change("replay %s %s, whole %v", by, id, from.Whole)
	}
	if err != nil {
		return err
	}
	can := map[task.Kind]bool{
		task.KindCancelled: !v.State.Final(), task.KindReplayed: v.State.Final(),
		task.KindMoved: v.State == task.Ready ||
			v.State == task.Waiting, task.KindRemoved: v.State != task.Running,
	}
	if !can[kind] {
		return fmt.Errorf("task %s is %s, so it can't be %s: %w", id, v.State, kind,
			store.ErrConflict)
	}
	return f.change("act %s %s %s", kind, by, id)
}

// ActAll answers in two pages.
func (f *fake) ActAll(
	_ context.Context, what store.Action, filter store.Filter, after task.ID, dry bool,
) (store.ActedAll, error) {
	all := store.ActedAll{Matched: 4, Changed: 3, Next: task.ID{Batch: 1000}}
	if after != (task.ID{}) {
		all = store.ActedAll{Matched: 3, Changed: 3}
	}
	if dry {
		all.Changed = 0
		return all, f.err
	}
	by := what.By
	if what.Replay.Stage != nil {
		by += " in stage " + *what.Replay.Stage
	}
	if what.Replay.Whole {
		by += " whole"
	}
	return all, f.change("act %s %s %+v after %v", what.Kind, by, filter, after)
}

func (f *fake) Await(context.Context, task.ID, time.Duration) error { return f.err }

func (f *fake) Task(_ context.Context, id task.ID, wait time.Duration) (task.View, error) {
	if f.err != nil {
		return task.View{}, f.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == idOf(4) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "ship", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{Signal: "paid", Key: "order 7", Until: moment, Else: "remind"},
		}, nil
	}
	if id == idOf(5) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "join", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{First: true}, Parent: idOf(0),
			Children: &task.Children{Total: 9, Done: 3, Dead: 2, Cancelled: 1, Expired: 1},
		}, nil
	}
	if id == idOf(6) {
		return task.View{
			ID: id, Queue: "mail", State: task.Blocked, Stage: "ship", Attempt: 1, Created: moment,
			Awaits: &task.Awaits{Others: true}, After: []task.Prior{
				{ID: idOf(0), Ref: "pack", If: task.IfDone, State: task.Done},
				{ID: idOf(1), If: task.IfDone},
				{ID: idOf(9), Ref: "<wrap>", If: task.IfEnded},
			},
		}, nil
	}
	v, err := f.find(id)
	if err != nil {
		return task.View{}, err
	}
	return *v, nil
}

// Contexts answers those of three stages, in pages of two.
func (f *fake) Contexts(
	_ context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	if f.err != nil {
		return nil, 0, f.err
	}
	if _, err := f.find(q.ID); err != nil {
		return nil, 0, err
	}
	all := []task.StageContext{
		{Seq: -1, Stage: "fetch", Time: moment, Context: []byte(`{ "a" :1e400}`)},
		{Seq: 0, Stage: "send", Outcome: task.KindNext, By: "w1", Time: moment},
		{Seq: 3, Stage: "send", Outcome: task.KindEdited, By: "ana", Time: moment,
			Context: []byte(`"<b>"`)},
	}
	for _, c := range all {
		if c.Seq+1 < q.From {
			continue
		}
		if len(page) == min(q.Limit, 2) {
			return page, c.Seq + 1, nil
		}
		page = append(page, c)
	}
	return page, 0, nil
}

func (f *fake) Tasks(
	_ context.Context, filter store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range slices.Backward(f.tasks) {
		if s := filter.Stuck; s != nil {
			if v.State != task.Running {
				continue
			}
			v.Stuck = fmt.Sprintf("silent are %v", s.Silent)
		}
		if after != (task.ID{}) && v.ID.Compare(after) >= 0 || filter.Queue != "" &&
			v.Queue != filter.Queue || filter.State != "" && v.State != filter.State ||
			!store.MetaOf(v.Meta).Has(filter.Meta) ||
			filter.Reach != nil && !filter.Reach(v.Queue) {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		v.Context, v.Result, v.Steps = nil, nil, nil
		page = append(page, v)
	}
	return page, task.ID{}, f.err
}

func (f *fake) Lines(_ context.Context, id task.ID, from int64, limit int) (store.LogPage, error) {
	if _, err := f.find(id); err != nil {
		return store.LogPage{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from = min(from, int64(len(f.lines)))
	to := min(from+int64(limit), int64(len(f.lines)))
	return store.LogPage{Lines: slices.Clone(f.lines[from:to]), Next: to}, f.err
}

func (f *fake) QueuesOf(_ context.Context, ids []task.ID) ([]string, error) {
	queues := make([]string, len(ids))
	for i, id := range ids {
		if v, err := f.find(id); err == nil {
			queues[i] = v.Queue
		}
	}
	return queues, f.err
}

func (f *fake) States(_ context.Context, ids []task.ID) ([]task.View, error) {
	views := make([]task.View, len(ids))
	for i, id := range ids {
		views[i].ID = id
		if v, err := f.find(id); err == nil {
			views[i].Queue, views[i].State = v.Queue, v.State
		}
	}
	return views, f.err
}

func (f *fake) Turn(_ context.Context, id task.ID) (store.Turn, error) {
	_, err := f.find(id)
	return store.Turn{
		Now: moment.UnixMicro(), Holder: store.Holder{Node: "n1", Token: 3},
		Ahead: store.Ahead{Tasks: 40}, Usual: 2e6,
	}, err
}

func (f *fake) Edit(
	_ context.Context, by string, id task.ID, e task.Edit,
) (task.State, error) {
	if err := limits.CheckEdit(&e, "body"); err != nil {
		return "", err
	}
	v, err := f.find(id)
	if err != nil {
		return "", err
	}
	if v.State != task.Waiting && v.State != task.Ready {
		return "", fmt.Errorf("task %s is %s, so it can't be edited: %w", id, v.State,
			store.ErrConflict)
	}
	with := string(e.Context)
	if e.Meta != nil {
		with = fmt.Sprint(with, e.Meta)
	}
	return v.State, f.change("edit %v %s %s %s", e.Changed(), by, id, with)
}

// EditAll answers in two pages.
func (f *fake) EditAll(
	ctx context.Context, by string, e task.Edit, filter store.Filter, after task.ID, dry bool,
) (store.ActedAll, error) {
	if err := limits.CheckEdit(&e, "body.set"); err != nil {
		return store.ActedAll{}, err
	}
	return f.ActAll(ctx, store.Action{
		Kind: task.KindEdited, By: fmt.Sprint(by, " ", e.Changed()),
	}, filter, after, dry)
}
