// Bench compares rota with Asynq on Redis, and with River on PostgreSQL: the whole life of tasks,
// on one machine, in the same minutes, in turns. README.md says how to run it, how all sides are
// configured, and what the figures can't tell.
//
// It starts everything it needs: rota's binary and redis-server on free loopback ports, a
// PostgreSQL cluster in a folder of its own, and itself once more as the worker process. Rota is
// driven through its public packages client and worker only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program; it answers the exit code: 0 done, 1 failed, 2 wrong usage.
func run(args []string, out, progress io.Writer) int {
	err := command(args, out, progress)
	var wrong *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(progress, "bench:", err)
		return 2
	}
	fmt.Fprintln(progress, "bench:", err)
	return 1
}

// usageError says what is wrong with the arguments.
type usageError struct{ error }

func command(args []string, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == workerVerb {
		return runWorker(args[1:], out)
	}
	if len(args) > 0 && args[0] == figuresVerb {
		return writeFigures(args[1:], progress)
	}
	var c config
	var format string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	flags.DurationVar(&c.seconds, "seconds", 10*time.Second, "how long each run submits, as `10s`")
	flags.IntVar(&c.pairs, "pairs", 5, "runs of each row on both sides; the median counts")
	flags.StringVar(&c.only, "only", "",
		"the `row` to run: "+rowNames()+" (default all)")
	flags.StringVar(&c.rota, "rota", "", "rota's `binary` (default: built from the folder above)")
	flags.StringVar(&c.dir, "dir", "",
		"`folder` on the disk to measure (default the system's for temporary files)")
	flags.StringVar(&format, "o", "table", "table or json")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprintln(out,
			"Compares rota with Asynq on Redis and River on PostgreSQL on this machine, in turns; see README.md.")
		flags.PrintDefaults()
		return err
	case err != nil:
		return &usageError{err}
	case flags.NArg() > 0:
		return &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	case format != "table" && format != "json":
		return &usageError{fmt.Errorf("-o %q is neither table nor json", format)}
	}
	if err := c.validate(); err != nil {
		return &usageError{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rep, err := compare(ctx, c, progress)
	if err != nil {
		return err
	}
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(rep)
	}
	_, err = io.WriteString(out, rep.table())
	return err
}
