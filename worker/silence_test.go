package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

// Whatever the limit of their groups, and whenever the line breaks: jobs end after four fifths of
// it, and tasks as they always do.
func TestJobsRunForAsLongAsTheirGroupsSayAfterTheLineBreaks(t *testing.T) {
	for silence, want := range map[time.Duration][2]time.Duration{ // of jobs, of tasks
		3 * time.Second: {2400 * time.Millisecond, 2400 * time.Millisecond},
		0:               {12 * time.Second, 12 * time.Second},
		time.Minute:     {48 * time.Second, 12 * time.Second},
	} {
		for _, trouble := range []string{"hang", "fail"} {
			for at := time.Duration(0); at < 4*time.Second; at += 397 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					q := newFake()
					jobEnds, taskEnds := make(chan time.Time, 1), make(chan time.Time, 1)
					q.set(func() { q.silence = silence })
					q.assign(post("a", 1))
					q.submit("q", "", "")
					_, stop := begin(t, q, Config{}, func(w *Worker) {
						w.HandleJob("g", func(ctx context.Context, _ task.Assignment) error {
							<-ctx.Done()
							jobEnds <- time.Now()
							return nil
						})
						w.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
							<-ctx.Done()
							taskEnds <- time.Now()
							return task.Retry(nil)
						})
					})
					rest(10*time.Second + at)
					q.set(func() { q.muteBeat, q.down = trouble == "hang", errDown })
					answered := func() time.Time {
						q.mu.Lock()
						defer q.mu.Unlock()
						return q.answered
					}
					if ran := (<-taskEnds).Sub(answered()); ran != want[1] {
						t.Errorf("silence %v: the task ran for %v, want %v", silence, ran, want[1])
					}
					if ran := (<-jobEnds).Sub(answered()); ran != want[0] {
						t.Errorf("silence %v: the job ran for %v, want %v", silence, ran, want[0])
					}
					q.set(func() { q.muteBeat, q.down, q.assigned = false, nil, nil })
					stop()
				})
			}
		}
	}
}

func TestOwnSelfStopIsNeverPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := newFake(), newStage(t, 8)
		q.set(func() { q.silence = time.Minute })
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{SelfStop: 20 * time.Second}, jobs(s.play))
		rest(10 * time.Second)
		s.new()
		q.set(func() { q.muteBeat = true })
		rest(21 * time.Second)
		same(t, "events", s.new(), "-a: "+ErrCutOff.Error())
		q.set(func() { q.muteBeat, q.assigned = false, nil })
		stop()
	})
}

func TestCommandHasTheRestOfItsLimitToEnd(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		0: hurry, 12 * time.Second: hurry, time.Minute: hurry,
		2400 * time.Millisecond: 400 * time.Millisecond,
	} {
		w := &Worker{}
		w.goesJobs.Store(int64(limit))
		if got := hurryOf(context.WithValue(t.Context(), workKey{}, &run{worker: w})); got != want {
			t.Errorf("cut off after %v it has %v, want %v", limit, got, want)
		}
	}
}

func TestSignsAreToldWhenTheServerWantsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var job context.Context
		q.assign(post("a", 1))
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, _ task.Assignment) error {
			job = ctx
			<-ctx.Done()
			return nil
		}))
		alive := func() time.Time {
			rest(7 * time.Second)
			return q.lastBeat().Jobs[0].Alive
		}
		if at := alive(); !at.IsZero() {
			t.Errorf("told %v though nobody asked", at)
		}
		q.set(func() { q.signs = true })
		first := alive()
		if first.IsZero() || time.Since(first) < 10*time.Second {
			t.Errorf("told %v, want when its call began", first)
		}
		if again := alive(); again != first {
			t.Errorf("a quiet handler's sign went from %v to %v", first, again)
		}
		for name, sign := range map[string]func(){
			"Alive":    func() { Alive(job) },
			"a line":   func() { Logf(job, "here") },
			"a logger": func() { Logger(job).Info("here") },
		} {
			at := time.Now()
			sign()
			if told := alive(); told != at.UTC() {
				t.Errorf("%s at %v is told as %v", name, at.UTC(), told)
			}
		}
		Alive(t.Context()) // elsewhere it does nothing
		q.assign()
		stop()
	})
}
