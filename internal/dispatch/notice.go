package dispatch

import (
	"strings"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// giveNotice adds the final notice of a task that dies or expires: a task of its own, in the queue
// that is to be told, stored with the step that ends the task. So whatever a task dies of (its
// worker's report or loss, its time, its count of attempts, nobody who began it in time), and
// whichever node settles it, one notice stands for each death. present is the context that the task
// had. The notice's own task has the meta of the one that died, too.
func (r *reporting) giveNotice(
	m *memory, queue string, present store.Value, meta store.Meta, at int64,
) {
	final := r.decision.Final
	if queue == "" || final != task.Dead && final != task.Expired {
		return
	}
	s := &r.row.Step
	if s.Context != nil {
		present = s.Context
	}
	n := task.FinalNotice{
		Task: r.row.ID, Queue: r.row.Queue, Stage: s.Ran, State: final, Outcome: s.Kind,
		Attempt: int(s.Attempt), Worker: s.Worker, Error: s.Error, Context: inline(present),
		Result: inline(s.Result), Meta: meta.Strings(),
	}
	n.Short = len(n.Context) < len(present) || len(n.Result) < len(s.Result)
	text := wire.AppendNotice(nil, &n)
	if len(text) > store.InlineLimit { // what is large stays with the task
		n.Context, n.Result, n.Meta, n.Short = nil, nil, nil, true
		n.Error = strings.ToValidUTF8(n.Error[:min(len(n.Error), store.InlineLimit/4)], "")
		text = wire.AppendNotice(nil, &n)
	}
	r.row.Notice = &store.Batch{
		ID: m.nextBatch(at), Queue: queue, Rank: at, Due: at, Created: at, Origin: m.origin,
		Tasks: []store.Task{{Context: text, MaxAttempts: limits.MaxAttempts, Meta: meta}},
		Spans: []store.NewSpan{{}},
	}
}

// inline is a value that stands in its row and can stand in a message; of others nothing.
func inline(v store.Value) []byte {
	if _, large := v.Blob(); large || len(v) == 0 || wire.CheckValue(v) != "" {
		return nil
	}
	return v
}
