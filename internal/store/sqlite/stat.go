package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/counters"
)

// stat is where the transaction counts what happens in a queue.
func (t *tx) stat(queue string) *counters.Counters {
	return t.stats.Of(queue, t.now/time.Minute.Microseconds())
}

// undone is where it counts deletions: they do not change what a minute saw.
func (t *tx) undone(queue string) *counters.Counters { return t.stats.Of(queue, counters.Always) }

const addStat = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried,
lost)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT
DO UPDATE SET submitted = submitted + ?3, done = done + ?4, dead = dead + ?5,
cancelled = cancelled + ?6,
  runs = runs + ?7, retried = retried + ?8, lost = lost + ?9`

// count writes what the transaction changed.
func (t *tx) count() error {
	for k, d := range t.stats.All() {
		_, err := t.exec(addStat, k.Queue, k.Minute, d.Submitted, d.Done, d.Dead, d.Cancelled,
			d.Runs, d.Retried, d.Lost)
		if err != nil {
			return fmt.Errorf("count in queue %q: %w", k.Queue, err)
		}
	}
	return nil
}

const (
	overMinutes = `SELECT queue, minute FROM stat WHERE minute > 0 AND minute < ? LIMIT ?`
	noteMinute  = `INSERT INTO stat_minute (minute, queue, submitted, done, dead, cancelled, runs,
retried, lost)
SELECT minute, queue, submitted, done, dead, cancelled, runs, retried, lost FROM stat
WHERE queue = ?1 AND minute = ?2
ON CONFLICT
DO UPDATE SET submitted = submitted + excluded.submitted, done = done + excluded.done,
dead = dead + excluded.dead,
  cancelled = cancelled + excluded.cancelled, runs = runs + excluded.runs,
  retried = retried + excluded.retried, lost = lost + excluded.lost`
	addMinute = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried,
lost)
SELECT queue, 0, submitted, done, dead, cancelled, runs, retried, lost FROM stat WHERE queue = ?1
AND minute = ?2
ON CONFLICT
DO UPDATE SET submitted = submitted + excluded.submitted, done = done + excluded.done,
dead = dead + excluded.dead,
  cancelled = cancelled + excluded.cancelled, runs = runs + excluded.runs,
  retried = retried + excluded.retried, lost = lost + excluded.lost`
	dropMinute = `DELETE FROM stat WHERE queue = ?1 AND minute = ?2`
	oldMinutes = `SELECT queue, minute FROM stat_minute WHERE minute < ? ORDER BY minute, queue
LIMIT ?`
	forgetOne = `DELETE FROM stat_minute WHERE queue = ?1 AND minute = ?2`
	// rows of statistics that one transaction adds up or forgets: others wait while the writer is
	// at it
	minutePiece = 200
	minutesOnce = 50 // pieces that one call does
)

// rollUp adds minutes that are over to one row for each queue, so that counting reads few, and
// forgets those that are kept no longer: sums stay what they are. It says whether that is all.
func (s *Store) rollUp(ctx context.Context, now int64) (all bool, err error) {
	this := now / time.Minute.Microseconds()
	oldest := this - int64(s.minutes/time.Minute)
	for range minutesOnce {
		over, err := s.minutesOf(ctx, overMinutes, this)
		if err != nil {
			return false, err
		}
		old, err := s.minutesOf(ctx, oldMinutes, oldest)
		if err != nil || len(over)+len(old) == 0 {
			return err == nil, err
		}
		err = s.write(ctx, func(t *tx) error {
			for _, m := range over {
				queries := []string{noteMinute, addMinute, dropMinute}
				if m.Minute < oldest {
					queries = queries[1:]
				}
				for _, query := range queries {
					if _, err := t.exec(query, m.Queue, m.Minute); err != nil {
						return err
					}
				}
			}
			for _, m := range old {
				if _, err := t.exec(forgetOne, m.Queue, m.Minute); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// minutesOf lists a piece of the minutes before one. Nobody adds to those that are over.
func (s *Store) minutesOf(
	ctx context.Context, query string, before int64,
) (list []counters.Key, err error) {
	err = s.read(ctx, func(c *conn) error {
		list = nil
		return c.each(query, func(st *sqlite.Stmt) bool {
			list = append(list, counters.Key{Queue: st.ColumnText(0), Minute: st.ColumnInt64(1)})
			return true
		}, before, minutePiece)
	})
	return list, err
}
