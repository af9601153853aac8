package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	oldFires = `SELECT schedule, at, outcome FROM fire WHERE open IS NULL AND time <= ?
ORDER BY time LIMIT ?`
	dropFire = `DELETE FROM fire WHERE schedule = ? AND at = ?`
	// lastButOne looks for what is the newest that was fired once the newest of all is dropped:
	// something older that is still open.
	lastButOne = `UPDATE schedule SET last = coalesce((SELECT max(at) FROM fire WHERE schedule = ?1
AND at < ?2 AND outcome = 'fired'), 0)
WHERE id = ?1 AND last = ?2`

	oldEras = `SELECT schedule, version FROM era WHERE until <= ? ORDER BY until LIMIT ?`
	dropEra = `DELETE FROM era WHERE schedule = ? AND version = ?`
	// dropDays deletes days that no calendar has any more, and neither a schedule nor what one was.
	dropDays = `DELETE FROM calendar WHERE NOT stands AND NOT EXISTS (SELECT 1 FROM schedule s
WHERE s.days = calendar.id)
  AND NOT EXISTS (SELECT 1 FROM era e WHERE e.days = calendar.id)`

	remainingSchedule = `SELECT schedule FROM schedule_remains LIMIT 1`
	dropRemainingOnes = `DELETE FROM fire WHERE schedule = ?1 AND at IN (SELECT at FROM fire
WHERE schedule = ?1 LIMIT ?2)`
	dropRemainingEras = `DELETE FROM era WHERE schedule = ?1 AND version IN (SELECT version FROM era
WHERE schedule = ?1 LIMIT ?2)`
	nothingRemains = `DELETE FROM schedule_remains WHERE schedule = ?`
)

// pruneSchedules deletes what came of due times long ago, what schedules were then, and what
// deleted schedules have left.
func (s *scheduleCalls) pruneSchedules(ctx context.Context, limit int) (pruned int, err error) {
	err = s.write(ctx, func(t *tx) error {
		pruned = 0
		left := min(limit, piece)
		schedules := t.schedules()
		for _, step := range [...]func(int) (int, error){
			schedules.pruneFires, schedules.pruneEras, schedules.pruneScheduleRemains,
		} {
			n, err := step(left)
			if err != nil {
				return err
			}
			pruned, left = pruned+n, left-n
		}
		_, err := t.exec(dropDays)
		return err
	})
	return pruned, err
}

func (t scheduleWrites) pruneFires(limit int) (pruned int, err error) {
	type old struct {
		schedule, at int64
		fired        bool
	}
	var list []old
	err = t.each(oldFires, func(st *sqlite.Stmt) bool {
		list = append(list,
			old{
				st.ColumnInt64(0), st.ColumnInt64(1),
				task.FireOutcome(st.ColumnText(2)) == task.FireFired,
			})
		return true
	}, t.now-store.FiresKept.Microseconds(), limit)
	for _, f := range list {
		if err == nil {
			_, err = t.exec(dropFire, f.schedule, f.at)
		}
		if err == nil && f.fired {
			_, err = t.exec(lastButOne, f.schedule, f.at)
		}
	}
	return len(list), err
}

func (t scheduleWrites) pruneEras(limit int) (pruned int, err error) {
	var list [][2]int64
	err = t.each(oldEras, func(st *sqlite.Stmt) bool {
		list = append(list, [2]int64{st.ColumnInt64(0), st.ColumnInt64(1)})
		return true
	}, t.now-store.FiresKept.Microseconds(), limit)
	for _, e := range list {
		if err == nil {
			_, err = t.exec(dropEra, e[0], e[1])
		}
	}
	return len(list), err
}

// pruneScheduleRemains deletes a piece of what a deleted schedule has left.
func (t scheduleWrites) pruneScheduleRemains(limit int) (pruned int, err error) {
	var id int64
	found, err := t.one(remainingSchedule, func(st *sqlite.Stmt) { id = st.ColumnInt64(0) })
	if err != nil || !found {
		return 0, err
	}
	for _, query := range [...]string{dropRemainingOnes, dropRemainingEras} {
		n, err := t.exec(query, id, limit-pruned)
		if err != nil {
			return pruned, err
		}
		pruned += n
	}
	if pruned == 0 && limit > 0 {
		_, err = t.exec(nothingRemains, id)
	}
	return pruned, err
}
