package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// uniqueReads reads who has a unique key, from table unique_key.
type uniqueReads struct{ *conn }

func (c *conn) uniqueKeys() uniqueReads { return uniqueReads{c} }

// uniqueWrites gives unique keys to tasks.
type uniqueWrites struct{ *tx }

func (t *tx) uniqueKeys() uniqueWrites { return uniqueWrites{t} }

// The table unique_key says which task got a unique key last. Whether the task still has it follows
// from how it stands, so nothing is written when that changes: a submission that wants the key
// looks. Such tasks are handed out by Begin, so their running rows tell of every hand-out.

const (
	findUnique = `SELECT batch, n, waiting, coalesce(until, 0) FROM unique_key
WHERE queue = ? AND key = ?`
	putUnique = `REPLACE INTO unique_key (queue, key, batch, n, waiting, until)
VALUES (?, ?, ?, ?, ?, nullif(?, 0))`
	uniquesIn     = `SELECT n FROM unique_key WHERE batch = ? AND n BETWEEN ? AND ? ORDER BY n`
	expiredUnique = `SELECT queue, key FROM unique_key WHERE until <= ? ORDER BY until LIMIT ?`
	deleteUnique  = `DELETE FROM unique_key WHERE queue = ? AND key = ? AND until <= ?`
)

// errRace: what was found changed before the transaction was over, which one writer can't do.
var errRace = errors.New("a task that was to be replaced is another one by now")

// chooseUnique says what becomes of those tasks of a submission that want unique keys, and gives
// these to those that get them; nil: none of them wants any.
func (t uniqueWrites) chooseUnique(sub *store.Submission) (*rules.UniqueChoice, error) {
	var bad error
	asks := rules.UniqueAsks(sub.Batches, func(batch int64) bool {
		stands, err := t.has(findBatch, batch)
		bad = errors.Join(bad, err)
		return stands
	})
	if bad != nil || len(asks) == 0 {
		return nil, bad
	}
	held := map[rules.UniqueName]rules.UniqueHolder{}
	seen := map[rules.UniqueName]bool{}
	for i := range asks {
		name := asks[i].Name()
		if seen[name] {
			continue
		}
		seen[name] = true
		h, has, err := t.uniqueHolder(name)
		if err != nil {
			return nil, fmt.Errorf("unique key %q of queue %q: %w", name.Key, name.Queue, err)
		}
		if has {
			held[name] = h
		}
	}
	c := rules.ChooseUnique(asks, held)
	for name, a := range c.Owners {
		if _, err := t.exec(putUnique, name.Queue, name.Key, a.ID.Batch, a.ID.N, a.Waiting,
			a.Until); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// uniqueHolder is the task that has a unique key.
func (t uniqueWrites) uniqueHolder(
	name rules.UniqueName,
) (h rules.UniqueHolder, has bool, err error) {
	var r rules.UniqueRow
	stands, err := t.one(findUnique, func(st *sqlite.Stmt) {
		r = rules.UniqueRow{
			ID:      task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)},
			Waiting: st.ColumnBool(2), Until: st.ColumnInt64(3),
		}
	}, name.Queue, name.Key)
	if err != nil || !stands {
		return h, false, err
	}
	f, found, err := t.facts().fact(r.ID)
	if err != nil || !found {
		return h, false, err
	}
	if f.Seq >= 0 && f.Base != store.Final {
		if f.Begun, err = t.conn.expiries().wasBegun(r.ID); err != nil {
			return h, false, err
		}
	}
	h, has = r.Holder(&f, t.now)
	return h, has, nil
}

// replaceWaiting makes of tasks that wait what was submitted in their place.
func (t uniqueWrites) replaceWaiting(c *rules.UniqueChoice) error {
	for i := range c.Replace {
		acted, err := t.steps().act(&c.Replace[i])
		if err == nil && !acted.Changed {
			err = errRace
		}
		if err != nil {
			return fmt.Errorf("replace task %s: %w", c.Replace[i].ID, err)
		}
	}
	return nil
}

// noteUnique notes which of the tasks of a batch have unique keys; ascending in N.
func (c uniqueReads) noteUnique(batch int64, tasks []store.Loaded) error {
	if len(tasks) == 0 {
		return nil
	}
	return c.each(uniquesIn, func(st *sqlite.Stmt) bool {
		n := st.ColumnInt32(0)
		for len(tasks) > 0 && tasks[0].N < n {
			tasks = tasks[1:]
		}
		if len(tasks) > 0 && tasks[0].N == n {
			tasks[0].Unique = true
		}
		return true
	}, batch, tasks[0].N, tasks[len(tasks)-1].N)
}

// pruneUnique deletes unique keys whose time is over.
func (t uniqueWrites) pruneUnique(limit int) (pruned int, err error) {
	var names []rules.UniqueName
	err = t.each(expiredUnique, func(st *sqlite.Stmt) bool {
		names = append(names, rules.UniqueName{Queue: st.ColumnText(0), Key: st.ColumnText(1)})
		return true
	}, t.now, limit)
	for _, k := range names {
		if err == nil {
			var n int
			n, err = t.exec(deleteUnique, k.Queue, k.Key, t.now)
			pruned += n
		}
	}
	return pruned, err
}
