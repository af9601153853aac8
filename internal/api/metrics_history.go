package api

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/history"
)

var (
	eventsDesc = prometheus.NewDesc("rota_tasks_total",
		"What happened to tasks, by queue: submitted, started, done, passed, retried, snoozed, released, timed_out, lost, dead, cancelled, expired, woken. Of all nodes, as each of them tells it.",
		[]string{"queue", "event"}, nil)
	waitDesc = prometheus.NewDesc("rota_task_wait_seconds",
		"How long tasks were ready before a worker got them, by queue, of hand-outs that ended. Of all nodes, as each of them tells it.",
		[]string{"queue"}, nil)
	runDesc = prometheus.NewDesc("rota_task_run_seconds",
		"How long workers had them, by queue, of attempts that a worker reported. Of all nodes, as each of them tells it.",
		[]string{"queue"}, nil)
)

// durationBounds are the upper bounds of the histograms, in seconds.
var durationBounds = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
}

// collectHistory shows what happened in a queue; nothing of which nothing happened.
func collectHistory(ch chan<- prometheus.Metric, queue string, r *history.Record) {
	for _, e := range []struct {
		name string
		n    int64
	}{
		{"submitted", r.Submitted}, {"started", r.Ended()}, {"done", r.Done},
		{"retried", r.Retried}, {"dead", r.Dead}, {"cancelled", r.Cancelled}, {"lost", r.Lost},
		{"expired", r.Expired}, {"passed", r.Passed}, {"snoozed", r.Snoozed},
		{"released", r.Released}, {"timed_out", r.TimedOut}, {"woken", r.Woken},
	} {
		if e.n != 0 {
			ch <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(e.n),
				queue, e.name)
		}
	}
	for _, h := range []struct {
		desc *prometheus.Desc
		of   *history.Histogram
	}{{waitDesc, &r.Waited}, {runDesc, &r.Run}} {
		if n := h.of.Count(); n > 0 {
			sum, within := h.of.Within(seconds(durationBounds))
			buckets := make(map[float64]uint64, len(within))
			for i, n := range within {
				buckets[durationBounds[i]] = uint64(n)
			}
			ch <- prometheus.MustNewConstHistogram(h.desc, uint64(n), sum, buckets, queue)
		}
	}
}

func seconds(list []float64) (all []time.Duration) {
	for _, s := range list {
		all = append(all, time.Duration(s*float64(time.Second)))
	}
	return slices.Clip(all)
}
