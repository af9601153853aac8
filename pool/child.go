package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
)

var (
	// ErrDied is returned when a child has ended after a request was given to it and before it was
	// answered: nobody knows how far it came. Another one takes its place.
	ErrDied = errors.New("child died")
	// ErrAnswer is returned when a child does not answer as a Command must. It is killed, and
	// another one takes its place.
	ErrAnswer = errors.New("not an answer")
	// ErrLine is returned for a request or an answer longer than Command.MaxLine.
	ErrLine = errors.New("line is too long")
)

// ChildError is an error that a child answered. It is the function's, not the child's fault.
type ChildError string

func (e ChildError) Error() string { return string(e) }

// callersError is an error of a call that no child can help.
type callersError struct{ error }

func (e callersError) Unwrap() error { return e.error }

// Child is a runner that is a process. It is replaced when it has died, when it hung past the end
// of a request's context, and when its answers make no sense. Make it with Command.Start.
type Child struct {
	command Command
	turn    chan struct{} // holds one while somebody uses what follows
	process *process      // nil when the last one is gone and no other started
	pid     atomic.Int64
	closed  bool
}

// Pid is the number of its process; 0 when there is none at the moment.
func (c *Child) Pid() int { return int(c.pid.Load()) }

// Call gives the child a request, anything that encoding/json can encode, and decodes what it
// answers to where answer points, unless that is nil. When ctx ends first the child is killed, as
// there is no other way to make it stop.
//
// A request that did not reach a child, because it had died before, goes to the next one. One that
// did is never given again: that is for the caller to decide (ErrDied).
func (c *Child) Call(ctx context.Context, request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return callersError{fmt.Errorf("encode request: %w", err)}
	}
	if line = append(line, '\n'); len(line) > c.command.MaxLine {
		return callersError{fmt.Errorf("request of %d bytes: %w", len(line), ErrLine)}
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if c.closed {
		return fmt.Errorf("call %q: %w", c.command.Argv[0], ErrClosed)
	}
	said, err := c.ask(ctx, line)
	if err != nil {
		return fmt.Errorf("call %q: %w", c.command.Argv[0], err)
	}
	result, err := parseAnswer(said)
	switch {
	case errors.Is(err, ErrAnswer):
		c.end()
		return fmt.Errorf("call %q: %w", c.command.Argv[0], err)
	case err != nil:
		return err
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(result, answer); err != nil {
		return callersError{fmt.Errorf("decode result: %w", err)}
	}
	return nil
}

// Ask runs a request on a pool of children.
func Ask[A any](ctx context.Context, p *Pool[*Child], load float64, request any) (A, error) {
	return Do(ctx, p, load, func(ctx context.Context, c *Child) (answer A, err error) {
		err = c.Call(ctx, request, &answer)
		return answer, err
	})
}

// ask gives a line to the child and returns the line that it says. After an error there is no
// process.
func (c *Child) ask(ctx context.Context, line []byte) ([]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		fresh := c.process == nil
		if fresh {
			if err := c.renew(); err != nil {
				return nil, err
			}
		}
		said, given, err := c.process.exchange(ctx, line, c.command.CPU)
		if err == nil {
			return said, nil // if ctx ended this very moment, the next one finds it dead
		}
		how := c.end()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, ErrAnswer), errors.Is(err, ErrLine):
			return nil, err
		case given || fresh:
			return nil, fmt.Errorf("%w (%w): %s", ErrDied, err, how)
		}
	}
}

// renew starts a process.
func (c *Child) renew() (err error) {
	if c.process, err = c.command.start(); err != nil {
		return err
	}
	c.pid.Store(int64(c.process.cmd.Process.Pid))
	return nil
}

// end ends the process and says how it ended.
func (c *Child) end() (how string) {
	p := c.process
	c.process = nil
	c.pid.Store(0)
	p.kill()
	p.stop(0)
	return p.how()
}

// Close ends the process: its standard input ends, and if it has not ended after Command.Grace it
// is killed, which is an error. How a process ends by itself is its own affair. Close waits for a
// Call, and a Call after it is refused with ErrClosed.
func (c *Child) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	c.pid.Store(0)
	if byItself := p.stop(c.command.Grace); !byItself {
		return fmt.Errorf("%q was killed %v after the end of its input%s", c.command.Argv[0],
			c.command.Grace, &p.words)
	}
	return nil
}

// parseAnswer reads a line that a child said. The error is a ChildError when that is what it says,
// else an ErrAnswer.
func parseAnswer(line []byte) (json.RawMessage, error) {
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *string         `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("%w: %.80q: %w", ErrAnswer, line, err)
	}
	if rest := line[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%w: %.80q: more than one value", ErrAnswer, line)
	}
	switch none := answer.Result == nil || string(answer.Result) == "null"; {
	case answer.Error != nil && none:
		return nil, ChildError(*answer.Error)
	case answer.Error == nil && answer.Result != nil:
		return answer.Result, nil
	}
	return nil, fmt.Errorf("%w: %.80q: needs either a result or an error", ErrAnswer, line)
}
