package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// Act cancels, moves, replays, edits or removes tasks. See contract.Steps.
func (s *stepCalls) Act(ctx context.Context, actions []store.Action) ([]store.Acted, error) {
	var acted []store.Acted
	var refused []store.Value
	err := s.write(ctx, func(t *tx) error {
		refused = nil
		acted = make([]store.Acted, len(actions))
		for i := range actions {
			var err error
			if acted[i], err = t.steps().act(&actions[i]); err != nil {
				return fmt.Errorf("task %s: %w", actions[i].ID, err)
			}
			if e := actions[i].Edit; e != nil && e.Context != nil && !acted[i].Changed {
				refused = append(refused, *e.Context)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("act on %d tasks: %w", len(actions), err)
	}
	if len(refused) > 0 {
		s.values.dropUnused(ctx, refused)
	}
	return acted, nil
}

// findMark finds the step that an action made.
const findMark = `SELECT 1 FROM step WHERE batch = ? AND n = ? AND token = ? AND hash = ?`

func (t stepWrites) act(a *store.Action) (store.Acted, error) {
	f, found, err := t.facts().fact(a.ID)
	if err != nil || !found {
		return store.Acted{ID: a.ID}, err
	}
	repeated := false
	if a.Mark != 0 {
		if repeated, err = t.has(findMark, a.ID.Batch, a.ID.N, unasked, a.Mark); err != nil {
			return store.Acted{}, err
		}
	}
	if a.Edit != nil && a.Edit.StartWithin != nil && f.Seq >= 0 {
		if f.Begun, err = t.conn.expiries().wasBegun(a.ID); err != nil {
			return store.Acted{}, err
		}
	}
	begin, err := t.begin(&f, a)
	if err != nil {
		return store.Acted{}, err
	}
	acted, step := rules.Act(&f, a, repeated, begin, t.now)
	if step == nil {
		return acted, nil
	}
	switch a.Kind {
	case task.KindCancelled:
		t.stat(f.Queue).Cancelled++
		t.history.Cancelled(t.now, f.Queue, f.Stage)
	case task.KindRemoved:
		t.stat(f.Queue).Gone(acted.Was)
	case task.KindReplayed:
		*t.stat(f.Queue).Final(acted.Was)--
	}
	if err := t.insertStep(a.ID, f.Seq+1, step); err != nil {
		return acted, err
	}
	if step.Override != nil {
		if err := t.insertEdit(a.ID, f.Seq+1, step); err != nil {
			return acted, err
		}
	}
	if a.Kind == task.KindReplayed {
		if _, err := t.exec(reopenFires, a.ID.Batch, a.ID.N, f.Seq+1); err != nil {
			return acted, err
		}
	}
	if err := t.leave(&f); err != nil {
		return acted, err
	}
	if f.Owner.Parked() {
		if err := t.waits().followWait(&f, a.Kind); err != nil {
			return acted, err
		}
	}
	if err := t.children().acted(&f, a, acted.Was); err != nil || step.Base == store.Final {
		return acted, err
	}
	to := f.MoveOf(a, step)
	if a.Kind == task.KindReplayed {
		waits, err := t.waits().waitAgain(a.ID, f.Seq+1)
		if err != nil {
			return acted, err
		}
		if waits {
			to = *store.Parked()
		}
	}
	return acted, t.moveOut(a.ID, f.Seq+1, f.Queue, to)
}

// cameTo finds the step with which a task first came to a stage.
const cameTo = `SELECT stage, context_seq FROM step WHERE batch = ? AND n = ? AND stage = ?
ORDER BY seq LIMIT 1`

// begin finds where a replay lets a task begin; nil: the task never was there, or nothing is said.
func (t stepWrites) begin(f *rules.Fact, a *store.Action) (*rules.Begin, error) {
	r := f.Begins(a.Replay)
	if a.Kind != task.KindReplayed || r == (store.Replay{}) {
		return nil, nil
	}
	var b rules.Begin
	scan := func(st *sqlite.Stmt) {
		b.Stage, b.ContextSeq = st.ColumnText(0), st.ColumnInt32(1)
	}
	first, found, err := t.members().task(a.ID)
	b = rules.Begin{Stage: first.Stage, ContextSeq: -1}
	if err == nil && !r.Whole && b.Stage != *r.Stage {
		found, err = t.one(cameTo, scan, a.ID.Batch, a.ID.N, *r.Stage)
	}
	if err != nil || !found {
		return nil, err
	}
	if f.MayBeEdited() {
		b, err = t.facts().replaced(a.ID, b)
	}
	return &b, err
}

// unasked is the token of steps that no report has.
const unasked = -1

// insertStep inserts a step that was asked for.
func (t stepWrites) insertStep(id task.ID, seq int32, s *store.Step) error {
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
func (t stepWrites) leave(f *rules.Fact) error {
	if f.Running != nil {
		if _, err := t.exec(deleteRunning, f.ID.Batch, f.ID.N, f.Running.Seq); err != nil {
			return err
		}
	}
	var err error
	switch sp := &f.Owner; {
	case sp.ID == 0:
	case f.Alone():
		_, err = t.exec(deleteSpan, sp.ID, sp.Token)
	default:
		_, err = t.exec(shrinkSpan, sp.ID)
	}
	return err
}
