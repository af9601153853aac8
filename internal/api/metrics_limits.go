package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/task"
)

var (
	gateRunningDesc = prometheus.NewDesc("rota_queue_limit_running",
		"Tasks that count for the queue's max_running, of queues that have one.",
		[]string{"queue"}, nil)
	gateMostDesc = prometheus.NewDesc("rota_queue_limit_max_running",
		"Tasks of the queue that may run at a time, of queues that limit them.",
		[]string{"queue"}, nil)
	gateHeldDesc = prometheus.NewDesc("rota_queue_limited",
		"1 while a limit of the queue holds ready tasks back, by limit: max_running, rate or per_key; of queues that have it.",
		[]string{"queue", "limit"}, nil)
	gateKeysDesc = prometheus.NewDesc("rota_queue_limit_full_keys",
		"Group keys of which as many tasks run as may, counted up to 1,000, of queues that limit how many of each run.",
		[]string{"queue"}, nil)
	gatePausedDesc = prometheus.NewDesc("rota_queue_limit_paused_keys",
		"Group keys that are paused, counted up to 1,000, of queues of which something is said of single keys.",
		[]string{"queue"}, nil)
)

// collectLimits shows how a queue stands beside its limits; nothing of one that it has not.
func collectLimits(ch chan<- prometheus.Metric, g *limitGate, now int64, c *task.Counts) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value,
			append([]string{g.Queue}, labels...)...)
	}
	held := waitingFor(g, now, c)
	if most := g.Limits.Running; most > 0 {
		gauge(gateRunningDesc, float64(g.Running))
		gauge(gateMostDesc, float64(most))
		gauge(gateHeldDesc, float64(rank(held.MaxRunning)), "max_running")
	}
	if g.Limits.Rate.Rate != (task.Rate{}) {
		gauge(gateHeldDesc, float64(rank(held.Rate)), "rate")
	}
	if g.perKey.Running > 0 {
		gauge(gateKeysDesc, float64(g.FullKeys))
		gauge(gateHeldDesc, float64(rank(held.KeysAtLimit > 0)), "per_key")
	}
	if g.rules {
		gauge(gatePausedDesc, float64(g.PausedKeys))
	}
}
