package chart

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/view"
)

// Whatever is asked for fits the screen, in columns that the server answers for.
func TestColumnsOfAHistoryFitTheScreen(t *testing.T) {
	for last := time.Minute; last <= hoursLast; last += last/7 + time.Second {
		for _, columns := range []int{-5, 20, 43, 83, 500} {
			step, err := Column(last, columns)
			if err != nil {
				t.Fatal(err)
			}
			most := min(max(columns, leastColumns), mostColumns)
			if n := int(last / step); n > most || last > minutesLast && step%time.Hour != 0 {
				t.Errorf("%v in %d columns of %v: %d", last, columns, step, n)
			}
		}
	}
	for _, last := range []time.Duration{0, -time.Hour, time.Second, hoursLast + 1} {
		if _, err := Column(last, 80); err == nil {
			t.Errorf("--last %v was taken", last)
		}
	}
}

func TestHistoryIsDrawn(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	periods := make([]view.Period, 20)
	for i := range periods {
		periods[i].At = view.Time{Time: noon.Add(time.Duration(i) * 5 * time.Minute)}
	}
	draw := func() string {
		return ansi.Strip(draw("in queue mail", allRows(), periods, 5*time.Minute,
			noon.Add(98*time.Minute)))
	}
	if got, want := draw(),
		"Nothing was done in queue mail from 12:00 to 13:38.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ready := []int64{1500, 12, 0}
	for i := range ready {
		p := &periods[i+3]
		p.Submitted, p.Started, p.Done, p.Dead = 1000*int64(i+1), 8, 7, int64(i/2)
		p.Snoozed = int64(i)
		p.Ready = &ready[i]
		p.Wait = &view.Percentiles{P95: view.Duration(1234567 * time.Duration(i+1))}
	}
	got := draw()
	want := `
                                       in all        most
submitted     ▃▆█                       6,000       3,000
started       ███                          24           8
done          ███                          21           7
dead            █                           1           1
snoozed        ▄█                           3           2
ready         █▁                       last 0       1,500
wait p95      ▃▆█                  last 3.7ms       3.7ms
a column is 5m, from 12:00 to 13:38
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	for _, line := range strings.Split(got, "\n") {
		if ansi.StringWidth(line) > len(periods)+Margin {
			t.Errorf("%q is wider than it may be", line)
		}
	}
}
