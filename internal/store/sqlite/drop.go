package sqlite

import (
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// dropWrites deletes tasks that are over, with all that the tables have of them.
type dropWrites struct{ *tx }

func (t *tx) drops() dropWrites { return dropWrites{t} }

// dropOf says which of the tasks of one batch, ascending in N, are still kept no longer, and for
// how long the one that was due first.
func (t dropWrites) dropOf(
	keep retention, found []rules.Fact,
) (gone []ending, behind int64, err error) {
	first, last := found[0].ID, found[len(found)-1].ID
	if waited, err := t.conn.children().waitedFor(first.Batch); err != nil || waited {
		return nil, 0, err
	}
	if found, err = t.waits().notAwaited(found); err != nil || len(found) == 0 {
		return nil, 0, err
	}
	err = t.facts().facts(first.Batch, first.N, last.N, func(f *rules.Fact) bool {
		for len(found) > 0 && found[0].ID.N < f.ID.N {
			found = found[1:]
		}
		if len(found) == 0 {
			return false
		}
		if found[0].ID == f.ID && f.Base == store.Final && keep.until(f) <= t.now {
			gone = append(gone, endingOf(f))
			behind = max(behind, t.now-keep.until(f))
		}
		return true
	})
	return gone, behind, err
}

// ending is a task that is deleted, and how it ended.
type ending struct {
	n       int32
	state   task.State // "" = it did not
	removed bool       // its removal was counted when it was asked for
}

func endingOf(f *rules.Fact) ending {
	e := ending{n: f.ID.N, removed: f.Removed()}
	if f.Base == store.Final {
		e.state = f.Kind.Leaves()
	}
	return e
}

const (
	packsOf = `SELECT lo, has, body FROM pack WHERE batch = ?1 AND lo BETWEEN ?2 & ~63 AND ?3
ORDER BY lo`
	deletePack = `DELETE FROM pack WHERE batch = ? AND lo = ?`
	thinPack   = `UPDATE pack SET has = ?3, body = ?4 WHERE batch = ?1 AND lo = ?2`
	deleteMark = `DELETE FROM mark WHERE batch = ?1 AND lo = ?2 AND NOT EXISTS (SELECT 1 FROM pack
WHERE batch = ?1 AND lo BETWEEN ?2 AND ?2 + 63)`
	blobsOf = `SELECT name FROM blob WHERE batch = ? AND n BETWEEN ? AND ?`
	markGap = `UPDATE span SET gaps = 1 WHERE batch = ?1 AND lo <= ?3 AND hi >= ?2 AND NOT gaps`
)

// leftovers are what belongs to tasks alone.
var leftovers = [...]string{
	`DELETE FROM blob WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM step WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM edit WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM running WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM log WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM unique_key WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM key_owner WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM wait WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM signal WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM child_count WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM dependency WHERE batch = ? AND n BETWEEN ? AND ?`,
	`DELETE FROM log_size WHERE batch = ? AND n BETWEEN ? AND ?`,
}

// drop deletes tasks of a batch, ascending in N, and all that belongs to them alone. The names of
// their blobs are added to blobs, to be deleted after the commit: until then they may be read.
func (t dropWrites) drop(
	batch int64, queue string, gone []ending, blobs []string,
) ([]string, error) {
	for i := range gone {
		if !gone[i].removed {
			t.stat(queue).Gone(gone[i].state)
		}
	}
	if err := t.children().endUnended(batch, gone); err != nil {
		return blobs, err
	}
	var rows []row
	err := t.each(packsOf, func(st *sqlite.Stmt) bool {
		rows = append(rows, scanPack(st))
		return true
	}, batch, gone[0].n, gone[len(gone)-1].n)
	for i := range rows {
		r := &rows[i]
		var out pack.Bits // of this row
		for len(gone) > 0 && pack.Lo(gone[0].n) == pack.Lo(r.lo) && r.has.Has(gone[0].n) {
			out |= pack.Bit(gone[0].n)
			gone = gone[1:]
		}
		if err == nil && out != 0 {
			blobs, err = t.dropFrom(batch, r, out, blobs)
		}
	}
	if err == nil && len(gone) > 0 {
		err = fmt.Errorf("delete task %s: no pack has it", task.ID{Batch: batch, N: gone[0].n})
	}
	return blobs, err
}

// dropFrom takes tasks out of a row of a pack, with all that belongs to them alone.
func (t dropWrites) dropFrom(
	batch int64, r *row, out pack.Bits, blobs []string,
) ([]string, error) {
	lo := pack.Lo(r.lo)
	err := t.unkey(batch, r, out)
	if left := r.has &^ out; err == nil && left != 0 {
		var body []byte
		if body, err = pack.Thin(r.body, r.lo, r.has, out); err == nil {
			_, err = t.exec(thinPack, batch, r.lo, int64(left), body)
		}
	} else if err == nil {
		if _, err = t.exec(deletePack, batch, r.lo); err == nil {
			_, err = t.exec(deleteMark, batch, lo)
		}
	}
	if err != nil {
		return blobs, err
	}
	for from, to := range out.Runs(lo) {
		err := t.each(blobsOf, func(st *sqlite.Stmt) bool {
			blobs = append(blobs, st.ColumnText(0))
			return true
		}, batch, from, to)
		for _, query := range leftovers {
			if err == nil {
				_, err = t.exec(query, batch, from, to)
			}
		}
		if err == nil {
			_, err = t.exec(markGap, batch, from, to)
		}
		if err != nil {
			return blobs, err
		}
	}
	return blobs, nil
}

const deleteKeyed = `DELETE FROM keyed WHERE key = ? AND batch = ? AND n = ?`

// unkey deletes the keys of the tasks that are taken out of a row of a pack.
func (t dropWrites) unkey(batch int64, r *row, out pack.Bits) error {
	type key struct {
		text string
		n    int32
	}
	var keys []key
	err := pack.EachTask(r.body, r.lo, r.has, func(k *store.Task) bool {
		if k.Key != "" && out.Has(k.N) {
			keys = append(keys, key{k.Key, k.N})
		}
		return true
	})
	for _, k := range keys {
		if err == nil {
			_, err = t.exec(deleteKeyed, k.text, batch, k.n)
		}
	}
	return err
}

const (
	deleteSpansOf = `DELETE FROM span WHERE batch = ?`
	deleteBatch   = `DELETE FROM batch WHERE id = ?`
)

// dropBatch deletes a batch, at most a piece of it at once, its spans first: nobody is to take what
// is left.
func (t dropWrites) dropBatch(batch int64, queue string) (blobs []string, more bool, err error) {
	if _, err := t.exec(deleteSpansOf, batch); err != nil {
		return nil, false, err
	}
	var gone []ending
	if err := t.facts().facts(batch, 0, math.MaxInt32, func(f *rules.Fact) bool {
		gone = append(gone, endingOf(f))
		return len(gone) < piece
	}); err != nil {
		return nil, false, err
	}
	if len(gone) > 0 {
		blobs, err = t.drop(batch, queue, gone, nil)
	}
	if err == nil && len(gone) < piece {
		err = t.deleteBatch(batch)
	}
	return blobs, len(gone) == piece, err
}

// deleteBatch deletes a batch that has neither tasks nor spans.
func (t dropWrites) deleteBatch(batch int64) error {
	_, err := t.exec(deleteBatch, batch)
	if err == nil && store.MayBeChildren(batch) {
		_, err = t.exec(deleteChildBatch, batch)
	}
	if err == nil {
		err = t.expiries().forgetLook(batch)
	}
	return err
}
