// Machines compares rota's packages pool and tick with what else a Go program would use: the
// runtime's own timers and a published timing wheel; ants, pond, conc, errgroup and a bare channel.
//
//	go run ./machines                               # all rows, 5 rounds: some ten minutes
//	go run ./machines -only tick -rounds 3
//	go run ./machines -docs ../docs                 # writes the tables and plots of the documentation, too
//	go test ./machines -run '^$' -bench .           # the same contenders under Go's own benchmark
//
// In each round of a row its contenders run one after the other, each in a state that was made for
// it, and so in the same minute of the same machine. What counts is the CPU time of the whole
// process per operation, garbage collection, clock goroutines and all, since on a shared machine
// time by the wall says more about the neighbours; that stands beside it. Figures are medians over
// the rounds. Made for Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// config is what the flags say.
type config struct {
	only   []string      // packages; all when empty
	rounds int           // of each row
	least  time.Duration // CPU time that one measurement takes at least
	idle   time.Duration // how long an idle process is watched
	timers int           // that stand around in the rows of tick
	docs   string        // folder of the documentation to bring up to date; none when empty
}

func (c *config) validate() error {
	var wrong []error
	for _, name := range c.only {
		if name != "pool" && name != "tick" {
			wrong = append(wrong, fmt.Errorf("-only %q: there is pool and tick", name))
		}
	}
	if c.rounds < 1 {
		wrong = append(wrong, fmt.Errorf("-rounds %d: at least 1", c.rounds))
	}
	if c.least < time.Millisecond {
		wrong = append(wrong, fmt.Errorf("-least %v: at least 1ms", c.least))
	}
	if c.timers < 1 {
		wrong = append(wrong, fmt.Errorf("-timers %d: at least 1", c.timers))
	}
	if c.idle < time.Millisecond {
		wrong = append(wrong, fmt.Errorf("-idle %v: at least 1ms", c.idle))
	}
	return errors.Join(wrong...)
}

// run is the program; it answers the exit code: 0 done, 1 failed, 2 wrong usage.
func run(args []string, out, progress io.Writer) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(progress, "machines:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, c, out, progress); err != nil {
		fmt.Fprintln(progress, "machines:", err)
		return 1
	}
	return 0
}

func parse(args []string) (c config, err error) {
	var only string
	flags := flag.NewFlagSet("machines", flag.ContinueOnError)
	flags.StringVar(&only, "only", "", "`packages` to compare, such as pool,tick (default all)")
	flags.IntVar(&c.rounds, "rounds", 5, "how often each row is measured; the median counts")
	flags.DurationVar(&c.least, "least", 200*time.Millisecond,
		"CPU time that one measurement takes at least")
	flags.DurationVar(&c.idle, "idle", 12*time.Second,
		"how long an idle process is watched in each round")
	flags.IntVar(&c.timers, "timers", 1_000_000, "how many stand around while one is moved")
	flags.StringVar(&c.docs, "docs", "",
		"`folder` of the documentation whose tables and plots to write")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if only != "" {
		c.only = strings.Split(only, ",")
	}
	return c, c.validate()
}

// compare measures all rows, prints them as tables, and brings the documentation up to date.
func compare(ctx context.Context, c config, out, progress io.Writer) error {
	for _, f := range figures(c) {
		if err := f.measure(ctx, c, progress); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n\n%s\n", f.title, f.table())
		if c.docs != "" {
			f.how = c.conditions(f.pkg)
			if err := f.publish(c.docs); err != nil {
				return err
			}
		}
	}
	return nil
}

// figures are those of the packages asked for.
func figures(c config) (asked []*figure) {
	for _, f := range append(poolFigures(), tickFigures(c.timers)...) {
		if len(c.only) == 0 || slices.Contains(c.only, f.pkg) {
			asked = append(asked, f)
		}
	}
	return asked
}
