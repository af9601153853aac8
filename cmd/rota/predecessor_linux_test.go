package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
)

// patient is a node on PostgreSQL whose lease lasts for an hour: whoever waits for it to end waits
// longer than any test.
func patient(t *testing.T, store string) *victim {
	t.Helper()
	s := newVictim(t)
	s.member = []string{"--store", store, "--name", "a", "--lease", "1h", "--log-level", "info"}
	return s
}

// isReady tells whether the node serves and can do its work.
func (s *victim) isReady() bool {
	ready, err := s.connect().Ready(s.t.Context())
	return err == nil && ready.Ready
}

// says tells whether the log of the node's processes contains a text.
func (s *victim) says(what string) bool {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Contains(string(text), what)
}

const waits = "waiting until the lease of the last node of this name has ended"

// The kernel took the dead process's lock back, so the next one need not wait for its lease, and
// what it held is free at once.
func TestNodeDoesNotWaitForTheLeaseOfAPredecessorThatWasKilled(t *testing.T) {
	t.Parallel()
	s := patient(t, pgtest.Shared(t).Database(t))
	s.start()
	eventuallyTrue(t, "it is ready", s.isReady)
	c := s.connect()
	receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"}, task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Hold(
		t.Context(), task.HoldRequest{Worker: "gone", Queues: []string{"q"}, Limit: 1},
	); err != nil {
		// now the node has taken both
		t.Fatal(err)
	}
	for range 3 {
		s.kill()
		s.start()
		eventuallyTrue(t, "its successor is ready", s.isReady)
	}
	s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--", "true")
	eventuallyTrue(t, "what the dead process held is worked off", func() bool {
		v, err := c.Task(t.Context(), receipts[1].ID, 0)
		return err == nil && v.State == task.Done
	})
	if s.says(waits) {
		t.Error("it waited for the lease of a process that is certainly dead")
	}
}

// A stopped process keeps its lock: it may go on at any time.
func TestNodeWaitsForAPredecessorThatIsOnlyStopped(t *testing.T) {
	t.Parallel()
	store := pgtest.Shared(t).Database(t)
	first := patient(t, store)
	first.start()
	eventuallyTrue(t, "the first is ready", first.isReady)
	stop := func(s *victim, signal syscall.Signal) {
		t.Helper()
		if err := s.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	stop(first, syscall.SIGSTOP)
	second := patient(t, store)
	second.start()
	eventuallyTrue(t, "the second says that it waits", func() bool { return second.says(waits) })
	stop(first, syscall.SIGCONT)
	exitsWith(t, second.cmd, cli.ExitFailed)
	if !second.says("is a node of that name and lives") || !first.isReady() {
		t.Error("the second did not give way to the first")
	}

	stop(first, syscall.SIGSTOP)
	third := patient(t, store)
	third.start()
	eventuallyTrue(t, "the third says that it waits", func() bool { return third.says(waits) })
	first.kill()
	eventuallyTrue(t, "the third has taken over", third.isReady)
}
