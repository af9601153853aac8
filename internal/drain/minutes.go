package drain

import (
	"context"
	"math"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// roundLong is how long the moves of a round take: the successor's worker hears of it, says
	// that it runs, and the predecessor's worker hears that it is to end.
	roundLong = 5 * time.Second
	looked    = 200 // tasks that are looked at
	queues    = 20  // queues whose run times are looked up
	back      = time.Hour
)

// minutes is how long it takes until all that can leave has left: the rounds of moves, and until 95
// of 100 of the tasks that are to end have ended, by how long those of their queues ran in this
// hour and the last one. A queue of which nothing is known counts as done.
func (d *Drains) minutes(
	ctx context.Context, worker string, p *store.DrainPrice,
) (minutes float64, err error) {
	long := time.Duration(p.Rounds) * roundLong
	if p.Tasks > 0 {
		page, _, err := d.conf.Tasks.Tasks(ctx,
			store.Filter{Worker: worker, State: task.Running}, task.ID{}, looked)
		if err != nil {
			return 0, err
		}
		runs := map[string]time.Duration{} // by queue
		now := time.Now()
		for i := range page {
			queue := page[i].Queue
			if _, known := runs[queue]; !known && len(runs) < queues {
				if runs[queue], err = d.run(ctx, queue, now); err != nil {
					return 0, err
				}
			}
			long = max(long, runs[queue]-now.Sub(page[i].Started))
		}
	}
	return math.Ceil(10*long.Minutes()) / 10, nil
}

// run is the time within which 95 of 100 tasks of a queue ended in this hour and the last one; 0 =
// nothing is known.
func (d *Drains) run(
	ctx context.Context, queue string, now time.Time,
) (time.Duration, error) {
	q := history.Question{
		Series: history.Series{Queue: queue}, From: now.Add(-back).Truncate(back).UnixMicro(),
		To: now.Truncate(back).Add(back).UnixMicro(), Step: back, Now: now.UnixMicro(),
	}
	periods, err := d.conf.History.History(ctx, q)
	if err != nil {
		return 0, err
	}
	var all history.Histogram
	for i := range periods {
		all.Merge(&periods[i].Run)
	}
	long, _ := all.Quantile(0.95)
	return long, nil
}
