package sqlite

import (
	"fmt"

	"github.com/rotahq/rota/internal/counters"
)

// stat is where the transaction counts what happens in a queue.
func (t *tx) stat(queue string) *counters.Counters { return t.stats.Of(queue) }

// addStat adds to the one row of a queue. Its minute is 0: earlier versions had a row for each.
const addStat = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried,
lost, expired)
VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT
DO UPDATE SET submitted = submitted + ?2, done = done + ?3, dead = dead + ?4,
cancelled = cancelled + ?5,
  runs = runs + ?6, retried = retried + ?7, lost = lost + ?8,
  expired = expired + ?9`

// count writes what the transaction changed: the counts of its queues, and what it adds to the
// history.
func (t *tx) count() error {
	for queue, d := range t.stats.All() {
		_, err := t.exec(addStat, queue, d.Submitted, d.Done, d.Dead, d.Cancelled, d.Runs,
			d.Retried, d.Lost, d.Expired)
		if err != nil {
			return fmt.Errorf("count in queue %q: %w", queue, err)
		}
	}
	if body := t.history.Encode(); body != nil {
		if _, err := t.exec(addChanges, body); err != nil {
			return fmt.Errorf("note what changed for the history: %w", err)
		}
	}
	return nil
}
