//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/task"
)

// text is what a process printed so far.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// eventuallyTrue waits for a real process.
func eventuallyTrue(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// serving starts the server and waits until it answers.
func (s *victim) serving() *client.Client {
	s.t.Helper()
	s.start()
	c := s.connect()
	eventuallyTrue(s.t, "the server answers", func() bool {
		return c.Healthy(s.t.Context()) == nil
	})
	return c
}

// exitsWith waits for the process's end.
func exitsWith(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != want {
		t.Errorf("%v: %v, want exit code %d", cmd.Args[1:], err, want)
	}
}

func TestSubmitThatWaitsOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	s.serving()
	one, oneSaid, many, manySaid := new(text), new(text), new(text), new(text)
	lone := s.runTo(one, oneSaid, "submit", "q", "--wait", "--server", s.url)
	lines := exec.Command(s.binary, "submit", "q", "--lines", "--wait", "--server", s.url)
	lines.Stdin, lines.Stdout, lines.Stderr = strings.NewReader("a\nb\nc\n"), many, manySaid
	if err := lines.Start(); err != nil {
		t.Fatal(err)
	}
	defer lines.Process.Kill() // in vain when all went well
	eventuallyTrue(t, "the ids are told", func() bool {
		return strings.HasPrefix(oneSaid.String(), "task ") &&
			strings.Count(many.String(), "\n") == 3
	})
	s.kill()
	const away = "the server is away; waiting for it ("
	eventuallyTrue(t, "both notice that the server is away", func() bool {
		return strings.Contains(oneSaid.String(), away) && strings.Contains(manySaid.String(), away)
	})
	time.Sleep(time.Second) // longer than all tries of one call
	s.serving()
	s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--", "sh", "-c",
		`printf '{"result":42}' >"$ROTA_OUTPUT"`)
	exitsWith(t, lone, cli.ExitDone)
	exitsWith(t, lines, cli.ExitDone)
	if one.String() != "42\n" || !strings.HasSuffix(oneSaid.String(), ")\nthe server is back\n") {
		t.Errorf("stdout %q, stderr %q", one, oneSaid)
	}
	if !strings.Contains(manySaid.String(), "3 tasks done in") {
		t.Errorf("stderr %q", manySaid)
	}
}

// A command counts while the server goes away and comes back, twice. Its log has every line, and so
// has whoever follows it; when the server is killed, what it had stored but not yet answered may
// stand there twice.
func TestLogAndItsFollowersOutliveTheServer(t *testing.T) {
	const lines = 100
	for name, end := range map[string]func(*victim){"killed": (*victim).kill,
		"stopped": (*victim).end} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newVictim(t)
			c := s.serving()
			count := fmt.Sprintf(
				`i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); sleep 0.05; done`, lines,
			)
			s.run("worker", "--server", s.url, "--queue", "q", "--log-level", "error", "--", "sh",
				"-c", count)
			receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			id := receipts[0].ID.String()
			followed, said := new(text), new(text)
			follower := s.runTo(followed, said, "task", "logs", "-f", id, "--server", s.url)
			for _, reached := range []int{50, 70} {
				// the first is late enough for the hand-out to outlive the server
				eventuallyTrue(t, fmt.Sprintf("line %d is followed", reached), func() bool {
					return strings.Contains(followed.String(), fmt.Sprintf("\n%d\n", reached))
				})
				end(s)
				time.Sleep(500 * time.Millisecond)
				s.serving()
			}
			exitsWith(t, follower, cli.ExitDone)
			stored := new(text)
			exitsWith(t, s.runTo(stored, s.log, "task", "logs", id, "--server", s.url),
				cli.ExitDone)
			want := numbersBelow(lines)
			got := stored.String()
			if name == "killed" {
				got = strings.Join(slices.Compact(sortedNumbers(t, got)), "\n") + "\n"
			}
			if got != want || followed.String() != stored.String() {
				t.Errorf("stored\n%s, followed\n%s (%s), want the numbers below %d", stored,
					followed, said, lines)
			}
		})
	}
}

// numbersBelow is n lines with the numbers from 0 on.
func numbersBelow(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// sortedNumbers are the lines of a text in the order of their numbers.
func sortedNumbers(t *testing.T, text string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.SortFunc(lines, func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX != nil || errY != nil {
			t.Fatalf("lines %q and %q are no numbers", a, b)
		}
		return x - y
	})
	return lines
}

func TestInterruptEndsAFollowedLogQuietly(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	id := receipts[0].ID
	if err := c.Log(
		t.Context(), id, []task.LogLine{{Time: time.Now(), Stream: "stdout", Text: "hello"}},
	); err != nil {
		t.Fatal(err)
	}
	out, said := new(text), new(text)
	follower := s.runTo(out, said, "task", "logs", "-f", id.String(), "--server", s.url)
	eventuallyTrue(t, "the line is followed", func() bool { return out.String() == "hello\n" })
	if err := follower.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exitsWith(t, follower, cli.ExitDone)
	if said.String() != "" {
		t.Errorf("it complained: %s", said)
	}
}

// heedHangups has programs that are started here heed a hangup, also where nohup runs the tests:
// what has a handler in a process is not ignored in those that it starts.
func heedHangups(t *testing.T) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

func TestSecondSignalLeavesNoCommandBehind(t *testing.T) {
	heedHangups(t)
	for _, signals := range [][2]os.Signal{{os.Interrupt, syscall.SIGTERM},
		{syscall.SIGHUP, os.Interrupt}} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			s := newVictim(t)
			c := s.serving()
			if _, err := c.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			pids := filepath.Join(s.folder, "pids")
			said := new(text)
			worker := s.runTo(said, said, "worker", "--server", s.url, "--queue", "q", "--", "sh",
				"-c",
				`trap '' TERM; sleep 1000 & echo $$ $! >`+pids+`.new; mv `+pids+`.new `+pids+
					`; wait; wait; sleep 1000`)
			eventuallyTrue(t, "the command runs", func() bool {
				_, err := os.Stat(pids)
				return err == nil
			})
			for _, signal := range signals {
				if err := worker.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				eventuallyTrue(t, "the signal has arrived", func() bool {
					return !pending(worker.Process.Pid)
				})
				time.Sleep(4 * signalGap) // it is handled by then
			}
			exitsWith(t, worker, cli.ExitFailed)
			if !strings.Contains(said.String(), "ended at once") {
				t.Errorf("it said %s", said)
			}
			text, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				eventuallyTrue(t, "process "+word+" is gone", func() bool { return !lives(pid) })
			}
		})
	}
}

// pending tells whether a process has yet to take a signal.
func pending(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && lives(pid) &&
		!strings.Contains(string(status), "\nShdPnd:\t0000000000000000\n")
}

// lives tells whether a process runs; one that is dead and not yet reaped doesn't.
func lives(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Two signals at once are how timeout ends a process and its group: they are one.
func TestHangupEndsServerAndWorkerCleanly(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	c := s.serving()
	worker := s.run("worker", "--server", s.url, "--queue", "q", "--name", "w", "--", "true")
	eventuallyTrue(t, "the worker speaks", func() bool {
		_, err := c.Worker(context.Background(), "w")
		return err == nil
	})
	for _, p := range []*exec.Cmd{worker, s.cmd} {
		for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGHUP, syscall.SIGTERM,
			syscall.SIGCONT} {
			// it takes both at once
			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		exitsWith(t, p, cli.ExitDone)
	}
}

func TestHangupThatNohupIgnoresEndsNothing(t *testing.T) {
	t.Parallel()
	s := newVictim(t)
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec "$@"`, "sh", s.binary, "serve", "--listen",
		s.listen, "--store", "sqlite:"+s.store())
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // in vain when all went well
	c := s.connect()
	eventuallyTrue(t, "the server answers", func() bool { return c.Healthy(t.Context()) == nil })
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * signalGap)
	if err := c.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exitsWith(t, cmd, cli.ExitDone)
}
