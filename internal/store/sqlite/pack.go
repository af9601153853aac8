package sqlite

import (
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// Tasks stand in packs, up to 64 of a batch in a row, and so do plain outcomes, in marks; package
// pack says how. What is asked of a single task here is asked often: a look at a row costs as much
// as reading the whole of it.

var (
	packInserter  = newInserter("pack", []string{"batch"}, []string{"lo", "has", "body"})
	keyedInserter = newInserter("keyed", []string{"batch"}, []string{"key", "n"})
)

// insertTasks inserts the tasks of one batch, ascending in N.
func (t submissionWrites) insertTasks(batch int64, tasks []store.Task) error {
	p := t.packing
	p.clear()
	for rest := tasks; len(rest) > 0; {
		n := p.add(rest)
		rest = rest[n:]
	}
	for i := range tasks {
		if tasks[i].Key != "" {
			p.keyed = append(p.keyed, &tasks[i])
		}
	}
	shared := func(st *sqlite.Stmt) { st.BindInt64(1, batch) }
	err := packInserter.insert(t.conn, len(p.rows), shared, func(st *sqlite.Stmt, at, i int) {
		r := &p.rows[i]
		st.BindInt64(at, int64(r.lo))
		st.BindInt64(at+1, int64(r.has))
		st.BindBytes(at+2, p.bodies[r.from:r.to])
	}, nil)
	if err != nil || len(p.keyed) == 0 {
		return err
	}
	return keyedInserter.insert(t.conn, len(p.keyed), shared, func(st *sqlite.Stmt, at, i int) {
		st.BindText(at, p.keyed[i].Key)
		st.BindInt64(at+1, int64(p.keyed[i].N))
	}, nil)
}

// packingKept is how many bytes are kept for the next batch.
const packingKept = 1 << 20

// packing is a batch on its way into packs. It is cleared, not made anew.
type packing struct {
	bodies []byte // of all rows, one after the other
	rows   []packRow
	keyed  []*store.Task
}

type packRow struct {
	lo       int32
	has      pack.Bits
	from, to int // its body, in bodies
}

func (p *packing) clear() {
	if cap(p.bodies) > packingKept {
		p.bodies = nil
	}
	p.bodies, p.rows = p.bodies[:0], p.rows[:0]
	clear(p.keyed)
	p.keyed = p.keyed[:0]
}

// add packs as many of the tasks as fit into one row, and answers how many these are.
func (p *packing) add(tasks []store.Task) int {
	from := len(p.bodies)
	p.bodies = slices.Grow(p.bodies, 2*pack.BodyLimit)
	body, has, n := pack.AppendTasks(p.bodies[from:], tasks)
	p.bodies = append(p.bodies[:from], body...) // it is there already, unless it was larger
	p.rows = append(p.rows, packRow{tasks[0].N, has, from, len(p.bodies)})
	return n
}

const (
	packOf = `SELECT lo, has, body FROM pack WHERE batch = ?1 AND lo BETWEEN ?2 & ~63 AND ?2
ORDER BY lo DESC LIMIT 1`
	nextPack = `SELECT lo, has, body FROM pack WHERE batch = ?1 AND lo BETWEEN ?2 AND ?3
ORDER BY lo LIMIT 1`
	hasOf = `SELECT has FROM pack WHERE batch = ?1 AND lo BETWEEN ?2 & ~63 AND ?2
ORDER BY lo DESC LIMIT 1`
)

// row is a pack as it is read.
type row struct {
	lo   int32
	has  pack.Bits
	body []byte
}

func scanPack(st *sqlite.Stmt) row {
	return row{st.ColumnInt32(0), pack.Bits(st.ColumnInt64(1)), bytesOf(st, 2)}
}

// task reads one task as it was submitted.
func (c memberReads) task(id task.ID) (found store.Task, ok bool, err error) {
	var r row
	if ok, err = c.one(packOf, func(st *sqlite.Stmt) {
		r = scanPack(st)
	}, id.Batch, id.N); err != nil || !ok {
		return found, ok, err
	}
	if found, ok, err = pack.FindTask(r.body, r.has, id.N); err != nil {
		err = fmt.Errorf("batch %d: %w", id.Batch, err)
	}
	return found, ok, err
}

// isTask tells whether there is a task with an id.
func (c memberReads) isTask(id task.ID) (stands bool, err error) {
	_, err = c.one(hasOf, func(st *sqlite.Stmt) {
		stands = pack.Bits(st.ColumnInt64(0)).Has(id.N)
	}, id.Batch, id.N)
	return stands, err
}

// isTask is a condition: the batch has a task of the number. Both are SQL.
func isTask(batch, n string) string {
	return fmt.Sprintf(`coalesce((SELECT p.has >> (%[2]s & 63) & 1 FROM pack p WHERE p.batch = %[1]s
AND p.lo BETWEEN %[2]s & ~63 AND %[2]s ORDER BY p.lo DESC LIMIT 1), 0)`, batch, n)
}

// isMarked is a condition: a mark says that the task of a batch with the number is done.
func isMarked(batch, n string) string {
	return fmt.Sprintf(`coalesce((SELECT m.bits >> (%[2]s & 63) & 1 FROM mark m
WHERE m.batch = %[1]s AND m.lo = %[2]s & ~63), 0)`, batch, n)
}
