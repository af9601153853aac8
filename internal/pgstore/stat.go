package pgstore

import (
	"context"
	"time"

	"github.com/rotahq/rota/internal/tally"
)

// stats are the differences of one transaction. They become rows in the same transaction as the facts they count, so they are
// exact. The rows are new ones: transactions that would change the same row would wait for one another's commit.
type stats struct{ tally.Tallies }

func newStats() stats { return stats{tally.Tallies{}} }

// thisMinute is known by the store's clock, when it is written.
const thisMinute = -1

// at is where what happens in a queue now is counted.
func (s stats) at(queue string) *tally.Tally { return s.Of(queue, thisMinute) }

// undone is where deletions are counted: they do not change what a minute saw.
func (s stats) undone(queue string) *tally.Tally { return s.Of(queue, tally.Always) }

const insertStats = `INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
SELECT queue, CASE WHEN minute = -1 THEN rota.micros($10) / 60000000 ELSE minute END, submitted, done, dead, cancelled, runs, retried, lost
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
  d (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)`

// queries writes the differences.
func (s stats) queries(clock any) []query {
	var queues []string
	var minutes []int64
	var columns [7][]int64
	for k, d := range s.All() {
		queues, minutes = append(queues, k.Queue), append(minutes, k.Minute)
		for i, v := range [...]int64{d.Submitted, d.Done, d.Dead, d.Cancelled, d.Runs, d.Retried, d.Lost} {
			columns[i] = append(columns[i], v)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	return []query{tell(insertStats, queues, minutes, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], columns[6], clock)}
}

// addUp makes one row of those of each queue and minute before $1, and minute 0 of those before $2.
const addUp = `WITH old AS (DELETE FROM rota.stat WHERE minute < $1 RETURNING *),
sums AS (
  SELECT queue, CASE WHEN minute < $2 THEN 0 ELSE minute END AS minute, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(runs), sum(retried), sum(lost)
  FROM old GROUP BY 1, 2)
INSERT INTO rota.stat SELECT * FROM sums`

// needsAddingUp looks whether any minute before $1 has more than one row, or is older than $2.
const needsAddingUp = `SELECT EXISTS (SELECT FROM rota.stat WHERE minute < $1 GROUP BY queue, minute HAVING count(*) > 1)
  OR EXISTS (SELECT FROM rota.stat WHERE minute > 0 AND minute < $2)`

// rollUp adds up the rows of minutes that are over, and forgets the minutes that are kept no longer: sums stay what they are.
func (s *Store) rollUp(ctx context.Context, now int64) error {
	this := now / time.Minute.Microseconds()
	oldest := this - int64(s.conf.Minutes/time.Minute)
	needed := false
	if err := s.glance(ctx, ask(needsAddingUp, func(r row) error { return r.Scan(&needed) }, this, oldest)); err != nil || !needed {
		return err
	}
	return s.write(ctx, func(ctx context.Context, t *tx) error { return t.finish(ctx, tell(addUp, this, oldest)) })
}
