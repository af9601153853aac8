package api

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// hookCounter counts what becomes of calls of hooks. There are no series of a hook that nobody
// called, and so many hooks at most have series of their own.
type hookCounter struct {
	calls *prometheus.CounterVec

	mu  sync.Mutex
	own map[string]bool
}

func newHookCounter() *hookCounter {
	return &hookCounter{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rota_hooks_total",
			Help: "Calls of hooks by hook and outcome: created, existing, signal, repeated, answered, invalid or failed; refused, without a hook, when they were not signed.",
		}, []string{"hook", "outcome"}), own: map[string]bool{},
	}
}

func (c *hookCounter) count(hook, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case hook == "" || c.own[hook]:
	case len(c.own) < maxSeries:
		c.own[hook] = true
	default:
		hook = others
	}
	c.calls.WithLabelValues(hook, outcome).Inc()
}

// forget drops the series of a hook that is no more.
func (c *hookCounter) forget(hook string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, hook)
	c.calls.DeletePartialMatch(prometheus.Labels{"hook": hook})
}
