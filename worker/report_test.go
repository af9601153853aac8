package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestOutcomeIsRepeatedUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		w, stop := begin(t, q, Config{}, one(func(context.Context, task.Handout) task.Outcome {
			q.set(func() { q.down = errDown })
			return task.Finish(nil)
		}))
		id := q.submit("q", "", "")
		rest(8 * time.Second)
		if s := q.task(id).state; s != task.Running {
			t.Fatalf("state %s while the server is down", s)
		}
		q.set(func() { q.down = nil })
		rest(10 * time.Second)
		if s := q.task(id).state; s != task.Done {
			t.Errorf("state %s after the server came back", s)
		}
		if len(q.flights) < 4 {
			t.Errorf("only %d tries in 8 s", len(q.flights))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := w.Stats(); s.Recorded != 1 || s.Refused != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestBeatsNameATaskUntilItsReportIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		lost := &muteReports{fakeQueue: q, until: time.Now().Add(12 * time.Second)}
		w, err := New(Config{Queue: lost, Name: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("q", func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) })
		id := q.submit("q", "", "")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		rest(26 * time.Second)
		var named []int
		q.set(func() {
			for _, b := range q.beats { // at 0, 5, 10, 15, 20, 25 s
				named = append(named, len(b.Tasks))
			}
		})
		if want := []int{0, 1, 1, 0, 0, 0}; !slices.Equal(named, want) &&
			!slices.Equal(named, []int{0, 1, 1, 1, 0, 0}) {
			t.Errorf("beats name %v tasks while the report of %v is unanswered for 12 s, want %v",
				named, id, want)
		}
		cancel()
		<-ended
	})
}

// muteReports fails reports for a while.
type muteReports struct {
	*fakeQueue
	until time.Time
}

func (q *muteReports) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	if time.Now().Before(q.until) {
		return nil, errDown
	}
	return q.fakeQueue.Report(ctx, worker, reports)
}

func TestOutcomeThatTheServerRefusesBecomesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.answer = func(r task.Report) *task.Answer {
			if r.Kind == task.KindDone {
				return &task.Answer{ID: r.ID, Status: task.Invalid, Detail: "result: too large"}
			}
			return nil
		}
		_, stop := begin(t, q, Config{}, one(func(context.Context, task.Handout) task.Outcome {
			return task.Finish(1)
		}))
		id := q.submit("q", "", "")
		synctest.Wait()
		if v := q.task(id); v.state != task.Dead ||
			v.errs[0] != "the server refused the outcome: result: too large" {
			t.Errorf("state %s, errors %q", v.state, v.errs)
		}
		stop()
	})
}

func TestOutcomeThatMakesNoSenseBecomesAFailure(t *testing.T) {
	for name, o := range map[string]task.Outcome{
		"none":              {},
		"found, not said":   {Kind: task.KindLost},
		"next without name": {Kind: task.KindNext},
		"broken context":    {Kind: task.KindNext, Stage: "b", Context: json.RawMessage(`{"a":`)},
		"broken result":     {Kind: task.KindDone, Result: json.RawMessage(`1 2`)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sound(o); got.Kind != task.KindFail ||
				!strings.HasPrefix(got.Error, "the handler's outcome is wrong: ") {
				t.Errorf("sound(%+v) = %+v", o, got)
			}
		})
	}
	long := sound(task.Retry(errors.New(strings.Repeat("é", limits.MaxError))))
	if len(long.Error) > limits.MaxError || strings.Contains(long.Error, "\uFFFD") {
		t.Errorf("error text of %d bytes ends in %q", len(long.Error),
			long.Error[len(long.Error)-3:])
	}
}

func TestOneReportThatCannotBeSentDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		poisoned := poisonQueue{fakeQueue: q}
		w, err := New(Config{Queue: &poisoned, Name: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("q", func(_ context.Context, h task.Handout) task.Outcome {
			return task.Finish(h.Context)
		})
		var ids []task.ID
		for i := range 8 {
			ids = append(ids, q.submit("q", "", fmt.Sprint(i)))
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		rest(time.Minute)
		for i, id := range ids {
			if done := q.task(id).state == task.Done; done != (i != 3) {
				t.Errorf("task %d done: %v", i, done)
			}
		}
		cancel()
		<-ended
	})
}

// poisonQueue refuses every flight with the result 3 in it.
type poisonQueue struct{ *fakeQueue }

func (q *poisonQueue) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	for _, r := range reports {
		if string(r.Result) == "3" {
			return nil, errors.New("413")
		}
	}
	return q.fakeQueue.Report(ctx, worker, reports)
}

func TestOutcomeThatIsTooLargeForAnyRequestBecomesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		_, stop := begin(t, q, Config{Queue: &narrowQueue{q, 100}},
			one(func(_ context.Context, h task.Handout) task.Outcome {
				return task.Finish(h.Context)
			}))
		var small []task.ID
		for range 3 {
			small = append(small, q.submit("q", "", `1`))
		}
		large := q.submit("q", "", `"`+strings.Repeat("x", 200)+`"`)
		rest(time.Minute)
		if v := q.task(large); v.state != task.Dead ||
			v.errs[0] != "the server refused the outcome: 413 at most 100 bytes: too large" {
			t.Errorf("state %s, errors %q", v.state, v.errs)
		}
		for _, id := range small {
			if v := q.task(id); v.state != task.Done {
				t.Errorf("a small one is %s, errors %q", v.state, v.errs)
			}
		}
		stop()
	})
}

// narrowQueue refuses every flight with more bytes of results than a limit, as a proxy may.
type narrowQueue struct {
	*fakeQueue
	most int
}

func (q *narrowQueue) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	size := 0
	for _, r := range reports {
		size += len(r.Result)
	}
	if size > q.most {
		return nil, fmt.Errorf("413 at most %d bytes: %w", q.most, task.ErrTooLarge)
	}
	return q.fakeQueue.Report(ctx, worker, reports)
}

// A client obeys a Retry-After of hours, as a proxy may send while it is worked on. What a handler
// has done must not wait so long: its task would be done again.
func TestCallsThatAreToWaitForHoursAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		slow := &patientQueue{fakeQueue: q}
		_, stop := begin(t, q, Config{Queue: slow}, one(
			func(context.Context, task.Handout) task.Outcome { return task.Finish(1) }))
		id := q.submit("q", "", "")
		rest(10 * time.Minute)
		if v := q.task(id); v.state != task.Done {
			t.Errorf("after ten minutes it is %s; held %v, reported %v", v.state,
				slow.held.Load(), slow.reported.Load())
		}
		stop()
	})
}

// patientQueue makes the first hold and the first report wait for as long as their callers do.
type patientQueue struct {
	*fakeQueue
	held, reported atomic.Bool
}

func (q *patientQueue) Hold(
	ctx context.Context, r task.HoldRequest,
) (task.HoldAnswer, error) {
	if !q.held.Swap(true) {
		<-ctx.Done()
		return task.HoldAnswer{}, ctx.Err()
	}
	return q.fakeQueue.Hold(ctx, r)
}

func (q *patientQueue) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	if !q.reported.Swap(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return q.fakeQueue.Report(ctx, worker, reports)
}

func TestHandoutThatCouldNotBeReadIsReportedAsFailedWithTheReason(t *testing.T) {
	w, err := New(Config{Queue: newFake(), Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{worker: w, task: task.Handout{Fault: "the hand-out can't be read: at byte 7"}}
	if o := w.call(t.Context(), h); o.Kind != task.KindFail || o.Error != h.task.Fault {
		t.Errorf("outcome %+v", o)
	}
}

func TestOutcomeThatCannotBeSentIsAFailureThatNamesTheField(t *testing.T) {
	for name, bad := range map[string]string{"text": "hello", "encoding": "\"\xff\"",
		"depth": strings.Repeat("[", 1001) + strings.Repeat("]", 1001), "empty": ""} {
		for field, o := range map[string]task.Outcome{
			"context": {Kind: task.KindNext, Stage: "b", Context: json.RawMessage(bad)},
			"result":  {Kind: task.KindDone, Result: json.RawMessage(bad)},
		} {
			if got := sound(o); got.Kind != task.KindFail ||
				!strings.Contains(got.Error, field+": must be a JSON value: ") {
				t.Errorf("%s %s: %+v", field, name, got)
			}
		}
	}
}
