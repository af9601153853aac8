package api

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/task"
)

// metrics is what the API measures of itself.
type metrics struct {
	answered *prometheus.CounterVec
	took     *prometheus.HistogramVec
	under    *prometheus.GaugeVec
	pages    prometheus.Gatherer  // what a scrape shows
	own      prometheus.Collector // all of that but what is the whole process's
	close    func()               // gives up what the store is being asked

	logDropped prometheus.Collector
	refused    *prometheus.CounterVec
	hooks      *hookCounter
}

// newMetrics registers everything that /metrics shows. What a registry of the caller's has already
// stays as it is.
func newMetrics(conf Config, a *API, seen *overviews) (*metrics, error) {
	m := callCounters()
	m.logDropped = prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "rota_log_lines_dropped_total",
		Help: "Lines that logs of tasks and jobs lack because there were too many.",
	}, func() float64 { return float64(conf.Logs.Dropped()) })
	process := prometheus.NewRegistry()
	m.own = conf.Metrics
	gather, endGathering := shared(prometheus.Gatherers{conf.Metrics, process}.Gather)
	m.pages, m.close = prometheus.GathererFunc(gather), endGathering
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rota_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{
			"version": conf.Version,
		},
	})
	info.Set(1)
	var wrong []error
	for _, c := range slices.Concat([]prometheus.Collector{
		m.answered, m.took, m.under, m.logDropped, m.refused, m.hooks.calls, info,
		&queueCollector{collected: collected[seenTasks]{"queues", seen.tasks.Value}},
		&groupCollector{collected[seenCluster]{"groups", seen.cluster.Value}},
		&forecastCollector{forecasts: conf.Forecasts},
		&scheduleCollector{collected[seenSchedules]{"schedules", seen.schedules.Value}},
	}, storeGauges(conf), loadGauges(a), conf.Collectors) {
		var there prometheus.AlreadyRegisteredError
		if err := conf.Metrics.Register(c); err != nil && !errors.As(err, &there) {
			wrong = append(wrong, err)
		}
	}
	process.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, errors.Join(wrong...)
}

// callCounters are what is counted call by call.
func callCounters() *metrics {
	return &metrics{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_http_requests_total", Help: "Answered calls by pattern and status.",
		}, []string{"call", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rota_http_request_seconds",
			Help: "How long calls took, the waiting of long polls included.",
			Buckets: []float64{
				.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 60,
			},
		}, []string{"call"}),
		under: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rota_http_under_way", Help: "Calls under way, waiting long polls included.",
		}, []string{"call"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_http_refused_total",
			Help: "Calls refused for who made them: unauthorized, forbidden or throttled.",
		}, []string{"reason"}),
		hooks: newHookCounter(),
	}
}

// storeGauges show how the store's clock goes, and how far its housekeeping is behind.
func storeGauges(conf Config) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_clock_offset_seconds",
			Help: "How far this node's clock is ahead of the store's.",
		}, func() float64 {
			offset, _ := conf.StoreClock()
			return offset.Seconds()
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "rota_clock_steps_total",
			Help: "How often the store's clock has stepped by two seconds or more since this node began.",
		}, func() float64 {
			_, steps := conf.StoreClock()
			return float64(steps)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_retention_lag_seconds",
			Help: "How long the tasks that this node deleted last were kept beyond their queue's retention; 0 when none were left to delete, or another node deletes.",
		}, func() float64 { return conf.Retention().Lag.Seconds() }),
	}
}

// loadGauges show what the calls under way take, and what is submitted and not yet stored.
func loadGauges(a *API) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_http_body_bytes", Help: "Memory that request bodies under way take.",
		}, func() float64 { return float64(a.bodies.taken.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_http_answer_bytes", Help: "Memory that large answers under way take.",
		}, func() float64 { return float64(a.large.taken.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_streams", Help: "Streams of frames that are open.",
		}, func() float64 { return float64(a.streams.open()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_submit_weight",
			Help: "Submitted and not yet stored: tasks, and one for each KiB of their contexts.",
		}, func() float64 { return float64(a.gate.look().under) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_submit_rate",
			Help: "How much of that is expected to be stored in a second; more than it is refused.",
		}, func() float64 { return a.gate.look().rate }),
	}
}

// callMetrics counts one call. There are no series of one that nobody made.
type callMetrics struct {
	metrics  *metrics
	pattern  string
	first    sync.Once
	answered *prometheus.CounterVec
	took     prometheus.Observer
	under    prometheus.Gauge
}

func (m *metrics) call(pattern string) *callMetrics {
	return &callMetrics{metrics: m, pattern: pattern}
}

func (c *callMetrics) begin() {
	c.first.Do(func() {
		m := c.metrics
		c.answered = m.answered.MustCurryWith(prometheus.Labels{"call": c.pattern})
		c.took, c.under = m.took.WithLabelValues(c.pattern), m.under.WithLabelValues(c.pattern)
	})
	c.under.Inc()
}

func (c *callMetrics) done(status int, took time.Duration) {
	c.under.Dec()
	c.answered.WithLabelValues(strconv.Itoa(status)).Inc()
	c.took.Observe(took.Seconds())
}

var (
	queuesDesc = prometheus.NewDesc("rota_queues", "How many queues there are.", nil, nil)
	tasksDesc  = prometheus.NewDesc("rota_queue_tasks",
		"Tasks by queue and state; final ones as long as they are kept.",
		[]string{"queue", "state"}, nil)
	oldestDesc = prometheus.NewDesc("rota_queue_oldest_ready_seconds",
		"How long the longest waiting ready task has been due.",
		[]string{"queue"}, nil)
)

// queueCollector shows the queues' counts.
type queueCollector struct {
	collected[seenTasks]
	shown queueSeries
}

// Describe is part of prometheus.Collector.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.age()
	ch <- queuesDesc
	ch <- tasksDesc
	ch <- oldestDesc
	ch <- eventsDesc
	ch <- waitDesc
	ch <- runDesc
	ch <- gateRunningDesc
	ch <- gateMostDesc
	ch <- gateHeldDesc
	ch <- gateKeysDesc
	ch <- gatePausedDesc
}

// Collect is part of prometheus.Collector.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	seen, ok := c.now(ch)
	if !ok {
		return
	}
	counts, all := c.shown.choose(seen.counts)
	ch <- prometheus.MustNewConstMetric(queuesDesc, prometheus.GaugeValue, float64(all))
	for _, q := range counts {
		for state, n := range map[task.State]int64{
			task.Blocked: q.Counts.Blocked, task.Waiting: q.Counts.Waiting,
			task.Ready: q.Counts.Ready, task.Running: q.Counts.Running,
			task.Done: q.Counts.Done, task.Dead: q.Counts.Dead,
			task.Cancelled: q.Counts.Cancelled, task.Expired: q.Counts.Expired,
		} {
			ch <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(n),
				q.Queue, string(state))
		}
		age := 0.0
		if q.OldestReady != 0 {
			age = max(time.Since(time.UnixMicro(q.OldestReady)).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age, q.Queue)
		if g := seen.gates[q.Queue]; g != nil {
			collectLimits(ch, g, seen.gated, &q.Counts)
		}
	}
	own, rest := c.shown.split(seen.sums)
	for queue, r := range own {
		collectHistory(ch, queue, r)
	}
	collectHistory(ch, others, rest)
}

// scrapePatience is how long a scrape waits for what the store must be asked for; then it shows
// what was known before.
const scrapePatience = 100 * time.Millisecond

// collected is what the store was asked for by a part of the page.
type collected[T any] struct {
	part  string
	value *observe.Value[T]
}

// age describes how old that is.
func (c collected[T]) age() *prometheus.Desc {
	return prometheus.NewDesc("rota_metrics_age_seconds",
		"How old what this page shows of a part is: more than a second when the store is slow or silent, +Inf before its first answer.",
		nil, prometheus.Labels{"part": c.part})
}

// now is what is known, and shows how old that is: infinitely, when nothing is known yet. Then that
// part is missing from the page, not the page, which may be a program's own with other metrics: so
// no metric here is ever invalid. It waits for a silent store for a moment only.
func (c collected[T]) now(ch chan<- prometheus.Metric) (value T, ok bool) {
	known, _ := c.value.Get(scrapePatience)
	age := math.Inf(1)
	if ok = !known.At.IsZero(); ok {
		age = time.Since(known.At).Seconds()
	}
	ch <- prometheus.MustNewConstMetric(c.age(), prometheus.GaugeValue, age)
	return known.Value, ok
}
