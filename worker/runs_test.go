package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/task"
)

func TestOrdersAreObeyedWhateverRunsHere(t *testing.T) {
	other := task.Assignment{Group: "another", Job: "a", Token: task.JobToken{Number: 9}}
	end := func(list ...task.Assignment) (runs []task.Run) {
		for _, a := range list {
			runs = append(runs, task.Run{
				Group: a.Group, Job: a.Job, Replica: a.Replica, Token: a.Token.String(),
			})
		}
		return runs
	}
	add := func(list ...task.Assignment) []task.Assignment { return list }
	for _, c := range []struct {
		name     string
		called   []task.Assignment // whose handlers run
		waiting  []task.Assignment // that have not begun
		orders   task.Orders
		want     []string // runs afterwards; one in brackets is told to end
		reserved task.Units
	}{
		{"nothing is said", add(post("a", 1)), add(post("b", 1)), task.Orders{},
			[]string{"a#1", "b#1"}, 2000},
		{"reset to nothing", add(post("a", 1)), add(post("b", 1)), task.Orders{Reset: true},
			[]string{"(a#1)"}, 1000},
		{"reset keeps what is in both", add(post("a", 1), post("b", 1)), nil,
			task.Orders{Reset: true, Add: add(post("b", 1), post("c", 2))},
			[]string{"(a#1)", "b#1", "c#2"}, 3000},
		{"add again", add(post("a", 1)), add(post("b", 1)),
			task.Orders{Add: add(post("a", 1), post("b", 1))}, []string{"a#1", "b#1"}, 2000},
		{"add twice", nil, nil, task.Orders{Add: add(post("a", 1), post("a", 1))}, []string{"a#1"},
			1000},
		{"add with another load", add(post("a", 1)), nil, task.Orders{Add: add(heavy("a", 1, 500))},
			[]string{"a#1"}, 500},
		{"end", add(post("a", 1)), add(post("b", 1)),
			task.Orders{End: end(post("a", 1), post("b", 1))}, []string{"(a#1)"}, 1000},
		{"end what is not here", add(post("a", 1)), nil,
			task.Orders{End: end(post("a", 2), post("b", 1), other)}, []string{"a#1"}, 1000},
		{"end without a token", add(post("a", 1)), nil,
			task.Orders{End: []task.Run{{Group: "g", Job: "a", Token: "rubbish"}}}, []string{"a#1"},
			1000},
		{"end and add the same", add(post("a", 1)), nil,
			task.Orders{End: end(post("a", 1)), Add: add(post("a", 1))}, []string{"a#1"}, 1000},
		{"end and add a newer one", add(post("a", 1)), nil,
			task.Orders{End: end(post("a", 1)), Add: add(post("a", 2))}, []string{"(a#1)", "a#2"},
			2000},
		{"a newer one alone", add(post("a", 1)), nil, task.Orders{Add: add(post("a", 2))},
			[]string{"(a#1)", "a#2"}, 2000},
		{"a newer one of what never began", nil, add(post("a", 1)),
			task.Orders{Add: add(post("a", 2))}, []string{"a#2"}, 1000},
		{"an older one", add(post("a", 2)), nil, task.Orders{Add: add(post("a", 1))},
			[]string{"a#2"}, 1000},
		{"newer and older at once", nil, nil, task.Orders{Add: add(post("a", 3), post("a", 2))},
			[]string{"a#3"}, 1000},
		{"a group of others", nil, nil, task.Orders{Add: add(other)}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := New(Config{Queue: newFake(), Name: "w1"})
			if err != nil {
				t.Fatal(err)
			}
			w.HandleJob("g", func(context.Context, task.Assignment) error { return nil })
			w.obeyOrders(task.Orders{Add: slices.Concat(c.called, c.waiting)})
			causes := map[*run]error{}
			for _, r := range w.runs[:len(c.called)] {
				r.cancel = func(cause error) { causes[r] = cause }
			}
			w.obeyOrders(c.orders)
			var got []string
			for _, r := range w.runs {
				text := fmt.Sprintf("%s#%d", r.job, r.token.Number)
				if !r.wanted {
					text = "(" + text + ")"
				}
				if told := causes[r] != nil; told && !errors.Is(causes[r], ErrEnded) || !r.wanted &&
					!told {
					t.Errorf("%s was told %v", text, causes[r])
				}
				got = append(got, text)
			}
			same(t, "runs", got, c.want...)
			if w.reserved != c.reserved {
				t.Errorf("%v reserved, want %v", w.reserved, c.reserved)
			}
		})
	}
}

func TestBeatNamesNoMoreRunsThanItMay(t *testing.T) {
	w, err := New(Config{Queue: newFake(), Name: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleJob("g", func(context.Context, task.Assignment) error { return nil })
	var o task.Orders
	for i := range maxRuns + 5 {
		o.Add = append(o.Add, heavy(fmt.Sprint("j", i), 1, 0))
	}
	w.obeyOrders(o)
	w.groups = []string{"g"}
	var b task.Beat
	w.sayJobs(&b)
	if len(b.Jobs) != maxRuns {
		t.Errorf("%d runs in a beat", len(b.Jobs))
	}
}

// BenchmarkQuietBeatWithJobs is what a beat of a worker with many jobs costs it when all is well.
func BenchmarkQuietBeatWithJobs(b *testing.B) {
	w, err := New(Config{Queue: newFake(), Name: "w1"})
	if err != nil {
		b.Fatal(err)
	}
	w.HandleJob("g", func(context.Context, task.Assignment) error { return nil })
	w.groups = []string{"g"}
	var o task.Orders
	for i := range 1000 {
		o.Add = append(o.Add, heavy(fmt.Sprint("j", i), 1, 0))
	}
	w.obeyOrders(o)
	for b.Loop() {
		w.say(func(error) {})
		w.obeyOrders(task.Orders{})
	}
}

// A job that ends between two calls, before anybody has looked at what the last one logged, has a
// log all the same.
func TestJobThatEndsBetweenTwoCallsKeepsItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake()
		q.assign(post("a", 1), post("b", 1))
		_, stop := begin(t, q, Config{}, jobs(func(ctx context.Context, a task.Assignment) error {
			if a.Job == "b" { // its log is under way while a logs
				Logf(ctx, "up")
				<-ctx.Done()
				return nil
			}
			time.Sleep(100 * time.Millisecond)
			Logf(ctx, "last words")
			return errors.New("no")
		}))
		rest(150 * time.Millisecond)
		q.assign(post("b", 1))
		rest(time.Second)
		same(t, "log", q.jobLog("g", "a"), "log.0: last words")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
