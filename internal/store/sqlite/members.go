package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// memberReads reads packs and marks, and the newest steps of the tasks in them.
type memberReads struct{ *conn }

func (c *conn) members() memberReads { return memberReads{c} }

// outcome is the newest outcome of a task: a step, or what a mark says. Seq is -1 while there is
// none.
type outcome struct {
	Seq              int32
	Kind             task.Kind
	Stage            string // the stage that follows
	Attempt          int32
	Base, ContextSeq int32
	Due, Finished    int64
	Error            string
	Worker           string
	Started          int64
}

// member is a task as it was submitted, and what became of it.
type member struct {
	store.Task
	outcome
}

// stage is the one that the task is in.
func (s *member) stage() string {
	if s.Seq < 0 {
		return s.Task.Stage
	}
	return s.outcome.Stage
}

// within is the time to start of a task to which nothing has happened yet; 0 = it has no limit.
func (s *member) within() int64 {
	if s.Seq >= 0 {
		return 0
	}
	return s.StartWithin
}

const (
	outcomeColumns = `n, seq, kind, stage, attempt, base, context_seq, due, finished, error, worker,
started`
	newestOf = `SELECT ` + outcomeColumns + ` FROM step WHERE batch = ? AND n = ?
ORDER BY seq DESC LIMIT 1`
	stepsIn = `SELECT ` + outcomeColumns + ` FROM step WHERE batch = ? AND n BETWEEN ? AND ?
ORDER BY n, seq LIMIT ?`
	markAt = `SELECT bits, body FROM mark WHERE batch = ? AND lo = ?`
	bitsAt = `SELECT bits FROM mark WHERE batch = ? AND lo = ?`
)

// scanOutcome reads outcomeColumns, the first of which is at a place.
func scanOutcome(st *sqlite.Stmt, at int) outcome {
	return outcome{
		Seq: st.ColumnInt32(at + 1), Kind: task.Kind(st.ColumnInt(at + 2)),
		Stage: st.ColumnText(at + 3), Attempt: st.ColumnInt32(at + 4),
		Base: st.ColumnInt32(at + 5), ContextSeq: st.ColumnInt32(at + 6),
		Due: st.ColumnInt64(at + 7), Finished: st.ColumnInt64(at + 8),
		Error: st.ColumnText(at + 9), Worker: st.ColumnText(at + 10),
		Started: st.ColumnInt64(at + 11),
	}
}

// none is the outcome of a task that has none.
var none = outcome{Seq: -1, ContextSeq: -1}

// outcomeOf reads the newest outcome of a task that was submitted for a stage.
func (c memberReads) outcomeOf(id task.ID, stage string) (o outcome, err error) {
	found, err := c.one(newestOf, func(st *sqlite.Stmt) { o = scanOutcome(st, 0) }, id.Batch, id.N)
	if err != nil || found {
		return o, err
	}
	d, found, err := c.marked(id)
	if err != nil || !found {
		return none, err
	}
	return markedOutcome(&d, stage), nil
}

// marked reads what a mark says of a task.
func (c memberReads) marked(id task.ID) (d pack.Done, found bool, err error) {
	var body []byte
	_, err = c.one(markAt, func(st *sqlite.Stmt) {
		if pack.Bits(st.ColumnInt64(0)).Has(id.N) {
			body = bytesOf(st, 1)
		}
	}, id.Batch, pack.Lo(id.N))
	if err != nil || body == nil {
		return d, false, err
	}
	if d, found, err = pack.FindDone(body, id.N); err != nil {
		err = fmt.Errorf("batch %d: %w", id.Batch, err)
	}
	return d, found, err
}

// isMarked tells whether a mark says that a task is done.
func (c memberReads) isMarked(id task.ID) (marked bool, err error) {
	_, err = c.one(bitsAt, func(st *sqlite.Stmt) {
		marked = pack.Bits(st.ColumnInt64(0)).Has(id.N)
	}, id.Batch, pack.Lo(id.N))
	return marked, err
}

// markedOutcome is an outcome that a mark says, of a task that was submitted for a stage.
func markedOutcome(d *pack.Done, stage string) outcome {
	s := d.Step(stage)
	return outcome{
		Seq: 0, Kind: s.Kind, Stage: s.Stage, Attempt: s.Attempt, Base: s.Base,
		ContextSeq: s.ContextSeq, Finished: s.Finished, Worker: s.Worker, Started: s.Started,
	}
}

// detail is how much of an outcome in a mark is to be read.
type detail bool

const (
	brief detail = false // when and by whom is left out
	whole detail = true
)

// members calls visit with the tasks of a batch from lo to hi, ascending in N, until it answers
// false. Contexts are parts of what was read: they stay as they are, and keep the others of their
// pack in memory. visit may read whatever it likes.
func (c memberReads) members(
	batch int64, lo, hi int32, how detail, visit func(*member) bool,
) error {
	more := true
	all := func(m *member) bool {
		more = visit(m)
		return more
	}
	for at := pack.Lo(lo); more; {
		p, found, err := c.packFrom(batch, at, hi)
		if err != nil || !found {
			return err
		}
		at = p.lo + 1
		in := p.has & pack.Between(pack.Lo(p.lo), lo, hi)
		if err := c.membersOf(batch, &p, in, how, all); err != nil {
			return err
		}
	}
	return nil
}

// membersOf calls visit with those tasks in a row of a pack that in has.
func (c memberReads) membersOf(
	batch int64, p *row, in pack.Bits, how detail, visit func(*member) bool,
) error {
	if in == 0 {
		return nil
	}
	r := c.spare
	if c.spare = nil; r == nil { // the first one, or visit reads, too
		r = &reading{conn: c.conn}
	}
	defer func() { c.spare = r }()
	r.batch, r.how = batch, how
	err := r.load(p.lo, in)
	if err == nil {
		err = r.tell(p, in, visit)
	}
	if err != nil {
		return fmt.Errorf("batch %d: %w", batch, err)
	}
	return nil
}

// packFrom reads the first row of a batch's packs from lo to hi.
func (c memberReads) packFrom(batch int64, lo, hi int32) (p row, found bool, err error) {
	k := c.kept
	if k != nil && k.batch == batch && k.from <= lo && lo <= k.row.lo && k.row.lo <= hi {
		return k.row, true, nil
	}
	found, err = c.one(nextPack, func(st *sqlite.Stmt) { p = scanPack(st) }, batch, lo, hi)
	if k != nil && found {
		*k = keptPack{batch, lo, p}
	}
	return p, found, err
}

// keptPack is the row of packs that was read last: the first one of a batch from a number on. It is
// kept by who reads many spans of one pack and changes no task.
type keptPack struct {
	batch int64
	from  int32
	row   row
}

// keepPack keeps what is read last until end is called.
func (c memberReads) keepPack() (end func()) {
	c.kept = &keptPack{batch: -1}
	return func() { c.kept = nil }
}

// reading is what is known of the outcomes of one row of a pack. It is kept for the next one.
type reading struct {
	*conn
	batch int64
	how   detail

	steps [pack.Size]outcome
	have  pack.Bits // of whom steps has the newest step
	tail  int32     // of the tasks from here on the steps were too many: they are asked one by one
	bits  pack.Bits
	body  []byte
	done  [pack.Size]pack.Done // with how == whole
}

// stepsAtOnce is how many steps of one pack are read together. A task may have a hundred thousand.
const stepsAtOnce = 4 * pack.Size

// load reads the outcomes of the tasks in a row of a pack.
func (r *reading) load(first int32, in pack.Bits) error {
	lo := pack.Lo(first)
	r.have, r.bits, r.body, r.tail = 0, 0, nil, lo+pack.Size
	read := 0
	last := first
	err := r.each(stepsIn, func(st *sqlite.Stmt) bool {
		read++
		last = st.ColumnInt32(0)
		r.steps[last%pack.Size] = scanOutcome(st, 0)
		r.have |= pack.Bit(last)
		return true
	}, r.batch, first, lo+pack.Size-1, stepsAtOnce)
	if err != nil {
		return err
	}
	if read == stepsAtOnce {
		r.tail = last
		r.have &= pack.Between(lo, lo, last-1)
	}
	if in&^r.have == 0 {
		return nil
	}
	_, err = r.one(markAt, func(st *sqlite.Stmt) {
		if r.bits = pack.Bits(st.ColumnInt64(0)); r.how == whole {
			r.body = bytesOf(st, 1)
		}
	}, r.batch, lo)
	if err == nil && r.how == whole {
		err = pack.EachDone(r.body, lo, func(d *pack.Done) bool {
			r.done[d.N%pack.Size] = *d
			return true
		})
	}
	return err
}

// tell calls visit with tasks in a row of a pack.
func (r *reading) tell(p *row, in pack.Bits, visit func(*member) bool) error {
	var m member
	var bad error
	err := pack.EachTask(p.body, p.lo, p.has, func(t *store.Task) bool {
		if !in.Has(t.N) {
			return true
		}
		m.Task = *t
		if m.outcome, bad = r.outcome(t); bad != nil {
			return false
		}
		return visit(&m)
	})
	return errors.Join(err, bad)
}

func (r *reading) outcome(t *store.Task) (outcome, error) {
	i := t.N % pack.Size
	switch {
	case r.have.Has(t.N):
		return r.steps[i], nil
	case t.N >= r.tail:
		return r.members().outcomeOf(task.ID{Batch: r.batch, N: t.N}, t.Stage)
	case !r.bits.Has(t.N):
		return none, nil
	case r.how == whole:
		return markedOutcome(&r.done[i], t.Stage), nil
	}
	return markedOutcome(&pack.Done{}, t.Stage), nil
}
