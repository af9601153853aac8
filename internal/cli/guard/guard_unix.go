//go:build unix

package guard

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/cobra"
)

// Guard is a process beside a worker that kills what the worker leaves behind when it is killed.
// The kernel could do that for the commands alone (and does on Linux), but not for what they have
// started: a shell's children would live on, as replicas of jobs that by then run elsewhere.
type Guard struct {
	process *exec.Cmd
	in      io.WriteCloser
	// How long it may take to read what it is told. One that takes longer, as when somebody has
	// stopped it, is killed: commands wait for it, and of what it missed it would kill process
	// groups that have ended, whose numbers may be somebody else's by then.
	patience time.Duration
}

// Over starts a guard over the commands on a leash, which knows of it from then on. It lasts as
// long as we do, or until it is closed.
func Over(leash *worker.Leash) (*Guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g, err := start(exec.Command(self, "worker", "guard"), 5*time.Second)
	if err != nil {
		return nil, err
	}
	leash.Guard, leash.Starter = g, append([]string{self}, starter...)
	return g, nil
}

func start(process *exec.Cmd, patience time.Duration) (*Guard, error) {
	g := &Guard{process: process, patience: patience}
	// a signal to our group is none to it
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := g.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	g.in = in
	return g, g.process.Start()
}

// Write tells of a process group, as worker.Leash does. It is for one goroutine at a time.
func (g *Guard) Write(p []byte) (int, error) {
	late := time.AfterFunc(g.patience, func() { g.process.Process.Kill() })
	defer late.Stop()
	return g.in.Write(p)
}

// Close ends it.
func (g *Guard) Close() {
	g.in.Close()
	g.process.Wait() // it has nothing to say
}

// Command is the process that Start starts.
func Command(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "Kill what a killed worker leaves behind",
		Hidden: true,
		Args:   app.Takes(),
		RunE: func(*cobra.Command, []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			if err := watchGroups(a.In, func(group int) {
				syscall.Kill(-group, syscall.SIGKILL)
			}); err != nil {
				return fmt.Errorf("read process groups: %w", err)
			}
			return nil
		},
	}
}

// watchGroups reads lines until their end: +N when the process group N has begun, -N when it has
// ended. Then it kills the rest.
func watchGroups(in io.Reader, kill func(group int)) error {
	left := map[int]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		switch {
		case err != nil:
		case n > 1: // 0 and 1 would be our own group, and everybody
			left[n] = true
		default:
			delete(left, -n)
		}
	}
	for group := range left {
		kill(group)
	}
	return lines.Err()
}
