package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/task"
)

var (
	replicasDesc = prometheus.NewDesc("rota_group_replicas",
		"Replicas of a group's jobs by state; pending ones have no worker.",
		[]string{"group", "state"}, nil)
	spareDesc = prometheus.NewDesc("rota_group_spare_workers",
		"How many workers, whichever they are, can die at once with a place left for every replica.",
		[]string{"group"}, nil)
	sourceDesc = prometheus.NewDesc("rota_group_source_broken",
		"1 when the newest reading of the group's source failed.",
		[]string{"group"}, nil)
)

// groupCollector shows how groups stand, and the cluster.
type groupCollector struct{ collected[seenCluster] }

// Describe is part of prometheus.Collector.
func (c *groupCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.age(), replicasDesc, spareDesc, sourceDesc, nodesDesc, claimsDesc, budgetDesc,
	} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *groupCollector) Collect(ch chan<- prometheus.Metric) {
	seen, ok := c.now(ch)
	if !ok {
		return
	}
	if seen.cluster != nil {
		collectCluster(ch, seen.cluster)
	}
	show := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	groups := boundedGroups(seen.groups)
	for i := range groups {
		g := &groups[i]
		for state, n := range map[task.JobState]int{
			task.JobPending: g.Pending, task.JobStarting: g.Starting, task.JobRunning: g.Running,
			task.JobFailed: g.Failed, task.JobMoving: g.Moving, task.JobEnding: g.Ending,
		} {
			show(replicasDesc, n, g.Name, string(state))
		}
		show(spareDesc, g.Budget.Workers, g.Name)
		broken := 0
		if g.Read.Error != "" {
			broken = 1
		}
		show(sourceDesc, broken, g.Name)
	}
}
