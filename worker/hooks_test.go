package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestHooksRunInTheirOrder(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		name    string
		load    error
		process task.Outcome
		finish  error
		max     int
		ran     []string
		kind    task.Kind
		text    string
	}{
		{"done", nil, task.Finish(nil), nil, 0, []string{"load", "process", "finish", "final"},
			task.KindDone, ""},
		{"next", nil, task.Next("b", nil), nil, 0, []string{"load", "process", "finish"},
			task.KindNext, ""},
		{"snooze", nil, task.Snooze(1), nil, 0, []string{"load", "process"}, task.KindSnooze, ""},
		{"retry", nil, task.Retry(bad), nil, 0, []string{"load", "process", "error"},
			task.KindRetry, "bad"},
		{"fail", nil, task.Fail(bad), nil, 0, []string{"load", "process", "error", "final"},
			task.KindFail, "bad"},
		{"load fails", bad, task.Finish(nil), nil, 0, []string{"load", "error"}, task.KindRetry,
			"load: bad"},
		{"finish fails", nil, task.Finish(nil), bad, 0,
			[]string{"load", "process", "finish", "error"}, task.KindRetry, "finish: bad"},
		{"not the last attempt", nil, task.Retry(bad), nil, 3, []string{"load", "process", "error"},
			task.KindRetry, "bad"},
		{"last attempt", nil, task.Retry(bad), nil, 2,
			[]string{"load", "process", "error", "final"}, task.KindFail, "bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran []string
			hooks := Hooks{
				Load: func(_ context.Context, h *task.Handout) error {
					ran = append(ran, "load")
					h.Context = json.RawMessage(`"loaded"`)
					return c.load
				},
				Process: func(_ context.Context, h task.Handout) task.Outcome {
					ran = append(ran, "process")
					if string(h.Context) != `"loaded"` {
						t.Errorf("Process got %s", h.Context)
					}
					return c.process
				},
				Finish: func(context.Context, task.Handout, task.Outcome) error {
					ran = append(ran, "finish")
					return c.finish
				},
				FinishError: func(context.Context, task.Handout, task.Outcome) {
					ran = append(ran, "error")
				},
				Final: func(context.Context, task.Handout, task.Outcome) error {
					ran = append(ran, "final")
					return nil
				},
				MaxAttempts: c.max,
			}
			o := hooks.handle(context.Background(), task.Handout{Attempt: 2})
			if !slices.Equal(ran, c.ran) || o.Kind != c.kind || o.Error != c.text {
				t.Errorf("ran %q, outcome %v %q; want %q, %v %q", ran, o.Kind, o.Error, c.ran,
					c.kind, c.text)
			}
		})
	}
}

func TestFinalIsRepeatedUntilItSucceedsAndOnlyThenReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var tries atomic.Int64
		_, stop := begin(t, q, Config{}, func(w *Worker) {
			w.HandleHooks("q", Hooks{
				Process: func(context.Context, task.Handout) task.Outcome { return task.Finish(7) },
				Final: func(context.Context, task.Handout, task.Outcome) error {
					switch tries.Add(1) {
					case 1:
						return errors.New("nobody listens")
					case 2:
						panic("worse")
					}
					return nil
				},
			})
		})
		id := q.submit("q", "", "")
		rest(1500 * time.Millisecond)
		if v := q.task(id); v.state != task.Running || tries.Load() != 2 {
			t.Errorf("state %s after %d tries", v.state, tries.Load())
		}
		rest(3 * time.Second)
		if v := q.task(id); v.state != task.Done || string(v.result) != "7" || tries.Load() != 3 {
			t.Errorf("state %s, result %s after %d tries", v.state, v.result, tries.Load())
		}
		stop()
	})
}

func TestFinalThatNeverSucceedsGivesTheTaskBackWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{StopGrace: time.Second}, func(w *Worker) {
			w.HandleHooks("q", Hooks{
				Process: func(context.Context, task.Handout) task.Outcome {
					return task.Finish(nil)
				},
				Final: func(context.Context, task.Handout, task.Outcome) error {
					return errors.New("no")
				},
			})
		})
		id := q.submit("q", "", "")
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if v := q.task(id); !slices.Equal(v.steps, []task.Kind{task.KindRelease}) {
			t.Errorf("steps %v, want a release", v.steps)
		}
	})
}
