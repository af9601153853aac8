package model

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/history"
)

// Minutes implements [contract.Views].
func (m *Model) Minutes(
	ctx context.Context, from, whole int64,
) (list []history.QueueMinute, err error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	type key struct {
		queue  string
		minute int64
	}
	by := map[key]*history.QueueMinute{}
	for _, h := range m.history {
		k := key{h.series.Queue, h.at / time.Minute.Microseconds()}
		if h.sample || k.minute < from {
			continue
		}
		if by[k] == nil {
			by[k] = &history.QueueMinute{Queue: k.queue, Minute: k.minute}
		}
		h.count(&by[k].Record)
	}
	for k, q := range by {
		if k.minute < whole {
			q.Record = history.Record{Counts: q.Counts}
		}
		list = append(list, *q)
	}
	return list, nil
}
