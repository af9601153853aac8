package storetest

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
)

// Minutes implements [Views].
func (m *Model) Minutes(ctx context.Context, from int64) (list []store.MinuteCounts, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	type key struct {
		queue  string
		minute int64
	}
	by := map[key]*history.Record{}
	for _, h := range m.history {
		k := key{h.series.Queue, h.at / time.Minute.Microseconds()}
		if h.sample || k.minute < from {
			continue
		}
		if by[k] == nil {
			by[k] = new(history.Record)
		}
		h.count(by[k])
	}
	for k, r := range by {
		list = append(list, store.MinuteCounts{
			Queue: k.queue, Minute: k.minute, Submitted: r.Submitted, Done: r.Done, Dead: r.Dead,
			Cancelled: r.Cancelled, Retried: r.Retried, Lost: r.Lost,
			Runs: r.Run.Count() + r.Lost,
		})
	}
	return list, nil
}
