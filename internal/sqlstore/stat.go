package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

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

// stats are the differences of one transaction. They become one row for each queue in the same transaction as the facts
// they count, so they are exact.
type stats map[statKey]*stat

type statKey struct {
	queue  string
	minute int64 // since 1970
}

// always is the minute of what is no longer told apart by the minute.
const always = 0

// stat is where the transaction counts what happens in a queue.
func (t *tx) stat(queue string) *stat {
	return t.stats.of(statKey{queue, t.now / time.Minute.Microseconds()})
}

// undone is where it counts deletions: they do not change what a minute saw.
func (t *tx) undone(queue string) *stat { return t.stats.of(statKey{queue, always}) }

func (s stats) of(k statKey) *stat {
	if s[k] == nil {
		s[k] = new(stat)
	}
	return s[k]
}

const addStat = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET submitted = submitted + ?3, done = done + ?4, dead = dead + ?5, cancelled = cancelled + ?6,
  runs = runs + ?7, retried = retried + ?8, lost = lost + ?9`

// flush writes the differences.
func (s stats) flush(t *tx) error {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b statKey) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.minute, b.minute))
	})
	for _, k := range keys {
		d := s[k]
		if *d == (stat{}) {
			continue
		}
		_, err := t.exec(addStat, k.queue, k.minute, d.submitted, d.done, d.dead, d.cancelled, d.runs, d.retried, d.lost)
		if err != nil {
			return fmt.Errorf("count in queue %q: %w", k.queue, err)
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
