package caller

import (
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// LeaseTime is how long nodes live without a renewal.
const LeaseTime = 10 * time.Second

// Handout is one task in a worker's hands.
type Handout struct {
	Span store.Span
	store.Loaded
}

// Taken is the hand-out of one task of a span that was taken, with the key of that task.
func Taken(sp *store.HeldSpan, i int) Handout {
	of := sp.Span
	if sp.Keys != nil {
		of.Key = sp.Keys[i]
	}
	return Handout{of, sp.Tasks[i]}
}

// ID is the task's.
func (o Handout) ID() task.ID { return task.ID{Batch: o.Span.Batch, N: o.N} }

// Token is the right to report of it.
func (o Handout) Token() task.Token {
	return task.Token{Span: o.Span.ID, SpanToken: o.Span.Token, Seq: o.Seq}
}

// Row is what is written down of a hand-out that begins now.
func (o Handout) Row(c *contract.Clock) store.Running {
	now := c.Micros()
	return store.Running{
		ID: o.ID(), Seq: o.Seq, Span: o.Span.ID, Token: o.Span.Token, Worker: "w", Incarnation: "1",
		Started: now, Until: now + time.Minute.Microseconds(),
	}
}

// queueLimits are those of the queues from which tasks are handed out.
var queueLimits = progress.Limits{
	MaxAttempts: 3, Retry: task.Backoff{Initial: time.Second, Max: 10 * time.Second, Factor: 2},
}

// Report makes the report that a dispatcher makes of an outcome.
func (o Handout) Report(c *contract.Clock, out task.Outcome) store.Report {
	d := progress.Decide(o.ID(), o.Standing, out, queueLimits)
	now := c.Micros()
	r := store.Report{ID: o.ID(), Queue: o.Span.Queue, Token: o.Token(), Step: store.Step{
		Kind: out.Kind, Ran: o.Stage, Stage: d.Stage, Context: store.Value(out.Context),
		ContextSeq: o.ContextSeq, Result: store.Value(out.Result),
		Attempt: d.Attempt, Base: o.Base, Worker: "w", Started: now, Finished: now,
		Error: out.Error, Hash: store.ReportHash(out),
	}, Ready: max(o.Span.Due, o.Due)}
	if out.Context != nil {
		r.Step.ContextSeq = o.Seq
	}
	switch {
	case d.Final != "":
		r.Step.Base = store.Final
	case d.Moved:
		r.Step.Base, r.Step.Due = o.Seq+1, now+d.Delay.Microseconds()
		r.Move = &store.Move{Rank: r.Step.Due, Due: r.Step.Due}
		if out.Kind != task.KindNext {
			r.Move.Linked = o.Span.Linked
		}
	case d.Delay > 0:
		r.Step.Due = now + d.Delay.Microseconds()
	}
	return r
}
