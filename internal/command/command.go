// Package command runs a program that somebody configured, in bounds: of time, by its context; of
// what it may say; and with all that it started, which ends with it.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Grace is how long a program's output is waited for after the program has ended: what it started
// may have kept it open.
const Grace = 2 * time.Second

// maxComplaint is how much of what a program says on stderr is kept.
const maxComplaint = 1000

// Command is a program and what it is given.
type Command struct {
	Argv  []string
	Env   []string // besides the environment of this process
	Stdin []byte
	// Limit is how much it may print, in bytes.
	Limit int64
	// TooLong, when not nil, is the error that it ends with when it prints more. Else the rest is
	// dropped.
	TooLong error
}

// Run runs the program until it ends, and answers what it printed. It is killed with all that it
// started when ctx ends. An error tells what it said on stderr; said is its beginning in any case.
func (c Command) Run(ctx context.Context) (out []byte, said string, err error) {
	if len(c.Argv) == 0 {
		return nil, "", errors.New("there is no command")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	printed, complaint := capture{limit: c.Limit}, capture{limit: maxComplaint}
	if c.TooLong != nil {
		printed.full = func() { stop(c.TooLong) }
	}
	cmd.Stdin = bytes.NewReader(c.Stdin)
	if c.Stdin == nil {
		cmd.Stdin = nil
	}
	if len(c.Env) > 0 {
		cmd.Env = append(cmd.Environ(), c.Env...)
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed, &complaint, Grace
	killRest := ownGroup(cmd)
	err = cmd.Run()
	killRest()
	said = strings.TrimSpace(strings.ToValidUTF8(complaint.text.String(), "\uFFFD"))
	switch {
	case ctx.Err() != nil:
		return nil, said, fmt.Errorf("%s: %w", c.Argv[0], context.Cause(ctx))
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, said, fmt.Errorf(
			"%s: it has ended, but something that it started keeps its output open", c.Argv[0],
		)
	case err != nil && said != "":
		return nil, said, fmt.Errorf("%s: %w: %s", c.Argv[0], err, said)
	case err != nil:
		return nil, said, fmt.Errorf("%s: %w", c.Argv[0], err)
	}
	return printed.text.Bytes(), said, nil
}

// capture keeps what is written to it, up to a limit.
type capture struct {
	text  bytes.Buffer
	limit int64
	full  func() // called when there is more; nil = the rest is dropped
}

func (c *capture) Write(b []byte) (int, error) {
	if room := c.limit - int64(c.text.Len()); int64(len(b)) > room {
		c.text.Write(b[:room])
		if c.full != nil {
			c.full()
		}
		return len(b), nil
	}
	return c.text.Write(b)
}
