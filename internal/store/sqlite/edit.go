package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	insertEdit = `INSERT INTO edit (batch, n, seq, changed, over, head_start, group_key,
max_attempts, expires, meta)
VALUES (?, ?, ?, ?, nullif(?, -2), ?, nullif(?, ''), ?, nullif(?, 0), ?)`
	newestEdit = `SELECT head_start, coalesce(group_key, ''), max_attempts, expires, seq, meta
FROM edit WHERE batch = ? AND n = ? ORDER BY seq DESC LIMIT 1`
	changedIn = `SELECT seq, changed FROM edit WHERE batch = ? AND n = ? AND seq >= ?`
	replacing = `SELECT e.seq, s.stage, e.over, e.changed FROM edit e
JOIN step s ON s.batch = e.batch AND s.n = e.n AND s.seq = e.seq
WHERE e.batch = ? AND e.n = ? AND e.over IS NOT NULL ORDER BY e.seq`
)

// insertEdit writes down what the step of an edit makes of the task.
func (t stepWrites) insertEdit(id task.ID, seq int32, s *store.Step) error {
	o := s.Override
	var meta any // NULL = as it was submitted
	if o.Meta != nil {
		meta = string(*o.Meta)
	}
	_, err := t.exec(insertEdit, id.Batch, id.N, seq, int32(o.Changed), o.Over, o.HeadStart,
		o.GroupKey, o.MaxAttempts, o.Expires, meta)
	if err == nil && o.Expires != 0 {
		err = t.expiries().lookAt(id.Batch, o.Expires)
	}
	if err == nil && o.Changed&store.ChangedGroupKey != 0 {
		_, err = t.exec(dropOwners, id.Batch, id.N)
	}
	if err != nil {
		return err
	}
	return t.values().noteBlobs(id, s.Context)
}

// override is an edit's with its seq.
type override struct {
	store.Override
	seq int32
}

// override is what the newest edit made of a task; false: nobody has edited it.
func (c factReads) override(id task.ID) (o override, found bool, err error) {
	found, err = c.one(newestEdit, func(st *sqlite.Stmt) {
		o.HeadStart, o.GroupKey = st.ColumnInt64(0), st.ColumnText(1)
		o.MaxAttempts, o.Expires = st.ColumnInt32(2), st.ColumnInt64(3)
		if o.seq = st.ColumnInt32(4); !st.ColumnIsNull(5) {
			o.Meta = new(store.Meta(st.ColumnText(5)))
		}
	}, id.Batch, id.N)
	return o, found, err
}

// applyEdits makes a fact what edits have made of its task.
func (c factReads) applyEdits(f *rules.Fact) error {
	if !f.MayBeEdited() {
		return nil
	}
	o, found, err := c.override(f.ID)
	if err == nil && found {
		f.Apply(&o.Override)
	}
	return err
}

// replaced is where to begin when edits have replaced contexts.
func (c factReads) replaced(id task.ID, b rules.Begin) (rules.Begin, error) {
	var list []store.Replacement
	err := c.each(replacing, func(st *sqlite.Stmt) bool {
		list = append(list, store.Replacement{
			Seq: st.ColumnInt32(0), Stage: st.ColumnText(1), Over: st.ColumnInt32(2),
			Restaged: store.EditedFields(st.ColumnInt32(3))&store.ChangedStage != 0,
		})
		return true
	}, id.Batch, id.N)
	return b.After(list), err
}

// noteEdits says of steps, the newest first, what those that are edits changed. What stands as the
// error of one is that of the attempt before.
func (c factReads) noteEdits(id task.ID, steps []task.Step) error {
	edits := map[int32]*task.Step{}
	least := int32(0)
	for i := range steps {
		if s := &steps[i]; s.Kind == task.KindEdited {
			s.Error = ""
			edits[s.Seq], least = s, s.Seq
		}
	}
	if len(edits) == 0 {
		return nil
	}
	return c.each(changedIn, func(st *sqlite.Stmt) bool {
		if s := edits[st.ColumnInt32(0)]; s != nil {
			s.Changed = store.EditedFields(st.ColumnInt32(1)).String()
		}
		return true
	}, id.Batch, id.N, least)
}
