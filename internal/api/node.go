package api

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness is what a node says of itself.
type Readiness struct {
	Ready       bool          // it serves everything
	Store       string        // kind of store
	Durability  string        // local, sync or async: what an acknowledged write survives
	Joined      bool          // it is a member of the cluster
	ClockOffset time.Duration // of its clock to the store's
	Age         time.Duration // since the store answered: what is said of it is so old
	Detail      string        // why it isn't ready, or what is wrong with it all the same
}

// statusOut is what probes learn without an access token.
type statusOut struct {
	Status string `json:"status"`
}

// What a probe is answered.
const (
	statusOK          = "ok"
	statusUnavailable = "unavailable"
)

// readyOut is Readiness in JSON.
type readyOut struct {
	Status      string   `json:"status" enum:"ok,unavailable"`
	Ready       bool     `json:"ready" required:"false"`
	Store       string   `json:"store" required:"false"`
	Durability  string   `json:"durability" required:"false" doc:"local, sync or async: what an acknowledged write survives"`
	Joined      bool     `json:"joined" required:"false"`
	ClockOffset duration `json:"clock_offset" required:"false" doc:"of the node's clock to the store's"`
	Age         duration `json:"age" required:"false" doc:"how long ago the store answered: what is said of it is so old"`
	Detail      string   `json:"detail" required:"false" doc:"why it is not ready, or what is wrong with it all the same"`
}

// healthOut says that the process serves.
type healthOut struct {
	Status string `json:"status" enum:"ok"`
	Node   string `json:"node" required:"false" doc:"its name"`
	Store  string `json:"store" required:"false" doc:"the same for all nodes of a store, and another for any other store"`
}

// maxScrapes is how many answers of /metrics are made at a time. All are about the same numbers, of
// the last second.
const maxScrapes = 4

// scraped is an answer of /metrics in memory.
type scraped struct {
	bytes.Buffer
	header http.Header
	status int
}

func (s *scraped) Header() http.Header    { return s.header }
func (s *scraped) WriteHeader(status int) { s.status = status }

var (
	healthDoc = described{
		op: huma.Operation{
			OperationID: "health", Method: http.MethodGet, Path: "/healthz", Tags: []string{"Node"},
			Summary:     "Ask whether the process serves",
			Description: "Without an access token, or with one that is not known, the answer has the status only.",
		},
		status: http.StatusOK, answer: healthOut{},
	}
	readyDoc = described{
		op: huma.Operation{
			OperationID: "ready", Method: http.MethodGet, Path: "/readyz", Tags: []string{"Node"},
			Summary:     "Ask whether the node can do its work",
			Description: "200 or 503. Without an access token, or with one that is not known or may not read, the answer has the status only.",
		},
		status: http.StatusOK, answer: readyOut{},
		also: map[int]any{http.StatusServiceUnavailable: readyOut{}},
	}
)

// nodeCalls are what probes and scrapers ask of this node, and its document.
type nodeCalls struct{ door *API }

func (c *nodeCalls) register() {
	c.door.described(healthDoc, func(w *answer, _ *http.Request) error {
		if !w.who.Role.may(toPrepare) {
			c.door.writeValue(w, http.StatusOK, statusOut{statusOK})
			return nil
		}
		c.door.writeValue(w, http.StatusOK,
			healthOut{statusOK, c.door.conf.Node, c.door.conf.StoreMark})
		return nil
	})
	c.door.described(readyDoc, func(w *answer, r *http.Request) error {
		s := c.door.conf.Ready(r.Context())
		status, text := http.StatusOK, statusOK
		if !s.Ready {
			status, text = http.StatusServiceUnavailable, statusUnavailable
		}
		if !w.who.Role.may(toRead) {
			c.door.writeValue(w, status, statusOut{text})
			return nil
		}
		c.door.writeValue(w, status, readyOut{
			text, s.Ready, s.Store, s.Durability, s.Joined, duration{s.ClockOffset},
			duration{s.Age}, s.Detail,
		})
		return nil
	})
	c.registerMetrics()
	c.door.plain("GET /openapi.json", func(w *answer, r *http.Request) error {
		document, err := c.door.document()
		if err != nil {
			return fmt.Errorf("write OpenAPI document: %w", err)
		}
		c.door.write(w, http.StatusOK, func(b []byte) []byte { return append(b, document...) })
		return nil
	})
}

// registerMetrics registers the call of scrapers. Readers that are slow take of the memory for
// large answers; only when there is none they keep a place from others while they read.
func (c *nodeCalls) registerMetrics() {
	metrics := promhttp.HandlerFor(c.door.metrics.pages, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
	})
	places := &budget{limit: maxScrapes}
	c.door.plain("GET /metrics", func(w *answer, r *http.Request) error {
		if !places.take(1, 0) {
			return busy(fmt.Sprintf("%d pages of metrics are under way", maxScrapes))
		}
		leave := sync.OnceFunc(func() { places.give(1) })
		defer leave()
		page := &scraped{header: w.Header(), status: http.StatusOK}
		metrics.ServeHTTP(page, r)
		if c.door.room(r.Context(), &w.call, int64(page.Len())) == nil {
			leave()
		}
		w.WriteHeader(page.status)
		w.Write(page.Bytes()) // a caller that is gone needs no answer
		return nil
	})
}
