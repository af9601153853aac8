// Follow is a whole system in one command: it counts the lines of many log files while they grow,
// twice over and yet each line once, and goes on when a worker is killed.
//
//	go run ./examples/follow
//
// It starts a node in this process and three workers as processes of their own. Each file is a job
// of the group "files", which has two replicas: so at any time two workers follow each file, side
// by side. They agree in a ledger on what was counted (see ledger.go for the two rules that make it
// exact). After some seconds one worker is killed with -9. Its files are counted on without a gap,
// by their other replicas, and some 16 seconds later, when the worker is taken for dead, they have
// two again. In the end the ledger must say what wc -l says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = workerMain(ctx, os.Args[2:])
	} else {
		err = showMain(ctx, os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
}

func showMain(ctx context.Context, args []string) (err error) {
	s := show{out: os.Stdout}
	flags := flag.NewFlagSet("follow", flag.ContinueOnError)
	flags.IntVar(&s.files, "files", 6, "files that grow")
	flags.IntVar(&s.workers, "workers", 3, "worker processes; one of them is killed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.files < 1 || s.workers < 3 {
		return errors.New(
			"at least one file and three workers are needed: two replicas must have room without the killed one",
		)
	}
	if s.folder, err = os.MkdirTemp("", "rota-follow-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.folder)
	return s.run(ctx)
}
