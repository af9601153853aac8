// Heartbeats watches over 100,000 devices, each of which says once a second that it lives, with one
// goroutine: a device that is silent for three seconds is lost, and back when it is heard again.
//
//	go run ./examples/heartbeats
//	go run ./examples/heartbeats -devices 1000000 -every 10s -limit 30s -for 2m
//
// The monitor (monitor.go) is what one would take into a program of one's own. The fleet of devices
// (fleet.go) runs on a clock, too: a thousand of them fall silent for a while, at different
// moments, and the program counts whether exactly those were lost, and how long after the last sign
// of life that was said.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"
)

// config is what the flags say.
type config struct {
	devices int
	silent  int           // devices that fall silent
	every   time.Duration // between two heartbeats of a device
	limit   time.Duration // of silence
	last    time.Duration // of the whole show
}

func (c *config) validate() error {
	var wrong []error
	if c.devices < 1 {
		wrong = append(wrong, fmt.Errorf("-devices %d: at least 1", c.devices))
	}
	if c.silent < 0 || c.silent > c.devices {
		wrong = append(wrong, fmt.Errorf("-silent %d: from 0 to the number of devices", c.silent))
	}
	if c.every <= 0 {
		wrong = append(wrong, fmt.Errorf("-every %v: more than nothing", c.every))
	}
	if c.limit/2 < c.every {
		wrong = append(wrong,
			fmt.Errorf("-limit %v: at least twice the %v between heartbeats", c.limit, c.every))
	}
	if c.last/4 < c.limit {
		wrong = append(wrong,
			fmt.Errorf("-for %v: at least four times the limit of %v", c.last, c.limit))
	}
	return errors.Join(wrong...)
}

func main() {
	var c config
	flag.IntVar(&c.devices, "devices", 100_000, "how many there are")
	flag.IntVar(&c.silent, "silent", 1000, "how many of them fall silent for a while")
	flag.DurationVar(&c.every, "every", time.Second, "from one heartbeat of a device to the next")
	flag.DurationVar(&c.limit, "limit", 3*time.Second, "silence after which a device is lost")
	flag.DurationVar(&c.last, "for", 15*time.Second, "how long it all lasts")
	flag.Parse()
	if err := c.validate(); err != nil {
		fmt.Fprintln(os.Stderr, "heartbeats:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "heartbeats:", err)
		os.Exit(1)
	}
}

// run lets the fleet live under the eyes of the monitor, says every second how it is, and in the
// end whether the monitor was right.
func run(ctx context.Context, c config, out io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, c.last)
	defer stop()
	f := newFleet(c)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.monitor.clock.Run(ctx) })
	running.Go(func() { f.clock.Run(ctx) })

	second := time.NewTicker(time.Second)
	defer second.Stop()
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			return f.verdict(out)
		case now := <-second.C:
			fmt.Fprintf(out, "%3.0f s: %d heartbeats, %d devices of %d are lost\n",
				now.Sub(begin).Seconds(), f.heartbeats.Load(), f.monitor.missing.Load(), c.devices)
		}
	}
}
