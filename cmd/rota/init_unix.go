//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/rotahq/rota/internal/cli"
)

// reaper is the first process of a container, or of another place with process ids of its own, when
// rota worker is: the kernel makes it the parent of every process there whose own parent has ended,
// and one that nobody waits for stays, as a zombie. The worker itself can't wait for any process,
// since it would take the exits of its own commands from those who wait for them. So the worker
// runs as a child of the reaper, which has no other: it waits for whatever ends, hands signals on,
// and ends as its child does.
func reaper(args []string) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return cli.ExitFailed, err
	}
	signals := make(chan os.Signal, 16)
	// all of them: the kernel gives the first process none that it does not ask for
	signal.Notify(signals)
	child := exec.Command(self, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return cli.ExitFailed, err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGCHLD && s != syscall.SIGURG { // Go's own
				child.Process.Signal(s)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return cli.ExitFailed, err
		case pid == child.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// needsReaper tells whether this process is to be one: the first, and a worker.
func needsReaper(args []string) bool {
	return os.Getpid() == 1 && len(args) > 0 && args[0] == "worker"
}
