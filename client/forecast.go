package client

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rotahq/rota/view"
)

// ForecastQuery says what forecasts are asked for. The zero value asks for those of all queues and
// groups.
type ForecastQuery struct {
	Queues []string      // of these queues, and of no group; none = of all
	Wait   time.Duration // that 95 of 100 tasks are to stay below; 0 = 5s
}

// Forecast says how many workers queues and groups need, by what the last hour was like. Where a
// queue is named that does not exist it is ErrNotFound.
func (c *Client) Forecast(ctx context.Context, q ForecastQuery) (view.Forecast, error) {
	values := url.Values{}
	if len(q.Queues) > 0 {
		values.Set("queue", strings.Join(q.Queues, ","))
	}
	if q.Wait != 0 {
		values.Set("wait", q.Wait.String())
	}
	var f view.Forecast
	if err := c.get(ctx, request{path: "/v1/forecast", query: values}, &f); err != nil {
		return view.Forecast{}, fmt.Errorf("read forecast: %w", err)
	}
	return f, nil
}
