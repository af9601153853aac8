package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

const (
	firstHandout = `SELECT started FROM step WHERE batch = ? AND n = ? AND seq >= ? AND started > 0
ORDER BY seq LIMIT 1`

	// childPacks has at least one child in each row.
	childPacks = `SELECT p.batch, p.lo, p.has FROM child_batch c INDEXED BY child_parent
CROSS JOIN pack p ON p.batch = c.batch
WHERE c.parent_batch = ? AND c.parent_n = ? AND c.run = ? AND p.has <> 0
ORDER BY c.batch, p.lo LIMIT ?`
)

// Families reads tasks and the ids of their children. See contract.Views.
func (s *viewCalls) Families(ctx context.Context, q store.FamilyQuery) ([]store.Family, error) {
	var list []store.Family
	now := s.clock()
	err := s.read(ctx, func(c *conn) error {
		list = make([]store.Family, len(q.IDs))
		room, after := q.Children, q.After
		for i, id := range q.IDs {
			var live *store.Live
			if h, ok := q.Live[id]; ok {
				live = &h
			}
			if err := c.views().family(id, now, live, &list[i], room); err != nil {
				return err
			}
			room -= len(list[i].Children)
			if after > 0 && list[i].Task.ID != (task.ID{}) {
				if err := c.waits().noteAfter(&list[i].Task); err != nil {
					return err
				}
				after -= len(list[i].Task.After)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %d tasks and their children: %w", len(q.IDs), err)
	}
	return list, nil
}

// family reads one task, and at most room children of it.
func (c viewReads) family(
	id task.ID, now int64, live *store.Live, to *store.Family, room int,
) error {
	f, found, err := c.facts().fact(id)
	if err != nil || !found || f.Removed() {
		return err
	}
	if to.Task, err = c.view(&f, now, live); err != nil {
		return err
	}
	to.Finished = instant(f.Finished)
	run, err := c.children().presentRun(id)
	if err != nil {
		return err
	}
	handedOut, err := c.one(firstHandout, func(st *sqlite.Stmt) {
		to.Began = instant(st.ColumnInt64(0))
	}, id.Batch, id.N, run)
	if err != nil {
		return err
	}
	if !handedOut && f.Seq == 0 {
		d, _, err := c.members().marked(id)
		if err != nil {
			return err
		}
		to.Began = instant(d.Started)
		handedOut = d.Started > 0
	}
	if !handedOut {
		to.Began = to.Task.Started
	}
	counts, found, err := c.children().children(store.ChildrenOf(id, run))
	if err != nil || !found {
		return err
	}
	to.Task.Children = &counts
	if room <= 0 {
		return nil
	}
	return c.each(childPacks, func(st *sqlite.Stmt) bool {
		for n := range pack.Bits(st.ColumnInt64(2)).Numbers(pack.Lo(st.ColumnInt32(1))) {
			if len(to.Children) == room {
				return false
			}
			to.Children = append(to.Children, task.ID{Batch: st.ColumnInt64(0), N: n})
		}
		return true
	}, id.Batch, id.N, run, room)
}
