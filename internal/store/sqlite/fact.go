package sqlite

import (
	"errors"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// factReads reads what is known of a task, from the rows of all that happened to it.
type factReads struct{ *conn }

func (c *conn) facts() factReads { return factReads{c} }

const (
	findBatchRow = `SELECT queue, rank, due, created FROM batch WHERE id = ?`
	findOwner    = `SELECT ` + spanColumns +
		` FROM span WHERE batch = ? AND seq0 = ? AND lo <= ? ORDER BY lo DESC LIMIT 1`
)

// batchRow is what the tasks of a batch share.
type batchRow struct {
	queue              string
	rank, due, created int64
}

func (c factReads) batch(id int64) (b batchRow, found bool, err error) {
	found, err = c.one(findBatchRow, func(st *sqlite.Stmt) {
		b = batchRow{st.ColumnText(0), st.ColumnInt64(1), st.ColumnInt64(2), st.ColumnInt64(3)}
	}, id)
	return b, found, err
}

// factOf is what is known of a task of a batch, without its span and its running row.
func (b *batchRow) factOf(batch int64, s *member) rules.Fact {
	f := rules.Fact{
		ID: task.ID{Batch: batch, N: s.N}, Queue: b.queue, Rank: b.rank, Due: b.due,
		HeadStart: b.due - b.rank, Created: b.created, Stage: s.stage(), Key: s.Key,
		GroupKey: s.GroupKey, MaxAttempts: s.MaxAttempts, Timeout: s.Timeout, Meta: s.Meta,
		Seq:  s.Seq,
		Kind: s.Kind, Attempt: s.Attempt, Base: s.Base, ContextSeq: s.ContextSeq,
		StepDue: s.outcome.Due, Finished: s.Finished, Error: s.Error,
	}
	if w := s.within(); w != 0 {
		f.Expires = b.due + w
	}
	return f
}

// findFact reads a task, its batch, its newest step, and its mark when it has no step.
const findFact = `SELECT p.has, p.body, b.queue, b.rank, b.due, b.created,
iif(s.seq IS NULL AND m.bits >> (?2 & 63) & 1, m.body, NULL), s.n IS NOT NULL, s.*
FROM pack p JOIN batch b ON b.id = p.batch
LEFT JOIN (SELECT ` + outcomeColumns + `, batch FROM step) s ON s.batch = p.batch AND s.n = ?2
  AND s.seq = (SELECT max(x.seq) FROM step x WHERE x.batch = ?1 AND x.n = ?2)
LEFT JOIN mark m ON m.batch = p.batch AND m.lo = ?2 & ~63
WHERE p.batch = ?1 AND p.lo BETWEEN ?2 & ~63 AND ?2 ORDER BY p.lo DESC LIMIT 1`

// fact reads one task.
func (c factReads) fact(id task.ID) (f rules.Fact, found bool, err error) {
	var bad error
	_, err = c.one(findFact, func(st *sqlite.Stmt) {
		var m member
		has := pack.Bits(st.ColumnInt64(0))
		if m.Task, found, bad = pack.FindTask(c.borrow(st, 1), has, id.N); bad != nil || !found {
			return
		}
		switch {
		case st.ColumnBool(7):
			m.outcome = scanOutcome(st, 8)
		case st.ColumnIsNull(6):
			m.outcome = none
		default:
			var d pack.Done
			d, _, bad = pack.FindDone(c.borrow(st, 6), id.N)
			m.outcome = markedOutcome(&d, m.Task.Stage)
		}
		b := batchRow{st.ColumnText(2), st.ColumnInt64(3), st.ColumnInt64(4), st.ColumnInt64(5)}
		f = b.factOf(id.Batch, &m)
	}, id.Batch, id.N)
	if err != nil || bad != nil || !found {
		return f, false, errors.Join(err, bad)
	}
	return f, true, c.complete(&f)
}

// facts calls visit with tasks of a batch, as members does, without what edits made of them, their
// spans and running rows.
func (c factReads) facts(batch int64, lo, hi int32, visit func(*rules.Fact) bool) error {
	b, found, err := c.batch(batch)
	if err != nil || !found {
		return err
	}
	return c.members().members(batch, lo, hi, whole, func(s *member) bool {
		f := b.factOf(batch, s)
		return visit(&f)
	})
}

// complete reads what edits made of a task, the span that it belongs to and its running row. Spans
// of one batch with equal seq0 never overlap, so only the last that begins at or before the task
// can be the one.
func (c factReads) complete(f *rules.Fact) error {
	if err := c.applyEdits(f); err != nil {
		return err
	}
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

// context reads the task's present context, and which worker wrote it; "" = it was submitted.
func (c factReads) context(f *rules.Fact) (v store.Value, by string, err error) {
	if f.ContextSeq < 0 {
		var t store.Task
		t, _, err = c.members().task(f.ID)
		v = t.Context
	} else {
		_, err = c.one(contextAt, func(st *sqlite.Stmt) {
			v, by = bytesOf(st, 0), st.ColumnText(1)
		}, f.ID.Batch, f.ID.N, f.ContextSeq)
	}
	return v, by, err
}
