package sqlite

import (
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// fallAtOnce is how many children one look examines at most, and batches of them.
const fallAtOnce = 1000

// atChildren ends the wait for a task's children, if they are enough.
func (l *looking) atChildren(a store.Address) error {
	var w rules.Wait
	found, err := l.one(oldestWait, func(st *sqlite.Stmt) { w = scanWait(st) }, a.String())
	if err != nil || !found {
		return err
	}
	counts, _, err := l.conn.children().children(a)
	if err != nil || !w.Enough(counts) {
		return err
	}
	if l.left == 0 {
		l.more = true
		_, err := l.exec(changeAt, a.String())
		return err
	}
	_, err = l.wake(&w, store.Woken{Children: &counts})
	return err
}

// fallsLeft asks for changes whose addresses are falls.
const fallsLeft = `SELECT 1 FROM change WHERE address >= 'f' AND address < 'g' LIMIT 1`

// fall cancels children, by the changes that ask for it. Those of the children are for the next
// look.
func (l *looking) fall(changes []string) error {
	budget := min(l.limit, fallAtOnce)
	for _, text := range changes {
		if !rules.IsFall(text) {
			continue
		}
		f, err := rules.ParseFall(text)
		if err == nil && budget > 0 {
			budget, err = l.fallOf(f, budget)
		}
		if err != nil {
			return err
		}
	}
	left, err := l.has(fallsLeft)
	l.more = l.more || left
	return err
}

// fallOf looks at the next children of one task, at most n, and answers how many more may be.
func (l *looking) fallOf(f rules.Fall, n int) (left int, err error) {
	if _, err := l.exec(deleteChanges, f.String()); err != nil {
		return n, err
	}
	below, err := l.runBelow(f.Parent)
	if err != nil {
		return n, err
	}
	type childBatch struct {
		id     int64
		orphan bool
		run    int32
	}
	var batches []childBatch
	if err := l.each(childBatches, func(st *sqlite.Stmt) bool {
		batches = append(batches, childBatch{
			st.ColumnInt64(0), st.ColumnBool(1), st.ColumnInt32(2),
		})
		return true
	}, f.Parent.Batch, f.Parent.N, f.After.Batch, fallAtOnce); err != nil {
		return n, err
	}
	more := len(batches) == fallAtOnce
	for _, b := range batches {
		if n == 0 {
			more = true
			break
		}
		if b.run >= below {
			continue
		}
		from := int32(0)
		if b.id == f.After.Batch {
			from = f.After.N + 1
		}
		var ids []task.ID
		if err := l.facts().facts(b.id, from, math.MaxInt32, func(child *rules.Fact) bool {
			ids = append(ids, child.ID)
			return len(ids) < n
		}); err != nil {
			return n, err
		}
		for _, id := range ids {
			if err := l.fallChild(&f, id, b.orphan); err != nil {
				return n, err
			}
			f.After = id
		}
		n -= len(ids)
	}
	if more && n > 0 { // on behind all of these, also where nothing was to be looked at
		f.After = task.ID{Batch: batches[len(batches)-1].id, N: math.MaxInt32 - 1}
	}
	if more || n == 0 {
		_, err = l.exec(changeAt, f.String())
	}
	return n, err
}

// runBelow is below which run children of a task fall: if it began anew meanwhile, those of its
// present run do not.
func (l *looking) runBelow(id task.ID) (int32, error) {
	f, found, err := l.facts().fact(id)
	if err != nil || !found || f.Base == store.Final {
		return math.MaxInt32, err
	}
	return l.conn.children().presentRun(id)
}

// fallChild cancels a child, if that is to be, and lets its own children fall with the tree.
func (l *looking) fallChild(f *rules.Fall, id task.ID, orphan bool) error {
	child, found, err := l.facts().fact(id)
	if err == nil && found && child.Seq >= 0 && child.Base != store.Final {
		child.Begun, err = l.conn.expiries().wasBegun(id)
	}
	if err != nil || !found {
		return err
	}
	if !f.Hits(&child, orphan) {
		if f.Tree {
			return l.children().letFall(id, true)
		}
		return nil
	}
	a := f.Of(id)
	acted, err := l.steps().act(&a)
	if err == nil && acted.Changed {
		l.cancelled = append(l.cancelled, id)
	}
	return err
}
