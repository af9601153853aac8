// Command rota is the door to rota: it starts nodes and workers, submits tasks, and shows and
// steers what runs.
//
// Here stands what concerns the process alone: its memory, its signals, its children when it is the
// first of a container, and its end. All commands are below internal/cli. The stories in testdata
// and the tests here run the program as a user does, each command as a process of its own.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/guard"
)

// heapGrowth is by how many percent the heap may grow before the next collection. Live heaps here
// are small (megabytes) and rubbish is plenty (some kilobytes a task), so Go's default of
// 100 collects a hundred times a second under load. See ADR 6.
const heapGrowth = 400

// heapLimit is where that freedom ends: beyond it rubbish is collected as it comes, so that a node
// under a crowd of large values stays below 512 MiB. It limits no live data.
const heapLimit = 448 << 20

func main() {
	if command, it := guard.Starts(os.Args[1:]); it {
		err := guard.Become(command) // does not return else
		fmt.Fprintln(os.Stderr, "rota:", err)
		os.Exit(cli.ExitFailed)
	}
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(heapLimit)
	}
	if needsReaper(os.Args[1:]) {
		code, err := reaper(os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "rota: run worker as a child:", err)
		}
		os.Exit(code)
	}
	a := app.New(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go obey(signals, stop, a) // until the process ends
	os.Exit(cli.Run(ctx, a, os.Args[1:]))
}

// signalGap is how close together two signals are one: a terminal, and programs like timeout,
// signal a process and its whole group.
const signalGap = 300 * time.Millisecond

// obey lets the first signal ask the command to end cleanly. The second ends the process at once,
// and before it what the process runs: nobody would look after that.
func obey(signals <-chan os.Signal, stop func(), a *app.App) {
	for s := range signals {
		if s != syscall.SIGHUP || !a.HeedsHangups() {
			break
		}
	}
	first := time.Now()
	stop()
	for s := range signals {
		if s == syscall.SIGHUP && a.HeedsHangups() {
			continue
		}
		if time.Since(first) > signalGap {
			break
		}
	}
	a.KillCommands()
	fmt.Fprintln(os.Stderr, "rota: ended at once, by a second signal")
	os.Exit(cli.ExitFailed)
}
