package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// fact is a task as its newest step left it. What people see of it, and what may happen to it,
// follows from this.
type fact struct {
	id                task.ID
	queue             string
	rank, due         int64 // of its batch
	created           int64
	stage             string
	key, groupKey     string
	maxAttempts       int32
	timeout           int64
	seq               int32 // of the newest step, -1 = none
	kind              task.Kind
	attempt           int32
	base, contextSeq  int32
	stepDue, finished int64

	owner   store.Span     // the span it belongs to; zero when final
	running *store.Running // at seq + 1
}

const (
	factColumns = `t.batch, t.n, b.queue, b.rank, b.due, b.created, coalesce(s.stage, t.stage), t.key, t.group_key, t.max_attempts, t.timeout,
  coalesce(s.seq, -1), s.kind, s.attempt, coalesce(s.base, 0), coalesce(s.context_seq, -1), s.due, s.finished`
	factTables = `FROM task t JOIN batch b ON b.id = t.batch LEFT JOIN step s ON s.batch = t.batch
AND s.n = t.n
  AND s.seq = (SELECT max(m.seq) FROM step m WHERE m.batch = t.batch AND m.n = t.n)`
	findFact  = `SELECT ` + factColumns + ` ` + factTables + ` WHERE t.batch = ? AND t.n = ?`
	findOwner = `SELECT ` + spanColumns +
		` FROM span WHERE batch = ? AND seq0 = ? AND lo <= ? ORDER BY lo DESC LIMIT 1`
)

func scanFact(st *sqlite.Stmt) fact {
	return fact{
		id: task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, queue: st.ColumnText(2),
		rank: st.ColumnInt64(3), due: st.ColumnInt64(4),
		created: st.ColumnInt64(5), stage: st.ColumnText(6), key: st.ColumnText(7),
		groupKey: st.ColumnText(8), maxAttempts: st.ColumnInt32(9),
		timeout: st.ColumnInt64(10), seq: st.ColumnInt32(11), kind: task.Kind(st.ColumnInt(12)),
		attempt: st.ColumnInt32(13),
		base:    st.ColumnInt32(14), contextSeq: st.ColumnInt32(15), stepDue: st.ColumnInt64(16),
		finished: st.ColumnInt64(17),
	}
}

// fact reads one task.
func (c *conn) fact(id task.ID) (f fact, found bool, err error) {
	found, err = c.one(findFact, func(st *sqlite.Stmt) { f = scanFact(st) }, id.Batch, id.N)
	if err == nil && found {
		err = c.complete(&f)
	}
	return f, found, err
}

// complete reads the span that a task belongs to and its running row. Spans of one batch with equal
// seq0 never overlap, so only the last that begins at or before the task can be the one.
func (c *conn) complete(f *fact) error {
	if f.base == store.Final {
		return nil
	}
	_, err := c.one(findOwner, func(st *sqlite.Stmt) {
		if sp := scanSpan(st); sp.Hi >= f.id.N {
			f.owner = sp
		}
	}, f.id.Batch, f.base, f.id.N)
	if err != nil {
		return err
	}
	return c.each(runningIn, func(st *sqlite.Stmt) bool {
		if u := scanRunning(st); u.Seq == f.seq+1 {
			f.running = &u
		}
		return true
	}, f.id.Batch, f.id.N, f.id.N)
}

// removed tells whether only a tombstone is left.
func (f *fact) removed() bool { return f.kind == task.KindRemoved }

// wake is when a task that is not final may run: when both its span and its newest step let it.
func (f *fact) wake() int64 { return max(f.owner.Due, f.stepDue, 0) }

// state is where the task stands; live tells whether a node's memory knows it to run.
func (f *fact) state(now int64, live bool) task.State {
	switch {
	case f.base == store.Final:
		return f.kind.Leaves()
	case f.running != nil || live:
		return task.Running
	case f.wake() > now:
		return task.Waiting
	}
	return task.Ready
}

const contextAt = `SELECT context, coalesce(worker, '?') FROM step WHERE batch = ? AND n = ?
AND seq = ?`
const contextOf = `SELECT context FROM task WHERE batch = ? AND n = ?`

// context reads the task's present context, and which worker wrote it; "" = it was submitted.
func (c *conn) context(f *fact) (v store.Value, by string, err error) {
	if f.contextSeq < 0 {
		_, err = c.one(contextOf, func(st *sqlite.Stmt) { v = bytesOf(st, 0) }, f.id.Batch, f.id.N)
	} else {
		_, err = c.one(contextAt, func(st *sqlite.Stmt) {
			v, by = bytesOf(st, 0), st.ColumnText(1)
		}, f.id.Batch, f.id.N, f.contextSeq)
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

func (c *conn) stood(f *fact) (store.Stood, error) {
	v, by, err := c.context(f)
	return store.Stood{
		ID: f.id, Found: true, Queue: f.queue, Final: f.base == store.Final, Kind: f.kind,
		Owner: f.owner,
		Loaded: store.Loaded{
			N: f.id.N, Standing: progress.Standing{
				Stage: f.stage, Seq: f.seq + 1, Attempt: f.attempt, Base: f.base,
			},
			Context: v, ContextSeq: f.contextSeq, ContextBy: by, MaxAttempts: f.maxAttempts,
			Timeout: f.timeout, Due: f.stepDue, HeadStart: f.due - f.rank, Running: f.running,
		},
	}, err
}
