package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// Tree is a task and what hangs below it, breadth first: at most limit tasks, at most task.MaxTree.
// It reads all tasks of a depth at once. store.ErrNotFound.
func (vs *views) Tree(ctx context.Context, id task.ID, limit int) (task.Tree, error) {
	var root task.Tree
	g := growth{
		views: vs, live: vs.live(), room: max(min(limit, task.MaxTree), 1) - 1,
		after:  treeAfter,
		places: []*task.Tree{&root}, ids: []task.ID{id},
	}
	for len(g.ids) > 0 {
		if err := g.deepen(ctx); err != nil {
			vs.note(err)
			return task.Tree{}, err
		}
	}
	if root.Task.ID == (task.ID{}) {
		return task.Tree{}, fmt.Errorf("task %s: %w", id, store.ErrNotFound)
	}
	dropGone(&root)
	return root, nil
}

// treeAfter is for how many tasks a tree says that others waited for them; one more may come with
// all of its own.
const treeAfter = 10_000

// growth is a tree to which one depth after the other is added.
type growth struct {
	*views
	live  map[task.ID]store.Live
	room  int // tasks that there may be yet
	after int // tasks that others waited for that are yet to be read

	// of the next depth, in the same order
	places []*task.Tree
	ids    []task.ID
}

// deepen reads one depth, and makes places for the next.
func (g *growth) deepen(ctx context.Context) error {
	list, err := g.store.Families(ctx, store.FamilyQuery{
		IDs: g.ids, Children: g.room, After: g.after, Live: g.live,
	})
	if err != nil {
		return err
	}
	places := g.places
	g.places, g.ids = nil, nil
	for i := range list {
		f, t := &list[i], places[i]
		t.Task, t.Began, t.Since = f.Task, f.Began, since(f)
		g.after = max(g.after-len(f.Task.After), 0)
		t.Below = make([]task.Tree, len(f.Children))
		if g.room -= len(f.Children); g.room == 0 && f.Task.Children != nil {
			t.LeftOut = max(f.Task.Children.Total-int64(len(f.Children)), 0)
		}
		for k := range t.Below {
			g.places = append(g.places, &t.Below[k])
		}
		g.ids = append(g.ids, f.Children...)
	}
	return nil
}

// since is when a task came into the state in which it is.
func since(f *store.Family) time.Time {
	v := &f.Task
	switch {
	case v.State.Final():
		return f.Finished
	case v.State == task.Running:
		return v.Started
	}
	at := v.Created
	if f.Finished.After(at) {
		at = f.Finished
	}
	if v.State == task.Ready && v.Due.After(at) {
		at = v.Due
	}
	return at
}

// dropGone takes out the places of tasks that were deleted meanwhile.
func dropGone(t *task.Tree) {
	t.Below = slices.DeleteFunc(t.Below, func(b task.Tree) bool {
		return b.Task.ID == (task.ID{})
	})
	for i := range t.Below {
		dropGone(&t.Below[i])
	}
}

// Children lists the children of a task, those of all its runs, oldest first, with their results,
// without contexts and steps: at most limit from cursor on, "" = the first. A page may be short
// while next is not "". *task.InvalidError for a cursor or a state that is none, store.ErrNotFound.
func (vs *views) Children(
	ctx context.Context, parent task.ID, state task.State, cursor string, limit int,
) (page []task.View, next string, err error) {
	q := store.ChildrenQuery{Parent: parent, State: state, Limit: limit, Live: vs.live()}
	e := &task.InvalidError{}
	if state != "" && !state.Valid() {
		e.Add("query.state", "%.40q is none", string(state))
	}
	if cursor != "" {
		if q.After, err = task.ParseID(cursor); err != nil {
			e.Add("query.cursor", "is none that a page of this list has given")
		}
	}
	if err := e.Err(); err != nil {
		return nil, "", err
	}
	page, after, err := vs.store.Children(ctx, q)
	if err != nil {
		vs.note(err)
		return nil, "", err
	}
	for i := range page {
		if r := page[i].Result; wire.CheckValue(r) != "" && len(r) > 0 {
			page[i].Result = nil // a store may hold some that are no JSON
		}
	}
	if after != (task.ID{}) {
		next = after.String()
	}
	return page, next, nil
}
