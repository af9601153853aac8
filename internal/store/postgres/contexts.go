package postgres

import (
	"context"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	submittedAs = `SELECT t.stage, t.context, b.created, coalesce((SELECT kind FROM rota.step
WHERE batch = $1 AND n = $2 ORDER BY seq DESC LIMIT 1), 0)::int
FROM rota.task($1, $2) t JOIN rota.batch b ON b.id = t.batch`
	// contextSteps begins with the newest step before one, if there is one.
	contextSteps = `SELECT seq, kind::int, coalesce(stage, ran), coalesce(context_seq, -1),
coalesce(worker, ''), finished FROM rota.step
WHERE batch = $1 AND n = $2 AND seq >= coalesce((SELECT seq FROM rota.step
  WHERE batch = $1 AND n = $2 AND seq < $3 ORDER BY seq DESC LIMIT 1), 0) ORDER BY seq LIMIT $4`
	contextsAt = `SELECT s.seq, s.context FROM unnest($3::int[]) w (seq)
CROSS JOIN LATERAL (SELECT seq, context FROM rota.step
  WHERE batch = $1 AND n = $2 AND seq = w.seq LIMIT 1) s`
)

// Contexts tells what the stages of a task were handed. See contract.Views.
func (s *views) Contexts(
	ctx context.Context, q store.ContextsQuery,
) (page []task.StageContext, next int32, err error) {
	var chosen []store.ContextStep
	err = s.reading(ctx, func(ctx context.Context, r runner) (err error) {
		chosen, next, err = handed(ctx, r, q)
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
func handed(
	ctx context.Context, r runner, q store.ContextsQuery,
) (chosen []store.ContextStep, next int32, err error) {
	found := false
	newest := int32(0)
	first := store.ContextStep{Seq: -1, ContextSeq: -1}
	var list []store.ContextStep
	err = r.run(ctx, ask(submittedAs, func(r row) error {
		found = true
		return r.Scan(&first.Stage, &first.Context, &first.At, &newest)
	}, q.ID.Batch, q.ID.N), ask(contextSteps, func(r row) error {
		var s store.ContextStep
		var kind int32
		err := r.Scan(&s.Seq, &kind, &s.Stage, &s.ContextSeq, &s.By, &s.At)
		s.Kind = task.Kind(kind)
		list = append(list, s)
		return err
	}, q.ID.Batch, q.ID.N, q.From-1, rules.ContextsExamined+1))
	if err == nil && (!found || task.Kind(newest) == task.KindRemoved) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	if len(list) == 0 || list[0].Seq >= q.From-1 {
		list = append([]store.ContextStep{first}, list...)
	}
	chosen, next = rules.Handed(q, list)
	var seqs []int32
	for i := range chosen {
		if chosen[i].ContextSeq >= 0 {
			seqs = append(seqs, chosen[i].ContextSeq)
		}
	}
	texts := map[int32]store.Value{-1: first.Context}
	if len(seqs) > 0 {
		err = r.run(ctx, ask(contextsAt, func(r row) error {
			var seq int32
			var v store.Value
			err := r.Scan(&seq, &v)
			texts[seq] = v
			return err
		}, q.ID.Batch, q.ID.N, seqs))
	}
	for i := range chosen {
		chosen[i].Context = texts[chosen[i].ContextSeq]
	}
	return chosen, next, err
}
