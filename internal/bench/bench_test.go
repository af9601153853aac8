package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rotahq/rota/internal/usage"
	"github.com/rotahq/rota/task"
)

func TestFigureKnowsWhichWayIsBetter(t *testing.T) {
	for _, c := range []struct {
		median, target, floor float64
		want                  string
	}{
		{150, 150, 100, "target"}, {151, 150, 100, "target"}, {149, 150, 100, "floor"},
		{100, 150, 100, "floor"}, {99, 150, 100, "below"},
		{9, 9, 14, "target"}, {8, 9, 14, "target"}, {10, 9, 14, "floor"}, {14, 9, 14, "floor"},
		{15, 9, 14, "below"},
		{5, 0, 0, ""},
	} {
		if got := (figure{Median: c.median, Target: c.target,
			Floor: c.floor}).reached(); got != c.want {
			t.Errorf("%v of target %v, floor %v reached %q, want %q", c.median, c.target, c.floor,
				got, c.want)
		}
	}
}

func TestBenchmarksAreChosenByName(t *testing.T) {
	flags := Config{Length: 1e9, Repeat: 1, Ready: 1, Pollers: 1, Schedules: 2}
	all := benchmarks()
	if got, err := flags.choose(all); err != nil || len(got) != len(all) {
		t.Errorf("chose %d of %d (%v)", len(got), len(all), err)
	}
	flags.Only = []string{"idle", "http"}
	if got, err := flags.choose(all); err != nil || len(got) != 2 || got[0].name != "idle" {
		t.Errorf("chose %v (%v)", got, err)
	}
	flags.Only = []string{"bogus"}
	if _, err := flags.choose(all); !errors.Is(err, usage.Err) {
		t.Errorf("error = %v, want wrong usage", err)
	}
}

// A benchmark that lost a task, did one twice or lets one rest must not answer a figure.
func TestSettleAcceptsOnlyWhatWasSubmitted(t *testing.T) {
	for _, c := range []struct {
		name   string
		counts []task.Counts // one after the other; the last stays
		want   bool
	}{
		{"all done", []task.Counts{{Ready: 3}, {Running: 1, Done: 2}, {Done: 3}}, true},
		{"one lost", []task.Counts{{Ready: 2}, {Done: 2}}, false},
		{"one twice", []task.Counts{{Done: 4}}, false},
		{"one dead", []task.Counts{{Done: 2, Dead: 1}}, false},
		{"one stuck", []task.Counts{{Done: 2, Running: 1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := 0
				err := settle(t.Context(), 3, func(context.Context) (task.Counts, error) {
					i++
					return c.counts[min(i, len(c.counts))-1], nil
				})
				if (err == nil) != c.want {
					t.Errorf("settle = %v", err)
				}
			})
		})
	}
}
