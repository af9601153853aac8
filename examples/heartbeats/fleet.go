package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/tick"
)

// fleet is the devices, all of them on one clock, and what is known of the monitor's judgement.
type fleet struct {
	conf       config
	clock      *tick.Clock
	monitor    *monitor
	heartbeats atomic.Int64

	mu         sync.Mutex
	since      map[int]time.Time // the last heartbeat of those that are silent
	lost, back map[int]int       // how often, by device
	// the shortest and the longest silence after which a device was lost
	first, last time.Duration
}

// newFleet starts the heartbeats, evenly spread. Those devices that fall silent do so in the second
// sixth of the show, for twice the limit.
func newFleet(c config) *fleet {
	f := &fleet{
		conf: c, clock: tick.New(tick.Config{}),
		since: make(map[int]time.Time), lost: make(map[int]int), back: make(map[int]int),
	}
	f.monitor = newMonitor(c.devices, c.limit, f.wasLost, f.isBack)
	for id := range c.devices {
		f.clock.After(share(c.every, id, c.devices), func() { f.live(id) })
	}
	return f
}

// share is the i-th of n equal parts of a time.
func share(d time.Duration, i, n int) time.Duration {
	return time.Duration(float64(d) * float64(i) / float64(n))
}

// live is a device's life from its first heartbeat on.
func (f *fleet) live(id int) {
	heartbeat := func() {
		f.heartbeats.Add(1)
		f.monitor.heard(id)
	}
	heartbeat()
	pulse := f.clock.Every(f.conf.every, heartbeat)
	if !f.fallsSilent(id) {
		return
	}
	n := id * f.conf.silent / f.conf.devices // it is the n-th of those that do
	f.clock.After(f.conf.last/6+share(f.conf.last/6, n, f.conf.silent), func() {
		f.mu.Lock()
		f.since[id] = time.Now()
		f.mu.Unlock()
		heartbeat() // the last one, so that the silence begins at a known moment
		pulse.Reset(2 * f.conf.limit)
	})
}

// fallsSilent says of which devices the monitor should say so: conf.silent of them, evenly spread.
func (f *fleet) fallsSilent(id int) bool {
	return (id+1)*f.conf.silent/f.conf.devices > id*f.conf.silent/f.conf.devices
}

func (f *fleet) wasLost(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[id]++
	if begin, silent := f.since[id]; silent {
		d := time.Since(begin)
		if len(f.lost) == 1 {
			f.first = d
		}
		f.first, f.last = min(f.first, d), max(f.last, d)
	}
}

func (f *fleet) isBack(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back[id]++
}

// verdict says whether the monitor was right.
func (f *fleet) verdict(out io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wrong []error
	for id := range f.conf.devices {
		want := 0
		if f.fallsSilent(id) {
			want = 1
		}
		if f.lost[id] != want {
			wrong = append(wrong,
				fmt.Errorf("device %d was lost %d times, and silent %d times", id, f.lost[id],
					want))
		}
	}
	fmt.Fprintf(out, "%d devices fell silent, %d were found lost, %d are back\n", len(f.since),
		len(f.lost), len(f.back))
	if len(f.lost) > 0 {
		fmt.Fprintf(out, "that was said from %v to %v after the last heartbeat, at a limit of %v\n",
			f.first.Round(100*time.Microsecond), f.last.Round(100*time.Microsecond), f.conf.limit)
	}
	return errors.Join(wrong...)
}
