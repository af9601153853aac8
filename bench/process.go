package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"
)

// patience is how long a process may take to begin, or to end.
const patience = 20 * time.Second

// process is a child of this program, in a process group of its own: a Ctrl-C reaches this program only, which then ends
// its children in their order.
type process struct {
	pid   int
	stop  context.CancelFunc // asks it to end; after patience it is killed
	ended chan struct{}      // closed when it has ended and err stands
	err   error              // nil when it ended well because it was asked to
}

// spawn starts a program; hear gets each line that it prints.
func spawn(hear func(line string), path string, args ...string) (*process, error) {
	ctx, stop := context.WithCancel(context.Background()) // the child's life, which end ends
	cmd := exec.CommandContext(ctx, path, args...)
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &lines{hear: hear}, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, stop: stop, ended: make(chan struct{})}
	go func() { // end waits for it
		defer close(p.ended)
		err := cmd.Wait()
		if asked := ctx.Err() != nil; asked && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		text := strings.TrimSpace(complaints.String())
		p.err = fmt.Errorf("%s ended: %v: %s", filepath.Base(path), cmd.ProcessState, text[max(len(text)-1000, 0):])
	}()
	return p, nil
}

// end asks the process to end and waits until it has.
func (p *process) end() error {
	p.stop()
	<-p.ended
	return p.err
}

// cpuTime is the time that a process has used so far, user and system.
func cpuTime(pid int) (time.Duration, error) {
	p, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("find process %d: %w", pid, err)
	}
	times, err := p.Times()
	if err != nil {
		return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return time.Duration((times.User + times.System) * float64(time.Second)), nil
}

// lines calls hear with each line that is written to it.
type lines struct {
	hear func(line string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.hear(string(line))
		l.rest = rest
	}
}
