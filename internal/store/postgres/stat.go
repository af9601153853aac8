package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/counters"
)

// stats are the differences of one transaction. They become rows in the same transaction as the
// facts they count, so they are exact. The rows are new ones: transactions that would change the
// same row would wait for one another's commit.
type stats struct{ counters.Changes }

func newStats() stats { return stats{counters.Changes{}} }

// thisMinute is known by the store's clock, when it is written.
const thisMinute = -1

// at is where what happens in a queue now is counted.
func (s stats) at(queue string) *counters.Counters { return s.Of(queue, thisMinute) }

// undone is where deletions are counted: they do not change what a minute saw.
func (s stats) undone(queue string) *counters.Counters { return s.Of(queue, counters.Always) }

const insertStats = `INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs,
retried, lost)
SELECT queue, CASE WHEN minute = -1 THEN rota.micros($10) / 60000000
ELSE minute END, submitted, done, dead, cancelled, runs, retried, lost
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
$7::bigint[], $8::bigint[], $9::bigint[])
  d (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)`

// queries writes the differences.
func (s stats) queries(clock any) []query {
	var queues []string
	var minutes []int64
	var columns [7][]int64
	for k, d := range s.All() {
		queues = append(queues, k.Queue)
		minutes = append(minutes, k.Minute)
		for i, v := range [...]int64{d.Submitted, d.Done, d.Dead, d.Cancelled, d.Runs, d.Retried,
			d.Lost} {
			columns[i] = append(columns[i], v)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	return []query{
		tell(insertStats, queues, minutes, columns[0], columns[1], columns[2], columns[3],
			columns[4], columns[5], columns[6], clock),
	}
}

const (
	// manyStats lists the queues that have more than one row of before the minute $1, and how many.
	manyStats = `SELECT queue, count(*) FROM rota.stat WHERE minute < $1
GROUP BY queue HAVING count(*) > 1 OR max(minute) > 0`

	// addUp makes one row of a piece of those that queues have of before the minute $2. Minutes
	// from $3 on are noted in stat_minute. Who adds up rows of the same queue at the same time has
	// others.
	addUp = `WITH gone AS (
  DELETE FROM rota.stat WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM rota.stat WHERE queue = ANY($1::text[]) AND minute < $2 ORDER BY queue, minute
    LIMIT $4 FOR UPDATE SKIP LOCKED)) RETURNING *),
noted AS (
  INSERT INTO rota.stat_minute AS m (minute, queue, submitted, done, dead, cancelled, runs, retried,
  lost)
  SELECT minute, queue, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(runs),
  sum(retried), sum(lost)
  FROM gone WHERE minute >= $3 GROUP BY 1, 2 ORDER BY 1, 2
  ON CONFLICT (minute, queue)
  DO UPDATE SET submitted = m.submitted + excluded.submitted, done = m.done + excluded.done,
    dead = m.dead + excluded.dead, cancelled = m.cancelled + excluded.cancelled,
    runs = m.runs + excluded.runs,
    retried = m.retried + excluded.retried, lost = m.lost + excluded.lost)
INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
SELECT queue, 0, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(runs), sum(retried),
sum(lost) FROM gone GROUP BY queue`

	// dropMinutes deletes a piece of the minutes before $1.
	dropMinutes = `WITH gone AS (
  DELETE FROM rota.stat_minute WHERE ctid = ANY(ARRAY(SELECT ctid FROM rota.stat_minute
  WHERE minute < $1 ORDER BY minute, queue LIMIT $2)) RETURNING 1)
SELECT count(*) FROM gone`
)

// statPiece is how many rows of statistics one transaction adds up or deletes.
const statPiece = 5000

// rollUpBeside adds up statistics: while the caller waits, and beside it when that takes longer
// than ctx allows. A failure is logged; what is left is added up with the next minute.
func (s *Store) rollUpBeside(ctx context.Context, now int64) {
	p := &s.pruner
	if p.adding == nil {
		done := make(chan struct{})
		p.adding = done
		s.works.Go(func() {
			defer close(done)
			if err := s.rollUp(s.life, now); err != nil && s.life.Err() == nil {
				s.conf.Log.Warn("statistics are not added up for now", "error", err)
			}
		})
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	select {
	case <-p.adding:
		p.adding = nil
	default:
	}
}

// rollUp adds up the rows of minutes that are over: afterwards each queue has one, so that counting
// reads few. It reads and writes what came since the last time, whatever is kept of older minutes:
// 1,000 queues that all did something cost some 2,000 rows a minute.
func (s *Store) rollUp(ctx context.Context, now int64) error {
	this := now / time.Minute.Microseconds()
	oldest := max(this-int64(s.conf.Minutes/time.Minute), 1)
	pieces, err := s.statPieces(ctx, this)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		for left := p.rows; left > 0; left -= statPiece {
			err := s.write(ctx, func(ctx context.Context, t *tx) error {
				return t.finish(ctx, tell(addUp, p.queues, this, oldest, statPiece))
			})
			if err != nil {
				return fmt.Errorf("add up: %w", err)
			}
		}
	}
	return s.forgetMinutes(ctx, oldest)
}

// statsOf are queues whose rows are added up together.
type statsOf struct {
	queues []string
	rows   int64
}

// statPieces shares out what is to be added up: as many queues to a piece as have statPiece rows
// together, or one that has more.
func (s *Store) statPieces(ctx context.Context, this int64) (list []statsOf, err error) {
	err = s.glance(ctx, ask(manyStats, func(r row) error {
		var queue string
		var n int64
		if err := r.Scan(&queue, &n); err != nil {
			return err
		}
		if last := len(list) - 1; last >= 0 && list[last].rows+n <= statPiece {
			list[last].queues, list[last].rows = append(list[last].queues, queue), list[last].rows+n
		} else {
			list = append(list, statsOf{[]string{queue}, n})
		}
		return nil
	}, this))
	return list, err
}

// forgetMinutes deletes the minutes that are kept no longer.
func (s *Store) forgetMinutes(ctx context.Context, oldest int64) error {
	old := false
	err := s.glance(ctx,
		ask(`SELECT EXISTS (SELECT FROM rota.stat_minute WHERE minute < $1)`, func(r row) error {
			return r.Scan(&old)
		}, oldest))
	for n := int64(statPiece); err == nil && old && n == statPiece; {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			return t.finish(ctx, ask(dropMinutes, func(r row) error {
				return r.Scan(&n)
			}, oldest, statPiece))
		})
	}
	return err
}
