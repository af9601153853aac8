package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// A queue that nobody serves needs a worker; how many of them is known when one has said what it
// takes.
func ExampleClient_Forecast() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.Submit(ctx, task.Submission{Queue: "mail"})
	must(err)
	f, err := c.Forecast(ctx, client.ForecastQuery{Wait: 30 * time.Second})
	must(err)
	for _, q := range f.Queues {
		fmt.Printf("%s: %d of %d wanted: %s\n", q.Queue, q.Workers, q.Wanted, q.Why)
	}
	// Output:
	// mail: 0 of 1 wanted: no worker takes its tasks; how many it needs is known once one does
}

func TestForecastOfWhatIsNotThere(t *testing.T) {
	c, shut := open()
	defer shut()
	_, err := c.Forecast(t.Context(), client.ForecastQuery{Queues: []string{"mail"}})
	if !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
	_, err = c.Forecast(t.Context(), client.ForecastQuery{Wait: time.Microsecond})
	if !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
}
