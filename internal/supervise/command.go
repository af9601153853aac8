package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// commandGrace is how long a command's output is waited for after the command has ended: what it
// started may have kept it open.
const commandGrace = 2 * time.Second

// command runs a source's command and answers what it prints. It is killed with all that it started
// when it takes too long or says too much.
func (c Sources) command(ctx context.Context, argv []string) ([]byte, error) {
	if !c.Commands {
		return nil, errors.New(
			"this node runs no commands of sources: its operator has to allow it",
		)
	}
	if len(argv) == 0 {
		return nil, errors.New("there is no command")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, complaint := capture{limit: c.Limit, full: func() {
		stop(c.tooLong())
	}}, capture{limit: 1000}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaint, commandGrace
	killRest := ownGroup(cmd)
	err := cmd.Run()
	killRest()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", argv[0], context.Cause(ctx))
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, fmt.Errorf(
			"%s: it has ended, but something that it started keeps its output open", argv[0],
		)
	case err != nil:
		return nil, fmt.Errorf("%s: %w%s", argv[0], err, complaint.tail())
	}
	return out.text.Bytes(), nil
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

// tail is what a command said of its failure, to be put behind it.
func (c *capture) tail() string {
	said := strings.TrimSpace(strings.ToValidUTF8(c.text.String(), "\uFFFD"))
	if said == "" {
		return ""
	}
	return ": " + said
}
