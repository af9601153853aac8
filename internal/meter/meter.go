// Package meter measures what one node does, for Prometheus: how long its store takes, how its
// lease is renewed, how late it fires schedules, and how it moves replicas of jobs. There are no
// series of what has not happened.
package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxGroups is how many groups have series of their own. All others have some together, which no
// group can be named like.
const (
	maxGroups = 1_000
	others    = "(others)"
)

// Meter is one node's. All methods may be called at the same time; none waits.
type Meter struct {
	calls    *prometheus.HistogramVec
	renewals *prometheus.CounterVec
	left     lowest
	fires    *prometheus.CounterVec
	late     *prometheus.HistogramVec // without labels, so that there is none before the first
	moves    *prometheus.CounterVec

	mu     sync.Mutex
	groups map[string]bool // that have series of their own
}

// New measures nothing yet.
func New() *Meter {
	m := &Meter{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rota_store_seconds",
			Help: "How long this node waited for the store, by call: submit, take and settle, each a whole gather of tasks; beat, which renews the node's lease; fire, a round of due times; observe and assign, what workers say of jobs and what is decided about them.",
			Buckets: []float64{
				.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
			},
		}, []string{"call"}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_lease_renewals_total",
			Help: "Renewals of this node's lease by outcome: renewed, lapsed (renewed, but too late to have gone on meanwhile), failed (no answer), lost (others had ended it).",
		}, []string{"outcome"}),
		fires: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_schedule_fires_total",
			Help: "Due times of schedules that this node handled, by outcome: fired, queued, skipped, missed.",
		}, []string{"outcome"}),
		late: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rota_schedule_lateness_seconds",
			Help: "How long after their due times this node fired schedules, by the store's clock.",
			Buckets: []float64{
				.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
			},
		}, nil),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_group_moves_total",
			Help: "Replicas of a group's jobs that this node started, stopped or moved, by change and reason.",
		}, []string{"group", "change", "reason"}),
		groups: map[string]bool{},
	}
	return m
}

// Collectors are what there is to be registered.
func (m *Meter) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.renewals, &m.left, m.fires, m.late, m.moves}
}

// Call measures a call of the store that began at a time and is over.
func (m *Meter) Call(call string, began time.Time) {
	m.calls.WithLabelValues(call).Observe(time.Since(began).Seconds())
}

// Outcomes of renewals.
const (
	Renewed = "renewed"
	Lapsed  = "lapsed" // renewed, but it had ended here before
	Failed  = "failed" // no answer
	Lost    = "lost"   // others had ended it
)

// Renewal notes what came of a renewal of the node's lease, and how much of that was left when the
// answer came; less than nothing when it had ended.
func (m *Meter) Renewal(outcome string, left time.Duration) {
	m.renewals.WithLabelValues(outcome).Inc()
	m.left.note(left, time.Now())
}

// Fired notes what came of so many due times of a schedule. late is how long after the last of them
// that was; it counts for those that are fired.
func (m *Meter) Fired(outcome string, n int64, late time.Duration, fired bool) {
	m.fires.WithLabelValues(outcome).Add(float64(n))
	if fired {
		m.late.WithLabelValues().Observe(max(late, 0).Seconds())
	}
}

// Moved notes that a replica of a group's jobs was started, stopped or moved.
func (m *Meter) Moved(group, change, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.groups[group]:
	case len(m.groups) < maxGroups:
		m.groups[group] = true
	default:
		group = others
	}
	m.moves.WithLabelValues(group, change, reason).Inc()
}

// Forget drops the series of a group that is no more.
func (m *Meter) Forget(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[group] {
		delete(m.groups, group)
		m.moves.DeletePartialMatch(prometheus.Labels{"group": group})
	}
}
