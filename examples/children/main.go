// Children is a pool of child processes, written in shell, that answers everything though its
// children are killed with -9 all the while.
//
//	go run ./examples/children
//
// Each child runs collatz.sh, which reads a number and answers {"result": …}. Whenever some numbers
// have been answered, one of the processes is killed. The pool starts another in its place. What a
// child was busy with when it died comes back as pool.ErrDied, since nobody can know how far it
// came; asking twice does no harm here, so it is asked again.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rotahq/rota/pool"
)

//go:embed collatz.sh
var collatz string

func main() {
	s := show{out: os.Stdout}
	flag.IntVar(&s.children, "children", 4, "processes")
	flag.IntVar(&s.numbers, "numbers", 60, "questions")
	flag.IntVar(&s.every, "every", 5, "answers after which a process is killed")
	flag.Parse()
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "children:", err)
		os.Exit(1)
	}
}

// show is the example.
type show struct {
	out      io.Writer
	children int // how many
	numbers  int // how many questions
	every    int // answers after which a process is killed

	mu    sync.Mutex // of out
	all   []*pool.Child
	again atomic.Int64 // questions that were asked again
	kills int
}

func (s *show) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *show) run(ctx context.Context) error {
	if s.children < 1 || s.numbers < 1 || s.every < 1 {
		return errors.New("at least one child, one number and one answer before a kill are needed")
	}
	command := pool.Command{Argv: []string{"sh", "-c", collatz}}
	p, err := pool.New(pool.Config{Runners: s.children}, func(i int) (*pool.Child, error) {
		child, err := command.Start(i)
		s.all = append(s.all, child)
		return child, err
	})
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	var asking, killing sync.WaitGroup
	killing.Go(func() { s.kill(answered) })
	errs := make([]error, s.numbers)
	for i := range s.numbers {
		asking.Go(func() {
			errs[i] = s.ask(ctx, p, i+1)
			answered <- struct{}{}
		})
	}
	asking.Wait()
	close(answered)
	killing.Wait()
	if err := errors.Join(append(errs, p.Close())...); err != nil {
		return err
	}
	s.say(
		"%d numbers, all answered and all right: %d processes were killed, %d questions asked again",
		s.numbers, s.kills, s.again.Load(),
	)
	return nil
}

// ask asks for one number until it is answered.
func (s *show) ask(ctx context.Context, p *pool.Pool[*pool.Child], n int) error {
	for {
		steps, err := pool.Ask[int](ctx, p, 1, n)
		switch {
		case errors.Is(err, pool.ErrDied):
			s.say("%d is asked again: %v", n, err)
			s.again.Add(1)
			continue
		case err != nil:
			return fmt.Errorf("ask for %d: %w", n, err)
		case steps != stepsOf(n):
			return fmt.Errorf("ask for %d: %d steps, not %d", n, steps, stepsOf(n))
		}
		s.say("%d takes %d steps", n, steps)
		return nil
	}
}

// kill kills one process after the other, each when some more numbers have been answered.
func (s *show) kill(answered <-chan struct{}) {
	count := 0
	for range answered {
		if count++; count%s.every != 0 {
			continue
		}
		pid := s.all[s.kills%len(s.all)].Pid()
		if process, err := os.FindProcess(pid); pid != 0 && err == nil && process.Kill() == nil {
			// else it is being replaced
			s.kills++
			s.say("process %d is killed", pid)
		}
	}
}

// stepsOf is what collatz.sh answers.
func stepsOf(n int) (steps int) {
	for ; n != 1; steps++ {
		if n%2 == 0 {
			n /= 2
		} else {
			n = 3*n + 1
		}
	}
	return steps
}
