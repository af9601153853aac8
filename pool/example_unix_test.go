//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rotahq/rota/pool"
)

// A pool of shells that square numbers.
func ExampleAsk() {
	const program = `while read -r n; do echo "{\"result\": $((n * n))}"; done`
	p := must(pool.New(pool.Config{Runners: 2},
		pool.Command{Argv: []string{"sh", "-c", program}}.Start))
	n, err := pool.Ask[int](context.Background(), p, 1, 12)
	fmt.Println(n, err)
	fmt.Println(p.Close())
	// Output:
	// 144 <nil>
	// <nil>
}

// A child by itself, without a pool.
func ExampleChild_Call() {
	c, err := pool.Command{Argv: []string{"sh", "-c",
		`while read -r x; do echo '{"error": "not today"}'; done`}}.Start(0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer c.Close()
	err = c.Call(context.Background(), map[string]int{"n": 1}, nil)
	refused, answered := errors.AsType[pool.ChildError](err)
	fmt.Println(refused, answered, c.Pid() > 0)
	// Output: not today true true
}
