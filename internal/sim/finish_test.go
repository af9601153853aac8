package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// staged is a handler's transaction before its commit: what else it wrote stands for nothing but
// itself, so it is a row that says whose it is.
type staged struct{}

// noRow is what it answers.
type noRow struct{}

func (noRow) Scan(...any) error { return nil }

func (staged) QueryRow(context.Context, string, ...any) noRow { return noRow{} }

// errTooLate is how the database's function refuses who does not have the hand-out.
var errTooLate = errors.New("the hand-out is no longer yours")

// commits lets a handler give its outcome to a transaction of its own, and end it as the seed
// wants: it commits, or forgets to. Whether a commit worked it may not learn.
func (h *hand) commits(
	ctx context.Context, p *process, t task.Handout, s script,
) task.Outcome {
	w := h.world
	if err := worker.FinishTx(ctx, staged{}, s.outcome); err != nil {
		w.bus.wake(p, 0, quiet+t.Token, func() { w.breach("%v can't be finished: %v", t.ID, err) })
	}
	text := fmt.Sprintf("commit %v@%s=%v", t.ID, t.Token, s.outcome.Kind)
	if s.forgets {
		w.bus.wake(p, 0, text+", forgotten", func() { w.ledger.intends(p, t, s.outcome) })
		time.Sleep(spread(text))
		return s.outcome
	}
	_, err := call[nothing]{
		from: p, to: w.store, text: text, patience: storePatience, inline: true,
		sent: func() { w.ledger.intends(p, t, s.outcome) },
		serve: func(context.Context) (nothing, error) {
			if w.bus.chance(w.bus.faults.refuse) {
				return nothing{}, errFault
			}
			err := w.commit(p, t, s.outcome)
			if err == nil && w.bus.chance(w.bus.faults.deny) {
				w.sometimes("a transaction committed and its handler did not learn of it")
				return nothing{}, store.ErrUnknown
			}
			return nothing{}, err
		},
	}.over(ctx, w.bus)
	time.Sleep(spread(text))
	if err != nil {
		return task.Retry(err)
	}
	return s.outcome
}

// commit is the commit of a handler's transaction, with what the database's function did in it: the
// step, if the hand-out has the right to it, and the row, or neither.
func (w *world) commit(p *process, t task.Handout, o task.Outcome) error {
	token, err := task.ParseToken(t.Token)
	if err != nil {
		return err
	}
	ctx := context.Background()
	stood, err := w.facts.Stand(ctx, []task.ID{t.ID})
	if err != nil {
		return err
	}
	st := &stood[0]
	r := store.Report{ID: t.ID, Queue: t.Queue, Token: token}
	if w.bug.commits != nil {
		w.bug.commits(w, p, st, &r)
	}
	if st.Final || st.Seq != token.Seq {
		w.sometimes("a transaction came too late")
		return errTooLate
	}
	d, now := progress.Decide(t.ID, st.Standing, o, progress.Limits{}), w.storeNow()
	r.Step = store.Step{
		Kind: o.Kind, Ran: st.Stage, Stage: d.Stage, ContextSeq: st.ContextSeq, Attempt: d.Attempt,
		Base: st.Base, Worker: p.name, Started: now, Finished: now, Hash: store.CommittedHash,
	}
	if o.Kind == task.KindNext {
		r.Step.Due = now + d.Delay.Microseconds()
	}
	switch {
	case d.Final != "":
		r.Step.Base = store.Final
	case d.Moved:
		r.Step.Base = token.Seq + 1
		r.Move = &store.Move{Rank: r.Step.Due - st.HeadStart, Due: r.Step.Due}
	}
	if o.Context != nil {
		r.Step.ContextSeq = token.Seq
	}
	if r.Step.Context, err = w.facts.Keep(ctx, o.Context); err != nil {
		return err
	}
	if r.Step.Result, err = w.facts.Keep(ctx, o.Result); err != nil {
		return err
	}
	set := store.Settlement{Reports: []store.Report{r}}
	got, err := w.facts.Settle(ctx, set)
	if err != nil {
		return err
	}
	if got.Verdicts[0] != task.Recorded {
		w.sometimes("a transaction came too late")
		return errTooLate
	}
	w.sometimes("a transaction committed an outcome")
	w.ledger.wrote(t.ID, token.Seq, p)
	w.ledger.settled(p, set, got)
	w.ledger.look([]task.ID{t.ID})
	return nil
}

// row is what a handler's transaction wrote beside the outcome.
type row struct {
	seq    int32
	worker string
}

// intends learns that a worker's transaction is to decide what becomes of a hand-out.
func (l *ledger) intends(p *process, t task.Handout, o task.Outcome) {
	l.reporting(p, []task.Report{{ID: t.ID, Token: t.Token, Outcome: o}})
	if tale := l.tales[t.ID]; tale != nil {
		token, _ := task.ParseToken(t.Token)
		tale.intended[row{token.Seq, p.name}] = true
	}
}

// wrote learns that a transaction has committed.
func (l *ledger) wrote(id task.ID, seq int32, p *process) {
	if t := l.tales[id]; t != nil {
		t.rows[row{seq, p.name}]++
	}
}

// rowsMatch holds the rows of transactions against the outcomes: of each hand-out whose handler
// gives its outcome to a transaction both stand, once, or neither.
func (l *ledger) rowsMatch(t *tale) {
	outcomes := map[row]int{}
	for _, s := range t.steps {
		if s.Kind == task.KindDone || s.Kind == task.KindNext {
			outcomes[row{s.Seq, s.Worker}]++
		}
	}
	for r := range t.intended {
		if t.rows[r] != outcomes[r] && !t.twice(r) {
			l.world.breach("I12: %d rows of %v by %s at seq %d stand, and %d outcomes", t.rows[r],
				t.id, r.worker, r.seq, outcomes[r])
		}
	}
}

// twice tells whether a worker spoke of two hand-outs at a seq: which of them a step records it
// does not say.
func (t *tale) twice(r row) bool {
	first := ""
	for _, o := range t.said {
		if o.seq != r.seq || o.worker != r.worker {
			continue
		}
		if first != "" && first != o.token {
			return true
		}
		first = o.token
	}
	return false
}

// refusedCommit looks at a report that was refused, of a hand-out that a transaction was to decide:
// what has committed is not refused when its worker says so.
func (l *ledger) refusedCommit(t *tale, o said, committed bool) {
	if !committed {
		return
	}
	l.world.sometimes("what no transaction had committed was tried again")
	if r := (row{o.seq, o.worker}); t.rows[r] > 0 && !t.twice(r) {
		l.world.breach("I12: %v of %v at seq %d was refused, and its transaction has committed",
			o.kind, t.id, o.seq)
	}
}

// finishBugs are wrong ways to commit outcomes with the rows of a handler.
func finishBugs() []bug {
	return []bug{
		{name: "a transaction needs no token", mode: safety, from: 1600,
			commits: func(_ *world, _ *process, st *store.Stood, r *store.Report) {
				if st.Final {
					return
				}
				r.Token = task.Token{
					Span: st.Owner.ID, SpanToken: st.Owner.Token, Seq: st.Seq,
				}
				if u := st.Running; u != nil {
					r.Token.Span, r.Token.SpanToken = u.Span, u.Token
				}
			}},
		{name: "a handler's rows commit before its outcome", mode: safety,
			commits: func(w *world, p *process, st *store.Stood, r *store.Report) {
				w.ledger.wrote(r.ID, r.Token.Seq, p)
			}},
		{name: "what is said to be committed is done", mode: safety, store: func(p *planted) {
			p.settle = func(ctx context.Context, s store.Settlement) (store.Settled, error) {
				for i := range s.Reports {
					step := &s.Reports[i].Step
					if step.Hash == store.UncommittedHash && step.Base != store.Final {
						step.Kind, step.Base, step.Due = task.KindDone, store.Final, 0
						s.Reports[i].Move = nil
					}
				}
				return p.Model.Settle(ctx, s)
			}
		}},
	}
}
