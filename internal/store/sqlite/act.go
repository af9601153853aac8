package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Act cancels, moves, replays or removes tasks. See the contract, storetest.Steps.
func (s *Store) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	var acted []store.Acted
	err := s.write(ctx, func(t *tx) error {
		acted = make([]store.Acted, len(actions))
		for i := range actions {
			var err error
			if acted[i], err = t.act(&actions[i]); err != nil {
				return fmt.Errorf("task %s: %w", actions[i].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("act on %d tasks: %w", len(actions), err)
	}
	return acted, nil
}

// findMark finds the step that an action made.
const findMark = `SELECT 1 FROM step WHERE batch = ? AND n = ? AND token = ? AND hash = ?`

func (t *tx) act(a *store.Action) (store.Acted, error) {
	f, found, err := t.fact(a.ID)
	if err != nil || !found {
		return store.Acted{ID: a.ID}, err
	}
	repeated := false
	if a.Mark != 0 {
		repeated, err = t.has(findMark, a.ID.Batch, a.ID.N, unasked, a.Mark)
	}
	if err != nil || f.removed() && !repeated {
		return store.Acted{ID: a.ID}, err
	}
	was := f.state(t.now, false)
	acted := store.Acted{
		ID: a.ID, Queue: f.queue, Found: true, Changed: repeated || a.Kind.Fits(was), Was: was,
	}
	if repeated || !acted.Changed {
		return acted, nil
	}
	step := store.Step{
		Kind: a.Kind, Stage: f.stage, Attempt: f.attempt, ContextSeq: f.contextSeq,
		Base:   store.Final,
		Worker: cmp.Or(a.Worker, a.By), Started: a.Started, Finished: t.now, Error: a.Error,
		Hash: a.Mark,
	}
	stat := t.stat(f.queue)
	switch a.Kind {
	case task.KindCancelled:
		stat.Cancelled++
	case task.KindRemoved:
		t.undone(f.queue).Gone(was)
	case task.KindReplayed:
		if acted.Changed, err = t.begin(&step, a); err != nil || !acted.Changed {
			return acted, err
		}
		stat.Dead--
		step.Attempt = 0
		fallthrough
	case task.KindMoved:
		step.Base, step.Due = f.seq+2, a.Due
	}
	if err := t.insertStep(a.ID, f.seq+1, &step); err != nil {
		return acted, err
	}
	if a.Kind == task.KindReplayed {
		if _, err := t.exec(reopenFires, a.ID.Batch, a.ID.N, f.seq+1); err != nil {
			return acted, err
		}
	}
	if err := t.leave(&f); err != nil {
		return acted, err
	}
	if step.Base != store.Final {
		err = t.moveOut(a.ID, f.seq+1, f.queue, store.Move{Rank: a.Rank, Due: a.Due})
	}
	return acted, err
}

const (
	firstStage = `SELECT stage, -1 FROM task WHERE batch = ? AND n = ?`
	// cameTo finds the step with which a task first came to a stage.
	cameTo = `SELECT stage, context_seq FROM step WHERE batch = ? AND n = ? AND stage = ?
ORDER BY seq LIMIT 1`
)

// begin makes a step the one that lets the task begin where its replay says; false: it never was
// there.
func (t *tx) begin(step *store.Step, a *store.Action) (there bool, err error) {
	if a.Replay == (store.Replay{}) {
		return true, nil
	}
	scan := func(st *sqlite.Stmt) {
		step.Stage, step.ContextSeq = st.ColumnText(0), st.ColumnInt32(1)
	}
	if _, err := t.one(
		firstStage, scan, a.ID.Batch, a.ID.N,
	); err != nil || a.Replay.Whole || step.Stage == *a.Replay.Stage {
		return err == nil, err
	}
	return t.one(cameTo, scan, a.ID.Batch, a.ID.N, *a.Replay.Stage)
}

// unasked is the token of steps that no report has.
const unasked = -1

// insertStep inserts a step that was asked for.
func (t *tx) insertStep(id task.ID, seq int32, s *store.Step) error {
	return stepFull.insert(t.conn, 1, func(st *sqlite.Stmt) {
		bindShared(st, s)
	}, func(st *sqlite.Stmt, p, _ int) {
		st.BindInt64(p, id.Batch)
		st.BindInt64(p+1, int64(id.N))
		st.BindInt64(p+2, int64(seq))
		st.BindInt64(p+3, unasked)
		st.BindInt64(p+4, s.Hash)
		st.BindInt64(p+5, s.Started)
		st.BindInt64(p+6, s.Finished)
		bindRest(st, p+7, s)
	}, nil)
}

const shrinkSpan = `UPDATE span SET size = size - 1 WHERE id = ? AND token = 0`

// leave takes a task out of its span: its running row goes, and the span when it is free and was
// only this task's.
func (t *tx) leave(f *fact) error {
	if f.running != nil {
		if _, err := t.exec(deleteRunning, f.id.Batch, f.id.N, f.running.Seq); err != nil {
			return err
		}
	}
	var err error
	switch sp := &f.owner; {
	case sp.ID == 0:
	case sp.Lo == sp.Hi && sp.Holder == (store.Holder{}):
		_, err = t.exec(deleteSpan, sp.ID)
	default:
		_, err = t.exec(shrinkSpan, sp.ID)
	}
	return err
}
