package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/history"
)

// stats are what one transaction changed in the counts of queues, and what it adds to the history.
// Both become rows in the same transaction as the facts that they count, so they are exact. The
// rows are new ones: transactions that would change the same row would wait for one another's
// commit.
type stats struct {
	counters.Changes
	history *history.Changes
}

func newStats() stats { return stats{counters.Changes{}, new(history.Changes)} }

const insertStats = `WITH changed AS (
  INSERT INTO rota.history_change (body) SELECT $10::bytea WHERE $10::bytea IS NOT NULL)
INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried,
lost, expired)
SELECT queue, 0, submitted, done, dead, cancelled, runs, retried, lost, expired
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
$7::bigint[], $8::bigint[], $9::bigint[])
  d (queue, submitted, done, dead, cancelled, runs, retried, lost, expired)`

// insertChange adds to the history where no count of a queue changes.
const insertChange = `INSERT INTO rota.history_change (body) VALUES ($1)`

// queries writes the differences.
func (s stats) queries() []query {
	var queues []string
	var columns [8][]int64
	for queue, d := range s.All() {
		queues = append(queues, queue)
		for i, v := range [...]int64{d.Submitted, d.Done, d.Dead, d.Cancelled, d.Runs, d.Retried,
			d.Lost, d.Expired} {
			columns[i] = append(columns[i], v)
		}
	}
	body := s.history.Encode()
	if len(queues) == 0 && body == nil {
		return nil
	}
	return []query{
		tell(insertStats, queues, columns[0], columns[1], columns[2], columns[3], columns[4],
			columns[5], columns[6], columns[7], body),
	}
}

const (
	// manyStats lists the queues that have more than one row, and how many.
	manyStats = `SELECT queue, count(*) FROM rota.stat GROUP BY queue HAVING count(*) > 1`

	// addUp makes one row of a piece of those that queues have. Who adds up rows of the same queue
	// at the same time has others.
	addUp = `WITH gone AS (
  DELETE FROM rota.stat WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM rota.stat WHERE queue = ANY($1::text[]) ORDER BY queue
    LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *)
INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried,
lost, expired)
SELECT queue, 0, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(runs), sum(retried),
sum(lost), sum(expired) FROM gone GROUP BY queue`
)

// statPiece is how many rows of statistics one transaction adds up.
const statPiece = 5000

// statistics counts tasks, and what was done when. The tables stat, history and history_change are
// its own: others only insert rows of them, in the transactions that make them true (see stats),
// and here they are added up.
type statistics struct {
	*database

	// adding is closed when the statistics are added up that are being added up; nil = none are.
	// Whoever calls tidyBeside has the lock of upkeep.pruner.
	adding chan struct{}

	// Owned by whoever adds up, of whom there is one at a time: no adding up of the history before,
	// and none of statistics, and the queues that had ready or running tasks when it was last noted
	// how many there are.
	folded, tidied int64
	sampled        map[string]bool
}

// tidyBeside adds up statistics and the history: while the caller waits, and beside it when that
// takes longer than ctx allows. A failure is logged; what is left is added up the next time.
func (s *statistics) tidyBeside(ctx context.Context, now int64) {
	if s.adding == nil && history.Due(now, s.folded) {
		done := make(chan struct{})
		s.adding = done
		s.works.Go(func() {
			defer close(done)
			if err := s.tidy(s.life, now); err != nil && s.life.Err() == nil {
				s.conf.Log.Warn("statistics are not added up for now", "error", err)
			}
		})
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	select {
	case <-s.adding:
		s.adding = nil
	default:
	}
}

// tidy adds up the history: once a minute, and every few seconds while much happens. Once a minute
// it also adds up the statistics, notes how many tasks there are, and deletes what is old.
func (s *statistics) tidy(ctx context.Context, now int64) error {
	began := time.Now()
	minute := history.Due(now, s.tidied)
	many, left := true, false
	var err error
	if !minute {
		many, err = s.manyChanges(ctx)
	}
	if err == nil && many {
		left, err = s.fold(ctx, now)
	}
	s.folded = now + history.Rest(time.Since(began), left).Microseconds()
	if !minute {
		return err
	}
	s.tidied = now + time.Minute.Microseconds()
	return errors.Join(err, s.rollUp(ctx), s.sample(ctx, now), s.forgetHistory(ctx, now))
}

// rollUp adds up the rows that came: afterwards each queue has one, so that counting reads few. It
// reads and writes what came since the last time: 1,000 queues that all did something cost some
// 1,000 rows a minute.
func (s *statistics) rollUp(ctx context.Context) error {
	pieces, err := s.statPieces(ctx)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		for left := p.rows; left > 0; left -= statPiece {
			err := s.write(ctx, func(ctx context.Context, t *tx) error {
				return t.finish(ctx, tell(addUp, p.queues, statPiece))
			})
			if err != nil {
				return fmt.Errorf("add up: %w", err)
			}
		}
	}
	return nil
}

// statsOf are queues whose rows are added up together.
type statsOf struct {
	queues []string
	rows   int64
}

// statPieces shares out what is to be added up: as many queues to a piece as have statPiece rows
// together, or one that has more.
func (s *statistics) statPieces(ctx context.Context) (list []statsOf, err error) {
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
	}))
	return list, err
}
