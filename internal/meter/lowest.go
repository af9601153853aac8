package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var leftDesc = prometheus.NewDesc("rota_lease_left_seconds",
	"The least that was left of this node's lease when it was renewed, within the last minute or two. At 0 the node does nothing any more that others must not do as well.",
	nil, nil)

// worstFor is for how long at least the worst is shown: longer than scrapes are apart.
const worstFor = time.Minute

// lowest keeps the least of what was noted within the last minute or two. The zero value shows
// nothing.
type lowest struct {
	mu     sync.Mutex
	began  time.Time // when the present window did; zero = nothing was noted yet
	least  time.Duration
	before time.Duration // the least of the window before
}

// note takes in a value, and begins a window when the last is over.
func (l *lowest) note(v time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch age := now.Sub(l.began); {
	case l.began.IsZero() || age >= 2*worstFor:
		l.began, l.least, l.before = now, v, v
	case age >= worstFor:
		l.began, l.least, l.before = now, v, l.least
	default:
		l.least = min(l.least, v)
	}
}

// Describe is part of prometheus.Collector.
func (l *lowest) Describe(ch chan<- *prometheus.Desc) { ch <- leftDesc }

// Collect is part of prometheus.Collector.
func (l *lowest) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.IsZero() {
		ch <- prometheus.MustNewConstMetric(leftDesc, prometheus.GaugeValue,
			max(min(l.least, l.before), 0).Seconds())
	}
}
