//go:build unix

package postgres

import (
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// A lease that runs out while spans are given back runs out before all of it, or behind it: no span
// is free without the rows of what runs of it, or the next holder hands that out again.
func TestSpansAreFreeWithTheRowsOfWhatRuns(t *testing.T) {
	clock := contract.NewClock()
	looks := -1 // how often it is asked for the time before the lease is over; -1 = it goes on
	c := join(t, used.fresh(t, Config{NoNotify: true, Now: func() time.Time {
		switch looks {
		case 0:
			return clock.Now().Add(2 * time.Hour)
		case -1:
		default:
			looks--
		}
		return clock.Now()
	}}, ""))
	for n := range 3 {
		sp := c.submit(c.batch(2, 2, true))[0]
		looks = n
		err := c.Give(t.Context(), store.GiveRequest{
			Holder: c.holder, Spans: []store.Taking{sp.Taking()},
			Running: []store.Running{{
				ID: task.ID{Batch: sp.Batch}, Span: sp.ID, Token: sp.Token, Worker: "w",
				Started: clock.Micros(), Until: clock.Micros() + 60e6,
			}},
		})
		looks = -1
		if err != nil {
			t.Fatal(err)
		}
		free := c.count("SELECT count(*) FROM rota.span WHERE holder IS NULL")
		rows := c.count("SELECT count(*) FROM rota.running")
		if free != rows {
			t.Errorf("over after %d looks: %d spans are free, %d rows stand", n, free, rows)
		}
	}
}
