package pgstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// stat is what changed in one queue: differences, so that rows of one minute add up.
type stat struct {
	submitted, done, dead, cancelled int64 // less what is deleted: their sums are what the tables hold
	runs, retried, lost              int64 // never taken back
}

// final is the counter of a final state.
func (d *stat) final(s task.State) *int64 {
	switch s {
	case task.Done:
		return &d.done
	case task.Cancelled:
		return &d.cancelled
	}
	return &d.dead
}

// settled counts a step that was reported.
func (d *stat) settled(s *rows.Step) {
	if s.Started != 0 {
		d.runs++
	}
	switch {
	case s.Base == rows.Final:
		*d.final(finalState(s.Kind))++
	case s.Kind == task.KindRetry || s.Kind == task.KindTimeout:
		d.retried++
	}
	if s.Kind == task.KindLost {
		d.lost++
	}
}

// finalState is the state that a final step leads to.
func finalState(k task.Kind) task.State {
	switch k {
	case task.KindDone:
		return task.Done
	case task.KindCancelled:
		return task.Cancelled
	}
	return task.Dead
}

// gone counts a task that is deleted; s is the final state it was in, or another one.
func (d *stat) gone(s task.State) {
	d.submitted--
	if s.Final() {
		*d.final(s)--
	}
}

func (d *stat) unfinished() int64 { return d.submitted - d.done - d.dead - d.cancelled }

// stats are the differences of one transaction. They become rows in the same transaction as the facts they count, so they are
// exact. The rows are new ones: transactions that would change the same row would wait for one another's commit.
type stats map[statKey]*stat

type statKey struct {
	queue  string
	minute int64 // since 1970
}

const (
	always     = 0  // the minute of what is no longer told apart by the minute
	thisMinute = -1 // by the store's clock, when it is written
)

// at is where what happens in a queue now is counted.
func (s stats) at(queue string) *stat { return s.of(statKey{queue, thisMinute}) }

// undone is where deletions are counted: they do not change what a minute saw.
func (s stats) undone(queue string) *stat { return s.of(statKey{queue, always}) }

func (s stats) of(k statKey) *stat {
	if s[k] == nil {
		s[k] = new(stat)
	}
	return s[k]
}

const insertStats = `INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
SELECT queue, CASE WHEN minute = -1 THEN rota.micros($10) / 60000000 ELSE minute END, submitted, done, dead, cancelled, runs, retried, lost
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
  d (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)`

// queries writes the differences.
func (s stats) queries(clock any) []query {
	var queues []string
	var minutes []int64
	var columns [7][]int64
	for _, k := range slices.SortedFunc(maps.Keys(s), func(a, b statKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.minute, b.minute))
	}) {
		d := s[k]
		if *d == (stat{}) {
			continue
		}
		queues, minutes = append(queues, k.queue), append(minutes, k.minute)
		for i, v := range [...]int64{d.submitted, d.done, d.dead, d.cancelled, d.runs, d.retried, d.lost} {
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
