// Fibonacci computes the Fibonacci numbers from 0 to n, each by itself and the slow way, on a pool
// of lanes, and prints who ran what.
//
//	go run ./examples/fibonacci -n 42 -lanes 4
//
// The slow way to the i-th number takes 2·F(i+1) − 1 calls: so its load is known exactly. All are
// asked for at once, and those with the largest load go first (pool.Config.HeadStart): the last
// lane is done as early as can be, here when the largest number is, if there are three lanes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/pool"
)

func main() {
	n := flag.Int("n", 40, "the last number, at most 80; 42 takes some seconds")
	lanes := flag.Int("lanes", runtime.GOMAXPROCS(0), "how many are computed at the same time")
	flag.Parse()
	if err := show(context.Background(), os.Stdout, *n, *lanes); err != nil {
		fmt.Fprintln(os.Stderr, "fibonacci:", err)
		os.Exit(1)
	}
}

// slow is the i-th Fibonacci number.
func slow(i int) int {
	if i < 2 {
		return i
	}
	return slow(i-1) + slow(i-2)
}

// calls is how many calls slow(i) takes, itself included.
func calls(i int) float64 {
	a, b := 1.0, 1.0 // of i = 0 and 1
	for range i {
		a, b = b, a+b+1
	}
	return a
}

// work is what one lane did. Only the lane's functions touch it, and those take turns.
type work struct {
	numbers []string
	load    float64
	took    time.Duration
}

func show(ctx context.Context, out io.Writer, n, lanes int) error {
	if n < 0 || n > 80 || lanes < 1 {
		return errors.New("a number from 0 to 80 and at least one lane are needed")
	}
	p, err := pool.Lanes(pool.Config{Runners: lanes, HeadStart: time.Hour})
	if err != nil {
		return err
	}
	numbers, errs, ledger := make([]int, n+1), make([]error, n+1), make([]work, lanes)
	begin := time.Now()
	var all sync.WaitGroup
	for i := n; i >= 0; i-- {
		all.Go(func() {
			numbers[i], errs[i] = pool.Do(ctx, p, calls(i),
				func(_ context.Context, lane pool.Lane) (int, error) {
					from := time.Now()
					number := slow(i)
					w := &ledger[lane]
					w.numbers = append(w.numbers, fmt.Sprint(i))
					w.load = w.load + calls(i)
					w.took = w.took + time.Since(from)
					return number, nil
				})
		})
	}
	all.Wait()
	took := time.Since(begin)
	if err := errors.Join(append(errs, p.Close())...); err != nil {
		return err
	}
	for i, number := range numbers {
		fmt.Fprintf(out, "F(%d) = %d\n", i, number)
	}
	for lane, w := range ledger {
		fmt.Fprintf(out, "lane %d: load %.0f in %v: %s\n", lane, w.load,
			w.took.Round(time.Millisecond), strings.Join(w.numbers, " "))
	}
	fmt.Fprintf(out, "all of them: %v\n", took.Round(time.Millisecond))
	return nil
}
