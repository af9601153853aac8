package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/pool"
)

// must makes a pool of an example.
func must[R pool.Runner](p *pool.Pool[R], err error) *pool.Pool[R] {
	if err != nil {
		panic(err)
	}
	return p
}

func ExampleDo() {
	p := must(pool.Lanes(pool.Config{Runners: 4}))
	defer p.Close()

	// Sums of different length, each with the load that it is.
	sums := make([]int, 5)
	var calls sync.WaitGroup
	for i, n := range []int{100_000, 50_000, 25_000, 10_000, 10} {
		calls.Go(func() {
			sums[i], _ = pool.Do(context.Background(), p, float64(n),
				func(context.Context, pool.Lane) (sum int, err error) {
					for v := range n {
						sum += v
					}
					return sum, nil
				})
		})
	}
	calls.Wait()
	fmt.Println(sums)
	// Output: [4999950000 1249975000 312487500 49995000 45]
}

// Each lane has a buffer to itself, without a lock.
func ExamplePool_Run() {
	p := must(pool.Lanes(pool.Config{Runners: 2}))
	defer p.Close()
	buffers := make([][]byte, p.Len())
	for i := range 4 {
		err := p.Run(context.Background(), 1, func(_ context.Context, lane pool.Lane) error {
			buffers[lane] = fmt.Append(buffers[lane], i)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Printf("%s\n", buffers)
	// Output: [02 13]
}

func ExamplePool_RunEach() {
	p := must(pool.Lanes(pool.Config{Runners: 3}))
	defer p.Close()
	err := p.RunEach(context.Background(), 2, 1, func(_ context.Context, _ pool.Lane, i int) error {
		return fmt.Errorf("no answer from copy %d", i)
	})
	fmt.Println(err)
	// Output:
	// no answer from copy 0
	// no answer from copy 1
}

func ExampleDoEach() {
	p := must(pool.Lanes(pool.Config{Runners: 3}))
	defer p.Close()
	lanes, err := pool.DoEach(context.Background(), p, 3, 1,
		func(_ context.Context, lane pool.Lane, _ int) (pool.Lane, error) {
			return lane, nil
		})
	fmt.Println(lanes, err)
	// Output: [0 1 2] <nil>
}

func ExamplePool_Limited() {
	p := must(pool.Lanes(pool.Config{Runners: 1}))
	defer p.Close()
	hasty := p.Limited(pool.Limit{Timeout: time.Millisecond, OnTimeout: func() error {
		return errors.New("never mind")
	}})
	err := hasty.Run(context.Background(), 1, func(ctx context.Context, _ pool.Lane) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
	// Output: never mind
}

// Who does not answer in time is taken to know nothing.
func ExampleDoOr() {
	p := must(pool.Lanes(pool.Config{Runners: 1, Limit: pool.Limit{Timeout: time.Millisecond}}))
	defer p.Close()
	price, err := pool.DoOr(context.Background(), p, 1,
		func(ctx context.Context, _ pool.Lane) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
		func() (string, error) { return "price on request", nil })
	fmt.Println(price, err)
	// Output: price on request <nil>
}

func ExamplePool_View() {
	p := must(pool.Lanes(pool.Config{Runners: 2, Fault: func(error) bool { return true }}))
	defer p.Close()
	p.Run(context.Background(), 5, func(context.Context, pool.Lane) error {
		return errors.New("out of paper")
	})
	p.Run(context.Background(), 5, func(context.Context, pool.Lane) error {
		for i, r := range p.View().Runners {
			fmt.Printf("%d: %v, load %v, faults %d %v\n", i, r.State, r.Load, r.Faults, r.Fault)
		}
		return nil
	})
	// Output:
	// 0: open, load 0, faults 1 out of paper
	// 1: full, load 5, faults 0 <nil>
}

func ExamplePool_Close() {
	p := must(pool.Lanes(pool.Config{Runners: 2}))
	fmt.Println(p.Close(), p.Close())
	fmt.Println(p.Run(context.Background(), 1, func(context.Context, pool.Lane) error {
		return nil
	}))
	// Output:
	// <nil> <nil>
	// pool is closed
}

// backend is a runner of one's own: a remote worker that does several things at a time.
type backend struct{ name string }

func (b *backend) Greet(context.Context) (string, error) { return "hello from " + b.name, nil }

func (*backend) Close() error { return nil }

// The second backend is twice as large as the others.
func ExampleNew() {
	names := []string{"ant", "bee", "cat"}
	p := must(pool.New(
		pool.Config{
			Runners: len(names), Weights: []float64{1, 2, 1}, Slots: 10, Choice: pool.Weighted,
		},
		func(i int) (*backend, error) { return &backend{names[i]}, nil },
	))
	defer p.Close()
	var greetings []string
	for range 8 {
		greeting, err := pool.Do(context.Background(), p, 1,
			func(ctx context.Context, b *backend) (string, error) {
				return b.Greet(ctx)
			})
		if err != nil {
			fmt.Println(err)
		}
		greetings = append(greetings, greeting)
	}
	slices.Sort(greetings)
	for i, g := range greetings {
		if i == 0 || g != greetings[i-1] {
			fmt.Println(g)
		}
	}
	for i, r := range p.View().Runners {
		fmt.Println(names[i], r.Picks)
	}
	// Output:
	// hello from ant
	// hello from bee
	// hello from cat
	// ant 2
	// bee 4
	// cat 2
}

// A runner that gets nothing says why.
func ExampleRunnerView_Reason() {
	p := must(pool.Lanes(pool.Config{Runners: 1}))
	defer p.Close()
	p.Run(context.Background(), 5, func(context.Context, pool.Lane) error {
		fmt.Println(p.View().Runners[0].Reason())
		return nil
	})
	// Output: runs 1 functions of load 5
}
