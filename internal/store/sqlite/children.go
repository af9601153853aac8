package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// childReads reads whose children tasks are, and how the children of a task stand.
type childReads struct{ *conn }

func (c *conn) children() childReads { return childReads{c} }

// childWrites inserts children, and counts them when they end.
type childWrites struct{ *tx }

func (t *tx) children() childWrites { return childWrites{t} }

// There is one writer, so whoever ends a child counts it at once in the row of its parent's
// children, and knows whether that ends a wait.

const (
	insertChildBatch = `INSERT INTO child_batch (batch, parent_batch, parent_n, run, seq, orphan)
VALUES (?, ?, ?, ?, ?, ?)`
	deleteChildBatch = `DELETE FROM child_batch WHERE batch = ?`
	parentOf         = `SELECT parent_batch, parent_n, run FROM child_batch WHERE batch = ?`
	hasChildren      = `SELECT 1 FROM child_batch INDEXED BY child_parent
WHERE parent_batch = ? AND parent_n = ? LIMIT 1`
	anyChildren  = `SELECT 1 FROM child_batch LIMIT 1`
	childBatches = `SELECT batch, orphan, run FROM child_batch INDEXED BY child_parent
WHERE parent_batch = ? AND parent_n = ? AND batch >= ? ORDER BY batch LIMIT ?`
	spawnedBy = `SELECT c.batch, b.existing FROM child_batch c INDEXED BY child_parent
JOIN batch b ON b.id = c.batch
WHERE c.parent_batch = ? AND c.parent_n = ? AND c.seq = ? ORDER BY c.batch`
	hasIn = `SELECT lo, has FROM pack WHERE batch = ? ORDER BY lo`

	// runOf is the seq behind the newest replay.
	runOf = `SELECT coalesce(max(seq) + 1, 0) FROM step WHERE batch = ? AND n = ? AND kind = 11`

	countChildren = `INSERT INTO child_count (batch, n, run, total, done, dead, cancelled, expired)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET total = total + excluded.total, done = done + excluded.done,
dead = dead + excluded.dead, cancelled = cancelled + excluded.cancelled,
expired = expired + excluded.expired`
	childCounts = `SELECT total, done, dead, cancelled, expired FROM child_count
WHERE batch = ? AND n = ? AND run = ?`
)

// parentage says whose children the tasks of a batch are.
type parentage struct {
	id  task.ID // zero = nobody's
	run int32
}

// address is where somebody waits for them.
func (p *parentage) address() store.Address { return store.ChildrenOf(p.id, p.run) }

// parentage of the tasks of a batch.
func (c childReads) parentage(batch int64) (p parentage, err error) {
	if !store.MayBeChildren(batch) {
		return p, nil
	}
	_, err = c.one(parentOf, func(st *sqlite.Stmt) {
		p = parentage{
			task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, st.ColumnInt32(2),
		}
	}, batch)
	return p, err
}

// presentRun of a task is the one that its next children belong to.
func (c childReads) presentRun(id task.ID) (run int32, err error) {
	_, err = c.one(runOf, func(st *sqlite.Stmt) { run = st.ColumnInt32(0) }, id.Batch, id.N)
	return run, err
}

// children is how those at an address stand; found is false when there never were any.
func (c childReads) children(a store.Address) (counts task.Children, found bool, err error) {
	found, err = c.one(childCounts, func(st *sqlite.Stmt) {
		counts = task.Children{
			Total: st.ColumnInt64(0), Done: st.ColumnInt64(1), Dead: st.ColumnInt64(2),
			Cancelled: st.ColumnInt64(3), Expired: st.ColumnInt64(4),
		}
	}, a.Task.Batch, a.Task.N, a.Run)
	return counts, found, err
}

// addChildren counts children that came or ended, and tells whether that ended the wait for them:
// somebody has to look then.
func (t childWrites) addChildren(a store.Address, d task.Children) (enough bool, err error) {
	stands, err := t.members().isTask(a.Task)
	if err != nil || !stands { // its counts went with it
		return false, err
	}
	if _, err := t.exec(countChildren, a.Task.Batch, a.Task.N, a.Run, d.Total, d.Done, d.Dead,
		d.Cancelled, d.Expired); err != nil {
		return false, err
	}
	var w rules.Wait
	waits, err := t.one(oldestWait, func(st *sqlite.Stmt) { w = scanWait(st) }, a.String())
	if err != nil || !waits {
		return false, err
	}
	counts, _, err := t.conn.children().children(a)
	if err != nil || !w.Enough(counts) {
		return false, err
	}
	_, err = t.exec(changeAt, a.String())
	return true, err
}

// ends are children that ended, of one settlement or action, by their address.
type ends map[store.Address]task.Children

// of counts a child of p that came into a final state.
func (e ends) of(p *parentage, state task.State) {
	c := e[p.address()]
	rules.CountEnd(&c, state, 1)
	e[p.address()] = c
}

// write counts them, and answers the addresses at which somebody has to look, in order.
func (e ends) write(t *tx) (look []store.Address, err error) {
	for a, c := range e {
		enough, err := t.children().addChildren(a, c)
		if err != nil {
			return nil, err
		}
		if enough {
			look = append(look, a)
		}
	}
	return sortedAddresses(look), nil
}

// sortedAddresses has each address once, by its text.
func sortedAddresses(list []store.Address) []store.Address {
	slices.SortFunc(list, func(a, b store.Address) int {
		return strings.Compare(a.String(), b.String())
	})
	return slices.Compact(list)
}

// acted counts what an action did to a task that may be a child, and lets its own children fall.
func (t childWrites) acted(f *rules.Fact, a *store.Action, was task.State) error {
	switch a.Kind {
	case task.KindCancelled, task.KindRemoved, task.KindReplayed:
	default:
		return nil
	}
	p, err := t.conn.children().parentage(f.ID.Batch)
	if err != nil {
		return err
	}
	if p.id != (task.ID{}) {
		var c task.Children
		rules.CountAct(&c, a.Kind, was)
		if c != (task.Children{}) {
			if _, err := t.addChildren(p.address(), c); err != nil {
				return err
			}
		}
	}
	ended := !was.Final() // a replay is of what was
	if !ended && !a.Tree {
		return nil
	}
	if ended {
		if _, err := t.waits().noteEnd(f.ID); err != nil {
			return err
		}
	}
	return t.letFall(f.ID, a.Tree)
}

// letFall leaves a change because of which a look cancels children of a task, if it has any.
func (t childWrites) letFall(id task.ID, tree bool) error {
	has, err := t.has(hasChildren, id.Batch, id.N)
	if err == nil && has {
		_, err = t.exec(changeAt, rules.Fall{Parent: id, Tree: tree}.String())
	}
	return err
}

// spawn submits children with the outcome of a hand-out of their parent, and answers their ids.
func (t childWrites) spawn(r *store.Report) ([]task.ID, error) {
	sub := store.Submission{Batches: r.Spawn}
	for i := range r.Spawn {
		if q := r.Spawn[i].Queue; !slices.Contains(sub.NewQueues, q) {
			sub.NewQueues = append(sub.NewQueues, q)
		}
	}
	answer, err := t.submissions().submit(&sub)
	if err == nil {
		err = t.adopt(r.ID, r.Token.Seq, r.Spawn, answer.Existing)
	}
	return spawnedIDs(r.Spawn, answer.Existing), err
}

// added is the seq of children that no outcome submitted, but its hand-out while it ran.
const added = -1

// adopt makes the tasks of new batches children of a task: of its outcome at seq, or added.
func (t childWrites) adopt(
	parent task.ID, seq int32, batches []store.Batch, existing []store.Existing,
) error {
	run, err := t.conn.children().presentRun(parent)
	if err != nil {
		return err
	}
	total := int64(0)
	for i := range batches {
		b := &batches[i]
		total += int64(len(b.Tasks))
		if _, err := t.exec(insertChildBatch, b.ID, parent.Batch, parent.N, run, seq,
			b.Orphan); err != nil {
			return fmt.Errorf("batch %d: %w", b.ID, err)
		}
	}
	total -= int64(len(existing))
	if total == 0 {
		return nil
	}
	_, err = t.addChildren(store.ChildrenOf(parent, run), task.Children{Total: total})
	return err
}

// spawnedIDs are the ids of children in the order of their N.
func spawnedIDs(batches []store.Batch, existing []store.Existing) []task.ID {
	var list []task.ID
	for i := range batches {
		for k := range batches[i].Tasks {
			list = append(list, task.ID{Batch: batches[i].ID, N: batches[i].Tasks[k].N})
		}
	}
	return withFirsts(list, existing)
}

// withFirsts orders ids by N, and puts the tasks that exist already in the place of those that were
// left out.
func withFirsts(list []task.ID, existing []store.Existing) []task.ID {
	slices.SortFunc(list, func(a, b task.ID) int { return int(a.N - b.N) })
	firsts := map[int32]task.ID{}
	for i := range existing {
		firsts[existing[i].ID.N] = existing[i].First
	}
	for i := range list {
		if first, exists := firsts[list[i].N]; exists {
			list[i] = first
		}
	}
	return list
}

// spawned finds the ids of the children that the recorded outcome of a hand-out submitted, which a
// report says again, maybe by other ids: of those that were left out because of their keys the one
// that had it then, zero of those that were deleted.
func (t childWrites) spawned(r *store.Report) ([]task.ID, error) {
	then := map[int32]task.ID{} // by N
	type recorded struct {
		batch    int64
		existing []byte
	}
	var batches []recorded
	if err := t.each(spawnedBy, func(st *sqlite.Stmt) bool {
		batches = append(batches, recorded{st.ColumnInt64(0), bytesOf(st, 1)})
		return true
	}, r.ID.Batch, r.ID.N, r.Token.Seq); err != nil {
		return nil, err
	}
	for _, b := range batches {
		if err := t.each(hasIn, func(st *sqlite.Stmt) bool {
			lo, has := st.ColumnInt32(0), pack.Bits(st.ColumnInt64(1))
			for n := range has.Numbers(pack.Lo(lo)) {
				then[n] = task.ID{Batch: b.batch, N: n}
			}
			return true
		}, b.batch); err != nil {
			return nil, err
		}
		existing, err := store.DecodeExisting(b.batch, b.existing)
		if err != nil {
			return nil, err
		}
		for _, e := range existing {
			then[e.ID.N] = e.First
		}
	}
	list := spawnedIDs(r.Spawn, nil)
	for i := range list {
		list[i] = then[list[i].N]
	}
	return list, nil
}

// mayAdd tells whether a hand-out gives the right to add children: as it would to report, with no
// outcome at its seq.
func (t childWrites) mayAdd(r *store.Right) (bool, error) {
	stands, err := t.one(findStep, func(*sqlite.Stmt) {}, r.ID.Batch, r.ID.N, r.Token.Seq)
	if err == nil && !stands && r.Token.Seq == 0 {
		_, stands, err = t.members().marked(r.ID)
	}
	if err != nil || stands {
		return false, err
	}
	runs, right := false, false
	if err := t.each(runningIn, func(st *sqlite.Stmt) bool {
		if u := scanRunning(st); u.Seq == r.Token.Seq {
			runs, right = true, u.Span == r.Token.Span && u.Token == r.Token.SpanToken
		}
		return true
	}, r.ID.Batch, r.ID.N, r.ID.N); err != nil || runs {
		return right, err
	}
	covers, err := t.one(rightOfSpan, func(st *sqlite.Stmt) {
		right = st.ColumnInt64(0) == r.ID.Batch && st.ColumnInt64(1) == r.Token.SpanToken &&
			st.ColumnInt32(2) <= r.ID.N && r.ID.N <= st.ColumnInt32(3)
	}, r.Token.Span)
	if err != nil || !covers || !right {
		return false, err
	}
	return t.members().isTask(r.ID)
}

// submitUnder is submit of children that a hand-out adds.
func (t childWrites) submitUnder(sub *store.Submission) (store.Submitted, error) {
	if len(sub.Batches) == 0 {
		return t.submissions().submit(sub)
	}
	repeated, err := t.has(findBatch, sub.Batches[0].ID) // all of them stand, or none
	if err == nil && !repeated {
		var may bool
		if may, err = t.mayAdd(sub.Under); err == nil && !may {
			err = fmt.Errorf("hand-out %d of task %s: %w", sub.Under.Token.Seq, sub.Under.ID,
				store.ErrStale)
		}
	}
	if err != nil {
		return store.Submitted{}, err
	}
	answer, err := t.submissions().submit(sub)
	if err == nil && !repeated {
		err = t.adopt(sub.Under.ID, added, sub.Batches, answer.Existing)
	}
	return answer, err
}

// waitedFor tells whether the tasks of a batch have to stay although they are over: their parent is
// not, in the run that they belong to.
func (c childReads) waitedFor(batch int64) (bool, error) {
	p, err := c.parentage(batch)
	if err != nil || p.id == (task.ID{}) {
		return false, err
	}
	f, found, err := c.facts().fact(p.id)
	if err != nil || !found || f.Base == store.Final {
		return false, err
	}
	run, err := c.presentRun(p.id)
	return run == p.run, err
}

// noteParent notes whose children the tasks of a batch are.
func (c childReads) noteParent(batch int64, tasks []store.Loaded) error {
	p, err := c.parentage(batch)
	if err != nil || p.id == (task.ID{}) {
		return err
	}
	for i := range tasks {
		tasks[i].Parent = p.id
	}
	return nil
}

// endUnended counts children that are deleted without having ended as cancelled, and lets those of
// all such tasks fall. Who still waits for any of the tasks hears that it is gone.
func (t childWrites) endUnended(batch int64, gone []ending) error {
	p, err := t.conn.children().parentage(batch)
	if err != nil {
		return err
	}
	parents, err := t.has(anyChildren)
	if err != nil {
		return err
	}
	others, err := t.has(awaitedIn, batch)
	if err != nil {
		return err
	}
	var c task.Children
	for i := range gone {
		if others {
			if _, err := t.waits().noteEnd(task.ID{Batch: batch, N: gone[i].n}); err != nil {
				return err
			}
		}
		if gone[i].state != "" {
			continue
		}
		rules.CountEnd(&c, task.Cancelled, 1)
		if parents {
			if err := t.letFall(task.ID{Batch: batch, N: gone[i].n}, false); err != nil {
				return err
			}
		}
	}
	if p.id == (task.ID{}) || c == (task.Children{}) {
		return nil
	}
	_, err = t.addChildren(p.address(), c)
	return err
}

// noteFamily fills in whose child a task is, and how its own children stand.
func (c childReads) noteFamily(v *task.View) error {
	p, err := c.parentage(v.ID.Batch)
	if err != nil {
		return err
	}
	v.Parent = p.id
	run, err := c.presentRun(v.ID)
	if err != nil {
		return err
	}
	counts, found, err := c.children(store.ChildrenOf(v.ID, run))
	if err == nil && found {
		v.Children = &counts
	}
	return err
}
