package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	cursorOf   = `SELECT id, version, next FROM schedule WHERE name = ?`
	outcomeAt  = `SELECT outcome FROM fire WHERE schedule = ? AND at = ?`
	fireOfTask = `SELECT at FROM fire WHERE schedule = ? AND batch = ? AND n = ? LIMIT 1`

	// runningFires counts the open fires of a schedule whose tasks are not final.
	runningFires = `SELECT count(*) FROM fire f JOIN task t ON t.batch = f.batch AND t.n = f.n WHERE f.open = ? AND f.outcome = 'fired'
  AND coalesce((SELECT s.base FROM step s WHERE s.batch = t.batch AND s.n = t.n ORDER BY s.seq DESC LIMIT 1), 0) <> -1`

	// insertFire replaces a row that stands: only what was not fired gets here.
	insertFire = `REPLACE INTO fire (` + fireColumns + `, schedule, open) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// moveCursor leaves the cursor alone when it is given none.
	moveCursor = `UPDATE schedule SET next = coalesce(?2, next), last = max(last, ?3) WHERE id = ?1`

	// endFire closes a row, or only notes how far its task was looked at.
	endFire = `UPDATE fire SET ended = ?1, seq = ?2, open = CASE WHEN ?1 = 0 THEN open END
WHERE schedule = (SELECT id FROM schedule WHERE name = ?3) AND at = ?4 AND batch IS ?5 AND n IS ?6
  AND watch AND outcome <> 'queued' AND ended = 0 AND seq <= ?2 AND (ended <> ?1 OR seq <> ?2)`
	// reopenFires opens again what a task's replay, the step at its seq, makes undecided. A row of a deleted schedule stays closed.
	reopenFires = `UPDATE fire SET ended = 0, seq = ?3, tries = tries + 1, open = (SELECT name FROM schedule s WHERE s.id = fire.schedule)
WHERE batch = ?1 AND n = ?2 AND watch`
)

// Fire writes down what came of due times, and submits their tasks. See the contract, storetest.Schedules.
//
// Contexts that are blobs of tasks which are left out stay for a while: the same firing may come again.
func (s *Store) Fire(ctx context.Context, f store.Firing) (answer store.Fired, err error) {
	if len(f.Parts) > 0 {
		err = s.room()
	}
	if err == nil {
		err = s.write(ctx, func(t *tx) (err error) {
			answer, err = t.fire(&f)
			return err
		})
	}
	if err != nil {
		return store.Fired{}, fmt.Errorf("fire %d schedules: %w", len(f.Parts), err)
	}
	return answer, nil
}

// firing is a Firing in progress.
type firing struct {
	*tx
	node   string
	stands map[int64]bool   // batches that were there before
	wanted map[task.ID]bool // tasks of the rows that were written
}

func (t *tx) fire(f *store.Firing) (store.Fired, error) {
	answer := store.Fired{Now: t.now, Parts: make([]store.FiredPart, len(f.Parts))}
	w := firing{tx: t, node: f.Node, stands: map[int64]bool{}, wanted: map[task.ID]bool{}}
	for i := range f.Batches {
		b := &f.Batches[i]
		var origin string
		found, err := t.one(findBatch, func(st *sqlite.Stmt) { origin = st.ColumnText(0) }, b.ID)
		if err == nil && found && origin != b.Origin {
			err = fmt.Errorf("it stands already, from %q: %w", origin, store.ErrConflict)
		}
		if err != nil {
			return answer, fmt.Errorf("batch %d: %w", b.ID, err)
		}
		w.stands[b.ID] = found
	}
	for i := range f.Parts {
		var err error
		if answer.Parts[i], err = w.part(&f.Parts[i]); err != nil {
			return answer, fmt.Errorf("schedule %q: %w", f.Parts[i].Schedule, err)
		}
	}
	for i := range f.Batches {
		if err := w.submit(&f.Batches[i], f.NewQueues); err != nil {
			return answer, fmt.Errorf("batch %d: %w", f.Batches[i].ID, err)
		}
	}
	for i := range f.Ends {
		e := &f.Ends[i]
		batch, n := taskColumns(e.Task)
		if _, err := t.exec(endFire, int(e.Ended), e.Seq, e.Schedule, e.At, batch, n); err != nil {
			return answer, fmt.Errorf("end of %q at %d: %w", e.Schedule, e.At, err)
		}
	}
	return answer, nil
}

// taskColumns are an id's columns, NULL when there is none.
func taskColumns(id task.ID) (batch, n any) {
	if id == (task.ID{}) {
		return nil, nil
	}
	return id.Batch, id.N
}

// part does a part as a whole, or refuses it.
func (w *firing) part(p *store.FirePart) (done store.FiredPart, err error) {
	var id, version, next int64
	found, err := w.one(cursorOf, func(st *sqlite.Stmt) {
		id, version, next = st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnInt64(2)
	}, p.Schedule)
	aside := p.Next == 0 && p.Then == 0
	switch {
	case err != nil:
		return done, err
	case !found:
		return store.FiredPart{Refused: store.FireGone}, nil
	case version != p.Version || !aside && next != p.Next:
		return store.FiredPart{Refused: store.FireMoved}, nil
	}
	for i := range p.Fires {
		if max(p.Fires[i].At, p.Fires[i].Through) > w.now {
			return store.FiredPart{Refused: store.FireEarly}, nil
		}
	}
	followed, err := w.has(followerOf, p.Schedule) // perhaps since the fires were made
	if err != nil {
		return done, err
	}
	for i := range p.Fires {
		f := p.Fires[i]
		f.Watch = f.Watch || followed && f.HasTask()
		free, err := w.place(id, p, &f, done.Fires)
		if err != nil {
			return done, err
		}
		switch {
		case !free:
			done.Left = append(done.Left, f.At)
		case w.stands[f.Task.Batch]:
			return store.FiredPart{Refused: store.FireMoved}, nil
		default:
			done.Fires = append(done.Fires, f)
		}
	}
	if fired := done.Fired(); p.Most > 0 && fired > 0 {
		running := int32(0)
		if _, err := w.one(runningFires, func(st *sqlite.Stmt) { running = st.ColumnInt32(0) }, p.Schedule); err != nil {
			return done, err
		}
		if running+fired > p.Most {
			return store.FiredPart{Refused: store.FireMoved}, nil
		}
	}
	last := int64(0)
	for i := range done.Fires {
		f := &done.Fires[i]
		if err := w.insert(id, f); err != nil {
			return done, err
		}
		if w.wanted[f.Task] = true; f.Outcome == task.FireFired {
			last = max(last, f.At)
		}
	}
	switch {
	case !aside:
		_, err = w.exec(moveCursor, id, p.Then, last)
	case last > 0:
		_, err = w.exec(moveCursor, id, nil, last)
	}
	return done, err
}

// place makes a row of what is asked for, and tells whether it may be written. before are the rows of the part that come before it.
func (w *firing) place(schedule int64, p *store.FirePart, f *store.Fire, before []store.Fire) (free bool, err error) {
	f.Schedule, f.Node, f.Time = p.Schedule, w.node, w.now
	f.Ended, f.Seq, f.Tries = 0, -1, 0
	asked := func(b store.Fire) bool { return b.At == f.At }
	var outcome task.FireOutcome
	stands := func() (bool, error) {
		return w.one(outcomeAt, func(st *sqlite.Stmt) { outcome = task.FireOutcome(st.ColumnText(0)) }, schedule, f.At)
	}
	if f.At == 0 {
		if w.stands[f.Task.Batch] {
			found, err := w.one(fireOfTask, func(st *sqlite.Stmt) { f.At = st.ColumnInt64(0) }, schedule, f.Task.Batch, f.Task.N)
			if err != nil || found {
				return false, err
			}
		}
		// The next microsecond that has no row. Due times are whole milliseconds: this is none.
		for f.At = w.now; ; f.At++ {
			if taken, err := stands(); err != nil {
				return false, err
			} else if !taken && f.At%1000 != 0 && !slices.ContainsFunc(before, asked) {
				break
			}
		}
	}
	f.Through, f.Count = max(f.Through, f.At), max(f.Count, 1)
	if slices.ContainsFunc(before, asked) {
		return false, nil
	}
	taken, err := stands()
	return err == nil && (!taken || p.Over && outcome != task.FireFired), err
}

func (w *firing) insert(schedule int64, f *store.Fire) error {
	var open any
	if f.Open() {
		open = f.Schedule
	}
	batch, n := taskColumns(f.Task)
	_, err := w.exec(insertFire, f.At, f.Through, f.Count, string(f.Origin), string(f.Outcome), f.Reason, batch, n, f.Node, f.Time, f.Limit,
		f.Watch, int(f.Ended), f.Seq, f.Tries, schedule, open)
	return err
}

// submit submits those of a batch's tasks whose rows were written.
func (w *firing) submit(b *store.Batch, newQueues []string) error {
	fired := *b
	fired.Tasks, fired.Spans = nil, nil
	for i := range b.Tasks {
		if w.wanted[task.ID{Batch: b.ID, N: b.Tasks[i].N}] {
			fired.Tasks = append(fired.Tasks, b.Tasks[i])
		}
	}
	for _, sp := range b.Spans {
		if slices.ContainsFunc(fired.Tasks, func(t store.Task) bool { return sp.Lo <= t.N && t.N <= sp.Hi }) {
			fired.Spans = append(fired.Spans, sp)
		}
	}
	if len(fired.Tasks) == 0 {
		return nil
	}
	if slices.Contains(newQueues, b.Queue) {
		if _, err := w.putQueue(insertQueue, task.DefaultQueue(b.Queue)); err != nil {
			return err
		}
	}
	return w.insertBatch(&fired, store.Holder{}, false, &store.Submitted{})
}
