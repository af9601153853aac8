package sqlite

import (
	"context"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// childrenExamined is how many children one page looks at, at most, and batches of them.
const childrenExamined = 1000

// Children lists the children of a task, oldest first. See contract.Views.
func (s *viewCalls) Children(
	ctx context.Context, q store.ChildrenQuery,
) (page []task.View, next task.ID, err error) {
	var results []store.Value
	now := s.clock()
	err = s.read(ctx, func(c *conn) error {
		page, results, next = nil, nil, task.ID{}
		f, found, err := c.facts().fact(q.Parent)
		if err == nil && (!found || f.Removed()) {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		l := childList{conn: c, ChildrenQuery: q, now: now, left: childrenExamined}
		if err := l.read(); err != nil {
			return err
		}
		page, results, next = l.page, l.results, l.next
		return nil
	})
	for i := range page {
		if err == nil {
			page[i].Result, err = s.values.Value(ctx, results[i])
		}
	}
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list children of task %s: %w", q.Parent, err)
	}
	return page, next, nil
}

// childList reads one page of children.
type childList struct {
	*conn
	store.ChildrenQuery
	now     int64
	left    int // children and batches that it may look at yet
	page    []task.View
	results []store.Value
	next    task.ID // where to go on
}

func (l *childList) read() error {
	var batches []int64
	if err := l.each(childBatches, func(st *sqlite.Stmt) bool {
		batches = append(batches, st.ColumnInt64(0))
		return true
	}, l.Parent.Batch, l.Parent.N, l.After.Batch, childrenExamined); err != nil {
		return err
	}
	at := l.After
	for _, batch := range batches {
		from := int32(0)
		if batch == at.Batch {
			from = at.N + 1
		}
		var ids []task.ID
		if err := l.facts().facts(batch, from, math.MaxInt32, func(f *rules.Fact) bool {
			ids = append(ids, f.ID)
			return len(ids) < l.left
		}); err != nil {
			return err
		}
		for _, id := range ids {
			if len(l.page) == l.Limit {
				l.next = at
				return nil
			}
			if err := l.add(id); err != nil {
				return err
			}
			at = id
		}
		if l.left -= 1 + len(ids); l.left <= 0 {
			l.next = at
			return nil
		}
		at = task.ID{Batch: batch, N: math.MaxInt32 - 1}
	}
	if len(batches) == childrenExamined {
		l.next = at
	}
	return nil
}

// add adds a child to the page, if the query selects it.
func (l *childList) add(id task.ID) error {
	f, found, err := l.facts().fact(id)
	if err != nil || !found || f.Removed() {
		return err
	}
	var live *store.Live
	if h, ok := l.Live[id]; ok {
		live = &h
	}
	if l.State != "" && f.State(l.now, live != nil) != l.State {
		return nil
	}
	v, err := l.views().view(&f, l.now, live)
	if err != nil {
		return err
	}
	result, err := l.views().result(&f)
	l.page = append(l.page, v)
	l.results = append(l.results, result)
	return err
}

// result is that of the newest step of a task.
func (c viewReads) result(f *rules.Fact) (v store.Value, err error) {
	found, err := c.one(resultAt, func(st *sqlite.Stmt) {
		v = bytesOf(st, 0)
	}, f.ID.Batch, f.ID.N, f.Seq)
	if err != nil || found || f.Seq != 0 {
		return v, err
	}
	d, _, err := c.members().marked(f.ID)
	return d.Result, err
}
