package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/tick"
)

var show = config{
	devices: 100_000, silent: 1000, every: time.Second, limit: 3 * time.Second,
	last: 14500 * time.Millisecond,
}

func TestExactlyTheSilentDevicesAreLostAndEachIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), show, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if want := "1000 devices fell silent, 1000 were found lost, 1000 are back\n"; !strings.Contains(out.String(), want) {
			t.Errorf("it did not say %q:\n%s", want, &out)
		}
		if lines := strings.Count(out.String(), "heartbeats"); lines != 14 {
			t.Errorf("%d lines in 14.5 seconds:\n%s", lines, &out)
		}
	})
}

func TestALostDeviceIsSaidToBeWithinABeatOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := show
		c.devices = 10_000
		f := newFleet(c)
		ctx, stop := context.WithTimeout(t.Context(), show.last)
		defer stop()
		go f.clock.Run(ctx)
		f.monitor.clock.Run(ctx)
		if f.first < show.limit || f.last > show.limit+10*time.Millisecond {
			t.Errorf("it was said from %v to %v after the last heartbeat", f.first, f.last)
		}
	})
}

func TestAMonitorThatStoodStillAccusesNobody(t *testing.T) {
	var lost, back []int
	m := newMonitor(3, 3*time.Second, func(id int) {
		lost = append(lost, id)
	}, func(id int) { back = append(back, id) })
	now := time.Now()
	m.clock.Beat(now)
	m.clock.Beat(now.Add(time.Hour))
	if len(lost) != 0 {
		t.Fatalf("%v are lost after an hour of the monitor's own absence", lost)
	}
	m.heard(1)
	m.clock.Beat(now.Add(time.Hour + 2*time.Second))
	m.heard(1)
	m.clock.Beat(now.Add(time.Hour + 3*time.Second))
	if len(lost) != 2 || m.missing.Load() != 2 {
		t.Fatalf("%v are lost, %d missing; want 0 and 2", lost, m.missing.Load())
	}
	m.heard(2)
	if len(back) != 1 || back[0] != 2 || m.missing.Load() != 1 {
		t.Errorf("%v are back, %d missing", back, m.missing.Load())
	}
}

func TestAWrongMonitorIsFoundOut(t *testing.T) {
	c := show
	c.devices, c.silent = 10, 2
	f := newFleet(c)
	f.wasLost(4) // one that falls silent; the other does not get lost, and 5 lives
	f.wasLost(5)
	err := f.verdict(&bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "device 5 was lost 1 times") ||
		!strings.Contains(err.Error(), "device 9 was lost 0 times") ||
		strings.Contains(err.Error(), "device 4") {
		t.Errorf("verdict() = %v", err)
	}
}

func TestAnInterruptedShowHasNoVerdict(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, show, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("run() = %v", err)
	}
}

func TestAllThatIsWrongIsNamedAtOnce(t *testing.T) {
	err := (&config{silent: 1}).validate()
	for _, flag := range []string{"-devices", "-silent", "-every"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("validate() = %v, which does not name %s", err, flag)
		}
	}
	if err := show.validate(); err != nil {
		t.Error(err)
	}
}

// BenchmarkHeard is what a heartbeat costs the monitor of 100,000 devices.
func BenchmarkHeard(b *testing.B) {
	m := newMonitor(show.devices, show.limit, func(int) {}, func(int) {})
	m.clock = tick.New(tick.Config{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.heard(i % show.devices)
	}
}
