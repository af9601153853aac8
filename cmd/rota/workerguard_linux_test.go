package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/task"
)

// The guard is in nobody's way: it goes with its worker.
func TestGuardEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	s.serving()
	worker := s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--",
		"true")
	guard := guardOf(t, worker)
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exitsWith(t, worker, cli.ExitDone)
	eventuallyTrue(t, "the guard is gone", func() bool { return !lives(guard) })
}

// Should the guard die first, the kernel still kills the commands themselves.
func TestCommandDiesWithItsWorkerThoughTheGuardIsDead(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	pid := filepath.Join(s.folder, "pid")
	worker := s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--", "sh",
		"-c", `echo $$ >`+pid+`; exec sleep 1000`)
	if err := syscall.Kill(guardOf(t, worker), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "the command runs, guard or not", func() bool {
		return strings.HasSuffix(textOf(pid), "\n")
	})
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // it says that it was killed
	command, err := strconv.Atoi(strings.TrimSpace(textOf(pid)))
	if err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "the command is gone", func() bool { return !lives(command) })
}

// guardOf waits for a worker's guard.
func guardOf(t *testing.T, worker *exec.Cmd) (guard int) {
	t.Helper()
	eventuallyTrue(t, "the guard runs", func() bool {
		for _, pid := range childrenOf(worker.Process.Pid) {
			guard = pid
		}
		return guard != 0
	})
	return guard
}

// childrenOf are a process' children.
func childrenOf(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text := textOf(name)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
