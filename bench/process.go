package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/rotahq/rota/internal/measure"
)

// patience is how long a process may take to begin, or to end.
const patience = 20 * time.Second

// process is a child of this program, in a process group of its own: a Ctrl-C reaches this program
// only, which then ends its children in their order.
type process struct {
	pid   int
	stop  context.CancelFunc // asks it to end; after patience it is killed
	ended chan struct{}      // closed when it has ended and err stands
	err   error              // nil when it ended well because it was asked to
}

// spawn starts a program as somebody, nil = whoever runs this; hear gets each line that it prints.
func spawn(
	hear func(line string), as *syscall.Credential, path string, args ...string,
) (*process, error) {
	ctx, stop := context.WithCancel(context.Background()) // the child's life, which end ends
	cmd := exec.CommandContext(ctx, path, args...)
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &lines{hear: hear}, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	actAs(cmd, as)
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
		p.err = fmt.Errorf("%s ended: %v: %s", filepath.Base(path), cmd.ProcessState,
			text[max(len(text)-1000, 0):])
	}()
	return p, nil
}

// actAs makes a command somebody's, in a folder that anybody may enter; nil = whoever runs this,
// here.
func actAs(cmd *exec.Cmd, as *syscall.Credential) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if as != nil {
		cmd.Dir = "/"
	}
}

// end asks the process to end and waits until it has.
func (p *process) end() error {
	p.stop()
	<-p.ended
	return p.err
}

// cpuTime is the time that a process has used so far, user and system.
func cpuTime(pid int) (time.Duration, error) {
	used, err := measure.CPU(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return used, nil
}

// familyTime is the time that a process and its children have used so far, those that ended
// included.
func familyTime(pid int) (time.Duration, error) {
	// first: a child that ends from here on is missing for once, and not counted twice
	ended, err := endedTime(pid)
	if err != nil {
		return 0, err
	}
	sum, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	parent, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		return 0, fmt.Errorf("find process %d: %w", pid, err)
	}
	children, err := parent.Children()
	if err != nil {
		return 0, fmt.Errorf("list children of process %d: %w", pid, err)
	}
	for _, c := range children {
		if d, err := cpuTime(int(c.Pid)); err == nil { // otherwise it ended just now
			sum += d
		}
	}
	return ended + sum, nil
}

// endedTime is what the children of a process had used when they ended.
func endedTime(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // of all Linux that Go runs on
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name, which may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, fmt.Errorf("read CPU time of the children of process %d: %q", pid, b)
	}
	var sum int64
	for _, f := range fields[13:15] { // cutime, cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time of the children of process %d: %w", pid, err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
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
