package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// listening notes what it is told, as text, of each hand-out.
func listening(to *[]string, h Handler) Handler {
	return func(ctx context.Context, t task.Handout) task.Outcome {
		Reported(ctx, func(o task.Outcome, a task.Answer) {
			*to = append(*to, fmt.Sprintf("%d %v %s", t.Attempt, o.Kind, a.Status))
		})
		return h(ctx, t)
	}
}

// Whatever becomes of an outcome, who asked is told once: when it was answered, or when no answer
// can come any more.
func TestWhoAsksIsToldOnceWhatBecameOfAnOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		handler Handler
		change  func(q *fakeQueue)
		want    []string
	}{
		"recorded": {
			handler: func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) },
			want:    []string{"1 done recorded"},
		},
		"a retry": {
			handler: func(_ context.Context, h task.Handout) task.Outcome {
				if h.Attempt == 1 {
					return task.Retry(errors.New("no"))
				}
				return task.Finish(nil)
			},
			want: []string{"1 retry recorded", "2 done recorded"},
		},
		"a panic": {
			handler: func(_ context.Context, h task.Handout) task.Outcome {
				if h.Attempt == 1 {
					panic("boom")
				}
				return task.Fail(nil)
			},
			want: []string{"1 retry recorded", "2 fail recorded"},
		},
		"its goroutine ended": {
			handler: func(_ context.Context, h task.Handout) task.Outcome {
				if h.Attempt == 1 {
					runtime.Goexit()
				}
				return task.Finish(nil)
			},
			want: []string{"1 retry recorded", "2 done recorded"},
		},
		"out of time": {
			handler: func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				return task.Retry(ctx.Err())
			},
			want: []string{"1 retry "},
		},
		"refused": {
			handler: func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) },
			change: func(q *fakeQueue) {
				q.answer = func(r task.Report) *task.Answer {
					return &task.Answer{ID: r.ID, Status: task.Stale}
				}
			},
			want: []string{"1 done stale"},
		},
		"invalid, then as a failure": {
			handler: func(context.Context, task.Handout) task.Outcome { return task.Finish(1) },
			change: func(q *fakeQueue) {
				q.answer = func(r task.Report) *task.Answer {
					if r.Kind == task.KindFail {
						return nil
					}
					return &task.Answer{ID: r.ID, Status: task.Invalid, Detail: "no"}
				}
			},
			want: []string{"1 fail recorded"},
		},
		"never answered": {
			handler: func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) },
			change: func(q *fakeQueue) {
				q.answer = func(task.Report) *task.Answer {
					q.down = errDown
					return &task.Answer{Status: task.Invalid, Detail: "once more"}
				}
			},
			want: []string{"1 fail "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				if c.change != nil {
					c.change(q)
				}
				var told []string
				config := Config{Capacity: 1, SendGrace: time.Second}
				_, stop := begin(t, q, config, func(w *Worker) {
					w.Handle("q", c.handler)
					w.Use(func(next Handler) Handler { return listening(&told, next) })
				})
				id := q.submit("q", "", "")
				q.set(func() { q.tasks[id].timeout = time.Minute })
				rest(70 * time.Second)
				stop()
				if !slices.Equal(told, c.want) {
					t.Errorf("told %q, want %q", told, c.want)
				}
			})
		})
	}
}

func TestSeveralAreToldTheLastOneFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var told []string
		var left context.Context
		_, stop := begin(t, q, Config{Capacity: 1}, one(
			func(ctx context.Context, _ task.Handout) task.Outcome {
				for _, name := range []string{"outer", "inner"} {
					Reported(ctx, func(task.Outcome, task.Answer) { told = append(told, name) })
				}
				left = ctx
				return task.Finish(nil)
			}))
		q.submit("q", "", "")
		rest(time.Second)
		late := func(task.Outcome, task.Answer) { t.Error("told of what was over") }
		Reported(left, late)
		Reported(t.Context(), late)
		stop()
		if !slices.Equal(told, []string{"inner", "outer"}) {
			t.Errorf("told %q", told)
		}
	})
}

// What is told of an outcome may panic, or end its goroutine: that costs nothing but itself.
func TestWhoIsToldMayPanic(t *testing.T) {
	for name, fault := range map[string]func(){
		"panic": func() { panic("boom") }, "goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				var told atomic.Int32
				w, stop := begin(t, q, Config{Capacity: 1}, one(
					func(ctx context.Context, _ task.Handout) task.Outcome {
						Reported(ctx, func(task.Outcome, task.Answer) { told.Add(1) })
						Reported(ctx, func(task.Outcome, task.Answer) { fault() })
						return task.Finish(nil)
					}))
				const many = 2 * flights
				for range many { // each in a flight of its own
					q.submit("q", "", "")
					rest(time.Second)
				}
				if got := w.Stats(); got.Recorded != many {
					t.Errorf("%d of %d outcomes were recorded", got.Recorded, many)
				}
				stop()
				got, others := w.Stats().Panics, told.Load()
				if name == "panic" && (got != many || others != many) {
					t.Errorf("%d panics counted, %d others told, want %d", got, others, many)
				}
			})
		})
	}
}
