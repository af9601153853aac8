package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// viewCalls tells people and nodes how tasks stand, and counts them. It has no tables of its own
// and writes nothing.
type viewCalls struct {
	*database
	values *valueCalls

	examined int // rows that one page of a list looks at before it is cut short
}

// viewReads reads what is told of single tasks.
type viewReads struct{ *conn }

func (c *conn) views() viewReads { return viewReads{c} }

// maxSteps is how many steps the view of one task shows.
const maxSteps = 1000

const newestSteps = `SELECT seq, kind, ran, worker, started, finished, error FROM step
WHERE batch = ? AND n = ? ORDER BY seq DESC LIMIT ?`
const resultAt = `SELECT result FROM step WHERE batch = ? AND n = ? AND seq = ? AND kind <> 15`

// Task is one task with its steps. See contract.Views.
func (s *viewCalls) Task(ctx context.Context, id task.ID) (task.View, error) {
	var v task.View
	var contextValue, result store.Value
	now := s.clock()
	err := s.read(ctx, func(c *conn) error {
		f, found, err := c.facts().fact(id)
		if err != nil {
			return err
		}
		if !found || f.Removed() {
			return store.ErrNotFound
		}
		if v, err = c.views().view(&f, now, nil); err != nil {
			return err
		}
		if contextValue, _, err = c.facts().context(&f); err != nil {
			return err
		}
		if v.State == task.Blocked {
			_, err = c.one(waitOf, func(st *sqlite.Stmt) {
				w := scanWait(st)
				v.Awaits = w.View()
			}, id.Batch, id.N)
			if err != nil {
				return err
			}
		}
		if err = c.children().noteFamily(&v); err == nil {
			err = c.waits().noteAfter(&v)
		}
		if err != nil {
			return err
		}
		v.Steps, result, err = c.views().steps(id, f.Seq)
		return err
	})
	if err == nil {
		v.Context, err = s.values.Value(ctx, contextValue)
	}
	if err == nil {
		v.Result, err = s.values.Value(ctx, result)
	}
	if err != nil {
		return task.View{}, fmt.Errorf("read task %s: %w", id, err)
	}
	return v, nil
}

// steps are what became of a task, the newest of them, and the result of the newest one of all.
func (c viewReads) steps(id task.ID, newest int32) (
	steps []task.Step, result store.Value, err error,
) {
	err = c.each(newestSteps, func(st *sqlite.Stmt) bool {
		steps = append(steps, task.Step{
			Seq: st.ColumnInt32(0), Kind: task.Kind(st.ColumnInt(1)), Stage: st.ColumnText(2),
			Worker:  st.ColumnText(3),
			Started: instant(st.ColumnInt64(4)), Finished: instant(st.ColumnInt64(5)),
			Error: st.ColumnText(6),
		})
		return true
	}, id.Batch, id.N, maxSteps)
	if err == nil {
		err = c.facts().noteEdits(id, steps)
	}
	if err == nil {
		_, err = c.one(resultAt, func(st *sqlite.Stmt) {
			result = bytesOf(st, 0)
		}, id.Batch, id.N, newest)
	}
	if first := len(steps) - 1; err != nil || newest < 0 || len(steps) == maxSteps ||
		first >= 0 && steps[first].Seq == 0 {
		slices.Reverse(steps)
		return steps, result, err
	}
	d, marked, err := c.members().marked(id)
	if err == nil && marked {
		var t store.Task
		t, _, err = c.members().task(id)
		s := d.Step(t.Stage)
		steps = append(steps, task.Step{
			Kind: s.Kind, Stage: s.Ran, Worker: s.Worker, Started: instant(s.Started),
			Finished: instant(s.Finished),
		})
		if newest == 0 {
			result = d.Result
		}
	}
	slices.Reverse(steps)
	return steps, result, err
}

func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// lastWorker passes over the steps that were asked for while nobody ran the task: their worker is
// who asked.
const lastWorker = `SELECT worker FROM step WHERE batch = ? AND n = ? AND (kind < 9 OR started > 0)
ORDER BY seq DESC LIMIT 1`

// view is a task without its context, result and steps. live is its hand-out as a node's memory
// knows it, or nil.
func (c viewReads) view(f *rules.Fact, now int64, live *store.Live) (task.View, error) {
	v := task.View{
		ID: f.ID, Queue: f.Queue, State: f.State(now, live != nil), Stage: f.Stage,
		Attempt:  int(f.Attempt),
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
	case f.Seq >= 0:
		found, err := c.one(lastWorker, func(st *sqlite.Stmt) {
			v.Worker = st.ColumnText(0)
		}, f.ID.Batch, f.ID.N)
		if err != nil || found {
			return v, err
		}
		d, _, err := c.members().marked(f.ID)
		v.Worker = d.Worker
		return v, err
	}
	return v, nil
}

// Stand answers where tasks stand, in the order of ids.
func (s *viewCalls) Stand(ctx context.Context, ids []task.ID) ([]store.Stood, error) {
	var list []store.Stood
	err := s.read(ctx, func(c *conn) error {
		list = make([]store.Stood, len(ids))
		for i, id := range ids {
			list[i].ID = id
			f, found, err := c.facts().fact(id)
			if err == nil && found {
				list[i], err = c.views().stood(&f)
			}
			if err != nil {
				return fmt.Errorf("task %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read where %d tasks stand: %w", len(ids), err)
	}
	return list, nil
}

// stood is where one task stands.
func (c viewReads) stood(f *rules.Fact) (store.Stood, error) {
	v, by, err := c.facts().context(f)
	s := f.Stood(v, by)
	if err == nil {
		err = c.each(uniquesIn, func(*sqlite.Stmt) bool {
			s.Unique = true
			return true
		}, f.ID.Batch, f.ID.N, f.ID.N)
	}
	if err == nil && f.Owner.Linked&store.LinkWoken != 0 {
		s.Woken, err = c.waits().woken(f.ID)
	}
	if err == nil {
		s.After, err = c.waits().prior(f.ID)
	}
	if err == nil {
		var p parentage
		p, err = c.children().parentage(f.ID.Batch)
		s.Parent = p.id
	}
	return s, err
}
