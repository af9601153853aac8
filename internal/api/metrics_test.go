package api

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
)

func TestMetricsShowCallsQueuesAndGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a scrape takes no time
		a := newAPI(t, newFake(), func(c *Config) {
			c.Retention = func() store.Retention { return store.Retention{Lag: 90 * time.Second} }
		})
		ask(t, a, "POST /v1/tasks", `{"tasks":[]}`)
		ask(t, a, "POST /v1/tasks", `{`)
		ask(t, a, "GET /v1/tasks/"+idOf(0).String(), "")
		ask(t, a, "GET /nowhere", "")
		_, text := ask(t, a, "GET /metrics", "")
		for _, want := range []string{
			`rota_http_requests_total{call="POST /v1/tasks",status="201"} 1`,
			`rota_http_requests_total{call="POST /v1/tasks",status="400"} 1`,
			`rota_http_requests_total{call="GET /v1/tasks/{id}",status="200"} 1`,
			`rota_http_requests_total{call="/",status="404"} 1`,
			`rota_http_request_seconds_count{call="POST /v1/tasks"} 2`,
			`rota_queue_tasks{queue="mail",state="waiting"} 10`,
			`rota_queue_tasks{queue="scan",state="cancelled"} 25`,
			`rota_queue_oldest_ready_seconds{queue="scan"} 0`,
			`rota_tasks_total{event="submitted",queue="mail"} 70`,
			`rota_tasks_total{event="started",queue="scan"} 120`,
			`rota_tasks_total{event="lost",queue="mail"} 3`,
			`rota_tasks_total{event="passed",queue="mail"} 11`,
			`rota_tasks_total{event="snoozed",queue="mail"} 4`,
			`rota_tasks_total{event="released",queue="mail"} 6`,
			`rota_tasks_total{event="timed_out",queue="mail"} 7`,
			`rota_tasks_total{event="woken",queue="mail"} 8`,
			`rota_task_wait_seconds_bucket{queue="mail",le="0.0025"} 0`,
			`rota_task_wait_seconds_bucket{queue="mail",le="0.005"} 57`,
			`rota_task_wait_seconds_bucket{queue="mail",le="+Inf"} 57`,
			`rota_task_run_seconds_count{queue="scan"} 114`,
			`rota_cluster_nodes{state="working"} `,
			`rota_cluster_claims{state="unowned"} `,
			"rota_cluster_budget_nodes ",
			`rota_schedules{state="late"} 2`,
			`rota_schedules{state="active"} 6`,
			"rota_schedule_overdue_seconds 12",
			`rota_group_replicas{group="tails",state="pending"} 1`,
			`rota_group_replicas{group="tails",state="ending"} 0`,
			`rota_group_spare_workers{group="crawl"} 0`,
			`rota_group_source_broken{group="crawl"} 1`,
			`rota_group_source_broken{group="tails"} 0`,
			`rota_build_info{version="1.2.3"} 1`,
			"rota_clock_offset_seconds 0",
			"rota_clock_steps_total 0",
			"rota_http_body_bytes 0",
			"rota_http_answer_bytes 0",
			"rota_submit_weight 0",
			"rota_submit_rate 20000",
			"rota_retention_lag_seconds 90",
			"go_goroutines ",
			"process_start_time_seconds ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
		for _, none := range []string{
			`call="GET /v1/nodes"`, // nobody made it
			`queue="(others)"`, `queue=""`,
		} {
			if strings.Contains(text, none) {
				t.Errorf("/metrics has %s", none)
			}
		}
	})
}

// What happened in queues beyond the bound, and in those that are no more, is in the sum of all.
func TestMetricsOfManyQueuesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a scrape takes no time
		f := newFake()
		for i := range maxSeries + 50 {
			f.queues = append(f.queues, limits.DefaultQueue(fmt.Sprint("q", i)))
		}
		a := newAPI(t, f, nil)
		_, text := ask(t, a, "GET /metrics", "")
		total, others := 0.0, 0.0
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, "} ")
			if !strings.HasPrefix(name, `rota_tasks_total{event="submitted"`) {
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			if total += n; strings.Contains(name, "(others)") {
				others = n
			}
		}
		queues := len(f.queues)
		if want := 70 * float64(queues*(queues+1)/2); total != want || others == 0 {
			t.Errorf("all series together have %v, want %v; others %v", total, want, others)
		}
	})
}

func TestScrapesAskTheEngineOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := newAPI(t, f, nil)
		for range 30 {
			ask(t, a, "GET /metrics", "")
			time.Sleep(100 * time.Millisecond)
		}
		if f.asked != 3 {
			t.Errorf("asked %d times in three seconds", f.asked)
		}
	})
}

// silentEngine is an engine whose store is silent, from a moment on.
type silentEngine struct {
	*fake
	silent bool
}

func (h *silentEngine) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	if h.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.fake.Counts(ctx, queues...)
}

func TestScrapesShowWhatIsKnownWhileTheStoreIsSilentAndSayHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &silentEngine{fake: newFake()}
		a := newAPI(t, h.fake, func(c *Config) { c.Engine = h })
		ask(t, a, "GET /metrics", "")
		h.silent = true
		time.Sleep(time.Minute)
		for range 20 {
			began := time.Now()
			_, text := ask(t, a, "GET /metrics", "")
			if took := time.Since(began); took > 200*time.Millisecond ||
				!strings.Contains(text, `rota_queue_tasks{queue="mail",state="waiting"} 10`) {
				t.Fatalf("after %v:\n%s", took, text)
			}
			if !strings.Contains(text, `rota_metrics_age_seconds{part="queues"} 6`) ||
				!strings.Contains(text, `rota_metrics_age_seconds{part="groups"} 0`) {
				t.Fatalf("it does not say how old that is:\n%s", text)
			}
			time.Sleep(300 * time.Millisecond)
		}
		a.close()
	})
}

func TestMetricsSurviveAnEngineThatCannotAnswer(t *testing.T) {
	f := newFake()
	f.err = errors.New("no store")
	response, text := ask(t, newAPI(t, f, nil), "GET /metrics", "")
	if response.StatusCode != 200 || !strings.Contains(text, "go_goroutines") ||
		!strings.Contains(text, `rota_metrics_age_seconds{part="queues"} +Inf`) ||
		strings.Contains(text, "rota_queue_tasks{") ||
		strings.Contains(text, "rota_group_replicas{") {
		t.Errorf("%d %.300s", response.StatusCode, text)
	}
}

// A program's own registry, which shows nothing when any of its metrics is wrong, shows the others
// of a node whose store has not answered yet.
func TestMetricsOfASilentStoreHarmNoOthers(t *testing.T) {
	f := newFake()
	f.err = errors.New("no store")
	own := prometheus.NewRegistry()
	own.MustRegister(newAPI(t, f, nil).Collector())
	list, err := own.Gather()
	if err != nil || len(list) == 0 {
		t.Errorf("%d metrics, %v", len(list), err)
	}
}

func TestRegistryOfTheCallerIsUsed(t *testing.T) {
	registry := prometheus.NewRegistry()
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "own_total"})
	registry.MustRegister(own)
	a := newAPI(t, newFake(), func(c *Config) { c.Metrics = registry })
	if _, text := ask(t, a, "GET /metrics", ""); !strings.Contains(text, "own_total 0") ||
		!strings.Contains(text, "rota_build_info") {
		t.Error("the caller's metrics, or ours, are missing")
	}
}

// A registry that checks whether collectors describe what they show takes ours, too.
func TestCollectorsDescribeAllThatTheyShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a scrape takes no time
		f := newFake()
		f.queues[0].KeyRules = true
		f.gates = append(f.gates, store.Gate{Queue: f.queues[0].Name, PausedKeys: 2})
		registry := prometheus.NewPedanticRegistry()
		a := newAPI(t, f, func(c *Config) { c.Metrics = registry })
		defer a.Close()
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	})
}

// slowReader does not read an answer before it is told to.
type slowReader struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (s slowReader) Write(b []byte) (int, error) {
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

// Readers that do not read on keep nobody from the metrics as long as there is memory for what they
// are to read; then no more than so many pages are made.
func TestSlowScrapersKeepNobodyFromTheMetrics(t *testing.T) {
	for _, c := range []struct {
		taken int64 // of the memory for large answers
		want  int
	}{{0, 200}, {1 << 30, 503}} {
		synctest.Test(t, func(t *testing.T) {
			long := prometheus.NewGauge(prometheus.GaugeOpts{
				Name: "long", Help: strings.Repeat("x", 2*smallAnswer),
			})
			a := newAPI(t, newFake(), func(c *Config) {
				c.Collectors = []prometheus.Collector{long}
			})
			defer a.metrics.close()
			a.large.taken.Store(c.taken)
			reads := make(chan struct{})
			var group sync.WaitGroup
			for range maxScrapes {
				w := slowReader{httptest.NewRecorder(), reads}
				r := httptest.NewRequest("GET", "http://localhost/metrics", nil)
				group.Go(func() {
					a.Handler().ServeHTTP(w, r)
					if w.Code != 200 || w.Body.Len() < 2*smallAnswer {
						t.Errorf("a slow reader got %d, %d bytes", w.Code, w.Body.Len())
					}
				})
			}
			time.Sleep(2 * patience)
			if response, text := ask(
				t, a, "GET /metrics", "",
			); response.StatusCode != c.want || c.want == 200 && len(text) < 2*smallAnswer {
				t.Errorf("with %d bytes taken: %d %.200s", c.taken, response.StatusCode, text)
			}
			close(reads)
			group.Wait()
			if n := a.large.taken.Load(); n != c.taken {
				t.Errorf("%d bytes are taken afterwards, %d before", n, c.taken)
			}
		})
	}
}
