package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// TestWorkerThatIsTheFirstProcessLeavesNoZombies: in a place with process ids of its own, as a
// container is. A task's command leaves processes behind that end later; what it itself ends with
// counts all the same.
func TestWorkerThatIsTheFirstProcessLeavesNoZombies(t *testing.T) {
	story.Whole(t)
	probe := exec.Command("true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := probe.Run(); err != nil {
		if os.Getuid() == 0 {
			t.Fatalf("root can't make a place with process ids of its own: %v", err)
		}
		t.Logf("needs a place with process ids of its own, which only root can make: %v", err)
		return
	}
	binary, err := build.rota()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Listen: "127.0.0.1:0", Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	s := "http://" + node.Addr()
	c, err := client.New(client.Config{Servers: []string{s}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	// What setsid starts is no child of the shell for long, and outlives the command's process
	// group.
	const script = `for i in 1 2 3 4 5; do (setsid sleep 0.$i &) ; done; readlink /proc/self >$0; exit 65`
	var log bytes.Buffer
	w := exec.Command(binary, "worker", "--server", s, "--queue", "q", "--name", "w", "--", "sh",
		"-c", script, pid)
	w.Stdout, w.Stderr = &log, &log
	w.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Task(t.Context(), receipts[0].ID, limits.MaxWait)
	if err != nil || v.State != task.Dead || v.Steps[0].Error != "exit status 65" {
		t.Errorf("the task is %s: %+v, %v\n%s", v.State, v.Steps, err, log.String())
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", w.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// real processes
		zombies, all := zombiesIn(t, space)
		if all > 1 && len(zombies) == 0 && time.Until(until) < 8*time.Second {
			break
		}
		if time.Now().After(until) {
			t.Errorf("of %d processes zombies are %q", all, zombies)
			break
		}
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, log.String())
	}
	left, err := c.Worker(t.Context(), "w")
	if err != nil || left.State != task.WorkerLeft || left.Active {
		t.Errorf("the server knows it as %q, %v", left.State, err)
	}
	eventuallyTrue(t, "an event tells that it left", func() bool {
		events, _, err := c.Events(t.Context(), client.EventFilter{Kinds: []string{"worker.*"}}, "",
			10)
		return err == nil && len(events) == 1 && events[0].Kind == "worker.left" &&
			events[0].Subject == "w"
	})
}

// zombiesIn lists the zombies of a place with process ids of its own, and counts the processes
// there.
func zombiesIn(t *testing.T, space string) (zombies []string, all int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range list {
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue
		}
		inside := false
		for line := range strings.Lines(string(status)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				inside = len(strings.Fields(ids)) > 1
			}
		}
		here, _ := os.Readlink(dir + "/ns/pid")
		switch zombie := strings.Contains(string(status), "State:\tZ"); {
		case zombie && inside:
			zombies = append(zombies, dir)
		case here == space:
			all++
		}
	}
	return zombies, all
}
