package meter

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shown is what a scrape shows: NAME{LABELS} VALUE, of histograms the count.
func shown(t *testing.T, m *Meter) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m.Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := s.GetCounter().GetValue() + s.GetGauge().GetValue() +
				float64(s.GetHistogram().GetSampleCount())
			fmt.Fprintf(&b, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), value)
		}
	}
	return b.String()
}

func TestNothingIsShownBeforeItHappens(t *testing.T) {
	m := New()
	if got := shown(t, m); got != "" {
		t.Errorf("before anything happened:\n%s", got)
	}
	m.Call("beat", time.Now())
	m.Renewal(Renewed, 6*time.Second)
	m.Fired("fired", 1, 30*time.Millisecond, true)
	m.Fired("missed", 7, time.Hour, false)
	m.Moved("tails", "move", "balance")
	const want = `rota_group_moves_total{change=move,group=tails,reason=balance} 1
rota_lease_left_seconds{} 6
rota_lease_renewals_total{outcome=renewed} 1
rota_schedule_fires_total{outcome=fired} 1
rota_schedule_fires_total{outcome=missed} 7
rota_schedule_lateness_seconds{} 1
rota_store_seconds{call=beat} 1
`
	if got := shown(t, m); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What was worst stands long enough to be scraped, and not for ever.
func TestTheWorstOfTheLeaseStandsForAMinuteOrTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		for i := range 300 { // a renewal each second
			left := 6500 * time.Millisecond
			if i == 100 {
				left = time.Second
			}
			m.Renewal(Renewed, left)
			got := strings.Contains(shown(t, m), "rota_lease_left_seconds{} 1\n")
			switch since := i - 100; {
			case since >= 0 && since < 60 && !got, (since < 0 || since >= 120) && got:
				t.Fatalf("after %d s: the worst stands: %v", since, got)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute) // in which nobody renewed
		if m.Renewal(Lapsed, -3*time.Second); !strings.Contains(shown(t, m),
			"rota_lease_left_seconds{} 0\n") {
			t.Errorf("a lease that had ended: %s", shown(t, m))
		}
	})
}

func TestGroupsBeyondTheBoundHaveSeriesTogether(t *testing.T) {
	m := New()
	for i := range maxGroups + 20 {
		m.Moved(fmt.Sprint("g", i), "start", "")
		m.Moved(fmt.Sprint("g", i), "move", "balance")
	}
	if got := shown(t, m); strings.Count(got, "change=move") != maxGroups+1 || !strings.Contains(
		got, "rota_group_moves_total{change=move,group=(others),reason=balance} 20\n") {
		t.Errorf("%d series of moves", strings.Count(got, "change=move"))
	}
	m.Forget("g3")
	m.Forget("g1010") // which has no series of its own
	m.Moved("new", "move", "balance")
	if got := shown(t, m); strings.Contains(got, "group=g3,") ||
		!strings.Contains(got, "group=new,") || !strings.Contains(got, "group=(others)") {
		t.Error("a group that is gone gives its room to none")
	}
}
