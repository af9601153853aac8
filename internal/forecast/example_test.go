package forecast_test

import (
	"fmt"

	"github.com/rotahq/rota/internal/forecast"
)

// In each minute of the last hour 600 tasks came, and each ran for half a second: they keep five
// slots busy, and wait for ever longer where there are four.
func Example() {
	record := forecast.Record{Runs: 36_000, Mean: 0.5, Second: 0.5}
	for range forecast.Window {
		record.Arrived = append(record.Arrived, 600)
		record.Waited = append(record.Waited, -1) // nobody knows
		record.Slots = append(record.Slots, -1)
	}
	m := forecast.New(forecast.Facts{
		Queues:  []forecast.Queue{{Name: "mail", Record: record}},
		Workers: []forecast.Worker{{Slots: 4, Queues: []string{"mail"}}},
	})
	n, _ := m.Queue("mail", forecast.Ask{Target: forecast.Target})
	fmt.Println(n.Workers, "there,", n.Wanted, "wanted:", n.Why)
	// Output:
	// 1 there, 2 wanted: 600 tasks a minute of 500ms each, 5 slots busy; 2 workers of 4 slots keep 95 % of the waits below 5s
}
