package api

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/forecast"
)

var (
	queueWorkersDesc = prometheus.NewDesc("rota_queue_workers",
		"Workers that take a queue's tasks and do not drain.", []string{"queue"}, nil)
	queueWantedDesc = prometheus.NewDesc("rota_queue_workers_wanted",
		"The least number of workers with which 95 of 100 tasks wait less than 5 s, by what the last hour was like.",
		[]string{"queue"}, nil)
	queueForecastDesc = prometheus.NewDesc("rota_queue_wait_forecast_seconds",
		"The wait that 95 of 100 tasks do not exceed with the workers that there are, by what the last hour was like; missing where it grows without end.",
		[]string{"queue"}, nil)
	groupWorkersDesc = prometheus.NewDesc("rota_group_workers",
		"Workers that may run a group's jobs and do not drain.", []string{"group"}, nil)
	groupWantedDesc = prometheus.NewDesc("rota_group_workers_wanted",
		"How many it takes so that any n of them can die at once with a place left for every replica, within an hour.",
		[]string{"group"}, nil)
)

// forecastCollector shows how many workers queues and groups need: of queues of which that is
// known, of groups that have jobs, of at most 1,000 each. Those that had series keep them.
type forecastCollector struct {
	forecasts Forecasts

	mu  sync.Mutex
	own map[string]bool // queues that have series
}

// Describe is part of prometheus.Collector.
func (c *forecastCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		queueWorkersDesc, queueWantedDesc, queueForecastDesc, groupWorkersDesc, groupWantedDesc,
	} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *forecastCollector) Collect(ch chan<- prometheus.Metric) {
	seen, err := c.forecasts.Known(scrapePatience)
	if err != nil {
		return // nothing is known yet: this part is missing from the page
	}
	show := func(d *prometheus.Desc, n float64, name string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, name)
	}
	for _, n := range c.choose(seen.Model.Needs()) {
		show(queueWorkersDesc, float64(n.Workers), n.Queue)
		show(queueWantedDesc, float64(n.Wanted), n.Queue)
		if n.Bounded {
			show(queueForecastDesc, n.Waits.Seconds(), n.Queue)
		}
	}
	groups := slices.DeleteFunc(slices.Clone(seen.Groups), func(g forecast.GroupNeed) bool {
		return g.Wanted == 0
	})
	for _, g := range groups[:min(len(groups), maxSeries)] {
		show(groupWorkersDesc, float64(g.Workers), g.Group)
		show(groupWantedDesc, float64(g.Wanted), g.Group)
	}
}

// choose is the queues that have series.
func (c *forecastCollector) choose(needs []forecast.Need) []forecast.Need {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(needs), func(n forecast.Need) bool { return !n.Known })
	if len(known) > maxSeries {
		slices.SortFunc(known, func(a, b forecast.Need) int {
			return cmp.Or(rank(c.own[b.Queue])-rank(c.own[a.Queue]),
				cmp.Compare(a.Queue, b.Queue))
		})
		known = known[:maxSeries]
	}
	c.own = make(map[string]bool, len(known))
	for i := range known {
		c.own[known[i].Queue] = true
	}
	return known
}
