package sqlite

import (
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// endedAtOnce is how many dependencies one look examines at most.
const endedAtOnce = 1000

const (
	endsLeft = `SELECT DISTINCT address FROM change WHERE address >= 'e ' AND address < 'e!'
ORDER BY address LIMIT ?`
	openOn = `SELECT batch, n, ` + dependencyColumns + ` FROM dependency INDEXED BY dependency_open
WHERE on_batch = ? AND on_n = ? AND state IS NULL ORDER BY batch, n, i LIMIT ?`
	endDependency = `UPDATE dependency SET state = ?, seq = ? WHERE batch = ? AND n = ? AND i = ?`
)

// isEnd tells whether an address is the end of a task.
func isEnd(address string) bool { return strings.HasPrefix(address, "e ") }

// dependent is who waits for a task, and why.
type dependent struct {
	who task.ID
	dependency
}

// ends looks at tasks that others wait for, by the changes at their ends, and then at those that
// were cancelled because of it.
func (l *looking) ends(list []store.Address) error {
	left := min(l.limit, endedAtOnce)
	for range store.ChainAtOnce {
		known := len(l.cancelled)
		for _, a := range list {
			var err error
			if left, err = l.atEnd(a, left); err != nil {
				return err
			}
		}
		list = nil
		for _, id := range l.cancelled[known:] {
			waited, err := l.has(awaited, id.Batch, id.N)
			if err != nil {
				return err
			}
			if waited {
				list = append(list, store.EndOf(id))
			}
		}
		if list = sortedAddresses(list); len(list) == 0 {
			return nil
		}
	}
	l.more = true
	return nil
}

// atEnd looks at the open dependencies on one task, if it is over: at most n, and answers how many
// more may be looked at.
func (l *looking) atEnd(a store.Address, n int) (left int, err error) {
	if _, err := l.exec(deleteChanges, a.String()); err != nil {
		return n, err
	}
	f, found, err := l.facts().fact(a.Task)
	if err != nil {
		return n, err
	}
	state, seq := rules.EndState(&f, found), f.Seq
	if state == "" { // it begins anew, or has not ended yet: whoever ends it leaves a change
		return n, nil
	}
	if !found || f.Removed() {
		seq = -1
	}
	var list []dependent
	if err := l.each(openOn, func(st *sqlite.Stmt) bool {
		list = append(list, dependent{
			task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, scanDependency(st, 2),
		})
		return true
	}, a.Task.Batch, a.Task.N, n+1); err != nil {
		return n, err
	}
	if len(list) > n {
		list, l.more = list[:n], true
		if _, err := l.exec(changeAt, a.String()); err != nil {
			return n, err
		}
	}
	for i := range list {
		if err := l.endFor(&list[i], state, seq); err != nil {
			return n, err
		}
	}
	return n - len(list), nil
}

// endFor notes how a task ended that another one waits for, and cancels or wakes that, if it is
// time.
func (l *looking) endFor(d *dependent, state task.State, seq int32) error {
	id := d.who
	if _, err := l.exec(endDependency, string(state), seq, id.Batch, id.N, d.i); err != nil {
		return err
	}
	var w rules.Wait
	waits, err := l.one(waitOf, func(st *sqlite.Stmt) { w = scanWait(st) }, id.Batch, id.N)
	if err != nil || !waits || !w.OfOthers() {
		return err
	}
	f, found, err := l.facts().fact(id)
	if err != nil || !found || !w.Ends(&f) {
		return err
	}
	if !rules.Fits(&d.Dependency, state) {
		a := rules.Unfit(id, &d.Dependency, state)
		acted, err := l.steps().act(&a)
		if err == nil && acted.Changed {
			l.cancelled = append(l.cancelled, id)
		}
		return err
	}
	open, err := l.has(openOf, id.Batch, id.N)
	if err == nil && !open {
		_, err = l.wake(&w, store.Woken{Others: true})
	}
	return err
}

// moreEnds tells whether there are more ends to look at.
func (l *looking) moreEnds() error {
	var list []string
	if err := l.each(endsLeft, func(st *sqlite.Stmt) bool {
		list = append(list, st.ColumnText(0))
		return true
	}, piece); err != nil {
		return err
	}
	l.more = l.more || len(list) == piece
	for _, text := range list {
		a, err := store.ParseAddress(text)
		if err != nil || l.more {
			return err
		}
		f, found, err := l.facts().fact(a.Task)
		if err == nil && rules.EndState(&f, found) != "" {
			l.more, err = l.has(awaited, a.Task.Batch, a.Task.N)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
