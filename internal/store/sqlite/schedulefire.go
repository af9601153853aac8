package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	cursorOf     = `SELECT id, version, next FROM schedule WHERE name = ?`
	outcomeAt    = `SELECT outcome FROM fire WHERE schedule = ? AND at = ?`
	firesFromNow = `SELECT at, outcome FROM fire WHERE schedule = ? AND at >= ?`
	fireOfTask   = `SELECT at FROM fire WHERE schedule = ? AND batch = ? AND n = ? LIMIT 1`

	// putFire replaces a row that stands: only what was not fired gets here.
	putFire = `REPLACE INTO fire (` + fireColumns +
		`, schedule, open)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// tailOf is the newest due time of a schedule that has a row with parents.
	tailOf = `SELECT coalesce(max(at), -1) FROM fire WHERE schedule = ? AND parents IS NOT NULL`
	// moveCursor leaves the cursor alone when it is given none.
	moveCursor = `UPDATE schedule SET next = coalesce(?2, next), last = max(last, ?3) WHERE id = ?1`

	// endFire closes a row, or only notes how far its task was looked at.
	endFire = `UPDATE fire SET ended = ?1, seq = ?2, open = CASE WHEN ?1 = 0 THEN open END
` + thatEnds
	endsFire = `SELECT 1 FROM fire ` + thatEnds
	thatEnds = `WHERE schedule = (SELECT id FROM schedule WHERE name = ?3) AND at = ?4 AND batch IS ?5 AND n IS ?6
  AND watch AND outcome <> 'queued' AND ended = 0 AND seq <= ?2 AND (ended <> ?1 OR seq <> ?2)`
	// reopenFires opens again what a task's replay, the step at its seq, makes undecided. A row of
	// a deleted schedule stays closed.
	reopenFires = `UPDATE fire SET ended = 0, seq = ?3, tries = tries + 1, open = (SELECT name
FROM schedule s WHERE s.id = fire.schedule)
WHERE batch = ?1 AND n = ?2 AND watch`
)

// runningFires counts the open fires of a schedule whose tasks are not final.
var runningFires = `SELECT count(*) FROM fire f WHERE f.open = ? AND f.outcome = 'fired'
  AND ` + isTask("f.batch", "f.n") + `
  AND coalesce((SELECT s.base FROM step s WHERE s.batch = f.batch AND s.n = f.n
  ORDER BY s.seq DESC LIMIT 1), -` + isMarked("f.batch", "f.n") + `) <> -1`

// Fire writes down what came of due times, and submits their tasks. See contract.Schedules.
//
// Contexts that are blobs of tasks which are left out stay for a while: the same firing may come
// again.
func (s *scheduleCalls) Fire(ctx context.Context, f store.Firing) (answer store.Fired, err error) {
	if len(f.Parts) > 0 {
		err = s.room()
	}
	if err == nil {
		err = s.write(ctx, func(t *tx) (err error) {
			answer, err = t.schedules().fire(&f)
			return err
		})
	}
	if err != nil {
		return store.Fired{}, fmt.Errorf("fire %d schedules: %w", len(f.Parts), err)
	}
	return answer, nil
}

func (t scheduleWrites) fire(f *store.Firing) (store.Fired, error) {
	found, err := t.loadFires(f)
	if err != nil {
		return store.Fired{}, err
	}
	answer := store.Fired{Now: t.now, Parts: found.Decide(f.Parts)}
	for i := range answer.Parts {
		if p := &answer.Parts[i]; p.Refused == "" {
			name := f.Parts[i].Schedule
			if err := t.writeFires(found.Schedules[name], p.Fires); err != nil {
				return answer, fmt.Errorf("schedule %q: %w", name, err)
			}
		}
	}
	sub := rules.Submission(f, answer.Parts)
	for _, queue := range sub.NewQueues {
		if _, err := t.queues().putQueue(insertQueue, limits.DefaultQueue(queue)); err != nil {
			return answer, fmt.Errorf("queue %q: %w", queue, err)
		}
	}
	for i := range sub.Batches {
		if err := t.submissions().insertBatch(
			&sub.Batches[i], store.Holder{}, false, nil, &store.Submitted{},
		); err != nil {
			return answer, fmt.Errorf("batch %d: %w", sub.Batches[i].ID, err)
		}
	}
	return answer, t.endFires(f.Ends)
}

// endFires writes down what became of fires.
func (t scheduleWrites) endFires(ends []store.FireEnd) error {
	for i := range ends {
		e := &ends[i]
		batch, n := taskColumns(e.Task)
		if _, err := t.exec(endFire, int(e.Ended), e.Seq, e.Schedule, e.At, batch, n); err != nil {
			return fmt.Errorf("end of %q at %d: %w", e.Schedule, e.At, err)
		}
	}
	return nil
}

// mayEnd is store.ErrConflict when an end would not be written down.
func (t scheduleWrites) mayEnd(ends []store.FireEnd) error {
	for i := range ends {
		e := &ends[i]
		batch, n := taskColumns(e.Task)
		open, err := t.has(endsFire, int(e.Ended), e.Seq, e.Schedule, e.At, batch, n)
		if err == nil && !open {
			err = store.ErrConflict
		}
		if err != nil {
			return fmt.Errorf("end of %q at %d: %w", e.Schedule, e.At, err)
		}
	}
	return nil
}

// loadFires finds what package rules needs to decide a call.
func (t scheduleWrites) loadFires(f *store.Firing) (*rules.Fires, error) {
	found := &rules.Fires{
		Node: f.Node, Now: t.now, Stands: map[int64]bool{},
		Schedules: make(map[string]*rules.FireSchedule, len(f.Parts)),
	}
	schedules := make([]rules.FireSchedule, len(f.Parts)) // all at once, since a call has many
	for i := range f.Batches {
		b := &f.Batches[i]
		var origin string
		stands, err := t.one(findBatch, func(st *sqlite.Stmt) { origin = st.ColumnText(0) }, b.ID)
		if err == nil && stands && origin != b.Origin {
			err = fmt.Errorf("it stands already, from %q: %w", origin, store.ErrConflict)
		}
		if err != nil {
			return nil, fmt.Errorf("batch %d: %w", b.ID, err)
		}
		found.Stands[b.ID] = stands
	}
	for i := range f.Parts {
		if err := t.loadPart(found, &f.Parts[i], &schedules[i]); err != nil {
			return nil, fmt.Errorf("schedule %q: %w", f.Parts[i].Schedule, err)
		}
	}
	return found, nil
}

// loadPart finds a part's schedule, unless a part before it did, and the rows that its fires may
// meet.
func (t scheduleWrites) loadPart(
	found *rules.Fires, p *store.FirePart, s *rules.FireSchedule,
) (err error) {
	if known := found.Schedules[p.Schedule]; known != nil {
		s = known
	} else {
		stands, err := t.loadCursor(p.Schedule, s)
		if err != nil || !stands {
			return err
		}
		found.Schedules[p.Schedule] = s
	}
	if p.Most > 0 {
		_, err = t.one(runningFires, func(st *sqlite.Stmt) {
			s.Running = st.ColumnInt64(0)
		}, p.Schedule)
	}
	if p.Tail != 0 && err == nil {
		_, err = t.one(tailOf, func(st *sqlite.Stmt) { s.Tail = st.ColumnInt64(0) }, s.ID)
	}
	fromNow := false // the rows from now on are loaded
	for i := 0; i < len(p.Fires) && err == nil; i++ {
		f := &p.Fires[i]
		switch {
		case f.At != 0:
			_, err = t.one(outcomeAt, func(st *sqlite.Stmt) {
				s.Row(f.At, task.FireOutcome(st.ColumnText(0)))
			}, s.ID, f.At)
		case found.Stands[f.Task.Batch]:
			_, err = t.one(fireOfTask, func(st *sqlite.Stmt) {
				s.Asked(f.Task, st.ColumnInt64(0))
			}, s.ID, f.Task.Batch, f.Task.N)
		case !fromNow:
			fromNow = true
			err = t.each(firesFromNow, func(st *sqlite.Stmt) bool {
				s.Row(st.ColumnInt64(0), task.FireOutcome(st.ColumnText(1)))
				return true
			}, s.ID, t.now)
		}
	}
	return err
}

// loadCursor finds a schedule.
func (t scheduleWrites) loadCursor(name string, s *rules.FireSchedule) (found bool, err error) {
	found, err = t.one(cursorOf, func(st *sqlite.Stmt) {
		s.ID, s.Version, s.Next = st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnInt64(2)
	}, name)
	if err == nil && found {
		s.Followed, err = t.has(followerOf, name)
	}
	return found, err
}

// writeFires writes a part's rows, and moves the cursor of its schedule.
func (t scheduleWrites) writeFires(s *rules.FireSchedule, fires []store.Fire) error {
	last := int64(0)
	for i := range fires {
		f := &fires[i]
		if err := t.insertFire(s.ID, f); err != nil {
			return err
		}
		if f.Outcome == task.FireFired {
			last = max(last, f.At)
		}
	}
	var next any
	if s.Moved {
		next = s.Next
	}
	if next == nil && last == 0 {
		return nil
	}
	_, err := t.exec(moveCursor, s.ID, next, last)
	return err
}

func (t scheduleWrites) insertFire(schedule int64, f *store.Fire) error {
	var open any
	if f.Open() {
		open = f.Schedule
	}
	parents, err := store.Parents(f.Parents)
	if err != nil {
		return err
	}
	var root, rootAt any
	if f.Run != (store.FireKey{Schedule: f.Schedule, At: f.At}) {
		root, rootAt = f.Run.Schedule, f.Run.At
	}
	batch, n := taskColumns(f.Task)
	_, err = t.exec(putFire, f.At, f.Through, f.Count, string(f.Origin), string(f.Outcome),
		f.Reason, batch, n, f.Node, f.Time, f.Limit,
		f.Watch, int(f.Ended), f.Seq, f.Tries, root, rootAt, orNull(parents), schedule, open)
	return err
}

// taskColumns are an id's columns, NULL when there is none.
func taskColumns(id task.ID) (batch, n any) {
	if id == (task.ID{}) {
		return nil, nil
	}
	return id.Batch, id.N
}
