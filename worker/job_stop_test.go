package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestCutOffWorkerStopsItsJobsAndTakesThemUpAgainWhenHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(s.play))
		rest(10 * time.Second)
		s.new()
		q.set(func() { q.muteBeat = true })
		sent := q.said()
		rest(12 * time.Second)
		same(t, "events", s.new(), "-a: "+ErrCutOff.Error())
		if n := q.said() - sent; n < 2 {
			t.Errorf("%d tries to be heard", n)
		}
		rest(time.Minute)
		same(t, "events while cut off", s.new())
		q.set(func() { q.muteBeat = false })
		rest(10 * time.Second)
		same(t, "events", s.new(), "+a")
		stop()
	})
}

// Whenever the line breaks, inside a poll, between two beats, or soon after news, and whether beats
// hang, fail, or fail and at last hang: 12 seconds after the sending of the last answered beat
// nothing runs.
func TestNothingRunsLongerThanTheSelfStopAfterTheLineBreaks(t *testing.T) {
	for _, serves := range []string{"tasks", "jobs"} {
		for _, trouble := range []string{"hang", "fail", "fail, then hang"} {
			for at := time.Duration(0); at < 7*time.Second; at += 97 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					q, ends := newFake(), make(chan time.Time, 1)
					q.assign(post("a", 1))
					q.submit("q", "", "")
					end := func(ctx context.Context) error {
						<-ctx.Done()
						ends <- time.Now()
						return ctx.Err()
					}
					_, stop := begin(t, q, Config{}, func(w *Worker) {
						if serves == "jobs" {
							w.HandleJob("g", func(ctx context.Context, _ task.Assignment) error {
								return end(ctx)
							})
						} else {
							w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
								return task.Retry(end(ctx))
							})
						}
					})
					rest(10 * time.Second)
					q.set(func() { q.version++ })
					rest(at)
					q.set(func() { q.muteBeat, q.down = trouble == "hang", errDown })
					if trouble == "fail, then hang" {
						rest(time.Until(q.answered.Add(11500 * time.Millisecond)))
						q.set(func() { q.muteBeat = true })
					}
					if ran := (<-ends).Sub(q.answered); ran != 12*time.Second {
						t.Errorf("%s: the line breaks %v after news, beats %s: they ran for %v",
							serves, at, trouble, ran)
					}
					q.set(func() { q.muteBeat, q.down, q.assigned = false, nil, nil })
					stop()
				})
			}
		}
	}
}

func TestJobStuckWhileCutOffRunsAgainOnlyAfterItHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		w, stop := begin(t, q, Config{}, jobs(s.slow(30*time.Second)))
		rest(time.Second)
		q.set(func() { q.down = errDown })
		rest(15 * time.Second)
		q.set(func() { q.down = nil })
		q.set(func() { q.met = "" }) // a new node names it in its reset
		rest(5 * time.Second)
		same(t, "runs", q.runs(), "a#1 running")
		rest(25 * time.Second)
		same(t, "events", s.new(), "+a", "-a: "+ErrCutOff.Error(), "+a")
		if s.live["a"] != 1 || len(q.runs()) != 1 || w.Stats().JobFailures != 0 {
			t.Errorf("live %v, runs %q, stats %+v", s.live, q.runs(), w.Stats())
		}
		stop()
	})
}

func TestPollThatIsNeverAnsweredLeavesTimeForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(s.play))
		rest(10 * time.Second)
		s.new()
		for range 20 {
			q.set(func() { q.muteBeat = true })
			rest(3100 * time.Millisecond) // at least one poll began
			q.set(func() { q.muteBeat = false })
			rest(3900 * time.Millisecond)
		}
		same(t, "events though some polls were lost", s.new())
		stop()
	})
}

func TestSteadyNewsNeverKeepsBeatsFromBeingAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		w, err := New(Config{
			Queue: &slowBeats{fakeQueue: q, takes: 200 * time.Millisecond}, Name: "w1",
		})
		if err != nil {
			t.Fatal(err)
		}
		w.HandleJob("g", s.play)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for range 1000 { // as when many jobs come and go
			rest(50 * time.Millisecond)
			w.mu.Lock()
			w.tell()
			w.mu.Unlock()
		}
		same(t, "events", s.new(), "+a")
		cancel()
		<-ended
	})
}

// slowBeats is a queue far away.
type slowBeats struct {
	*fakeQueue
	takes time.Duration
}

func (q *slowBeats) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	sleep(ctx, q.takes)
	if ctx.Err() != nil {
		return task.BeatAnswer{}, context.Cause(ctx)
	}
	return q.fakeQueue.Beat(ctx, b)
}

// newerWorker is how a server answers an earlier incarnation.
type newerWorker struct{}

func (newerWorker) Error() string    { return "w1 began again elsewhere" }
func (newerWorker) Superseded() bool { return true }

func TestSupersededWorkerStopsEverythingAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		q.submit("q", "", "")
		_, stop := begin(t, q, Config{}, func(w *Worker) {
			w.HandleJob("g", s.play)
			w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				s.leave("task", 0, context.Cause(ctx))
				return task.Retry(ctx.Err())
			})
		})
		rest(10 * time.Second)
		s.new()
		q.set(func() { q.newer = newerWorker{} })
		rest(5 * time.Second)
		got := s.new()
		if len(got) != 2 || !strings.HasSuffix(got[0], ErrSuperseded.Error()) ||
			!strings.HasSuffix(got[1], ErrSuperseded.Error()) {
			t.Errorf("events %q", got)
		}
		beats := q.said()
		if err := stop(); !errors.Is(err, ErrSuperseded) || !errors.As(err, new(newerWorker)) {
			t.Errorf("Run answered %v", err)
		}
		if q.said() != beats || q.lastBeat().Leaving {
			t.Error("it said more: that would let the newer one leave")
		}
	})
}

func TestStoppingWorkerEndsItsJobsAtOnceAndNamesTheStuckOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		q.submit("q", "", "")
		_, stop := begin(t, q, Config{StopGrace: 30 * time.Second}, func(w *Worker) {
			w.HandleJob("g", s.slow(20*time.Second))
			w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				return task.Retry(ctx.Err())
			})
		})
		rest(time.Second)
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- stop() }()
		rest(19 * time.Second)
		same(t, "runs", q.runs(), "a#1 running")
		q.assign(post("a", 1), post("b", 2)) // the server does not know yet
		rest(1500 * time.Millisecond)
		if b := q.lastBeat(); len(b.Jobs)+len(b.Groups) != 0 || b.Leaving {
			t.Errorf("with its jobs ended and a task still running it says %+v", b)
		}
		same(t, "events", s.new(), "+a", "-a: "+ErrStopping.Error())
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it stopped after %v: tasks have their grace", took)
		}
		if !q.lastBeat().Leaving {
			t.Error("it did not say goodbye")
		}
	})
}

func TestStuckJobIsNamedForAsLongAsItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{StopGrace: time.Second}, jobs(s.slow(5*time.Minute)))
		rest(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		rest(4 * time.Minute)
		same(t, "runs", q.runs(), "a#1 running")
		if b := q.lastBeat(); b.Leaving || len(b.Groups) != 1 {
			t.Errorf("it says %+v while it runs a job", b)
		}
		<-ended
	})
}

func TestHandlersOfJobsThatAreWrongAreAllNamed(t *testing.T) {
	w, err := New(Config{Queue: newFake(), Name: "w1", Capacity: maxTasks + 1})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleJob("Not a name", func(context.Context, task.Assignment) error { return nil })
	w.HandleJob("none", nil)
	w.HandleJob("twice", func(context.Context, task.Assignment) error { return nil })
	w.HandleJob("twice", func(context.Context, task.Assignment) error { return nil })
	w.Handle("q", func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) })
	err = w.Run(t.Context())
	for _, want := range []string{`group "Not a name"`, `group "none": no handler`,
		`group "twice": two handlers`, "capacity 5001"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
}
