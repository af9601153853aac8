package rota

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/store"
)

// timedStore is a dispatcher's store that measures the calls which tasks wait for. A call takes a
// whole gather of submissions or reports along, so there are a few hundred a second at most.
type timedStore struct {
	dispatch.Store
	took *prometheus.HistogramVec
}

func newStoreTimes() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rota_store_seconds",
		Help: "How long this node waited for the store: submit, take and settle, each a whole gather of tasks.",
		Buckets: []float64{
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
		},
	}, []string{"call"})
}

func (s timedStore) since(call string, began time.Time) {
	s.took.WithLabelValues(call).Observe(time.Since(began).Seconds())
}

func (s timedStore) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	defer s.since("submit", time.Now())
	return s.Store.Submit(ctx, sub)
}

func (s timedStore) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	defer s.since("take", time.Now())
	return s.Store.Take(ctx, r)
}

func (s timedStore) Settle(ctx context.Context, set store.Settlement) (store.Settled, error) {
	defer s.since("settle", time.Now())
	return s.Store.Settle(ctx, set)
}
