package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestOrdersArriveAtOnceAndStatesAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		_, stop := begin(t, q, Config{}, jobs(s.play))
		rest(time.Second) // inside a poll
		q.assign(post("a", 5), post("b", 5))
		rest(100 * time.Millisecond)
		same(t, "events", s.sorted(), "+a", "+b")
		same(t, "runs while they settle", q.runs(), "a#5 starting", "b#5 starting")
		rest(200 * time.Millisecond)
		same(t, "runs", q.runs(), "a#5 running", "b#5 running")
		if b := q.lastBeat(); !slices.Equal(b.Groups, []string{"g"}) {
			t.Errorf("groups %q", b.Groups)
		}
		q.assign(post("b", 5))
		rest(100 * time.Millisecond)
		same(t, "events", s.new(), "-a: "+ErrEnded.Error())
		same(t, "runs", q.runs(), "b#5 running")
		if err := stop(); err != nil {
			t.Error(err)
		}
		same(t, "events", s.new(), "-b: "+ErrStopping.Error())
		if b := q.lastBeat(); !b.Leaving || len(b.Jobs)+len(b.Groups) != 0 {
			t.Errorf("the last beat is %+v", b)
		}
	})
}

func TestQuietPollsAreFewAndStayBelowTheSelfStop(t *testing.T) {
	for name, impolite := range map[string]bool{"a server that waits": false,
		"one that does not": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, s := newFake(), newStage(t, 8)
				q.impolite = impolite
				q.assign(post("a", 1))
				_, stop := begin(t, q, Config{}, jobs(s.play))
				rest(10 * time.Second)
				before := q.said()
				rest(time.Minute)
				if n := q.said() - before; n < 12 || n > 20 {
					t.Errorf("%d beats in a quiet minute", n)
				}
				same(t, "events", s.new(), "+a")
				stop()
			})
		})
	}
}

func TestResetKeepsWhatIsInBothAndEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1), post("b", 1))
		_, stop := begin(t, q, Config{}, jobs(s.play))
		rest(time.Second)
		s.new()
		q.set(func() { q.met = "" }) // another node answers from now on
		q.assign(post("b", 1), post("c", 2))
		rest(time.Second)
		same(t, "events", s.sorted(), "+c", "-a: "+ErrEnded.Error())
		stop()
	})
}

func TestJobThatIsEndedBeforeItBeganNeverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 1)
		q.assign(post("a", 1), post("b", 1)) // there is room for one
		_, stop := begin(t, q, Config{Capacity: 1}, jobs(s.play))
		rest(time.Second)
		same(t, "runs", q.runs(), "a#1 running", "b#1 starting")
		q.assign(post("a", 1))
		rest(time.Second)
		same(t, "runs", q.runs(), "a#1 running")
		same(t, "events", s.new(), "+a")
		stop()
	})
}

func TestEndedJobIsNamedUntilItHasReturnedAndThenLeavesItsPlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 1)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{Capacity: 1}, jobs(s.slow(5*time.Second)))
		rest(time.Second)
		q.assign(post("b", 2))
		rest(4 * time.Second)
		same(t, "runs", q.runs(), "a#1 running", "b#2 starting")
		same(t, "events", s.new(), "+a")
		rest(1100 * time.Millisecond)
		same(t, "events", s.new(), "-a: "+ErrEnded.Error(), "+b")
		same(t, "runs", q.runs(), "b#2 starting")
		stop()
	})
}

func TestNewerTokenOfTheSameJobBeginsAfterTheOldOneHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(s.slow(3*time.Second)))
		rest(time.Second)
		q.assign(post("a", 2))
		rest(2 * time.Second)
		same(t, "runs", q.runs(), "a#1 running", "a#2 starting")
		rest(2 * time.Second)
		same(t, "events", s.new(), "+a", "-a: "+ErrEnded.Error(), "+a")
		same(t, "runs", q.runs(), "a#2 running")
		stop()
	})
}

func TestLostOrdersAreRepairedByTheNextBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		_, stop := begin(t, q, Config{}, jobs(s.play))
		rest(time.Second)
		q.set(func() { q.deaf = true })
		q.assign(post("a", 1))
		rest(time.Second)
		same(t, "events of a worker that heard nothing", s.new())
		q.set(func() { q.deaf = false })
		rest(5 * time.Second)
		same(t, "events", s.new(), "+a")
		stop()
	})
}

func TestEarlyReturnIsToldAtOnceAndRunAgainAfterGrowingPauses(t *testing.T) {
	for name, c := range map[string]struct {
		end  func() error
		text string
	}{
		"error": {func() error { return errors.New("no such source") }, "no such source"},
		"nil":   {func() error { return nil }, "the handler returned"},
		"panic": {func() error { panic("boom") }, "panic: boom"},
		"goexit": {func() error {
			runtime.Goexit()
			return nil
		}, "the handler ended its goroutine instead of returning"},
		"too big": {func() error {
			return errors.New(strings.Repeat("ü", maxFault))
		}, strings.Repeat("ü", maxFault/2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				var calls []time.Time
				q.assign(post("a", 1))
				w, stop := begin(t, q, Config{},
					jobs(func(ctx context.Context, _ task.Assignment) error {
						calls = append(calls, time.Now())
						if len(calls) == 12 {
							<-ctx.Done()
							return nil
						}
						time.Sleep(time.Second) // until a poll waits
						return c.end()
					}))
				rest(1100 * time.Millisecond)
				same(t, "runs", q.runs(), "a#1 failed")
				if text := q.lastBeat().Jobs[0].Error; text != c.text {
					t.Errorf("error %q, want %q", text, c.text)
				}
				rest(10 * time.Minute)
				if len(calls) != 12 || w.Stats().JobFailures != 11 || w.Stats().Jobs != 1 {
					t.Fatalf("%d calls, stats %+v", len(calls), w.Stats())
				}
				for i := 1; i < len(calls); i++ {
					pause, want := calls[i].Sub(calls[i-1])-time.Second,
						min(time.Second<<(i-1), time.Minute)
					if pause < want*9/10 || pause > want*11/10 {
						t.Errorf("pause %d is %v, want %v within a tenth", i, pause, want)
					}
				}
				same(t, "runs", q.runs(), "a#1 running")
				if b := q.lastBeat(); b.Jobs[0].Error != "" {
					t.Errorf("a job that runs has the error %q", b.Jobs[0].Error)
				}
				stop()
			})
		})
	}
}

func TestPausesBeginAgainAfterACallThatLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.assign(post("a", 1))
		var ended, begun []time.Time
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, _ task.Assignment) error {
			begun = append(begun, time.Now())
			lasts := time.Second
			if len(begun) == 5 {
				lasts = time.Minute
			}
			sleep(ctx, lasts)
			ended = append(ended, time.Now())
			return nil
		}))
		rest(2 * time.Minute)
		if pause := begun[5].Sub(ended[4]); pause > 1100*time.Millisecond {
			t.Errorf("the pause after a minute's run is %v", pause)
		}
		if pause := begun[4].Sub(ended[3]); pause < 7100*time.Millisecond {
			t.Errorf("the pause before it is %v", pause)
		}
		stop()
	})
}

func TestFailedJobKeepsItsPlaceInTheCapacityAndEndsWithoutAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		calls := 0
		q.assign(heavy("a", 1, 8*task.Unit))
		id := q.submit("q", "", "")
		_, stop := begin(t, q, Config{Capacity: 8}, func(w *Worker) {
			w.HandleJob("g", func(context.Context, task.Assignment) error { calls++; return nil })
			w.Handle("q", func(context.Context, task.Handout) task.Outcome {
				return task.Finish(nil)
			})
		})
		rest(500 * time.Millisecond)
		before := calls
		q.submit("q", "", "")
		rest(100 * time.Millisecond)
		q.assign()
		rest(time.Minute)
		if calls != before {
			t.Errorf("%d calls after its end", calls-before)
		}
		if q.task(id).state != task.Done {
			t.Error("the task never ran")
		}
		stop()
	})
}

func TestJobsAndTasksShareTheCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 4)
		_, stop := begin(t, q, Config{Capacity: 4}, func(w *Worker) {
			w.HandleJob("g", s.play)
			w.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
				s.enter("task", task.Unit)
				time.Sleep(10 * time.Second)
				s.leave("task", task.Unit, nil)
				return task.Finish(nil)
			})
		})
		for range 20 {
			q.submit("q", "", "")
		}
		rest(time.Second)
		q.assign(heavy("a", 1, 1500), heavy("b", 1, 1500), heavy("zero", 1, 0))
		rest(time.Second)
		same(t, "events", s.sorted(), "+task", "+task", "+task", "+task", "+zero")
		same(t, "runs while tasks fill the worker", q.runs(), "a#1 starting", "b#1 starting",
			"zero#1 running")
		rest(10 * time.Second)
		same(t, "events", s.sorted(),
			slices.Concat([]string{"+a", "+b", "+task"},
				slices.Repeat([]string{"-task: <nil>"}, 4))...)
		rest(10 * time.Second)
		same(t, "events: one task at a time", s.new(), "-task: <nil>", "+task")
		q.assign(heavy("b", 1, 1500), heavy("zero", 1, 0))
		rest(100 * time.Millisecond)
		same(t, "events: one more when a job has ended", s.new(), "-a: "+ErrEnded.Error(), "+task")
		for _, h := range q.holds {
			if h.Ahead != 0 || h.Limit > 4 {
				t.Errorf("hold %+v", h)
			}
		}
		stop()
	})
}

func TestMoreTasksThanJobsLeaveRoomForGoBackUnrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 2)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{Capacity: 2}, func(w *Worker) {
			w.HandleJob("g", s.play)
			w.Handle("q", func(context.Context, task.Handout) task.Outcome {
				s.enter("task", task.Unit)
				time.Sleep(time.Second)
				s.leave("task", task.Unit, nil)
				return task.Finish(nil)
			})
		})
		rest(time.Second)
		q.assign(post("a", 1), post("b", 2)) // while a hold for one task waits
		rest(100 * time.Millisecond)
		id := q.submit("q", "", "")
		rest(100 * time.Millisecond)
		if got := q.task(id).steps; len(got) == 0 || got[0] != task.KindRelease {
			t.Errorf("steps %v, want a release", got)
		}
		same(t, "events", s.sorted(), "+a", "+b")
		stop()
	})
}

func TestLinesOfReplicasShareTheJobsLogUnderNamesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		a := post("a", 1)
		a.Replica = 2
		q.assign(a)
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, _ task.Assignment) error {
			Logf(ctx, "up")
			out := Lines(ctx, "stdout")
			fmt.Fprint(out, "one\ntwo")
			Progress(ctx, 0.5, "of a task, not of a job")
			<-ctx.Done()
			out.Close()
			Logger(ctx).Info("last words")
			return nil
		}))
		rest(time.Second)
		same(t, "log", q.jobLog("g", "a"), "log.2: up", "stdout.2: one")
		if err := stop(); err != nil {
			t.Error(err)
		}
		same(t, "log", q.jobLog("g", "a"), "log.2: up", "stdout.2: one", "stdout.2: two",
			"log.2: level=INFO msg=\"last words\"")
	})
}

func TestLastWordsComeWhileTheServerStillKnowsThatTheJobIsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.strict = true
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, _ task.Assignment) error {
			<-ctx.Done()
			Logf(ctx, "last words")
			return nil
		}))
		rest(time.Second)
		q.assign()
		rest(100 * time.Millisecond)
		same(t, "log", q.jobLog("g", "a"), "log.0: last words")
		same(t, "runs", q.runs())
		stop()
	})
}

func TestServerThatTakesNoLogLinesHoldsNoJobUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.logDown = errDown
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, a task.Assignment) error {
			Logf(ctx, "nobody hears")
			return s.play(ctx, a)
		}))
		rest(time.Second)
		q.assign(post("a", 2))
		rest(time.Second)
		same(t, "events", s.new(), "+a", "-a: "+ErrEnded.Error(), "+a")
		same(t, "runs", q.runs(), "a#2 running")
		q.set(func() { q.logDown = nil })
		rest(5 * time.Second)
		same(t, "log", q.jobLog("g", "a"), "log.0: nobody hears", "log.0: nobody hears")
		stop()
	})
}

func TestWorkerWithJobsHoldsNoTasksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 2)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{Capacity: 2}, func(w *Worker) {
			w.HandleJob("g", s.play)
			w.Handle("q", func(context.Context, task.Handout) task.Outcome {
				time.Sleep(time.Millisecond)
				return task.Finish(nil)
			})
		})
		rest(time.Second)
		var last task.ID
		for range 500 { // quick ones, for many of which the next would be held ahead
			last = q.submit("q", "", "")
		}
		rest(time.Minute)
		if q.task(last).state != task.Done {
			t.Error("the tasks were not worked off")
		}
		for _, h := range q.holds {
			if h.Ahead != 0 || h.Limit > 2 {
				t.Fatalf("hold %+v", h)
			}
		}
		stop()
	})
}
