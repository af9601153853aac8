package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/store"
)

var (
	nodesDesc = prometheus.NewDesc("rota_cluster_nodes",
		"Nodes of the cluster by state; those that left or died for a day.", []string{"state"}, nil)
	claimsDesc = prometheus.NewDesc("rota_cluster_claims",
		"Keys that a node looks after (owned), and that none does (unowned).", []string{"state"}, nil)
	budgetDesc = prometheus.NewDesc("rota_cluster_budget_nodes",
		"So many nodes, whichever they are, can die at once with every key still ownable.", nil, nil)
	schedulesDesc = prometheus.NewDesc("rota_schedules",
		"Schedules by state: late ones have had a due time for ten seconds that nobody handled.",
		[]string{"state"}, nil)
	overdueDesc = prometheus.NewDesc("rota_schedule_overdue_seconds",
		"How long ago the earliest due time of a schedule was that nobody has handled; 0 when none is left.",
		nil, nil)
)

// collectCluster shows how the cluster stands.
func collectCluster(ch chan<- prometheus.Metric, c *store.Cluster) {
	show := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	states := map[string]int{}
	for i := range c.Nodes {
		states[string(c.Nodes[i].State)]++
	}
	for state, n := range states {
		show(nodesDesc, n, state)
	}
	show(claimsDesc, c.Keys-c.Unowned, "owned")
	show(claimsDesc, c.Unowned, "unowned")
	show(budgetDesc, c.AtOnce)
}

// scheduleCollector shows how schedules stand.
type scheduleCollector struct {
	collected[seenSchedules]
}

// Describe is part of prometheus.Collector.
func (c *scheduleCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.age()
	ch <- schedulesDesc
	ch <- overdueDesc
}

// Collect is part of prometheus.Collector.
func (c *scheduleCollector) Collect(ch chan<- prometheus.Metric) {
	seen, ok := c.now(ch)
	if !ok {
		return
	}
	var all store.ScheduleStand
	for i := range seen.stands {
		all.All += seen.stands[i].All
		all.Late += seen.stands[i].Late
		all.Paused += seen.stands[i].Paused
	}
	if all.All > 0 {
		ch <- prometheus.MustNewConstMetric(overdueDesc, prometheus.GaugeValue,
			seen.overdue.Seconds())
	}
	for state, n := range map[string]int64{
		"active": all.All - all.Paused, "paused": all.Paused, "late": all.Late,
	} {
		ch <- prometheus.MustNewConstMetric(schedulesDesc, prometheus.GaugeValue, float64(n), state)
	}
}
