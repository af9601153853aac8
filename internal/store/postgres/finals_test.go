//go:build unix

package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/task"
)

// A final notice belongs to the day of the death, which may have no partition yet: when none was
// made ahead, or the clock of the store leapt. The settlement makes it and is done whole, once,
// also when another of its reports is refused.
func TestDeathWhoseNoticeHasNoPartitionYetIsSettledWithIt(t *testing.T) {
	for name, beside := range map[string]task.Status{"alone": task.Recorded,
		"beside a refused report": task.Stale} {
		t.Run(name, func(t *testing.T) {
			clock := contract.NewClock()
			c := join(t, open(t, Config{Now: clock.Now}))
			sp := c.submit(c.batch(3, 3, true))[0]
			before := c.tables("pack")
			clock.Advance(10 * 24 * time.Hour) // and nothing makes partitions meanwhile
			c = join(t, c.Store)
			now, notice := clock.Micros(), c.batch(1, 1, false)
			notice.Queue = "told"
			dead, other := report(&sp, 0, 0, now, task.Fail(errors.New("no"))),
				report(&sp, 1, 0, now, task.Finish(nil))
			dead.Notice = &notice
			counts := task.Counts{Ready: 1, Done: 1, Dead: 1}
			steps := int64(2)
			if beside == task.Stale {
				other.Token.SpanToken++
				counts, steps = task.Counts{Ready: 2, Dead: 1}, 1
			}
			settle := func(want ...task.Status) {
				t.Helper()
				got, err := c.Settle(t.Context(), store.Settlement{
					Reports: []store.Report{dead, other},
				})
				if err != nil || !slices.Equal(got.Verdicts, want) {
					t.Fatalf("settled: %v, %v, want %v", got.Verdicts, err, want)
				}
			}
			settle(task.Recorded, beside)
			if after := c.tables("pack"); len(after) != len(before)+1 {
				t.Errorf("partitions: %v, before %v; want one more", after, before)
			}
			again := beside
			if beside == task.Recorded {
				again = task.Repeated
			}
			settle(task.Repeated, again) // as a node does that lost the answer
			c.counts(counts)
			for table, want := range map[string]int64{"batch": 2, "tasks": 4, "step": steps} {
				if n := c.count("SELECT count(*) FROM rota." + table); n != want {
					t.Errorf("%s has %d rows, want %d", table, n, want)
				}
			}
			got, err := c.Take(t.Context(), store.TakeRequest{
				Holder: c.holder, Queue: "told", Limit: 10,
			})
			if err != nil || len(got.Spans) != 1 || got.Spans[0].Batch != notice.ID ||
				len(got.Spans[0].Tasks) != 1 {
				t.Errorf("the notice is taken: %+v, %v", got, err)
			}
		})
	}
}
