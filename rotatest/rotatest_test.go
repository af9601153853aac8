package rotatest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/rotatest"
	"github.com/rotahq/rota/task"
)

// What is tested here is a shop: orders are charged, then shipped.
type (
	Order  struct{ Number int }
	Parcel struct{ To string }
)

var (
	charge = rota.Define[Order]("orders")
	ship   = rota.Type[Parcel]{Queue: "orders", Stage: "ship"}
	sweep  = rota.Define[struct{}]("sweep")
)

// handle is what the shop's program gives its node, as a program under test would.
func handle(to rota.Handlers) {
	rota.Handle(to, charge, func(_ context.Context, t rota.Task[Order]) rota.Outcome {
		switch {
		case t.Args.Number < 0:
			panic("no such order")
		case t.Attempt < 3:
			return rota.RetryAfter(time.Hour, errors.New("the bank is closed"))
		}
		return ship.Next(Parcel{To: "Ada"})
	})
	rota.Handle(to, ship, func(_ context.Context, t rota.Task[Parcel]) rota.Outcome {
		return rota.Finish(map[string]string{"sent": t.Args.To})
	})
	rota.Handle(to, sweep, func(context.Context, rota.Task[struct{}]) rota.Outcome {
		return rota.Finish(nil)
	})
}

// rig is one with the shop's handlers, for use in a bubble.
func rig(t *testing.T) *rotatest.Rig {
	r := rotatest.New(t)
	handle(r)
	return r
}

func submit(t *testing.T, r *rotatest.Rig, s rota.Submission) task.ID {
	t.Helper()
	got, err := r.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].ID
}

func TestRetriesDelaysAndStagesComeDueAsTimePasses(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r)
		id := submit(t, r, charge.New(Order{7}, rota.Submission{Delay: 5 * time.Hour}))
		r.WorkAll(t.Context())
		rotatest.RequireSubmitted(t, r, charge, Order{7}) // it stands there
		if r.Timeline() != "" {
			t.Errorf("before it is due:\n%s", r.Timeline())
		}
		r.Advance(5 * time.Hour)
		rotatest.RequireOutcome(t, r, id,
			rota.RetryAfter(time.Hour, errors.New("the bank is closed")))
		r.Advance(time.Hour)
		r.Advance(time.Hour)
		if got := rotatest.RequireSubmitted(t, r, ship, Parcel{"Ada"}); got != id {
			t.Errorf("shipped is %v, want %v", got, id)
		}
		rotatest.RequireSubmitted(t, r, charge, Order{7}) // it stood there
		rotatest.RequireOutcome(t, r, id, rota.Finish(map[string]any{"sent": "Ada"}))
		rotatest.RequireTimeline(t, r, "testdata/order.txt")
	})
}

func TestSchedulesFireAsTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig(t)
		if _, err := r.PutSchedule(t.Context(), "nightly", client.ScheduleChange{
			Cron: new("30 * * * *"), Queue: new("sweep"),
		}); err != nil {
			t.Fatal(err)
		}
		r.Advance(2 * time.Hour)
		fires, _, err := r.Fires(t.Context(), "nightly", client.FireFilter{}, "", 0)
		if err != nil || len(fires) != 2 {
			t.Errorf("in two hours it fired %+v, %v", fires, err)
		}
		want := "30m0s #1 sweep attempt 1: done\n1h30m0s #2 sweep attempt 1: done\n"
		if got := r.Timeline(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestAPanicIsOnTheTimeline(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r)
		submit(t, r, charge.New(Order{-1}, rota.Submission{MaxAttempts: 1}))
		r.WorkAll(t.Context())
		want := "0s #1 orders attempt 1: retry error \"panic\"\n"
		if got := r.Timeline(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Without a bubble time is real.
func TestARigWorksInRealTime(t *testing.T) {
	r := rig(t)
	id := submit(t, r, ship.New(Parcel{"Bob"}))
	r.WorkAll(t.Context())
	rotatest.RequireOutcome(t, r, id, rota.Finish(map[string]string{"sent": "Bob"}))
}

func TestARigThatNeverWorkedEndsWell(t *testing.T) {
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		submit(t, r, charge.New(Order{1}))
		rotatest.RequireSubmitted(t, r, charge, Order{1})
	})
}

// witness is a test that fails without failing the one that it is part of.
type witness struct {
	testing.TB
	said string
}

func (w *witness) Fatalf(format string, args ...any) {
	w.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (w *witness) Fatal(args ...any) {
	w.said = fmt.Sprint(args...)
	runtime.Goexit()
}

// failure is what f said when it failed; "" when it did not.
func failure(t *testing.T, f func(testing.TB)) string {
	w := &witness{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(w)
	}()
	<-ended
	return w.said
}

func TestWhatIsNotAsRequiredIsShown(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.txt")
	other := filepath.Join(t.TempDir(), "other.txt")
	if err := os.WriteFile(other, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rotatest.Run(t, func(t *testing.T, r *rotatest.Rig) {
		handle(r)
		id := submit(t, r, ship.New(Parcel{"Ada"}))
		r.WorkAll(t.Context())
		for name, c := range map[string]struct {
			f    func(testing.TB)
			want []string
		}{
			"what was not submitted": {func(t testing.TB) {
				rotatest.RequireSubmitted(t, r, ship, Parcel{"Bob"})
			}, []string{"{To:Bob}", `carries {"To":"Ada"}`, "of 1 there"}},
			"a stage that nothing was in": {func(t testing.TB) {
				rotatest.RequireSubmitted(t, r, charge, Order{1})
			}, []string{`stage ""`, "of 0 there"}},
			"another outcome": {func(t testing.TB) {
				rotatest.RequireOutcome(t, r, id, rota.Fail(errors.New("gone")))
			}, []string{`done {"sent":"Ada"}`, `fail error "gone"`}},
			"a task that nobody had": {func(t testing.TB) {
				rotatest.RequireOutcome(t, r, task.ID{Batch: 1}, rota.Finish(nil))
			}, []string{"no handler had", "1 tasks were handled"}},
			"no timeline": {func(t testing.TB) {
				rotatest.RequireTimeline(t, r, missing)
			}, []string{"ROTATEST_UPDATE=1", "orders/ship attempt 1: done"}},
			"another timeline": {func(t testing.TB) {
				rotatest.RequireTimeline(t, r, other)
			}, []string{"orders/ship attempt 1: done", "nothing"}},
		} {
			said := failure(t, c.f)
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s: it says %q, want it to say %q", name, said, want)
				}
			}
		}
	})
}

func TestWorkThatDoesNotEndIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := failure(t, func(w testing.TB) {
			r := rotatest.New(w)
			r.Handle("endless", func(ctx context.Context, _ task.Handout) task.Outcome {
				<-ctx.Done()
				return task.Release()
			})
			if _, err := r.Submit(t.Context(), rota.Submission{Queue: "endless"}); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r.WorkAll(ctx)
		})
		if !strings.Contains(said, `left: 1 of queue "endless"`) {
			t.Errorf("it says %q", said)
		}
	})
}

func TestOnlyABubblesTimeCanBeMoved(t *testing.T) {
	said := failure(t, func(w testing.TB) { rotatest.New(w).Advance(time.Hour) })
	if !strings.Contains(said, "time is real here") {
		t.Errorf("it says %q", said)
	}
}
