package forecast

import (
	"strings"
	"testing"
	"time"
)

// Tasks that run for no time at all, as the clock tells, and work that takes longer than a duration
// can say, have waits and sentences that are true.
func TestWaitsOfExtremesAreDurations(t *testing.T) {
	one := []Worker{{Slots: 1, Queues: []string{"q"}}}
	for name, c := range map[string]struct {
		record      Record
		ready       int64
		least, most time.Duration
	}{
		"no time":      {steady(10, 0), 100, 0, 0},
		"ages of work": {steady(0.001, 1e4), 1e7, 200 * 365 * 24 * time.Hour, 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := needOf(t, Facts{Queues: []Queue{{Name: "q", Ready: c.ready, Record: c.record}},
				Workers: one}, "q", Target)
			if !n.Bounded || n.Waits < c.least || n.Waits > c.most {
				t.Errorf("waits %v, bounded %v", n.Waits, n.Bounded)
			}
			if strings.Contains(n.Why, "-") || strings.Contains(n.Why, "NaN") {
				t.Errorf("why: %s", n.Why)
			}
		})
	}
}
