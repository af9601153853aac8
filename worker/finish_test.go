package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// fakeTx is a transaction that notes what it is asked, and answers with an error or none.
type fakeTx struct {
	err   error
	query string
	args  []any
}

// fakeRow is how it answers.
type fakeRow struct{ err error }

func (r fakeRow) Scan(...any) error { return r.err }

func (tx *fakeTx) QueryRow(_ context.Context, query string, args ...any) fakeRow {
	tx.query, tx.args = strings.Join(strings.Fields(query), " "), args
	return fakeRow{tx.err}
}

func (tx *fakeTx) QueryRowContext(ctx context.Context, query string, args ...any) fakeRow {
	return tx.QueryRow(ctx, query, args...)
}

// state is an error of a database.
type state string

func (s state) Error() string    { return "ERROR (" + string(s) + ")" }
func (s state) SQLState() string { return string(s) }

// What the transaction is asked, and what the server is told afterwards.
func TestOutcomeOfATransactionIsReportedAsCommitted(t *testing.T) {
	finished := task.Finish(map[string]int{"a": 1})
	second := task.Next("second", "b")
	for name, x := range map[string]struct {
		gives, returns task.Outcome
		args           []any // after those that say whose hand-out it is
		committed      bool
	}{
		"done": {finished, finished, []any{`{"a":1}`, nil, nil}, true},
		"next": {second, second, []any{nil, "second", `"b"`}, true},
		"next after a wait": {task.NextAfter(90*time.Second, "second", nil),
			task.NextAfter(90*time.Second, "second", nil), []any{nil, "second", nil}, true},
		"done, and no more": {finished, task.Finish(nil), []any{`{"a":1}`, nil, nil}, true},
		"not known": {finished, task.Retry(errors.New("is it?")),
			[]any{`{"a":1}`, nil, nil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, tx := newFake(), &fakeTx{}
				var said []task.Report
				q.answer = func(r task.Report) *task.Answer {
					said = append(said, r)
					return &task.Answer{ID: r.ID, Status: task.Repeated}
				}
				var of task.Handout
				w, stop := begin(t, q, Config{Schema: "other"},
					one(func(ctx context.Context, h task.Handout) task.Outcome {
						of = h
						time.Sleep(1500 * time.Millisecond)
						if err := FinishTx(ctx, tx, x.gives); err != nil {
							t.Error(err)
						}
						return x.returns
					}))
				id := q.submit("q", "", "")
				rest(2 * time.Second)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if !strings.HasPrefix(tx.query, "SELECT other.finish(") {
					t.Errorf("asked %q", tx.query)
				}
				want := slices.Concat([]any{id.String(), of.Token}, x.args, []any{"w1", 1.5})
				if x.gives.Delay > 0 {
					want = append(want, x.gives.Delay.Seconds())
				}
				if delays := strings.Contains(tx.query, "$8"); delays != (x.gives.Delay > 0) {
					t.Errorf("asked %q", tx.query)
				}
				if !slices.Equal(tx.args, want) {
					t.Errorf("asked with %q, want %q", tx.args, want)
				}
				if len(said) != 1 || said[0].Committed != x.committed ||
					said[0].Kind != x.returns.Kind || x.committed && said[0].Result != nil {
					t.Errorf("reported %+v", said)
				}
				if s := w.Stats(); s.Recorded != 1 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

func TestWhatATransactionCanNotFinishIsSaid(t *testing.T) {
	for name, x := range map[string]struct {
		gives task.Outcome
		err   error // of the database
		is    error
		says  string
	}{
		"a stale hand-out":  {task.Finish(1), state("RT002"), ErrStale, "finish task "},
		"another database":  {task.Finish(1), state("42883"), nil, "ERROR (42883)"},
		"a lost connection": {task.Finish(1), errors.New("lost"), nil, "lost"},
		"a retry": {task.Retry(errors.New("x")), nil, nil,
			"done or next, not retry: x"},
		"a wait for a signal": {task.NextOn(task.Await{Signal: "paid"}, "ship", nil), nil, nil,
			"a transaction records no wait"},
		"children": {task.Finish(nil).Spawning(task.Submission{Queue: "q"}), nil, nil,
			"a transaction submits no children"},
		"a snooze":                {task.Snooze(1), nil, nil, "done or next, not snooze"},
		"what can not be encoded": {task.Finish(func() {}), nil, nil, "encode result"},
		"a result that is no JSON": {task.Outcome{Kind: task.KindDone, Result: []byte("{")}, nil,
			nil, "result:"},
		"a stage that is none": {task.Outcome{Kind: task.KindNext}, nil, nil, "stage:"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, tx := newFake(), &fakeTx{err: x.err}
				_, stop := begin(t, q, Config{},
					one(func(ctx context.Context, h task.Handout) task.Outcome {
						err := FinishSQL(ctx, tx, x.gives)
						if err == nil || x.is != nil && !errors.Is(err, x.is) ||
							!strings.Contains(err.Error(), x.says) {
							t.Errorf("it says %v, want %q", err, x.says)
						}
						if asked := tx.query != ""; asked != (x.err != nil) {
							t.Errorf("the database was asked: %v", asked)
						}
						return task.Finish(nil)
					}))
				id := q.submit("q", "", "")
				synctest.Wait()
				if err := stop(); err != nil {
					t.Error(err)
				}
				if len(q.reports) != 1 || q.reports[0].Committed || q.task(id).state != task.Done {
					t.Errorf("reported %+v", q.reports)
				}
			})
		})
	}
	if err := FinishTx(t.Context(), &fakeTx{}, task.Finish(1)); err == nil {
		t.Error("a transaction finished a task outside of any handler")
	}
}
