package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	factColumns = `t.batch, t.n, b.queue, b.rank, b.due, b.created, coalesce(s.stage, t.stage), t.key, t.group_key, t.max_attempts, t.timeout,
  coalesce(s.seq, -1), s.kind, s.attempt, coalesce(s.base, 0), coalesce(s.context_seq, -1), s.due, s.finished, s.error`
	factTables = `FROM task t JOIN batch b ON b.id = t.batch LEFT JOIN step s ON s.batch = t.batch
AND s.n = t.n
  AND s.seq = (SELECT max(m.seq) FROM step m WHERE m.batch = t.batch AND m.n = t.n)`
	findFact  = `SELECT ` + factColumns + ` ` + factTables + ` WHERE t.batch = ? AND t.n = ?`
	findOwner = `SELECT ` + spanColumns +
		` FROM span WHERE batch = ? AND seq0 = ? AND lo <= ? ORDER BY lo DESC LIMIT 1`
)

func scanFact(st *sqlite.Stmt) rules.Fact {
	return rules.Fact{
		ID: task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, Queue: st.ColumnText(2),
		Rank: st.ColumnInt64(3), Due: st.ColumnInt64(4),
		Created: st.ColumnInt64(5), Stage: st.ColumnText(6), Key: st.ColumnText(7),
		GroupKey: st.ColumnText(8), MaxAttempts: st.ColumnInt32(9),
		Timeout: st.ColumnInt64(10), Seq: st.ColumnInt32(11), Kind: task.Kind(st.ColumnInt(12)),
		Attempt: st.ColumnInt32(13),
		Base:    st.ColumnInt32(14), ContextSeq: st.ColumnInt32(15), StepDue: st.ColumnInt64(16),
		Finished: st.ColumnInt64(17), Error: st.ColumnText(18),
	}
}

// fact reads one task.
func (c *conn) fact(id task.ID) (f rules.Fact, found bool, err error) {
	found, err = c.one(findFact, func(st *sqlite.Stmt) { f = scanFact(st) }, id.Batch, id.N)
	if err == nil && found {
		err = c.complete(&f)
	}
	return f, found, err
}

// complete reads the span that a task belongs to and its running row. Spans of one batch with equal
// seq0 never overlap, so only the last that begins at or before the task can be the one.
func (c *conn) complete(f *rules.Fact) error {
	if f.Base == store.Final {
		return nil
	}
	_, err := c.one(findOwner, func(st *sqlite.Stmt) {
		if sp := scanSpan(st); sp.Hi >= f.ID.N {
			f.Owner = sp
		}
	}, f.ID.Batch, f.Base, f.ID.N)
	if err != nil {
		return err
	}
	return c.each(runningIn, func(st *sqlite.Stmt) bool {
		if u := scanRunning(st); u.Seq == f.Seq+1 {
			f.Running = &u
		}
		return true
	}, f.ID.Batch, f.ID.N, f.ID.N)
}

const contextAt = `SELECT context, coalesce(worker, '?') FROM step WHERE batch = ? AND n = ?
AND seq = ?`
const contextOf = `SELECT context FROM task WHERE batch = ? AND n = ?`

// context reads the task's present context, and which worker wrote it; "" = it was submitted.
func (c *conn) context(f *rules.Fact) (v store.Value, by string, err error) {
	if f.ContextSeq < 0 {
		_, err = c.one(contextOf, func(st *sqlite.Stmt) { v = bytesOf(st, 0) }, f.ID.Batch, f.ID.N)
	} else {
		_, err = c.one(contextAt, func(st *sqlite.Stmt) {
			v, by = bytesOf(st, 0), st.ColumnText(1)
		}, f.ID.Batch, f.ID.N, f.ContextSeq)
	}
	return v, by, err
}

// Stand answers where tasks stand, in the order of ids.
func (s *Store) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	var list []store.Stood
	err := s.read(ctx, func(c *conn) error {
		list = make([]store.Stood, len(ids))
		for i, id := range ids {
			list[i].ID = id
			f, found, err := c.fact(id)
			if err == nil && found {
				list[i], err = c.stood(&f)
			}
			if err != nil {
				return fmt.Errorf("task %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read where %d tasks stand: %w", len(ids), err)
	}
	return list, nil
}

func (c *conn) stood(f *rules.Fact) (store.Stood, error) {
	v, by, err := c.context(f)
	return f.Stood(v, by), err
}
