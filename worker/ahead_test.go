package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestPaceReachesAsFarAsTwentyMilliseconds(t *testing.T) {
	var p pace
	at := time.Unix(0, 0)
	for i, step := range []struct {
		after    time.Duration
		finished int64
		want     int
	}{
		{0, 0, 0},                             // nothing was seen
		{4 * time.Millisecond, 256, 640},      // 64 in a millisecond; half of it counts
		{4 * time.Millisecond, 512, 960},      // again
		{0, 512, 960},                         // no time passed
		{time.Millisecond, 512, 960},          // too little for a look
		{time.Second, 512, 480},               // nothing ended for a second
		{10 * time.Second, 512, 240},          // nor for ten
		{100 * time.Second, 512, 120},         // a mean of looks, not of time
		{4 * time.Millisecond, 512 + 48, 180}, // faster again
	} {
		at = at.Add(step.after)
		if got := p.reach(at, step.finished); got != step.want {
			t.Errorf("look %d: %d, want %d", i, got, step.want)
		}
	}
}

// quickly is a handler of a tenth of a millisecond; it is stuck while it may not go on.
func quickly(goOn func() bool, ran *atomic.Int64) func(*Worker) {
	return one(func(ctx context.Context, _ task.Handout) task.Outcome {
		time.Sleep(100 * time.Microsecond)
		for !goOn() {
			time.Sleep(10 * time.Second)
		}
		ran.Add(1)
		return task.Finish(nil)
	})
}

func always() bool { return true }

func TestQuickTasksAreHeldAhead(t *testing.T) {
	for name, ahead := range map[string]int{"by default": 768, "limited": 16, "off": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFake()
				for range 3000 {
					q.submit("q", "", "")
				}
				var ran atomic.Int64
				_, stop := begin(t, q, Config{Capacity: 4, Ahead: ahead}, quickly(always, &ran))
				rest(time.Second)
				if err := stop(); err != nil || ran.Load() != 3000 {
					t.Errorf("%d ran, %v", ran.Load(), err)
				}
				most := 0
				for i, h := range q.holds {
					most = max(most, h.Ahead)
					if h.Limit > 4+h.Ahead {
						t.Errorf("hold %d asks for %d with 4 lanes and %d ahead", i, h.Limit,
							h.Ahead)
					}
				}
				if most != max(ahead, 0) {
					t.Errorf("at most %d ahead, want %d", most, ahead)
				}
			})
		})
	}
}

func TestWhatWaitsTooLongForALaneGoesBackUnrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		for range 3000 {
			q.submit("q", "", "")
		}
		var ran atomic.Int64
		var done atomic.Bool
		w, stop := begin(t, q, Config{Capacity: 4}, quickly(func() bool {
			return ran.Load() < 1000 || done.Load()
		}, &ran))
		rest(time.Second)
		out, released := 0, 0
		q.mu.Lock()
		for _, id := range q.order {
			if q.tasks[id].out {
				out++
			}
			if slices.Contains(q.tasks[id].steps, task.KindRelease) {
				released++
			}
		}
		q.mu.Unlock()
		s := w.Stats()
		if out != 4 || released == 0 || s.Returned == 0 {
			t.Errorf("a second after all lanes were stuck: %d out, %d went back; stats %+v", out,
				released, s)
		}
		if s.Returned > 772 {
			t.Errorf(
				"%d went back: what is given back must not be taken again while the lanes are stuck",
				s.Returned,
			)
		}
		done.Store(true)
		rest(11 * time.Second)
		if err := stop(); err != nil || ran.Load() != 3000 {
			t.Errorf("%d ran, %v", ran.Load(), err)
		}
	})
}

func TestStopGivesBackWhatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		for range 3000 {
			q.submit("q", "", "")
		}
		var ran atomic.Int64
		w, stop := begin(t, q, Config{Capacity: 4}, quickly(always, &ran))
		for ran.Load() < 1000 {
			time.Sleep(10 * time.Microsecond)
		}
		before := ran.Load()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := w.Stats(); ran.Load()-before > 8 || s.Returned == 0 || s.Taken != s.Recorded {
			t.Errorf("%d ran after the stop; stats %+v", ran.Load()-before, s)
		}
	})
}

// deniedError is what a server says that does not let a worker in.
type deniedError struct{ error }

func (deniedError) Denied() bool { return true }

func TestWorkerThatIsNotLetInEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.set(func() { q.down = deniedError{errors.New("no such token")} })
		w, err := New(Config{Queue: q, Name: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("q", func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) })
		if err := w.Run(t.Context()); !denied(err) {
			t.Errorf("Run answers %v", err)
		}
	})
}

func TestWorkerThatWasLetInOutlivesADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{}, one(func(context.Context, task.Handout) task.Outcome {
			return task.Finish(nil)
		}))
		rest(time.Second)
		q.set(func() { q.down = deniedError{errors.New("the token file is being changed")} })
		rest(time.Minute)
		q.set(func() { q.down = nil })
		id := q.submit("q", "", "")
		rest(10 * time.Second)
		if v := q.task(id); v.state != task.Done {
			t.Errorf("the task is %s", v.state)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
