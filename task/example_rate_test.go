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

// A queue looks at group keys where it limits each of them, or lets them take turns.
func ExampleQueue_ByKeys() {
	mail := task.Queue{MaxRunning: 20}
	fmt.Println(mail.ByKeys())
	mail.PerKey.MaxRunning = 1
	fmt.Println(mail.ByKeys())
	// Output:
	// false
	// true
}

// The bookings of an account go one after another.
func ExampleKeyLimits_InOrder() {
	ledger := task.Queue{Name: "ledger", PerKey: task.KeyLimits{MaxRunning: 1}}
	fmt.Println(ledger.PerKey.InOrder())
	ledger.PerKey.MaxRunning = 2
	fmt.Println(ledger.PerKey.InOrder())
	// Output:
	// true
	// false
}
