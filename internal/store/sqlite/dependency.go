package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A row of dependency is a task that another one waits for. Whoever ends tasks asks, once for each
// of their batches, whether any such row is open, and leaves a change at the end of each task that
// has one; a look does what follows (afterend.go). There is one writer, so whoever begins to wait
// for a task that stands sees how it stands, and looks itself.

const (
	insertDependency = `INSERT INTO dependency (batch, n, i, on_batch, on_n, ref, ended)
VALUES (?, ?, ?, ?, ?, ?, ?)`
	awaitedIn = `SELECT 1 FROM dependency INDEXED BY dependency_open
WHERE on_batch = ? AND state IS NULL LIMIT 1`
	awaited = `SELECT 1 FROM dependency INDEXED BY dependency_open
WHERE on_batch = ? AND on_n = ? AND state IS NULL LIMIT 1`
	dependencyColumns = `i, on_batch, on_n, ref, ended, state, seq`
	dependenciesOf    = `SELECT ` + dependencyColumns + ` FROM dependency
WHERE batch = ? AND n = ? ORDER BY i`
	openOf         = `SELECT 1 FROM dependency WHERE batch = ? AND n = ? AND state IS NULL LIMIT 1`
	openDependency = `UPDATE dependency SET state = NULL, seq = NULL
WHERE batch = ? AND n = ? AND i = ?`
	dependentsOf = `SELECT DISTINCT batch, n FROM dependency INDEXED BY dependency_on
WHERE on_batch = ? AND on_n = ?`
	anyDependents = `SELECT 1 FROM dependency INDEXED BY dependency_on WHERE on_batch = ? LIMIT 1`
)

// dependency is a row of that table.
type dependency struct {
	store.Dependency
	i     int
	state task.State // "" = open
	seq   int32
}

// scanDependency reads dependencyColumns, the first of which is at a place.
func scanDependency(st *sqlite.Stmt, at int) dependency {
	return dependency{
		Dependency: store.Dependency{
			On:  task.ID{Batch: st.ColumnInt64(at + 1), N: st.ColumnInt32(at + 2)},
			Ref: st.ColumnText(at + 3), Ended: st.ColumnBool(at + 4),
		},
		i: st.ColumnInt(at), state: task.State(st.ColumnText(at + 5)),
		seq: st.ColumnInt32(at + 6),
	}
}

// dependencies are what a task waits for, or has waited for.
func (c waitReads) dependencies(id task.ID) (list []dependency, err error) {
	if !store.MayDepend(id.Batch) {
		return nil, nil
	}
	err = c.each(dependenciesOf, func(st *sqlite.Stmt) bool {
		list = append(list, scanDependency(st, 0))
		return true
	}, id.Batch, id.N)
	return list, err
}

// depending writes down what the tasks of a submission wait for that was inserted.
type depending struct {
	*tx
	refuses func(*store.Batch) bool // such batches were not inserted
	repeats bool                    // all stands already

	first  map[task.ID]task.ID // of tasks that exist already by a key, the one that has it
	inside map[int64]bool      // batches of the submission
	look   []store.Address     // ends of tasks that stood before
}

// write answers the ends of the tasks that somebody has to look at, as they stood before.
func (d *depending) write(
	batches []store.Batch, existing []store.Existing,
) ([]store.Address, error) {
	for i := range batches {
		b := &batches[i]
		if !b.Depends() || d.refuses(b) {
			continue
		}
		d.prepare(batches, existing)
		for k := range b.Tasks {
			id := task.ID{Batch: b.ID, N: b.Tasks[k].N}
			if _, exists := d.first[id]; exists {
				continue
			}
			if err := d.add(id, b.Tasks[k].After); err != nil {
				return nil, err
			}
		}
	}
	list := sortedAddresses(d.look)
	for _, a := range list {
		if d.repeats {
			break
		}
		if _, err := d.exec(changeAt, a.String()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// prepare reads what became of the submission, once.
func (d *depending) prepare(batches []store.Batch, existing []store.Existing) {
	if d.inside != nil {
		return
	}
	d.inside, d.first = map[int64]bool{}, map[task.ID]task.ID{}
	for i := range batches {
		d.inside[batches[i].ID] = true
	}
	for _, e := range existing {
		d.first[e.ID] = e.First
	}
}

// add writes down what one new task waits for.
func (d *depending) add(id task.ID, after []store.Dependency) error {
	for i := range after {
		on := after[i].On
		if first, exists := d.first[on]; exists {
			on = first
		}
		if !d.inside[on.Batch] {
			d.look = append(d.look, store.EndOf(on))
		}
		if d.repeats {
			continue
		}
		if _, err := d.exec(insertDependency, id.Batch, id.N, i, on.Batch, on.N, after[i].Ref,
			after[i].Ended); err != nil {
			return err
		}
	}
	if d.repeats {
		return nil
	}
	return d.waits().insertWait(rules.WaitForOthers(id, 0, d.now))
}

// noteEnd leaves a change at the end of a task that is over, if somebody waits for it.
func (t waitWrites) noteEnd(id task.ID) (noted bool, err error) {
	noted, err = t.has(awaited, id.Batch, id.N)
	if err == nil && noted {
		_, err = t.exec(changeAt, store.EndOf(id).String())
	}
	return noted, err
}

// waitAgain lets a task that a step at seq replays wait for those that did not end as they should;
// false: there are none.
func (t waitWrites) waitAgain(id task.ID, seq int32) (bool, error) {
	list, err := t.conn.waits().dependencies(id)
	waits := false
	for i := range list {
		d := &list[i]
		if err != nil || d.state != "" && rules.Fits(&d.Dependency, d.state) {
			continue
		}
		waits = true
		if d.state != "" {
			_, err = t.exec(openDependency, id.Batch, id.N, d.i)
		}
		if err == nil {
			_, err = t.exec(changeAt, store.EndOf(d.On).String())
		}
	}
	if err != nil || !waits {
		return false, err
	}
	return true, t.insertWait(rules.WaitForOthers(id, seq+1, t.now))
}

// notePrior reads, for tasks of a batch, how those ended that they have waited for.
func (c waitReads) notePrior(batch int64, tasks []store.Loaded) (err error) {
	if !store.MayDepend(batch) {
		return nil
	}
	for i := range tasks {
		if err == nil {
			tasks[i].After, err = c.prior(task.ID{Batch: batch, N: tasks[i].N})
		}
	}
	return err
}

// prior is how those ended that a task has waited for, with what they left.
func (c waitReads) prior(id task.ID) (list []store.Prior, err error) {
	after, err := c.dependencies(id)
	left := store.PriorLimit
	for i := range after {
		d := &after[i]
		if err != nil || d.state == "" {
			continue
		}
		p := store.Prior{Dependency: d.Dependency, State: d.state, LeftOut: true}
		var text, result store.Value
		var stands bool
		if text, result, stands, err = c.leftAt(d.On, d.seq); stands &&
			rules.PriorRoom(&left, len(text)+len(result)) {
			p.Context, p.Result, p.LeftOut = text, result, false
		}
		list = append(list, p)
	}
	return list, err
}

// endStep is the context that a task had after a step, and what that says.
const endStep = `SELECT iif(kind = 15, NULL, result), context_seq FROM step
WHERE batch = ? AND n = ? AND seq = ?`

// leftAt is what a task left with the step at seq; stands: the task and the step do.
func (c waitReads) leftAt(
	id task.ID, seq int32,
) (text, result store.Value, stands bool, err error) {
	if seq < 0 {
		return nil, nil, false, nil
	}
	first, stands, err := c.members().task(id)
	if err != nil || !stands {
		return nil, nil, false, err
	}
	at := int32(-1)
	found, err := c.one(endStep, func(st *sqlite.Stmt) {
		result, at = bytesOf(st, 0), st.ColumnInt32(1)
	}, id.Batch, id.N, seq)
	if err == nil && !found {
		d, marked, bad := c.members().marked(id)
		result, stands, err = d.Result, marked, bad
	}
	if text = first.Context; err == nil && at >= 0 {
		_, err = c.one(contextAt, func(st *sqlite.Stmt) {
			text = bytesOf(st, 0)
		}, id.Batch, id.N, at)
	}
	return text, result, stands, err
}

// noteAfter fills in what a task waits for, or has waited for.
func (c waitReads) noteAfter(v *task.View) error {
	list, err := c.dependencies(v.ID)
	for i := range list {
		v.After = append(v.After, rules.PriorView(&list[i].Dependency, list[i].state))
	}
	return err
}

// unneeded are those of some tasks of a batch, all of which are over, that have not to stay for
// whoever has waited for them and goes on; kept tells whether there are others.
func (c waitReads) unneeded(list []rules.Fact) (left []rules.Fact, kept bool, err error) {
	if len(list) == 0 {
		return nil, false, nil
	}
	may, err := c.has(anyDependents, list[0].ID.Batch)
	if err != nil || !may {
		return list, false, err
	}
	for i := range list {
		needed, err := c.needed(list[i].ID)
		if err != nil {
			return nil, false, err
		}
		if !needed {
			left = append(left, list[i])
		}
		kept = kept || needed
	}
	return left, kept, nil
}

// notAwaited are those of some tasks of a batch for which nobody has begun to wait meanwhile. Who
// has waited and is over may only have been replayed: he is told that they are gone.
func (t waitWrites) notAwaited(list []rules.Fact) (left []rules.Fact, err error) {
	may, err := t.has(awaitedIn, list[0].ID.Batch)
	if err != nil || !may {
		return list, err
	}
	for i := range list {
		waited, err := t.has(awaited, list[i].ID.Batch, list[i].ID.N)
		if err == nil && waited {
			waited, err = t.conn.waits().needed(list[i].ID)
		}
		if err != nil {
			return nil, err
		}
		if !waited {
			left = append(left, list[i])
		}
	}
	return left, nil
}

// needed tells whether somebody waits for a task who is not over.
func (c waitReads) needed(id task.ID) (needed bool, err error) {
	var who []task.ID
	if err := c.each(dependentsOf, func(st *sqlite.Stmt) bool {
		who = append(who, task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)})
		return true
	}, id.Batch, id.N); err != nil {
		return false, err
	}
	for _, w := range who {
		over, err := c.isOver(w)
		if err != nil || !over {
			return !over, err
		}
	}
	return false, nil
}

const newestBase = `SELECT base FROM step WHERE batch = ? AND n = ? ORDER BY seq DESC LIMIT 1`

// isOver tells whether a task is final, or gone.
func (c waitReads) isOver(id task.ID) (over bool, err error) {
	found, err := c.one(newestBase, func(st *sqlite.Stmt) {
		over = st.ColumnInt32(0) == store.Final
	}, id.Batch, id.N)
	if err != nil || found {
		return over, err
	}
	if over, err = c.members().isMarked(id); err != nil || over {
		return over, err
	}
	stands, err := c.members().isTask(id)
	return !stands, err
}
