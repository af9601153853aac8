package worker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rotahq/rota/task"
)

type letter struct{ To string }

type stamp struct{ Cents int }

var (
	write = task.Define[letter]("q")
	send  = task.Type[stamp]{Queue: "q", Stage: "send"}
)

func TestTypedHandlersGetWhatTheirStageCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var got []any
		_, stop := begin(t, q, Config{Capacity: 1}, func(w *Worker) {
			Handle(w, write, func(_ context.Context, t task.Task[letter]) task.Outcome {
				got = append(got, t.Args)
				return send.Next(stamp{Cents: 95})
			})
			Handle(w, send, func(_ context.Context, t task.Task[stamp]) task.Outcome {
				got = append(got, t.Args, t.Stage)
				return task.Finish(nil)
			})
		})
		id := q.submit("q", "", `{"To":"ann"}`)
		synctest.Wait()
		if want := []any{letter{"ann"}, stamp{95}, "send"}; !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
		if v := q.task(id); v.state != task.Done {
			t.Errorf("state %s, errors %q", v.state, v.errs)
		}
		stop()
	})
}

func TestAContextThatDoesNotFitIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		called := false
		_, stop := begin(t, q, Config{Capacity: 1}, func(w *Worker) {
			Handle(w, write, func(context.Context, task.Task[letter]) task.Outcome {
				called = true
				return task.Finish(nil)
			})
		})
		id := q.submit("q", "", `{"To":7}`)
		synctest.Wait()
		v := q.task(id)
		want := "decode context as worker.letter: context.To, byte 7: want string, got number"
		if called || v.state != task.Dead || len(v.errs) != 1 || v.errs[0] != want {
			t.Errorf("called %t, state %s, errors %q, want one: %s", called, v.state, v.errs, want)
		}
		stop()
	})
}

func TestWhatIsUsedStandsAroundEachHandlerTheFirstOutermost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		var calls []string
		around := func(name string) func(Handler) Handler {
			return func(h Handler) Handler {
				return func(ctx context.Context, t task.Handout) task.Outcome {
					calls = append(calls, name+" before "+t.Queue+"/"+t.Stage)
					o := h(ctx, t)
					calls = append(calls, name+" after "+o.Kind.String())
					return o
				}
			}
		}
		_, stop := begin(t, q, Config{Capacity: 1}, func(w *Worker) {
			w.Use(around("log"))
			w.Handle("a", func(context.Context, task.Handout) task.Outcome {
				return task.Finish(nil)
			})
			Handle(w, send, func(context.Context, task.Task[stamp]) task.Outcome {
				return task.Snooze(1)
			})
			w.Use(around("trace")) // later than the handlers, and around them all the same
		})
		q.submit("a", "", "")
		synctest.Wait()
		q.submit("q", "send", `{}`)
		synctest.Wait()
		want := []string{
			"log before a/", "trace before a/", "trace after done", "log after done",
			"log before q/send", "trace before q/send", "trace after snooze", "log after snooze",
		}
		if len(calls) < len(want) || !slices.Equal(calls[:len(want)], want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		stop()
	})
}

func TestTypedHandlersThatAreSetUpWronglyAreNamed(t *testing.T) {
	finish := func(context.Context, task.Task[letter]) task.Outcome { return task.Finish(nil) }
	nothing := func(context.Context, task.Handout) task.Outcome { return task.Finish(nil) }
	for _, c := range []struct {
		name  string
		setUp func(*Worker)
		want  string // "" = nothing is wrong
	}{
		{"two types of stages", func(w *Worker) {
			Handle(w, write, finish)
			w.HandleStage("q", "send", nothing)
		}, ""},
		{"no function", func(w *Worker) { Handle[letter](w, write, nil) },
			`queue "q", stage "": no handler`},
		{"one stage twice", func(w *Worker) {
			Handle(w, write, finish)
			w.HandleStages("q", Stages{"": nothing})
		}, `queue "q", stage "": two handlers`},
		{"a stage and the whole queue", func(w *Worker) {
			Handle(w, write, finish)
			w.Handle("q", nothing)
		}, `queue "q": two handlers`},
		{"the whole queue and a stage", func(w *Worker) {
			w.Handle("q", nothing)
			Handle(w, write, finish)
		}, `queue "q": two handlers`},
		{"no queue", func(w *Worker) {
			Handle(w, task.Type[letter]{}, finish)
		}, `queue "": must be`},
		{"use nothing", func(w *Worker) {
			w.Handle("q", nothing)
			w.Use(nil)
		}, "use: nothing to put around handlers"},
	} {
		w, err := New(Config{Queue: newFake(), Name: "w"})
		if err != nil {
			t.Fatal(err)
		}
		c.setUp(w)
		err = w.Check()
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Check answered %v, want %q", c.name, err, c.want)
		}
		if c.want != "" && w.Run(t.Context()) == nil {
			t.Errorf("%s: it runs", c.name)
		}
	}
	w, err := New(Config{Queue: newFake(), Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("q", nothing)
	w.Use(func(Handler) Handler { return nil })
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `queue "q"`) {
		t.Errorf("around a handler stands none, and Run answers %v", err)
	}
}
