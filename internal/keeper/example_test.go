package keeper_test

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/keeper"
	"github.com/rotahq/rota/task"
)

// Two tasks of a customer at a time, and ten a second over all of them.
func Example() {
	now := time.Now().UnixMicro()
	k := keeper.New(keeper.Limits{
		Rate: keeper.Rate{Count: 10, Per: time.Second},
		Key:  keeper.KeyLimits{Running: 2},
	}, now)
	now += time.Second.Microseconds()
	for n := range int32(4) {
		h := keeper.Handout{ID: task.ID{Batch: 1, N: n}}
		if r := k.May(h.ID, "acme", now); !r.OK() {
			fmt.Println(n, "waits:", r.Why)
			continue
		}
		k.Begin(h, "acme", now, now+time.Second.Microseconds())
		fmt.Println(n, "begins")
	}
	// Output:
	// 0 begins
	// 1 begins
	// 2 waits: key_limit
	// 3 waits: key_limit
}
