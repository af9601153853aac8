package sqlstore

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/tally"
)

// stat is where the transaction counts what happens in a queue.
func (t *tx) stat(queue string) *tally.Tally {
	return t.stats.Of(queue, t.now/time.Minute.Microseconds())
}

// undone is where it counts deletions: they do not change what a minute saw.
func (t *tx) undone(queue string) *tally.Tally { return t.stats.Of(queue, tally.Always) }

const addStat = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET submitted = submitted + ?3, done = done + ?4, dead = dead + ?5, cancelled = cancelled + ?6,
  runs = runs + ?7, retried = retried + ?8, lost = lost + ?9`

// count writes what the transaction changed.
func (t *tx) count() error {
	for k, d := range t.stats.All() {
		_, err := t.exec(addStat, k.Queue, k.Minute, d.Submitted, d.Done, d.Dead, d.Cancelled, d.Runs, d.Retried, d.Lost)
		if err != nil {
			return fmt.Errorf("count in queue %q: %w", k.Queue, err)
		}
	}
	return nil
}

const (
	oldMinutes = `SELECT DISTINCT queue FROM stat WHERE minute > 0 AND minute < ?`
	addMinutes = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
SELECT queue, 0, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(runs), sum(retried), sum(lost)
FROM stat WHERE queue = ? AND minute > 0 AND minute < ? GROUP BY queue
ON CONFLICT DO UPDATE SET submitted = submitted + excluded.submitted, done = done + excluded.done, dead = dead + excluded.dead,
  cancelled = cancelled + excluded.cancelled, runs = runs + excluded.runs, retried = retried + excluded.retried, lost = lost + excluded.lost`
	dropMinutes = `DELETE FROM stat WHERE queue = ? AND minute > 0 AND minute < ?`
)

// rollUp adds minutes that are kept no longer to one row for each queue: sums stay what they are.
func (s *Store) rollUp(ctx context.Context, now int64) error {
	before := (now - s.minutes.Microseconds()) / time.Minute.Microseconds()
	return s.write(ctx, func(t *tx) error {
		var queues []string
		err := t.each(oldMinutes, func(st *sqlite.Stmt) bool {
			queues = append(queues, st.ColumnText(0))
			return true
		}, before)
		for _, q := range queues {
			for _, query := range [...]string{addMinutes, dropMinutes} {
				if err == nil {
					_, err = t.exec(query, q, before)
				}
			}
		}
		return err
	})
}
