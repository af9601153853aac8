package postgres

import (
	"cmp"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// marksFrom is how many outcomes of one pack must come together to be worth a mark. Fewer are
// recorded as steps: tasks that end one by one would rewrite a growing body each time. Four at a
// time cost half of what they cost as steps, two write more (BenchmarkSettleFewOfAPack). So a
// settlement takes at most one lock for each four of its reports alone.
const marksFrom = 4

// packsLocked is how many packs one transaction locks one by one. The server's lock table has room
// for 64 locks of each connection (max_locks_per_transaction), and who finds it full fails, whoever
// filled it. A transaction that would lock more packs locks allPacks instead, alone.
const packsLocked = 256

// allPacks is locked by who writes marks, shared, and by who inserts steps at seq 0 into more packs
// than it may lock, alone.
const allPacks = migrateLock + 2

// packID names a pack: the numbers lo to lo + 63 of a batch.
type packID struct {
	batch int64
	lo    int32
}

func packOf(id task.ID) packID { return packID{id.Batch, pack.Lo(id.N)} }

func (p packID) compare(q packID) int {
	return cmp.Or(cmp.Compare(p.batch, q.batch), cmp.Compare(p.lo, q.lo))
}

// lock is the number of the pack's advisory lock; the functions finish and fence have the same.
// Two packs that share one, which is rare, only wait for each other.
func (p packID) lock() int64 { return p.batch ^ int64(p.lo/pack.Size)<<32 }

const (
	// sharePacks keeps everybody from writing into the marks of some packs until the commit. It
	// waits for who does so just now, which is another settlement's last trip. What was written is
	// seen by the statements after it.
	sharePacks = `SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) k`
	shareAll   = `SELECT pg_advisory_xact_lock($1)`

	// lockPacks locks packs alone, or fails with the places of those that others use just now: a
	// handler's open transaction, or another settlement. It never waits, nor does its transaction
	// for anything else from here on, so whoever waits for these packs waits for one commit.
	lockPacks = `SELECT rota.alone(pg_try_advisory_xact_lock_shared($1), array(SELECT i::int
FROM unnest($2::bigint[]) WITH ORDINALITY p (k, i) WHERE NOT pg_try_advisory_xact_lock(k)))`

	// marksOf reads the marks of packs, those that have any of some bits.
	marksOf = `SELECT m.batch, m.lo, m.bits, m.body
FROM unnest($1::bigint[], $2::int[], $3::bigint[]) w (batch, lo, bits)
JOIN rota.mark m ON m.batch = w.batch AND m.lo = w.lo AND m.batch BETWEEN $4 AND $5
WHERE m.bits & w.bits <> 0`
)

// sharing makes the query that shares the locks of packs, which are in their order.
func sharing(packs []packID) []query {
	switch {
	case len(packs) == 0:
		return nil
	case len(packs) > packsLocked:
		return []query{tell(shareAll, int64(allPacks))}
	}
	locks := make([]int64, len(packs))
	for i, p := range packs {
		locks[i] = p.lock()
	}
	return []query{tell(sharePacks, locks)}
}

// packColumns are packs, each once and in order, with bits.
type packColumns struct {
	batch []int64
	lo    []int32
	bits  []int64
}

// bounds are the least and the greatest batch; 0 without any. Given to a statement they spare it
// the partitions that have none of the packs.
func (c *packColumns) bounds() (from, to int64) {
	if len(c.batch) == 0 {
		return 0, 0
	}
	return c.batch[0], c.batch[len(c.batch)-1]
}

// packsOf are the packs of tasks, and the bits of these.
func packsOf(ids []task.ID) (c packColumns) {
	at := make(map[packID]pack.Bits, len(ids)/pack.Size+1)
	for _, id := range ids {
		at[packOf(id)] |= pack.Bit(id.N)
	}
	list := make([]packID, 0, len(at))
	for p := range at {
		list = append(list, p)
	}
	slices.SortFunc(list, packID.compare)
	for _, p := range list {
		c.batch = append(c.batch, p.batch)
		c.lo = append(c.lo, p.lo)
		c.bits = append(c.bits, int64(at[p]))
	}
	return c
}

// mark is a row of that table.
type mark struct {
	packID
	bits pack.Bits
	body []byte
}

func (m *mark) scan(r row) error {
	var bits int64
	err := r.Scan(&m.batch, &m.lo, &bits, &m.body)
	m.bits = pack.Bits(bits)
	return err
}

// marks are those of some packs, as far as they were read.
type marks map[packID]mark

// reading makes the query that reads the marks of tasks.
func (m marks) reading(ids []task.ID) query {
	c := packsOf(ids)
	from, to := c.bounds()
	return ask(marksOf, func(r row) error {
		var one mark
		err := one.scan(r)
		m[one.packID] = one
		return err
	}, c.batch, c.lo, c.bits, from, to)
}

// has tells whether a task's first hand-out is marked as done.
func (m marks) has(id task.ID) bool { return m[packOf(id)].bits.Has(id.N) }

// find is the outcome of a task in its mark, if it has one.
func (m marks) find(id task.ID) (d pack.Done, ok bool, err error) {
	one, ok := m[packOf(id)]
	if !ok || !one.bits.Has(id.N) {
		return d, false, nil
	}
	return pack.FindDone(one.body, id.N)
}

// each calls visit with those of the outcomes in marks that some tasks have.
func (m marks) each(ids []task.ID, visit func(i int, d *pack.Done)) error {
	at := make(map[task.ID][]int, len(ids))
	for i, id := range ids {
		if m.has(id) {
			at[id] = append(at[id], i)
		}
	}
	for p, one := range m {
		err := pack.EachDone(one.body, p.lo, func(d *pack.Done) bool {
			for _, i := range at[task.ID{Batch: p.batch, N: d.N}] {
				visit(i, d)
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isMarked is the condition that a task's first hand-out is marked as done: its columns are put in
// for <batch> and <n>.
func isMarked(batch, n string) string {
	return `EXISTS (SELECT FROM rota.mark m WHERE m.batch = ` + batch + ` AND m.lo = (` + n +
		` & -64) AND (m.bits >> (` + n + ` & 63)) & 1 = 1)`
}

// marked applies the outcome that a mark has of the task: its step at seq 0. Newer steps say how it
// stands; which worker ran it last they may not say.
func (f *fact) marked(d *pack.Done) {
	if f.ID != (task.ID{}) && !f.ran {
		f.worker = d.Worker
	}
	if f.Kind != 0 || f.ID == (task.ID{}) {
		return
	}
	f.Seq, f.Kind, f.Attempt, f.Base, f.ContextSeq = 0, task.KindDone, 1, store.Final, -1
	f.StepDue, f.Finished, f.Error, f.Expires = 0, d.Finished, "", 0
	f.Owner, f.Running, f.began = store.Span{}, nil, d.Started
}
