package pool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Command is a program that answers requests. Its Start is a factory of runners:
//
//	p, err := pool.New(pool.Config{Runners: 4}, pool.Command{Argv: []string{"python3", "fib.py"}}.Start)
//	n, err := pool.Ask[int](ctx, p, 1, 30)
//
// A request is one line of JSON on its standard input. For each it writes one line to its standard
// output, at once (many languages keep output back that does not go to a terminal: flush it):
//
//	{"result": 832040}
//	{"error": "not a number"}
//
// When its standard input ends it is to end as well. What it writes to its standard error is kept
// for the error that says how it died. POOL_CHILD is the runner's number.
//
// The program leads a process group of its own, which is killed with it. On Linux the program, but
// not what it has started in its turn, is also killed when this process dies, however that happens.
// Limits are refused where the system has none (errors.ErrUnsupported): only Linux has.
type Command struct {
	Argv    []string // the program and its arguments; no shell in between
	Dir     string   // working directory; our own when empty
	Env     []string // NAME=VALUE; our own when nil
	MaxLine int      // longest request and answer in bytes; 1 MiB when 0
	// between the end of its standard input and SIGKILL when the pool is closed; 2 s when 0
	Grace time.Duration
	// bytes of data that one process may have (RLIMIT_DATA: private and writable); no limit when 0
	Memory int64

	// CPU is the processor time that one request may cost, up to a second more (RLIMIT_CPU); no
	// limit when 0. The process is ended by SIGXCPU, which a program may ignore, as those written
	// in Go do.
	CPU time.Duration
}

func (c Command) validate() error {
	var wrong []error
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		wrong = append(wrong, errors.New("argv: needed"))
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"MaxLine", int64(c.MaxLine)}, {"Grace", int64(c.Grace)}, {"Memory", c.Memory},
		{"CPU", int64(c.CPU)},
	} {
		if field.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s %d: %w", field.name, field.value, ErrRange))
		}
	}
	if (c.Memory > 0 || c.CPU > 0) && !hasLimits {
		wrong = append(wrong, fmt.Errorf("memory, CPU: %w", errors.ErrUnsupported))
	}
	return errors.Join(wrong...)
}

// Start starts the program as runner i.
func (c Command) Start(i int) (*Child, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure command: %w", err)
	}
	c.MaxLine = cmp.Or(c.MaxLine, 1<<20)
	c.Grace = cmp.Or(c.Grace, 2*time.Second)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(slices.Clip(c.Env), "POOL_CHILD="+strconv.Itoa(i))
	child := &Child{command: c, turn: make(chan struct{}, 1)}
	if err := child.renew(); err != nil {
		return nil, fmt.Errorf("start %q: %w", c.Argv[0], err)
	}
	return child, nil
}
