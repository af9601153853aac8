package api

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// metrics is what the API measures of itself.
type metrics struct {
	answered *prometheus.CounterVec
	took     *prometheus.HistogramVec
	under    *prometheus.GaugeVec
}

// newMetrics registers everything that /metrics shows. What a registry of the caller's has already stays as it is.
func newMetrics(conf Config, a *API) (*metrics, error) {
	m := &metrics{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_http_requests_total", Help: "Answered calls by pattern and status.",
		}, []string{"call", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rota_http_request_seconds", Help: "How long calls took, the waiting of long polls included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 60},
		}, []string{"call"}),
		under: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rota_http_under_way", Help: "Calls under way, waiting long polls included.",
		}, []string{"call"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rota_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": conf.Version},
	})
	info.Set(1)
	var wrong []error
	for _, c := range []prometheus.Collector{
		m.answered, m.took, m.under, info,
		&queueCollector{lately[[]rows.QueueCounts]{ask: func(ctx context.Context) ([]rows.QueueCounts, error) { return conf.Engine.Counts(ctx) }}},
		&groupCollector{lately[[]rows.GroupView]{ask: conf.Groups.Groups}},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_http_body_bytes", Help: "Memory that request bodies under way take.",
		}, func() float64 { return float64(a.bodies.taken.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_http_answer_bytes", Help: "Memory that large answers under way take.",
		}, func() float64 { return float64(a.large.taken.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_submit_weight", Help: "Submitted and not yet stored: tasks, and one for each KiB of their contexts.",
		}, func() float64 { return float64(a.gate.look().under) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rota_submit_rate", Help: "How much of that is expected to be stored in a second; more than it is refused.",
		}, func() float64 { return a.gate.look().rate }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var there prometheus.AlreadyRegisteredError
		if err := conf.Metrics.Register(c); err != nil && !errors.As(err, &there) {
			wrong = append(wrong, err)
		}
	}
	return m, errors.Join(wrong...)
}

// callMetrics counts one call.
type callMetrics struct {
	answered *prometheus.CounterVec
	took     prometheus.Observer
	under    prometheus.Gauge
}

func (m *metrics) call(pattern string) *callMetrics {
	return &callMetrics{
		m.answered.MustCurryWith(prometheus.Labels{"call": pattern}), m.took.WithLabelValues(pattern), m.under.WithLabelValues(pattern),
	}
}

func (c *callMetrics) begin() { c.under.Inc() }

func (c *callMetrics) done(status int, took time.Duration) {
	c.under.Dec()
	c.answered.WithLabelValues(strconv.Itoa(status)).Inc()
	c.took.Observe(took.Seconds())
}

var (
	tasksDesc = prometheus.NewDesc("rota_queue_tasks", "Tasks by queue and state; final ones as long as they are kept.",
		[]string{"queue", "state"}, nil)
	oldestDesc = prometheus.NewDesc("rota_queue_oldest_ready_seconds", "How long the longest waiting ready task has been due.",
		[]string{"queue"}, nil)
)

// queueCollector shows the queues' counts.
type queueCollector struct{ lately[[]rows.QueueCounts] }

// Describe is part of prometheus.Collector.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) { ch <- tasksDesc; ch <- oldestDesc }

// Collect is part of prometheus.Collector. When the engine can't answer the queues are missing from the page, not the page.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	counts, err := c.now()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(tasksDesc, err)
		return
	}
	for _, q := range counts {
		for state, n := range map[task.State]int64{
			task.Waiting: q.Counts.Waiting, task.Ready: q.Counts.Ready, task.Running: q.Counts.Running,
			task.Done: q.Counts.Done, task.Dead: q.Counts.Dead, task.Cancelled: q.Counts.Cancelled,
		} {
			ch <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(n), q.Queue, string(state))
		}
		age := 0.0
		if q.OldestReady != 0 {
			age = max(time.Since(time.UnixMicro(q.OldestReady)).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age, q.Queue)
	}
}

// lately is what the engine was asked for: at most once a second, however many scrape.
type lately[T any] struct {
	ask func(context.Context) (T, error)

	mu    sync.Mutex
	asked time.Time
	value T
	err   error
}

func (l *lately[T]) now() (T, error) {
	const patience = 5 * time.Second
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.asked) >= time.Second {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l.value, l.err = l.ask(ctx)
		l.asked = time.Now()
	}
	return l.value, l.err
}
