package main

import (
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/tick"
)

// monitor says which devices are lost and which are back. A device costs it a timer, and a
// heartbeat an atomic swap.
type monitor struct {
	clock   *tick.Clock
	limit   time.Duration // of silence
	devices []device
	missing atomic.Int64 // devices that are lost

	// is told, on the clock's goroutine, when a device has been silent for the limit
	lost func(id int)
	back func(id int) // is told, on the goroutine of heard, when a lost device was heard again
}

type device struct {
	silence *tick.Timer
	lost    atomic.Bool
}

func newMonitor(devices int, limit time.Duration, lost, back func(id int)) *monitor {
	m := &monitor{
		clock: tick.New(tick.Config{}), limit: limit, devices: make([]device, devices), lost: lost,
		back: back,
	}
	for id := range m.devices {
		m.devices[id].silence = m.clock.After(limit, func() { m.silent(id) })
	}
	return m
}

// heard is called for every heartbeat, by any goroutine.
func (m *monitor) heard(id int) {
	d := &m.devices[id]
	d.silence.Reset(m.limit)
	if d.lost.Load() && d.lost.Swap(false) {
		m.missing.Add(-1)
		m.back(id)
	}
}

// silent is what the clock calls. When this very process stood still, everybody seems to have been
// silent: then all get another chance.
func (m *monitor) silent(id int) {
	d := &m.devices[id]
	if m.clock.Late() > m.limit/3 {
		d.silence.Reset(m.limit)
		return
	}
	d.lost.Store(true)
	m.missing.Add(1)
	m.lost(id)
}
