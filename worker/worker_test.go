package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rotahq/rota/task"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// begin runs a worker with handlers on q inside the bubble; the returned function stops it and
// answers Run's error.
func begin(t *testing.T, q *fakeQueue, c Config, handle func(*Worker)) (*Worker, func() error) {
	t.Helper()
	if c.Name = "w1"; c.Queue == nil {
		c.Queue = q
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	handle(w)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() error { cancel(); return <-ended }
}

// rest lets d pass in the bubble and everything that is due then happen.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func one(h Handler) func(*Worker) { return func(w *Worker) { w.Handle("q", h) } }

func TestOutcomesAreReportedAndContextsArriveByteForByte(t *testing.T) {
	for _, raw := range []string{"", `9007199254740993`, "{\"a\": 1e400, \"a\":\"\u2028<>\"}", `""`,
		`[1 , 2]`} {
		synctest.Test(t, func(t *testing.T) {
			q := newFake()
			var got json.RawMessage
			_, stop := begin(t, q, Config{},
				one(func(_ context.Context, t task.Handout) task.Outcome {
					got = t.Context
					return task.Finish(json.RawMessage(`{"ok" : true}`))
				}))
			id := q.submit("q", "", raw)
			synctest.Wait()
			if string(got) != raw {
				t.Errorf("context %q, want %q", got, raw)
			}
			if v := q.task(id); v.state != task.Done || string(v.result) != `{"ok" : true}` {
				t.Errorf("state %s, result %s", v.state, v.result)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStagesFollowEachOtherAndAnUnknownOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var ran []string
		_, stop := begin(t, q, Config{Capacity: 1}, func(w *Worker) {
			w.HandleStages("q", Stages{
				"": func(context.Context, task.Handout) task.Outcome {
					ran = append(ran, "first")
					return task.Next("more", 1)
				},
				"more": func(context.Context, task.Handout) task.Outcome {
					ran = append(ran, "more")
					return task.Next("gone", 2)
				},
			})
		})
		id := q.submit("q", "", "")
		synctest.Wait()
		v := q.task(id)
		if want := []string{"first", "more"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		if v.state != task.Dead ||
			v.errs[2] != `no handler for stage "gone" of queue "q"; known are ["" "more"]` {
			t.Errorf("state %s, errors %q", v.state, v.errs)
		}
		stop()
	})
}

func TestPanicIsAFailedAttemptAndLeavesItsStackInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		w, stop := begin(t, q, Config{Capacity: 1},
			one(func(_ context.Context, h task.Handout) task.Outcome {
				if h.Attempt == 1 {
					panic("boom")
				}
				return task.Finish(nil)
			}))
		id := q.submit("q", "", "")
		rest(3 * time.Second)
		v := q.task(id)
		if !slices.Equal(v.steps, []task.Kind{task.KindRetry, task.KindDone}) ||
			v.errs[0] != "panic: boom" {
			t.Errorf("steps %v, errors %q", v.steps, v.errs)
		}
		log := strings.Join(q.log(id), "\n")
		if !strings.Contains(log, "log: panic: boom") || !strings.Contains(log, "worker_test.go") {
			t.Errorf("log without the stack:\n%s", log)
		}
		if w.Stats().Panics != 1 {
			t.Errorf("stats %+v", w.Stats())
		}
		stop()
	})
}

func TestHandlerThatEndsItsGoroutineCostsOneAttemptAndNoLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{Capacity: 1},
			one(func(_ context.Context, h task.Handout) task.Outcome {
				if h.Attempt == 1 {
					runtime.Goexit()
				}
				return task.Finish(nil)
			}))
		id := q.submit("q", "", "")
		rest(3 * time.Second)
		if v := q.task(id); !slices.Equal(v.steps, []task.Kind{task.KindRetry, task.KindDone}) {
			t.Errorf("steps %v", v.steps)
		}
		stop()
	})
}

func TestNeverHoldsMoreThanItsLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		const capacity = 4
		var running, most atomic.Int64
		w, stop := begin(t, q, Config{Capacity: capacity},
			one(func(ctx context.Context, _ task.Handout) task.Outcome {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				running.Add(-1)
				return task.Finish(nil)
			}))
		for range 40 {
			q.submit("q", "", "")
		}
		rest(250 * time.Millisecond) // handlers end at whole seconds; look between
		for range 20 {
			rest(500 * time.Millisecond)
			q.mu.Lock()
			out := 0
			for _, v := range q.tasks {
				if v.out {
					out++
				}
			}
			q.mu.Unlock()
			if out > capacity {
				t.Fatalf("holds %d tasks with %d lanes", out, capacity)
			}
		}
		if most.Load() != capacity {
			t.Errorf("%d ran at once, want %d", most.Load(), capacity)
		}
		if s := w.Stats(); s.Recorded != 40 {
			t.Errorf("stats %+v, want 40 recorded within 10 s", s)
		}
		stop()
	})
}

func TestContextEndsWithItsCause(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		kind  task.Kind // of the report; 0 = there is none, since the server settles it
		upset func(q *fakeQueue, id task.ID)
	}{
		{"cancel", ErrCancelled, task.KindRetry, func(q *fakeQueue, id task.ID) {
			q.tasks[id].action = task.ActionCancel
		}},
		{"stale", ErrStale, task.KindRetry, func(q *fakeQueue, id task.ID) {
			q.tasks[id].action = task.ActionStale
		}},
		{"deadline", ErrDeadline, 0, func(q *fakeQueue, id task.ID) {}},
		{"beats unanswered", ErrCutOff, task.KindRelease, func(q *fakeQueue, id task.ID) {
			q.muteBeat = true
		}},
		{"server down", ErrCutOff, task.KindRelease, func(q *fakeQueue, id task.ID) {
			q.down = errDown
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				causes := make(chan error, 10) // the task may come again
				_, stop := begin(t, q, Config{},
					one(func(ctx context.Context, _ task.Handout) task.Outcome {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						return task.Retry(ctx.Err())
					}))
				id := q.submit("q", "", "")
				if c.cause == ErrDeadline {
					q.set(func() { q.tasks[id].timeout = 7 * time.Second })
				}
				synctest.Wait()
				q.set(func() { c.upset(q, id) })
				rest(13 * time.Second)
				select {
				case cause := <-causes:
					if cause != c.cause {
						t.Errorf("cause %v, want %v", cause, c.cause)
					}
				default:
					t.Error("the context did not end")
				}
				q.set(func() { q.down, q.muteBeat = nil, false })
				rest(10 * time.Second)
				q.mu.Lock()
				if c.kind == 0 && len(q.reports) > 0 || c.kind != 0 &&
					(len(q.reports) == 0 || q.reports[0].Kind != c.kind) {
					t.Errorf("reports %v, want %v first", q.reports, c.kind)
				}
				q.tasks[id].state = task.Cancelled // let it not run again
				q.mu.Unlock()
				stop()
			})
		})
	}
}

func TestSelfStopCountsFromTheSendingOfTheLastAnsweredBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		begun := time.Now()
		var cut time.Duration
		_, stop := begin(t, q, Config{},
			one(func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				cut = time.Since(begun)
				return task.Release()
			}))
		q.submit("q", "", "")
		rest(6 * time.Second) // beats at 0 and 5 s are answered
		q.set(func() { q.muteBeat = true })
		rest(30 * time.Second)
		if cut != 17*time.Second {
			t.Errorf(
				"handlers were stopped %v after the start, want 17s: the last answered beat was sent at 5s",
				cut,
			)
		}
		stop()
	})
}

func TestCutOffWorkerTakesNothingAndResumesWhenAnswered(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("hold answered late %v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				q.lateHold = late
				var ran atomic.Int64
				_, stop := begin(t, q, Config{},
					one(func(context.Context, task.Handout) task.Outcome {
						ran.Add(1)
						return task.Finish(nil)
					}))
				rest(time.Second)
				q.set(func() { q.muteBeat = true })
				rest(15 * time.Second)
				id := q.submit("q", "", "")
				rest(10 * time.Second)
				if ran.Load() != 0 {
					t.Error("a task ran while cut off")
				}
				q.set(func() { q.muteBeat = false })
				rest(10 * time.Second)
				if ran.Load() != 1 || q.task(id).state != task.Done {
					t.Errorf("ran %d times, state %s after beats were answered again", ran.Load(),
						q.task(id).state)
				}
				stop()
			})
		})
	}
}

func TestStopLetsRunningHandlersFinishWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{StopGrace: 10 * time.Second},
			one(func(ctx context.Context, h task.Handout) task.Outcome {
				select {
				case <-time.After(time.Duration(h.Context[0]-'0') * 4 * time.Second):
					return task.Finish(nil)
				case <-ctx.Done():
					if context.Cause(ctx) != ErrStopping {
						t.Errorf("cause %v, want ErrStopping", context.Cause(ctx))
					}
					return task.Retry(ctx.Err())
				}
			}))
		quick, slow := q.submit("q", "", "1"), q.submit("q", "", "9")
		synctest.Wait()
		begun := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("stopped after %v, want the grace of 10s", d)
		}
		if v := q.task(quick); v.state != task.Done {
			t.Errorf("the quick one is %s", v.state)
		}
		if v := q.task(slow); !slices.Equal(v.steps, []task.Kind{task.KindRelease}) ||
			v.Attempt != 0 {
			t.Errorf("the slow one was charged: steps %v, attempt %d", v.steps, v.Attempt)
		}
		last := q.lastBeat()
		if !last.Leaving || len(last.Tasks) != 0 {
			t.Errorf("last beat %+v, want a goodbye with empty hands", last)
		}
	})
}

func TestTasksThatArriveWhileStoppingGoBackUnrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.lateHold = true
		_, stop := begin(t, q, Config{}, one(func(context.Context, task.Handout) task.Outcome {
			t.Error("it ran")
			return task.Finish(nil)
		}))
		synctest.Wait()
		id := make(chan task.ID, 1)
		go func() {
			time.Sleep(time.Second)
			id <- q.submit("q", "", "")
		}()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if v := q.task(<-id); !slices.Equal(v.steps, []task.Kind{task.KindRelease}) {
			t.Errorf("steps %v, want a release", v.steps)
		}
	})
}

func TestRunSaysWhatItCouldNotReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{}, one(func(context.Context, task.Handout) task.Outcome {
			q.set(func() { q.down = errDown })
			return task.Finish(nil)
		}))
		q.submit("q", "", "")
		synctest.Wait()
		if err := stop(); err == nil ||
			!strings.Contains(err.Error(), `report the last 1 outcomes of "w1"`) {
			t.Errorf("Run answered %v", err)
		}
	})
}

func TestProgressTravelsWithTheNextBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{},
			one(func(ctx context.Context, _ task.Handout) task.Outcome {
				Progress(ctx, 0.5, "half")
				Progress(ctx, 7, "nonsense")
				time.Sleep(8 * time.Second)
				return task.Finish(nil)
			}))
		id := q.submit("q", "", "")
		rest(6 * time.Second)
		last := q.lastBeat()
		if len(last.Tasks) != 1 || last.Tasks[0].ID != id || last.Tasks[0].Progress != 0.5 ||
			last.Tasks[0].Note != "half" {
			t.Errorf("beat names %+v", last.Tasks)
		}
		stop()
	})
}

func TestWrongSetUpIsNamedAtOnce(t *testing.T) {
	_, err := New(Config{Name: "Not Valid", Capacity: -1, Beat: time.Minute})
	for _, want := range []string{"queue: needed", `name "Not Valid"`, "capacity -1", "self-stop"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New answered %v, want it to name %q", err, want)
		}
	}
	w, err := New(Config{Queue: newFake(), Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) }
	w.Handle("q", nothing)
	w.Handle("q", nothing)
	w.Handle("Q!", nothing)
	w.Handle("r", nil)
	w.HandleStages("s", nil)
	w.HandleHooks("t", Hooks{})
	err = w.Run(context.Background())
	for _, want := range []string{`queue "q": two handlers`, `queue "Q!"`, `queue "r": no handler`,
		`queue "s": no stages`, `queue "t": hooks without Process`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run answered %v, want it to name %q", err, want)
		}
	}
}
