package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// maxSteps is how many steps the view of one task shows.
const maxSteps = 1000

const (
	stepsOf = `SELECT seq, kind::int, ran, coalesce(worker, ''), started, finished, coalesce(error,
'') FROM rota.step
WHERE batch = $1 AND n = $2 ORDER BY seq DESC LIMIT $3`
	markedStep = `SELECT t.stage, m.lo, m.body
FROM rota.task($1, $2) t JOIN rota.mark m ON m.batch = t.batch AND m.lo = (t.n & -64)
WHERE (m.bits >> (t.n & 63)) & 1 = 1`
	// newestResult leaves out what woke a task, which nobody reported.
	newestResult = `SELECT CASE WHEN kind <> 15 THEN result END FROM rota.step
WHERE batch = $1 AND n = $2 ORDER BY seq DESC LIMIT 1`
)

// views answers what people and nodes want to know of single tasks and of lists of them. It writes
// nothing, and waits for nobody.
type views struct {
	*database
	values   *values
	examined int // rows that one page of a list looks at before it is cut short
}

// Task is one task with its steps. See contract.Views.
func (s *views) Task(ctx context.Context, id task.ID) (task.View, error) {
	found := make([]fact, 1)
	var now int64
	var result store.Value
	var steps []task.Step
	changed := map[int32]store.EditedFields{}
	clock := ask(countClock, func(r row) error { return r.Scan(&now) }, s.clock())
	var w rules.Wait
	kin := family{parents: map[int64]task.ID{}}
	var after []task.Prior
	first := slices.Concat(factsOf([]task.ID{id}, true, found), kin.queries(id),
		askAfter(id, &after))
	err := s.read(ctx, append(first, clock,
		ask(waitOf, func(r row) (err error) {
			w, err = scanWait(r)
			return err
		}, id.Batch, id.N),
		ask(newestResult, func(r row) error {
			return r.Scan(&result)
		}, id.Batch, id.N), ask(stepsOf, func(r row) error {
			var p task.Step
			var kind int32
			var started, finished int64
			err := r.Scan(&p.Seq, &kind, &p.Stage, &p.Worker, &started, &finished, &p.Error)
			p.Kind, p.Started, p.Finished = task.Kind(kind), instant(started), instant(finished)
			steps = append(steps, p)
			return err
		}, id.Batch, id.N, maxSteps), ask(changedBy, func(r row) error {
			var seq, fields int32
			err := r.Scan(&seq, &fields)
			changed[seq] = store.EditedFields(fields)
			return err
		}, id.Batch, id.N, maxSteps), ask(markedStep, func(r row) error {
			p, value, err := scanMarked(r, id)
			if len(steps) == 0 {
				result = value
			}
			if len(steps) < maxSteps {
				steps = append(steps, p)
			}
			return err
		}, id.Batch, id.N))...)
	f := &found[0]
	if err == nil && (f.ID == (task.ID{}) || f.Removed()) {
		err = store.ErrNotFound
	}
	v := f.view(now, nil)
	if v.State == task.Blocked && w.Ends(&f.Fact) {
		v.Awaits = w.View()
	}
	v.After = after
	v.Parent, v.Children = kin.parents[id.Batch], kin.children
	if err == nil {
		v.Context, err = s.values.Value(ctx, f.context)
	}
	if err == nil {
		v.Result, err = s.values.Value(ctx, result)
	}
	if err != nil {
		return task.View{}, fmt.Errorf("read task %s: %w", id, err)
	}
	noteEdits(steps, changed)
	slices.Reverse(steps)
	v.Steps = steps
	return v, nil
}

// scanMarked scans the step that the mark of a task stands for, and its result.
func scanMarked(r row, id task.ID) (p task.Step, result store.Value, err error) {
	var stage string
	var lo int32
	var body []byte
	if err = r.Scan(&stage, &lo, &body); err != nil {
		return p, nil, err
	}
	d, _, err := pack.FindDone(body, id.N)
	p = task.Step{
		Kind: task.KindDone, Stage: stage, Worker: d.Worker, Started: instant(d.Started),
		Finished: instant(d.Finished),
	}
	return p, d.Result, err
}

func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// view is a task without its context, result and steps. live is its hand-out as a node's memory
// knows it, or nil.
func (f *fact) view(now int64, live *store.Live) task.View {
	v := task.View{
		ID: f.ID, Queue: f.Queue, State: f.State(now, live != nil), Stage: f.Stage,
		Attempt: int(f.Attempt), Worker: f.worker,
		Priority: time.Duration(f.HeadStart) * time.Microsecond, Due: instant(f.Due),
		Created: instant(f.Created), Key: f.Key, GroupKey: f.GroupKey, Meta: f.Meta.Strings(),
		Error: f.Error,
	}
	if v.State != task.Running {
		v.Expires = instant(f.Limit())
	}
	if !v.State.Final() {
		v.Attempt++
		v.Due = instant(f.Wake())
	}
	if f.Owner.ID != 0 && !f.Owner.Parked() {
		v.Priority = time.Duration(f.Owner.Due-f.Owner.Rank) * time.Microsecond
	}
	switch {
	case f.Running != nil:
		v.Worker, v.Started = f.Running.Worker, instant(f.Running.Started)
	case live != nil && v.State == task.Running:
		v.Worker, v.Attempt, v.Started = live.Worker, int(live.Attempt), instant(live.Started)
	}
	return v
}
