package history

import (
	"github.com/rotahq/rota/internal/store"
)

// Minutes puts together what happened in each queue, minute by minute from one on.
type Minutes struct {
	from int64
	by   map[queueMinute]*store.MinuteCounts
}

type queueMinute struct {
	queue  string
	minute int64
}

// NewMinutes begins with nothing.
func NewMinutes(from int64) *Minutes {
	return &Minutes{from: from, by: map[queueMinute]*store.MinuteCounts{}}
}

// Row takes in the row of a queue's minute.
func (m *Minutes) Row(minute int64, queue string, body []byte) error {
	r, err := Decode(body)
	if err == nil {
		m.add(minute, queue, r)
	}
	return err
}

// Changes takes in what a transaction changed that is not in the rows yet.
func (m *Minutes) Changes(body []byte) error {
	return decodeChanges(body, func(k cell, r *Record) { m.add(k.minute, k.Queue, r) })
}

func (m *Minutes) add(minute int64, queue string, r *Record) {
	if minute < m.from {
		return
	}
	k := queueMinute{queue, minute}
	c := m.by[k]
	if c == nil {
		c = &store.MinuteCounts{Queue: queue, Minute: minute}
		m.by[k] = c
	}
	c.Submitted += r.Submitted
	c.Done += r.Done
	c.Dead += r.Dead
	c.Cancelled += r.Cancelled
	c.Retried += r.Retried
	c.Lost += r.Lost
	c.Runs += r.Run.Count() + r.Lost
}

// List is what was taken in, in no order.
func (m *Minutes) List() (list []store.MinuteCounts) {
	for _, c := range m.by {
		list = append(list, *c)
	}
	return list
}
