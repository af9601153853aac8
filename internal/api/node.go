package api

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness is what a node says of itself.
type Readiness struct {
	Ready       bool          // it serves everything
	Store       string        // kind of store
	Durability  string        // local, sync or async: what an acknowledged write survives
	Joined      bool          // it is a member of the cluster
	ClockOffset time.Duration // of its clock to the store's
	Detail      string        // why it isn't ready, or what is wrong with it all the same
}

// readyOut is Readiness in JSON.
type readyOut struct {
	Ready       bool     `json:"ready"`
	Store       string   `json:"store"`
	Durability  string   `json:"durability" doc:"local, sync or async: what an acknowledged write survives"`
	Joined      bool     `json:"joined"`
	ClockOffset duration `json:"clock_offset" doc:"of the node's clock to the store's"`
	Detail      string   `json:"detail" doc:"why it is not ready, or what is wrong with it all the same"`
}

// healthOut says that the process serves.
type healthOut struct {
	Status string `json:"status"`
	Node   string `json:"node" doc:"its name"`
	Store  string `json:"store" doc:"the same for all nodes of a store, and another for any other store"`
}

func (a *API) registerNode() {
	a.described(healthDoc, func(w *answer, r *http.Request) error {
		a.writeValue(w, http.StatusOK, healthOut{"ok", a.conf.Node, a.conf.StoreMark})
		return nil
	})
	a.described(readyDoc, func(w *answer, r *http.Request) error {
		s := a.conf.Ready(r.Context())
		status := http.StatusOK
		if !s.Ready {
			status = http.StatusServiceUnavailable
		}
		a.writeValue(w, status, readyOut{s.Ready, s.Store, s.Durability, s.Joined, duration{s.ClockOffset}, s.Detail})
		return nil
	})
	metrics := promhttp.HandlerFor(a.conf.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	a.plain("GET /metrics", func(w *answer, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	})
	a.plain("GET /openapi.json", func(w *answer, r *http.Request) error {
		a.write(w, http.StatusOK, func(b []byte) []byte { return append(b, a.document...) })
		return nil
	})
}
