package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// stepWrites writes single steps, other than those of a settlement, which settler writes in runs;
// and what follows from the steps of both.
type stepWrites struct{ *tx }

func (t *tx) steps() stepWrites { return stepWrites{t} }

var (
	// stepLean is for steps that say little of their own: a run of plain outcomes by one worker.
	stepLean = newInserter("step",
		[]string{"kind", "ran", "stage", "attempt", "base", "worker", "context_seq", "due"},
		[]string{"batch", "n", "seq", "token", "hash", "started", "finished"})
	stepFull = newInserter("step",
		[]string{"kind", "ran", "stage", "attempt", "base", "worker", "context_seq"},
		[]string{
			"batch", "n", "seq", "token", "hash", "started", "finished", "due", "result", "context",
			"error",
		})
)

// alike steps may stand in one statement.
func alike(a, b *store.Step) bool {
	return a.Kind == b.Kind && a.Attempt == b.Attempt && a.Base == b.Base &&
		a.ContextSeq == b.ContextSeq &&
		a.Ran == b.Ran && a.Stage == b.Stage && a.Worker == b.Worker && slight(a) == slight(b)
}

// slight steps fit stepLean.
func slight(s *store.Step) bool {
	return s.Due == 0 && s.Result == nil && s.Context == nil && s.Error == ""
}

// insert records reports as steps, in runs of those that are alike.
func (d *settler) insert(t *tx, reports []int32) error {
	for rest := reports; len(rest) > 0; {
		first := &d.reports[rest[0]].Step
		n := 1
		for n < len(rest) && alike(first, &d.reports[rest[n]].Step) {
			n++
		}
		if err := d.insertRun(t, first, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (d *settler) insertRun(t *tx, first *store.Step, run []int32) error {
	lean := slight(first)
	in := stepFull
	if lean {
		in = stepLean
	}
	shared := func(st *sqlite.Stmt) {
		bindShared(st, first)
		if lean {
			st.BindInt64(8, 0)
		}
	}
	own := func(st *sqlite.Stmt, p, i int) {
		r := &d.reports[run[i]]
		st.BindInt64(p, r.ID.Batch)
		st.BindInt64(p+1, int64(r.ID.N))
		st.BindInt64(p+2, int64(r.Token.Seq))
		st.BindInt64(p+3, r.Token.SpanToken)
		st.BindInt64(p+4, r.Step.Hash)
		st.BindInt64(p+5, r.Step.Started)
		st.BindInt64(p+6, r.Step.Finished)
		if !lean {
			bindRest(st, p+7, &r.Step)
		}
	}
	return in.insert(t.conn, len(run), shared, own, func(i int) { d.verdicts[run[i]] = refused })
}

// refused marks a report whose seq was taken, until it is known why.
const refused task.Status = "refused"

func bindShared(st *sqlite.Stmt, s *store.Step) {
	st.BindInt64(1, int64(s.Kind))
	st.BindText(2, s.Ran)
	st.BindText(3, s.Stage)
	st.BindInt64(4, int64(s.Attempt))
	st.BindInt64(5, int64(s.Base))
	bindText(st, 6, s.Worker)
	st.BindInt64(7, int64(s.ContextSeq))
}

func bindRest(st *sqlite.Stmt, p int, s *store.Step) {
	st.BindInt64(p, s.Due)
	bindBytes(st, p+1, s.Result)
	bindBytes(st, p+2, s.Context)
	bindText(st, p+3, s.Error)
}

// submitNotice submits what is to follow from a death.
func (t stepWrites) submitNotice(b *store.Batch) error {
	_, err := t.submissions().submit(
		&store.Submission{Batches: []store.Batch{*b}, NewQueues: []string{b.Queue}},
	)
	return err
}

// moveOut makes the span of its own into which the step at seq moves a task.
func (t stepWrites) moveOut(id task.ID, seq int32, queue string, to store.Move) error {
	_, err := t.spans().insertSpan(store.Span{Batch: id.Batch, Lo: id.N, Hi: id.N, Seq0: seq + 1,
		Queue: queue, Rank: to.Rank, Due: to.Due, Linked: to.Linked}, 1, false)
	return err
}

const findStep = `SELECT token, hash FROM step WHERE batch = ? AND n = ? AND seq = ?`

// refusal says why a report was not recorded.
func (t stepWrites) refusal(r *store.Report) (task.Status, error) {
	status := task.Stale
	stands, err := t.one(findStep, func(st *sqlite.Stmt) {
		if st.ColumnInt64(0) == r.Token.SpanToken &&
			store.Repeats(r.Step.Hash, st.ColumnInt64(1)) {
			status = task.Repeated
		}
	}, r.ID.Batch, r.ID.N, r.Token.Seq)
	if err != nil || stands {
		return status, err
	}
	known, err := t.members().isTask(r.ID)
	if err != nil || !known {
		return task.Unknown, err
	}
	d, marked, err := t.members().marked(r.ID)
	if marked && d.Repeats(r) {
		status = task.Repeated
	}
	return status, err
}
