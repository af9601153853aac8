package task_test

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/task"
)

func ExampleRate() {
	r, err := task.ParseRate("5/1m")
	fmt.Println(r.Count, r.Per, err)
	fmt.Println(task.Rate{Count: 100, Per: time.Second})
	fmt.Println(task.Rate{Count: 1, Per: 48 * time.Hour}.Check())
	// Output:
	// 5 1m0s <nil>
	// 100/1s
	// a rate's time must be 1ms to 24h0m0s, not 48h0m0s
}
