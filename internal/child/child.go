// Package child starts processes of this same program, the nodes and workers of `rota demo` and
// `rota bench`, and in tests those of a program that was built. Whoever starts a process ends it (End) and waits for it (Wait).
package child

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a process of a Program.
type Process struct {
	*exec.Cmd
	stderr bytes.Buffer  // complete once it ended
	Heard  chan struct{} // closed when all that it printed was heard, which is at its end
}

// Program is a program whose processes are started.
type Program struct {
	Path   string
	Folder string    // in which they run; our own when empty
	Listen string    // where its servers listen; any free port of 127.0.0.1 when empty
	Log    io.Writer // hears what they write to stderr, besides what Wait tells of it; nil = nobody
}

// Start starts this binary with args, as Program.Start does.
func Start(ctx context.Context, line func(string), args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Program{Path: self}.Start(ctx, line, args...)
}

// Start starts the program with args; line is called for each line that it prints. The child gets
// no settings of ours, and is asked to end when ctx ends.
func (p Program) Start(ctx context.Context, line func(string), args ...string) (*Process, error) {
	c := &Process{Cmd: exec.CommandContext(ctx, p.Path, args...), Heard: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROTA_") {
			c.Env = append(c.Env, v)
		}
	}
	c.Cancel = func() error { return End(c.Process) }
	c.WaitDelay = 10 * time.Second
	c.Dir = p.Folder
	c.Stderr = &c.stderr
	if p.Log != nil {
		c.Stderr = io.MultiWriter(&c.stderr, p.Log)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() { // wait waits for it
		defer close(c.Heard)
		for s := bufio.NewScanner(out); s.Scan(); {
			line(s.Text())
		}
	}()
	return c, nil
}

// StartServer starts a node of this binary, as Program.StartServer does.
func StartServer(
	ctx context.Context, store, level string, args ...string,
) (server *Process, url string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	return Program{Path: self}.StartServer(ctx, store, level, args...)
}

// StartServer starts a node, and answers when it says where it listens.
func (p Program) StartServer(
	ctx context.Context, store, level string, args ...string,
) (server *Process, url string, err error) {
	address := make(chan string, 1)
	server, err = p.Start(ctx, func(line string) {
		if at := strings.Index(line, "http://"); at >= 0 {
			url, _, _ := strings.Cut(line[at:], " ")
			select {
			case address <- url:
			default: // the first one counts
			}
		}
	}, append([]string{
		"serve", "--listen", cmp.Or(p.Listen, "127.0.0.1:0"), "--store", store,
		"--log-level", level,
	}, args...)...)
	if err != nil {
		return nil, "", err
	}
	select {
	case url = <-address:
		return server, url, nil
	case <-server.Heard:
		return nil, "", errors.Join(errors.New("the server ended at once"), server.Wait())
	case <-ctx.Done():
		return nil, "", errors.Join(context.Cause(ctx), server.Wait())
	}
}

// End asks a process to end cleanly; where that can't be asked for, it is killed.
func End(p *os.Process) error {
	if err := p.Signal(os.Interrupt); err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Kill()
}

// Wait waits for the child's end, and for all that it printed.
func (c *Process) Wait() error {
	<-c.Heard
	if err := c.Cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.Args[1:], " "), err, lastLines(&c.stderr))
	}
	return nil
}

// lastLines is the end of what a process had to say.
func lastLines(b *bytes.Buffer) string {
	text := strings.TrimSpace(b.String())
	return text[max(len(text)-1000, 0):]
}

func IgnoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
