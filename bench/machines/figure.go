package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// figure is a table and a plot of the documentation: rows that have the same unit.
type figure struct {
	pkg   string // pool or tick; its page is docs/<pkg>.md
	name  string // of the plot's file and of the table's place in the page
	title string
	unit  string // of what counts
	how   string // the figures came about
	rows  []*row
}

// row is one thing that all contenders do.
type row struct {
	what       string
	contenders []*contender
	// perOperation when nil; no time by the wall when 0
	probe func(c config, start func() state) (value, wall float64)
}

// contender is one way to do it.
type contender struct {
	name  string
	start func() state

	values, walls []float64 // one a round; no walls where they mean nothing
}

// state is what a contender has made to be measured in.
type state struct {
	do   func(times int) // so many operations; nil where there is nothing to do but be
	stop func()          // frees everything
}

// measure runs all rounds of the figure's rows.
func (f *figure) measure(ctx context.Context, c config, progress io.Writer) error {
	for round := range c.rounds {
		for _, r := range f.rows {
			probe := r.probe
			if probe == nil {
				probe = perOperation
			}
			for i := range r.contenders {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				who := r.contenders[(i+round)%len(r.contenders)] // nobody is always the first
				value, wall := probe(c, who.start)
				fmt.Fprintf(progress, "%s, round %d, %s, %s: %.4g %s, %.4g by the wall\n", f.name,
					round+1, r.what, who.name, value, f.unit, wall)
				who.values = append(who.values, value)
				if wall > 0 {
					who.walls = append(who.walls, wall)
				}
			}
		}
	}
	return nil
}

// perOperation is the nanoseconds of CPU time, and by the wall, that one operation takes.
func perOperation(c config, start func() state) (value, wall float64) {
	s := start()
	defer s.stop()
	for n := 1000; ; n *= 2 {
		runtime.GC()
		cpu, begin := processorTime(), time.Now()
		s.do(n)
		took, used := time.Since(begin), processorTime()-cpu
		if used >= c.least {
			return float64(used) / float64(n), float64(took) / float64(n)
		}
	}
}

// processorTime is what this process has used so far, in user mode and in the system.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it has no way to fail with these arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// median is 0 of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// table is the figure as a table in Markdown. The first contender of a row is rota's: the others'
// figures are held against it.
func (f *figure) table() string {
	var b strings.Builder
	wall := len(f.rows[0].contenders[0].walls) > 0
	columns := []string{"", "", f.unit, "lowest – highest", "× rota's"}
	if wall {
		columns = append(columns, "by the wall")
	}
	line := func(cells ...string) { fmt.Fprintln(&b, "|", strings.Join(cells, " | "), "|") }
	line(columns...)
	line([]string{"---", "---", "--:", "--:", "--:", "--:"}[:len(columns)]...)
	for _, r := range f.rows {
		own := median(r.contenders[0].values)
		for i, c := range r.contenders {
			what, ratio := r.what, ""
			if i > 0 {
				what, ratio = "", number(median(c.values)/own)
			}
			cells := []string{
				what, c.name, number(median(c.values)),
				number(slices.Min(c.values)) + " – " + number(slices.Max(c.values)), ratio,
			}
			if wall {
				cells = append(cells, number(median(c.walls)))
			}
			line(cells...)
		}
	}
	return b.String()
}

// number writes the three digits that mean something.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// thousands writes a count as people do: 1,000,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
