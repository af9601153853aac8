package sqlite

import (
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/admission"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// The running rows of a queue that limits each key have the keys of their tasks, which are counted
// by them. In other queues a row has the key of its span, and "" if that may have tasks of several:
// nobody counts them, and a task's own key stands in its pack. When a queue begins to limit each
// key, the rows that it has by then get theirs.

const (
	// limitedAndMixed tells whether tasks of a span may have several keys, and their queue limits
	// each.
	limitedAndMixed = `SELECT 1 FROM span JOIN queue ON name = queue WHERE id = ? AND key IS NULL
AND (key_running > 0 OR key_rate_count > 0 OR key_rules)`
	withoutKey = `SELECT batch, n, seq FROM running INDEXED BY running_queue
WHERE queue = ? AND key = ''`
	nameRow  = `UPDATE running SET key = ? WHERE batch = ? AND n = ? AND seq = ?`
	editedIn = `SELECT n, coalesce(group_key, '') FROM edit WHERE batch = ? AND n BETWEEN ? AND ?
ORDER BY n, seq`
)

// limitsKeys tells whether a queue limits each key, or some by their rules.
func limitsKeys(q *task.Queue) bool {
	return admission.KeyLimitsOf(q) != (admission.Limits{}) || q.KeyRules
}

// nameKeys gives the running rows of a queue the keys of their tasks. It reads each pack once.
func (t limitWrites) nameKeys(queue string) error {
	var rows []store.Watch
	if err := t.each(withoutKey, func(st *sqlite.Stmt) bool {
		rows = append(rows, store.Watch{
			ID: task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, Seq: st.ColumnInt32(2),
		})
		return true
	}, queue); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b store.Watch) int { return a.ID.Compare(b.ID) })
	for len(rows) > 0 {
		first, n := rows[0].ID, 1
		for n < len(rows) && rows[n].ID.Batch == first.Batch &&
			pack.Lo(rows[n].ID.N) == pack.Lo(first.N) {
			n++
		}
		if err := t.nameKeysOf(rows[:n]); err != nil {
			return fmt.Errorf("name the keys of batch %d from %d on: %w", first.Batch, first.N, err)
		}
		rows = rows[n:]
	}
	return nil
}

// nameKeysOf is nameKeys for rows of tasks of one pack.
func (t limitWrites) nameKeysOf(rows []store.Watch) error {
	keys, err := t.conn.limits().groupKeys(rows[0].ID.Batch, rows[0].ID.N, rows[len(rows)-1].ID.N)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if key := keys[row.ID.N%pack.Size]; key != "" {
			if _, err := t.exec(nameRow, key, row.ID.Batch, row.ID.N, row.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupKeys are the group keys of a batch's tasks from lo to hi, which are of one pack.
func (c limitReads) groupKeys(batch int64, lo, hi int32) (keys [pack.Size]string, err error) {
	for at := pack.Lo(lo); ; {
		p, found, err := c.members().packFrom(batch, at, hi)
		if err == nil && found {
			at = p.lo + 1
			err = pack.EachTask(p.body, p.lo, p.has, func(t *store.Task) bool {
				keys[t.N%pack.Size] = t.GroupKey
				return true
			})
		}
		if err != nil {
			return keys, err
		}
		if !found {
			break
		}
	}
	err = c.each(editedIn, func(st *sqlite.Stmt) bool { // the newest edit of a task comes last
		keys[st.ColumnInt32(0)%pack.Size] = st.ColumnText(1)
		return true
	}, batch, lo, hi)
	return keys, err
}

// nameKey gives a running row, if there is one, the key of its task.
func (t limitWrites) nameKey(row store.Watch) error {
	key, err := t.conn.limits().groupKey(row.ID)
	if err == nil && key != "" {
		_, err = t.exec(nameRow, key, row.ID.Batch, row.ID.N, row.Seq)
	}
	if err != nil {
		return fmt.Errorf("name the key of hand-out %d of task %s: %w", row.Seq, row.ID, err)
	}
	return nil
}

// keyNamer gives running rows that were just inserted the keys of their tasks, where those are
// counted. It looks at each span once.
type keyNamer struct {
	limitWrites
	mixed map[int64]bool // by span: its queue limits each key, and its tasks may have several
}

func (k *keyNamer) name(u *store.Running) (err error) {
	mixed, known := k.mixed[u.Span]
	if !known {
		if mixed, err = k.has(limitedAndMixed, u.Span); err != nil {
			return fmt.Errorf("look whether keys of span %d are limited: %w", u.Span, err)
		}
		k.mixed[u.Span] = mixed
	}
	if !mixed {
		return nil
	}
	return k.nameKey(store.Watch{ID: u.ID, Seq: u.Seq})
}
