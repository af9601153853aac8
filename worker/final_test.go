package worker

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestPanicInAPartOfTheHooksSkipsNoneThatFollows(t *testing.T) {
	boom := func() { panic("boom") }
	for _, part := range []string{"load", "process", "finish", "error"} {
		var ran []string
		step := func(name string) {
			ran = append(ran, name)
			if name == part {
				boom()
			}
		}
		hooks := Hooks{
			Load: func(context.Context, *task.Handout) error { step("load"); return nil },
			Process: func(context.Context, task.Handout) task.Outcome {
				if step("process"); part == "error" {
					return task.Retry(errors.New("no"))
				}
				return task.Finish(nil)
			},
			Finish: func(context.Context, task.Handout, task.Outcome) error {
				step("finish")
				return nil
			},
			FinishError: func(context.Context, task.Handout, task.Outcome) { step("error") },
			Final: func(context.Context, task.Handout, task.Outcome) error {
				step("final")
				return nil
			},
			MaxAttempts: 1,
		}
		o := hooks.handle(t.Context(), task.Handout{Attempt: 1})
		want := "panic: boom"
		if part == "error" {
			want = "no"
		}
		if n := len(ran); o.Kind != task.KindFail || o.Error != want || n < 3 ||
			!slices.Equal(ran[n-2:], []string{"error", "final"}) {
			t.Errorf("panic in %s: ran %q, %v %q", part, ran, o.Kind, o.Error)
		}
	}
}

func TestHandlerThatEndsItsGoroutineIsAFailedAttemptForItsHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		told := 0
		w, stop := begin(t, q, Config{}, func(w *Worker) {
			w.HandleHooks("q", Hooks{
				Process: func(_ context.Context, h task.Handout) task.Outcome {
					switch h.Attempt {
					case 1:
						runtime.Goexit()
					case 2:
						panic("boom")
					}
					return task.Finish(nil)
				},
				FinishError: func(context.Context, task.Handout, task.Outcome) { told++ },
			})
		})
		id := q.submit("q", "", "")
		rest(time.Minute)
		if v := q.task(id); v.state != task.Done || told != 2 || w.Stats().Panics != 1 {
			t.Errorf("state %s, told of %d failures, %d panics", v.state, told, w.Stats().Panics)
		}
		stop()
	})
}

func TestFinalOfAQueueWithNoticesIsToldOfDeathsByThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var told []string
		tries := 0
		_, stop := begin(t, q, Config{}, func(w *Worker) {
			w.HandleHooks("q", Hooks{
				Process: func(_ context.Context, h task.Handout) task.Outcome {
					if string(h.Context) == "1" {
						return task.Fail(errors.New("bad"))
					}
					return task.Finish(nil)
				},
				Final: func(_ context.Context, h task.Handout, o task.Outcome) error {
					if tries++; tries == 2 {
						return errors.New("nobody listens")
					}
					told = append(told,
						h.Queue+" "+o.Kind.String()+" "+o.Error+" "+string(h.Context))
					return nil
				},
				FinalQueue: "q-final",
			})
		})
		q.submit("q", "", "0")
		q.submit("q", "", "1")
		rest(time.Second)
		if want := []string{"q done  0"}; !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q: the server tells of the other", told, want)
		}
		notice, err := json.Marshal(task.FinalNotice{
			Task: task.ID{Batch: 1 << 50, N: 1}, Queue: "q", Outcome: task.KindLost,
			Error: "silent", Context: json.RawMessage("1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		id := q.submit("q-final", "", string(notice))
		rest(time.Minute)
		if v := q.task(id); v.state != task.Done ||
			!slices.Equal(told, []string{"q done  0", "q lost silent 1"}) {
			t.Errorf("the notice is %s after %q", v.state, told)
		}
		stop()
	})
}

// What is stopped with its worker did not fail, so it can't have been the last attempt either.
func TestLastAttemptThatIsStoppedWithItsWorkerGoesBackUncharged(t *testing.T) {
	for name, final := range map[string]string{"told here": "", "told by notices": "ends"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				told := 0
				_, stop := begin(t, q, Config{StopGrace: time.Second}, func(w *Worker) {
					w.HandleHooks("q", Hooks{
						Process: func(ctx context.Context, _ task.Handout) task.Outcome {
							<-ctx.Done()
							return task.Retry(ctx.Err())
						},
						Final: func(context.Context, task.Handout, task.Outcome) error {
							told++
							return nil
						},
						FinalQueue: final, MaxAttempts: 1,
					})
				})
				id := q.submit("q", "", "")
				synctest.Wait()
				if err := stop(); err != nil {
					t.Error(err)
				}
				v := q.task(id)
				if !slices.Equal(v.steps, []task.Kind{task.KindRelease}) || told != 0 {
					t.Errorf("steps %v, told %d times; want a release, and nobody told", v.steps, told)
				}
			})
		})
	}
}
