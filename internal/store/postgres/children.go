package postgres

import (
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A row of child_batch says whose children the tasks of a batch are, and at which address their
// counts change. Whoever submits or ends children inserts a row of change there in the same
// transaction, with how many they are: so those who end children of one parent do not wait for each
// other. Looks add these rows up (look.go). Thus child_count and the changes that stand are
// together exactly what the steps of the children say, in every snapshot.
//
// Whether a task has children is asked where it ends in another way than done: by a later statement
// than the one that deletes its running row, or shares its owner. Who adds children to a hand-out
// has one of the two for himself (under.go).

const (
	// runsOf finds the runs in which tasks are at their hand-outs, of those that were replayed: the
	// seq behind the newest replay. The steps before a hand-out stand and never change.
	runsOf = `SELECT w.i::int, p.seq + 1
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, seq, i)
CROSS JOIN LATERAL (SELECT seq FROM rota.step WHERE batch = w.batch AND n = w.n AND seq < w.seq
AND kind = 11 ORDER BY seq DESC LIMIT 1) p`

	insertChildren = `INSERT INTO rota.child_batch (batch, parent_batch, parent_n, run, seq, added,
orphan, address)
SELECT c.batch, c.parent_batch, c.parent_n, c.run, c.seq, c.added, c.orphan, c.address
FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::bool[], $7::bool[],
$8::text[]) c (batch, parent_batch, parent_n, run, seq, added, orphan, address) ORDER BY c.batch`
	// childrenCame says how many came, once for each address.
	childrenCame = `INSERT INTO rota.change (address, total)
SELECT c.address, sum(c.total) FROM unnest($1::text[], $2::bigint[]) c (address, total)
GROUP BY c.address HAVING sum(c.total) <> 0`

	// childrenEnded says how many tasks of batches ended, of those that are children: once for each
	// address.
	childrenEnded = `INSERT INTO rota.change (address, done, dead, cancelled, expired)
SELECT c.address, sum(e.done), sum(e.dead), sum(e.cancelled), sum(e.expired)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  e (batch, done, dead, cancelled, expired)
JOIN rota.child_batch c ON c.batch = e.batch GROUP BY c.address
HAVING (sum(e.done), sum(e.dead), sum(e.cancelled), sum(e.expired)) <> (0, 0, 0, 0)
RETURNING address`

	// leaveFalls says of tasks that ended badly that their children are to be looked at, of those
	// that have some.
	leaveFalls = `INSERT INTO rota.change (address) SELECT f.address
FROM unnest($1::bigint[], $2::int[], $3::text[]) f (batch, n, address)
WHERE EXISTS (SELECT FROM rota.child_batch WHERE parent_batch = f.batch AND parent_n = f.n)`

	parentsOf = `SELECT batch, parent_batch, parent_n FROM rota.child_batch
WHERE batch = ANY($1::bigint[])`
)

// kinship says whose children the tasks of a batch are.
type kinship struct {
	parent   task.ID
	run, seq int32
	added    bool // before the outcome of the parent's hand-out
}

// childColumns are batches of children on their way.
type childColumns struct {
	batch, parent, total []int64
	n, run, seq          []int32
	added, orphan        []bool
	address              []string
}

// add takes a batch, of whose tasks so many are inserted.
func (c *childColumns) add(b *store.Batch, k kinship, tasks int) {
	c.batch = append(c.batch, b.ID)
	c.parent = append(c.parent, k.parent.Batch)
	c.n = append(c.n, k.parent.N)
	c.run = append(c.run, k.run)
	c.seq = append(c.seq, k.seq)
	c.added = append(c.added, k.added)
	c.orphan = append(c.orphan, b.Orphan)
	c.address = append(c.address, store.ChildrenOf(k.parent, k.run).String())
	c.total = append(c.total, int64(tasks))
}

func (c *childColumns) queries() []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(insertChildren, c.batch, c.parent, c.n, c.run, c.seq, c.added, c.orphan,
		c.address), tell(childrenCame, c.address, c.total)}
}

// endings are how many tasks ended of batches that may have parents.
type endings struct {
	batch []int64
	count []task.Children
}

// of counts the tasks of a batch, which may come several times. Of one that has no parent nothing
// is kept.
func (e *endings) of(batch int64) *task.Children {
	if !store.MayBeChildren(batch) {
		return new(task.Children)
	}
	if k := len(e.batch) - 1; k < 0 || e.batch[k] != batch {
		e.batch = append(e.batch, batch)
		e.count = append(e.count, task.Children{})
	}
	return &e.count[len(e.count)-1]
}

// queries calls changed with each address at which something changed, if it is not nil.
func (e *endings) queries(changed func(address string)) []query {
	if len(e.batch) == 0 {
		return nil
	}
	var columns [4][]int64
	for i := range e.count {
		c := &e.count[i]
		for k, v := range [...]int64{c.Done, c.Dead, c.Cancelled, c.Expired} {
			columns[k] = append(columns[k], v)
		}
	}
	return []query{ask(childrenEnded, eachAddress(changed), e.batch, columns[0], columns[1],
		columns[2], columns[3])}
}

// eachAddress calls changed with each row, if it is not nil.
func eachAddress(changed func(address string)) func(row) error {
	return func(r row) error {
		var address string
		err := r.Scan(&address)
		if err == nil && changed != nil {
			changed(address)
		}
		return err
	}
}

// fallColumns are tasks whose children are to be cancelled.
type fallColumns struct {
	batch   []int64
	n       []int32
	address []string
}

func (c *fallColumns) add(f rules.Fall) {
	c.batch = append(c.batch, f.Parent.Batch)
	c.n = append(c.n, f.Parent.N)
	c.address = append(c.address, f.String())
}

func (c *fallColumns) queries() []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(leaveFalls, c.batch, c.n, c.address)}
}

// askParents makes the query that reads whose children the tasks of batches are, of those that may
// be some.
func askParents(batches []int64, found map[int64]task.ID) []query {
	var list []int64
	for _, b := range batches {
		if store.MayBeChildren(b) {
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []query{ask(parentsOf, func(r row) error {
		var batch int64
		var parent task.ID
		err := r.Scan(&batch, &parent.Batch, &parent.N)
		found[batch] = parent
		return err
	}, list)}
}
