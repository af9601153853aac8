package api

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/store"
)

// hookCounter counts what becomes of calls of hooks. There are no series of a hook that nobody
// called, and so many hooks at most have series of their own.
type hookCounter struct {
	calls *prometheus.CounterVec

	mu     sync.Mutex
	own    map[string]bool
	pruned time.Time // when those that are no more were last looked for
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

// prune drops, once a minute at most, the series of hooks that are no more: other nodes delete
// some. find looks a hook up; what it can't say now is left to the next time.
func (c *hookCounter) prune(now time.Time, find func(string) (*store.Hook, error)) {
	c.mu.Lock()
	if now.Sub(c.pruned) < time.Minute {
		c.mu.Unlock()
		return
	}
	c.pruned = now
	own := slices.Collect(maps.Keys(c.own))
	c.mu.Unlock()
	for _, hook := range own {
		if _, err := find(hook); errors.Is(err, store.ErrNotFound) {
			c.forget(hook)
		} else if err != nil {
			return
		}
	}
}

// forget drops the series of a hook that is no more.
func (c *hookCounter) forget(hook string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, hook)
	c.calls.DeletePartialMatch(prometheus.Labels{"hook": hook})
}
