//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/task"
)

func TestKilledWorkerLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(s.folder, "pids")
	worker := s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--", "sh",
		"-c",
		`trap '' TERM HUP INT; sleep 1000 & echo $$ $! >`+pids+`.new; mv `+pids+`.new `+pids+
			`; wait`)
	eventuallyTrue(t, "the command runs", func() bool { return textOf(pids) != "" })
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // it says that it was killed
	for _, word := range strings.Fields(textOf(pids)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		eventuallyTrue(t, "process "+word+" is gone", func() bool { return !lives(pid) })
	}
}

// setJobs makes a group have one replica of each job.
func setJobs(t *testing.T, s *victim, group string, jobs ...task.Job) {
	t.Helper()
	c := s.connect()
	defer c.Close()
	if _, err := c.PutGroup(t.Context(), group, client.GroupChange{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutJobs(t.Context(), group, jobs...); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsOfJobsRunFromTheirAssignmentToTheirEnd(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	spec := `{"b" : 1e400}`
	setJobs(t, s, "g", task.Job{Name: "a", Load: task.Unit, Spec: json.RawMessage(spec)}, task.Job{
		Name: "b", Load: task.Unit,
	})
	worker := s.run("worker", "--server", s.url, "--group", "g", "--capacity", "2", "--name", "w",
		"--", "sh", "-c",
		`echo "$ROTA_GROUP $ROTA_JOB $ROTA_REPLICA $ROTA_FENCE"; cat; echo; echo trouble >&2; trap 'echo bye; exit' TERM; sleep 1000 & echo $! >`+
			s.folder+`/pid.$ROTA_JOB; wait`)
	running := func(want int) func() bool {
		return func() bool {
			g, err := c.Group(t.Context(), "g")
			return err == nil && g.Running == want
		}
	}
	eventuallyTrue(t, "both run", running(2))
	pid := func(job string) int {
		var pid int
		fmt.Sscan(textOf(filepath.Join(s.folder, "pid."+job)), &pid)
		return pid
	}
	first, second := 0, 0
	eventuallyTrue(t, "their processes live", func() bool { // a job runs from when its shell does
		first, second = pid("a"), pid("b")
		return lives(first) && lives(second)
	})

	if err := c.RemoveJob(t.Context(), "g", "b"); err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "b has ended", func() bool { return !lives(second) })
	// it begins anew
	setJobs(t, s, "g", task.Job{Name: "a", Load: task.Unit, Spec: json.RawMessage(`"other"`)})
	eventuallyTrue(t, "a runs anew", func() bool {
		return pid("a") != first && lives(pid("a")) && !lives(first)
	})

	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exitsWith(t, worker, cli.ExitDone)
	eventuallyTrue(t, "nothing runs", func() bool { return !lives(pid("a")) })
	eventuallyTrue(t, "its replica waits for another worker", func() bool {
		g, err := c.Group(t.Context(), "g")
		return err == nil && g.Pending == 1 && g.Running == 0
	})
	var said []string
	lines, _, err := c.JobLog(t.Context(), "g", "a", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		said = append(said, l.Stream+": "+l.Text)
	}
	for _, want := range []string{"stdout.0: g a 0 ", "stdout.0: " + spec, "stderr.0: trouble",
		"stdout.0: bye", `stdout.0: "other"`} {
		if !slices.ContainsFunc(said, func(line string) bool {
			return strings.HasPrefix(line, want)
		}) {
			t.Errorf("the log does not say %q: %q", want, said)
		}
	}
}

func TestKilledWorkersJobsLeaveNoProcessBehindAndRunElsewhere(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	setJobs(t, s, "g", task.Job{Name: "a", Load: task.Unit})
	start := func(name string) *exec.Cmd {
		return s.run("worker", "--server", s.url, "--group", "g", "--name", name, "--log-level",
			"error", "--", "sh", "-c",
			`trap '' TERM; sleep 1000 & echo $$ $! >`+s.folder+`/`+name+`.new; mv `+s.folder+`/`+
				name+`.new `+s.folder+`/`+name+`; wait`)
	}
	doomed := start("w1")
	eventuallyTrue(t, "it runs", func() bool { return textOf(filepath.Join(s.folder, "w1")) != "" })
	start("w2")
	eventuallyTrue(t, "the other worker is known", func() bool {
		_, err := c.Worker(t.Context(), "w2")
		return err == nil
	})
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait() // it says that it was killed
	for _, word := range strings.Fields(textOf(filepath.Join(s.folder, "w1"))) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		eventuallyTrue(t, "process "+word+" is gone", func() bool { return !lives(pid) })
	}
	eventuallyTrue(t, "it runs elsewhere", func() bool {
		return textOf(filepath.Join(s.folder, "w2")) != ""
	})
	for _, word := range strings.Fields(textOf(filepath.Join(s.folder, "w2"))) {
		// the guard kills them with the worker, at the end
		if pid, err := strconv.Atoi(word); err != nil || !lives(pid) {
			t.Errorf("process %q does not run: %v", word, err)
		}
	}
}

func TestSecondWorkerOfANameEndsTheFirst(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	setJobs(t, s, "g", task.Job{Name: "a", Load: task.Unit})
	pids := filepath.Join(s.folder, "pids")
	said := new(text)
	start := func() *exec.Cmd {
		return s.runTo(said, said, "worker", "--server", s.url, "--group", "g", "--name", "w", "--",
			"sh", "-c", `echo $$ >>`+pids+`; exec sleep 1000`)
	}
	first := start()
	eventuallyTrue(t, "the job runs", func() bool {
		g, err := c.Group(t.Context(), "g")
		return err == nil && g.Running == 1 && strings.HasSuffix(textOf(pids), "\n")
	})
	start()
	exitsWith(t, first, cli.ExitFailed)
	if !strings.Contains(said.String(), "a newer worker has the name of this one") {
		t.Errorf("it said %s", said)
	}
	eventuallyTrue(t, "the job runs on, once", func() bool {
		living := 0
		for _, word := range strings.Fields(textOf(pids)) {
			if pid, err := strconv.Atoi(word); err == nil && lives(pid) {
				living++
			}
		}
		return living == 1 && strings.Count(textOf(pids), "\n") == 2
	})
}

// A grace of nothing is none, not the default: a command that heeds no signal ends at once.
func TestWorkerEndsAtOnceWithoutGrace(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(s.folder, "pid")
	worker := s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error",
		"--stop-grace", "0s", "--grace", "0s", "--", "sh", "-c",
		`trap '' TERM INT; echo $$ >`+pid+`.new; mv `+pid+`.new `+pid+
			`; while :; do sleep 0.1; done`)
	eventuallyTrue(t, "the command runs", func() bool { return textOf(pid) != "" })
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exitsWith(t, worker, cli.ExitDone)
	}()
	select {
	case <-ended:
	case <-time.After(25 * time.Second): // by default it would be 30 s, and 10 s after that
		_ = worker.Process.Kill()
		<-ended
		t.Error("it did not end at once")
	}
}
