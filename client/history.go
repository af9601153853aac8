package client

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/rotahq/rota/view"
)

// StatsQuery says of whom and of which time it is asked what was done. Zero fields are of all
// queues together, of the last hour, minute by minute.
type StatsQuery struct {
	Queue  string // of this queue
	Stage  string // of this stage of the queue
	Worker string // of this worker; without a queue

	From, To time.Time // zero = an hour before To, and now
	// how long a period is: whole minutes, which reach back a day, or whole hours, 90 days; 0 = 1m
	Step time.Duration
}

func (q *StatsQuery) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{
		"queue": q.Queue, "stage": q.Stage, "worker": q.Worker,
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, t := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !t.IsZero() {
			v.Set(name, moment(t))
		}
	}
	if q.Step != 0 {
		v.Set("step", q.Step.String())
	}
	return v
}

// Stats says what was done when: all periods of the time that is asked for, the earliest first, at
// most 1,500. They begin at whole multiples of the step since 1970 in UTC. A query that makes no
// sense is an ErrInvalid.
func (c *Client) Stats(ctx context.Context, q StatsQuery) ([]view.Period, error) {
	var p page[view.Period]
	if err := c.get(ctx, request{path: "/v1/stats", query: q.values()}, &p); err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return p.Items, nil
}
