package sqlite

import (
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// waitCalls ends the waits of tasks. Its tables are wait, signal, change and dependency, and of
// children child_batch and child_count.
type waitCalls struct{ *database }

// waitReads reads what tasks wait for, and what they have waited for.
type waitReads struct{ *conn }

func (c *conn) waits() waitReads { return waitReads{c} }

// waitWrites begins and ends waits.
type waitWrites struct{ *tx }

func (t *tx) waits() waitWrites { return waitWrites{t} }

// never is store.Never: the rank and the due time of what is parked.
const never = `9223372036854775807`

const (
	insertWait = `INSERT OR REPLACE INTO wait (batch, n, seq, address, since, until, otherwise, first)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	moveWait   = `UPDATE wait SET seq = ? WHERE batch = ? AND n = ?`
	deleteWait = `DELETE FROM wait WHERE batch = ? AND n = ?`
	changeAt   = `INSERT INTO change (address) VALUES (?)`

	findSignal  = `SELECT used, until FROM signal WHERE address = ? AND key = ?`
	openSignals = `SELECT count(*) FROM (SELECT 1 FROM signal INDEXED BY signal_task
WHERE batch = ? AND n = ? AND used IS NULL LIMIT ?)`
	insertSignal = `INSERT OR REPLACE INTO signal
(address, key, batch, n, payload, sender, at, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	useSignal = `UPDATE signal SET used = ? WHERE address = ? AND key = ?`
	// oldestSignal is the next one at an address: that ended no wait, and still stands.
	oldestSignal = `SELECT key, payload, sender, at FROM signal INDEXED BY signal_open
WHERE address = ?1 AND used IS NULL AND (until = 0 OR until > ?2) ORDER BY at, key LIMIT 1`
	pruneSignals = `DELETE FROM signal WHERE (address, key) IN (SELECT address, key FROM signal
WHERE until > 0 AND until <= ? ORDER BY until LIMIT ?)`

	waitColumns = `batch, n, seq, address, since, until, otherwise, first`
	oldestWait  = `SELECT ` + waitColumns + ` FROM wait INDEXED BY wait_address
WHERE address = ? ORDER BY since, batch, n LIMIT 1`
	waitOf    = `SELECT ` + waitColumns + ` FROM wait WHERE batch = ? AND n = ?`
	waitsOver = `SELECT ` + waitColumns + ` FROM wait INDEXED BY wait_until
WHERE until > 0 AND until <= ? ORDER BY until, batch, n LIMIT ?`
	nextUntil = `SELECT until FROM wait INDEXED BY wait_until WHERE until > 0 ORDER BY until LIMIT 1`

	changes       = `SELECT address FROM change ORDER BY id LIMIT ?`
	deleteChanges = `DELETE FROM change WHERE address = ?`

	// wokenAt is the newest step that says why a task is in its stage.
	wokenAt = `SELECT kind, result FROM step WHERE batch = ? AND n = ? AND kind IN (2, 11, 15)
ORDER BY seq DESC LIMIT 1`
)

func scanWait(st *sqlite.Stmt) rules.Wait {
	return rules.Wait{
		ID:  task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)},
		Seq: st.ColumnInt32(2), Address: st.ColumnText(3), Since: st.ColumnInt64(4),
		Until: st.ColumnInt64(5), Else: st.ColumnText(6), First: st.ColumnBool(7),
	}
}

// await writes down what a task waits for from a recorded report on, and answers where.
func (t waitWrites) await(r *store.Report) (at store.Address, err error) {
	at = r.Await.Address
	if at.Children() {
		if at.Run, err = t.conn.children().presentRun(r.ID); err != nil {
			return at, err
		}
	}
	w := rules.WaitOf(r, at.Run, t.now)
	if err = t.insertWait(w); err == nil {
		_, err = t.exec(changeAt, w.Address)
	}
	return at, err
}

func (t waitWrites) insertWait(w rules.Wait) error {
	_, err := t.exec(insertWait, w.ID.Batch, w.ID.N, w.Seq, w.Address, w.Since, w.Until, w.Else,
		w.First)
	return err
}

// Signal writes down a signal, and looks at its address. See contract.Waits.
func (s *waitCalls) Signal(ctx context.Context, sig store.Signal) (store.Signalled, error) {
	var answer store.Signalled
	err := s.write(ctx, func(t *tx) (err error) {
		answer, err = t.waits().signal(&sig)
		return err
	})
	if err != nil {
		return store.Signalled{}, fmt.Errorf("send signal %q: %w", sig.To.Name, err)
	}
	return answer, nil
}

func (t waitWrites) signal(s *store.Signal) (store.Signalled, error) {
	answer := store.Signalled{Now: t.now, Found: true}
	address := s.To.String()
	stands := func() (bool, error) {
		outlived := false
		found, err := t.one(findSignal, func(st *sqlite.Stmt) {
			answer.Delivered = !st.ColumnIsNull(0)
			outlived = st.ColumnInt64(1) > 0 && st.ColumnInt64(1) <= t.now
		}, address, s.Key)
		answer.Delivered = answer.Delivered && !outlived
		return found && !outlived, err
	}
	var batch, n any
	if id := s.To.Task; id != (task.ID{}) {
		f, found, err := t.facts().fact(id)
		if err != nil || !found || f.Removed() {
			return store.Signalled{Now: t.now}, err
		}
		batch, n = id.Batch, id.N
		answer.Final = f.Base == store.Final
	}
	repeated, err := stands()
	if err != nil || repeated {
		answer.Repeated, answer.Final = repeated, false
		return answer, err
	}
	if answer.Final {
		return answer, nil
	}
	if batch != nil {
		if _, err := t.one(openSignals, func(st *sqlite.Stmt) {
			answer.Full = st.ColumnInt(0) >= store.MaxOpenSignals
		}, batch, n, store.MaxOpenSignals); err != nil || answer.Full {
			return answer, err
		}
	}
	until := int64(0)
	if s.Keep > 0 {
		until = t.now + s.Keep
	}
	if _, err := t.exec(insertSignal, address, s.Key, batch, n, []byte(s.Payload), s.By, t.now,
		until); err != nil {
		return answer, err
	}
	// There is one writer, so whoever begins to wait comes before this, or looks after it.
	l := looking{tx: t.tx, left: 1}
	if err := l.at(s.To); err != nil {
		return answer, err
	}
	answer.Ready = l.ready
	_, err = stands()
	return answer, err
}

// Look ends the waits that may end. See contract.Waits.
func (s *waitCalls) Look(ctx context.Context, r store.LookRequest) (store.Looked, error) {
	var answer store.Looked
	err := s.write(ctx, func(t *tx) (err error) {
		answer, err = t.waits().look(r)
		return err
	})
	if err != nil {
		return store.Looked{}, fmt.Errorf("look which tasks wait no longer: %w", err)
	}
	return answer, nil
}

func (t waitWrites) look(r store.LookRequest) (store.Looked, error) {
	answer := store.Looked{Now: t.now}
	l := looking{tx: t.tx, limit: r.Limit, left: r.Limit}
	var err error
	if len(r.Addresses) > 0 {
		err = l.some(r.Addresses)
	} else {
		err = l.everywhere()
	}
	if err != nil {
		return answer, err
	}
	answer.Ended, answer.Ready, answer.More = r.Limit-l.left, l.ready, l.more
	answer.Cancelled = l.cancelled
	_, err = t.one(nextUntil, func(st *sqlite.Stmt) { answer.NextUntil = st.ColumnInt64(0) })
	return answer, err
}

// looking is a look under way.
type looking struct {
	*tx
	limit int // of the request
	left  int // waits that it may end
	more  bool
	ready []store.Ready // by name

	cancelled []task.ID // children, and those that waited for others
}

// some looks at some addresses.
func (l *looking) some(list []store.Address) error {
	var ends []store.Address
	for _, a := range list {
		if a.End {
			ends = append(ends, a)
		} else if err := l.at(a); err != nil {
			return err
		}
	}
	return l.ends(sortedAddresses(ends))
}

// everywhere looks at what changed, for waits whose time is over, at the ends of tasks, and for
// children to be cancelled.
func (l *looking) everywhere() error {
	var list []string
	if err := l.each(changes, func(st *sqlite.Stmt) bool {
		list = append(list, st.ColumnText(0))
		return true
	}, piece); err != nil {
		return err
	}
	cut := len(list) == piece
	l.more = cut
	slices.Sort(list)
	list = slices.Compact(list)
	var ends []store.Address
	for _, text := range list {
		if rules.IsFall(text) {
			continue
		}
		address, err := store.ParseAddress(text)
		if err == nil && isEnd(text) {
			ends = append(ends, address)
			continue
		}
		if err == nil {
			err = l.at(address)
		}
		if err != nil {
			return err
		}
	}
	var over []rules.Wait
	if err := l.each(waitsOver, func(st *sqlite.Stmt) bool {
		over = append(over, scanWait(st))
		return true
	}, l.now, l.left+1); err != nil {
		return err
	}
	for i := range over {
		if cut { // what it waits for may have come, and left a change that stands behind the cut
			address, err := store.ParseAddress(over[i].Address)
			if err == nil {
				err = l.at(address)
			}
			if err != nil {
				return err
			}
		}
		if l.left == 0 {
			l.more = true
			break
		}
		if _, err := l.wake(&over[i], store.Woken{TimedOut: true}); err != nil {
			return err
		}
	}
	if err := l.ends(ends); err != nil {
		return err
	}
	if err := l.fall(list); err != nil {
		return err
	}
	return l.moreEnds()
}

// at ends waits at an address: as long as there are signals, or if the children are enough.
func (l *looking) at(a store.Address) error {
	address := a.String()
	if _, err := l.exec(deleteChanges, address); err != nil {
		return err
	}
	if a.Children() {
		return l.atChildren(a)
	}
	for {
		var w rules.Wait
		var key string
		var by store.Woken
		found, err := l.one(oldestWait, func(st *sqlite.Stmt) { w = scanWait(st) }, address)
		if err == nil && found {
			found, err = l.one(oldestSignal, func(st *sqlite.Stmt) {
				key = st.ColumnText(0)
				by = store.Woken{
					Payload: bytesOf(st, 1), By: st.ColumnText(2), At: st.ColumnInt64(3),
				}
			}, address, l.now)
		}
		if err != nil || !found {
			return err
		}
		if l.left == 0 {
			l.more = true
			_, err := l.exec(changeAt, address)
			return err
		}
		ended, err := l.wake(&w, by)
		if err == nil && ended {
			_, err = l.exec(useSignal, l.now, address, key)
		}
		if err != nil {
			return err
		}
	}
}

// wake ends a wait, and tells whether it was that of the task as it stands.
func (l *looking) wake(w *rules.Wait, by store.Woken) (bool, error) {
	if _, err := l.exec(deleteWait, w.ID.Batch, w.ID.N); err != nil {
		return false, err
	}
	f, found, err := l.facts().fact(w.ID)
	if err != nil || !found || !w.Ends(&f) {
		return false, err
	}
	step, to, err := rules.Wake(&f, w, by, l.now)
	if err == nil {
		err = l.steps().insertStep(w.ID, w.Seq, &step)
	}
	if err == nil {
		err = l.steps().leave(&f)
	}
	if err == nil {
		err = l.steps().moveOut(w.ID, w.Seq, f.Queue, to)
	}
	l.left--
	l.history.Woken(l.now, f.Queue, step.Stage)
	l.ready = rules.AddReady(l.ready, store.Ready{Queue: f.Queue, Rank: to.Rank})
	return true, err
}

// noteWoken reads what ended the waits of tasks of a batch that a span with LinkWoken has.
func (c waitReads) noteWoken(batch int64, tasks []store.Loaded) error {
	for i := range tasks {
		woken, err := c.woken(task.ID{Batch: batch, N: tasks[i].N})
		if err != nil {
			return err
		}
		tasks[i].Woken = woken
	}
	return nil
}

// woken is what ended the wait before a task's present stage; nil = it did not wait.
func (c waitReads) woken(id task.ID) (*store.Woken, error) {
	var said []byte
	_, err := c.one(wokenAt, func(st *sqlite.Stmt) {
		if task.Kind(st.ColumnInt(0)) == task.KindWoken {
			said = bytesOf(st, 1)
		}
	}, id.Batch, id.N)
	if err != nil || said == nil {
		return nil, err
	}
	by, err := rules.WokenBy(said)
	if err != nil {
		return nil, fmt.Errorf("read what woke task %s: %w", id, err)
	}
	return by, nil
}

// followWait lets the wait of a blocked task go along with an edit, or away with any other step.
func (t waitWrites) followWait(f *rules.Fact, kind task.Kind) (err error) {
	if kind == task.KindEdited {
		_, err = t.exec(moveWait, f.Seq+2, f.ID.Batch, f.ID.N)
	} else {
		_, err = t.exec(deleteWait, f.ID.Batch, f.ID.N)
	}
	return err
}
