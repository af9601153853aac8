package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// contextSteps begins with the newest step before one, if there is one.
const contextSteps = `SELECT seq, kind, stage, context_seq, worker, finished FROM step
WHERE batch = ?1 AND n = ?2 AND seq >= coalesce((SELECT max(seq) FROM step
WHERE batch = ?1 AND n = ?2 AND seq < ?3), 0) ORDER BY seq LIMIT ?4`

// Contexts tells what the stages of a task were handed. See contract.Views.
func (s *viewCalls) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	var chosen []store.ContextStep
	err = s.read(ctx, func(c *conn) (err error) {
		chosen, next, err = c.views().handed(q)
		return err
	})
	if err == nil {
		page, next, err = rules.Contexts(q, chosen, next, func(v store.Value) ([]byte, error) {
			return s.values.Value(ctx, v)
		})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read contexts of task %s: %w", q.ID, err)
	}
	return page, next, nil
}

// handed chooses steps for a page of contexts, and reads what they refer to.
func (c viewReads) handed(
	q store.ContextsQuery,
) (chosen []store.ContextStep, next int32, err error) {
	f, found, err := c.facts().fact(q.ID)
	if err == nil && (!found || f.Removed()) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	submitted, _, err := c.members().task(q.ID)
	if err != nil {
		return nil, 0, err
	}
	first := store.ContextStep{Seq: -1, Stage: submitted.Stage, ContextSeq: -1, At: f.Created}
	var list []store.ContextStep
	if err = c.each(contextSteps, func(st *sqlite.Stmt) bool {
		step := store.ContextStep{
			Seq: st.ColumnInt32(0), Kind: task.Kind(st.ColumnInt(1)), Stage: st.ColumnText(2),
			ContextSeq: st.ColumnInt32(3), By: st.ColumnText(4), At: st.ColumnInt64(5),
		}
		if len(list) == 0 && step.Seq >= q.From-1 {
			list = append(list, first)
		}
		list = append(list, step)
		return true
	}, q.ID.Batch, q.ID.N, q.From-1, rules.ContextsExamined+1); err != nil {
		return nil, 0, err
	}
	if len(list) == 0 {
		list = append(list, first)
	}
	chosen, next = rules.Handed(q, list)
	for i := range chosen {
		s := &chosen[i]
		if s.ContextSeq < 0 {
			s.Context = submitted.Context
		} else if _, err = c.one(contextAt, func(st *sqlite.Stmt) {
			s.Context = bytesOf(st, 0)
		}, q.ID.Batch, q.ID.N, s.ContextSeq); err != nil {
			return nil, 0, err
		}
	}
	return chosen, next, nil
}
