package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/worker"
)

// group is the group of jobs, one for each file.
const group = "files"

// workerMain is a worker process. It ends when its parent does, which holds the other end of its
// standard input.
func workerMain(ctx context.Context, args []string) error {
	var f follower
	var server string
	var capacity int
	flags := flag.NewFlagSet("follow worker", flag.ContinueOnError)
	flags.StringVar(&f.name, "name", "", "of the worker")
	flags.StringVar(&f.folder, "folder", "", "of the files")
	flags.StringVar(&f.ledger, "ledger", "", "file of the ledger")
	flags.StringVar(&server, "server", "", "URL of a node")
	flags.IntVar(&capacity, "capacity", 8, "files that it follows at most")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := client.New(client.Config{Servers: []string{server}})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := worker.New(worker.Config{
		Queue: c, Name: f.name, Capacity: capacity,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	w.HandleJob(group, f.follow)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // for as long as the process lasts
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return w.Run(ctx)
}

// process is a worker as its parent sees it.
type process struct {
	*exec.Cmd
	in io.Closer
}

// startWorker starts this program as a worker.
func (s *show) startWorker(name, server string, capacity int) (process, error) {
	self, err := os.Executable()
	if err != nil {
		return process{}, err
	}
	cmd := exec.Command(self, "worker", "-name", name, "-server", server, "-folder", s.folder,
		"-ledger", s.ledgerPath(),
		"-capacity", fmt.Sprint(capacity))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return process{}, err
	}
	return process{cmd, in}, cmd.Start()
}

// end lets a worker stop, and waits for it.
func (p process) end() error {
	p.in.Close()
	return p.Wait()
}
