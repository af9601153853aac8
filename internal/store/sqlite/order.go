package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// The table key_owner says which task of a key began last, where keys go in order. Whether the key
// still has to wait for it follows from how it stands.

const (
	// ownerOf reads with it its newest step, and whether it is marked as done without one.
	ownerOf = `SELECT o.batch, o.n, s.base, s.kind, coalesce(m.bits >> (o.n & 63) & 1, 0)
FROM key_owner o
LEFT JOIN step s ON s.batch = o.batch AND s.n = o.n
  AND s.seq = (SELECT max(x.seq) FROM step x WHERE x.batch = o.batch AND x.n = o.n)
LEFT JOIN mark m ON m.batch = o.batch AND m.lo = o.n & ~63
WHERE o.queue = ? AND o.key = ?`
	putOwner   = `REPLACE INTO key_owner (queue, key, batch, n) VALUES (?, ?, ?, ?)`
	dropOwners = `DELETE FROM key_owner WHERE batch = ? AND n = ?`

	// firstOfKey is what comes first of what a key has ready, whoever holds it.
	firstOfKey = `SELECT ` + spanColumns + ` FROM span INDEXED BY span_order
WHERE key IS NOT NULL AND queue = ?1 AND key = ?2 AND rank <= ?3 AND due <= ?3
ORDER BY rank, batch, lo, id LIMIT 1`
)

// owner is the task of a key that began last, as it stands.
func (c limitReads) owner(queue, key string) (o rules.OwnerRow, err error) {
	_, err = c.one(ownerOf, func(st *sqlite.Stmt) {
		o.ID = task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}
		switch {
		case !st.ColumnIsNull(2):
			o.Base, o.Kind = st.ColumnInt32(2), task.Kind(st.ColumnInt(3))
		case st.ColumnBool(4):
			o.Base, o.Kind = store.Final, task.KindDone
		}
	}, queue, key)
	return o, err
}

// firstOfKey is the span that comes first of what a key has ready; 0 = it has nothing.
func (c limitReads) firstOfKey(queue, key string, now int64) (id int64, err error) {
	_, err = c.one(firstOfKey, func(st *sqlite.Stmt) { id = st.ColumnInt64(0) }, queue, key, now)
	return id, err
}

// keepOwners writes down which tasks own their keys as they begin.
func (t limitWrites) keepOwners(keys map[string]*rules.KeyStand) error {
	for _, k := range keys {
		if !k.Begun(k.Owner) {
			continue
		}
		if _, err := t.exec(putOwner, k.Queue, k.Key, k.Owner.Batch, k.Owner.N); err != nil {
			return err
		}
	}
	return nil
}

// next finds the span of a key in order that may be taken: the one that its owner is in, or that
// comes first. There is none if somebody has that one.
func (b *keyTake) next(k *rules.KeyStand) error {
	if k.Stopped {
		return nil
	}
	var sp store.Span
	var found bool
	var err error
	see := func(st *sqlite.Stmt) { sp = scanSpan(st) }
	if k.Owner == (task.ID{}) {
		found, err = b.one(firstOfKey, see, k.Queue, k.Key, b.now)
	} else {
		o, e := b.conn.limits().owner(k.Queue, k.Key)
		if e != nil {
			return e
		}
		found, err = b.one(findOwner, see, o.ID.Batch, o.Base, o.ID.N)
		found = found && sp.Hi >= o.ID.N && sp.Sorted && sp.Due <= b.now && sp.Rank <= b.now
	}
	if err != nil || !found || sp.Holder != (store.Holder{}) {
		return err
	}
	k.Next = sp.ID
	b.spans[sp.ID] = sp
	if k.Owner != (task.ID{}) {
		b.owners[sp.ID] = k.Owner
	}
	return nil
}
