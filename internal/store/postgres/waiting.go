package postgres

import (
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A task that waits belongs to a free span of its own that nobody takes (store.Parked), and has a
// row of wait. Whoever ends the wait, or makes it go on behind another step, has that row for
// himself first of all, so that he and others who want the same come one after the other; then he
// reads how the task stands. What may end a wait, or begins one, leaves a row of change in its
// transaction: see look.go and docs/waiting.md.
//
// Locks are taken in the order packs, child counts, waits, signals, spans, steps (by inserting
// them), running rows, and within each in the order of keys. Who has a wait locks no pack.

// never is store.Never: the rank and the due time of what is parked.
const never = "9223372036854775807"

const (
	waitColumnList = `w.batch, w.n, w.seq, w.address, w.since, w.until, w.otherwise,
w.first`

	// insertWaits writes down what tasks wait for from now on, and that something changed there. A
	// wait of before would be one that its end has left.
	insertWaits = `WITH told AS (
  INSERT INTO rota.change (address) SELECT DISTINCT address FROM unnest($5::text[]) a (address))
INSERT INTO rota.wait (batch, n, seq, address, since, until, otherwise, first)
SELECT a.batch, a.n, a.seq, a.address, c.now, a.until, a.otherwise, a.first
FROM unnest($2::bigint[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::text[], $8::bool[])
  a (batch, n, seq, address, until, otherwise, first)
CROSS JOIN (SELECT rota.micros($1) AS now) c
ORDER BY a.batch, a.n
ON CONFLICT (batch, n) DO UPDATE SET seq = excluded.seq, address = excluded.address,
  since = excluded.since, until = excluded.until, otherwise = excluded.otherwise,
  first = excluded.first`

	waitOf = `SELECT ` + waitColumnList + ` FROM rota.wait w WHERE batch = $1 AND n = $2`

	lockWaits = `SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) i (batch, n)
JOIN rota.wait w ON w.batch = i.batch AND w.n = i.n ORDER BY w.batch, w.n FOR UPDATE OF w`

	// waitOn makes waits end behind another step than before, and deleteWaits deletes them. Who
	// asks has locked them.
	waitOn = `UPDATE rota.wait w SET seq = i.seq
FROM unnest($1::bigint[], $2::int[], $3::int[]) i (batch, n, seq)
WHERE w.batch = i.batch AND w.n = i.n`
	deleteWaits = `DELETE FROM rota.wait w USING unnest($1::bigint[], $2::int[]) i (batch, n)
WHERE w.batch = i.batch AND w.n = i.n`

	// leaveParked takes tasks that wait no longer out of their spans ($1, once for each task), and
	// deletes those that have none then. Nobody takes such a span, so one that was passed over
	// would stay; who has it locked has no reason to keep it for long.
	leaveParked = `WITH o AS MATERIALIZED (
  SELECT s.id, s.size - w.n AS stay FROM (
    SELECT id, count(*)::int AS n FROM unnest($1::bigint[]) i (id) GROUP BY id OFFSET 0) w
  JOIN rota.span s ON s.id = w.id AND s.holder IS NULL ORDER BY s.id FOR UPDATE OF s),
fewer AS (UPDATE rota.span s SET size = o.stay FROM o WHERE s.id = o.id AND o.stay > 0)
DELETE FROM rota.span s USING o WHERE s.id = o.id AND o.stay <= 0`

	// deleteWaitsIn deletes what tasks of a batch wait for, before their spans and steps go: who is
	// about to end one of these waits comes first.
	deleteWaitsIn = `WITH o AS MATERIALIZED (
  SELECT batch, n FROM rota.wait WHERE batch = $1 ORDER BY n FOR UPDATE)
DELETE FROM rota.wait w USING o WHERE w.batch = o.batch AND w.n = o.n`

	// dropWaits and dropSignals delete those of tasks that are deleted, whose batches are $3 to $4.
	// As a rule there are none.
	dropWaits = `WITH o AS MATERIALIZED (
  SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) i (batch, n)
  JOIN rota.wait w ON w.batch = i.batch AND w.n = i.n
  WHERE (SELECT EXISTS (SELECT FROM rota.wait WHERE batch BETWEEN $3 AND $4))
  ORDER BY w.batch, w.n FOR UPDATE OF w)
DELETE FROM rota.wait w USING o WHERE w.batch = o.batch AND w.n = o.n`
	dropSignals = `WITH o AS MATERIALIZED (
  SELECT s.address, s.key FROM unnest($1::bigint[], $2::int[]) i (batch, n)
  JOIN rota.signal s ON s.batch = i.batch AND s.n = i.n
  WHERE (SELECT EXISTS (SELECT FROM rota.signal WHERE batch BETWEEN $3 AND $4))
  ORDER BY s.address, s.key FOR UPDATE OF s)
DELETE FROM rota.signal s USING o WHERE s.address = o.address AND s.key = o.key`
)

// scanWait reads a wait.
func scanWait(r row) (w rules.Wait, err error) {
	err = r.Scan(&w.ID.Batch, &w.ID.N, &w.Seq, &w.Address, &w.Since, &w.Until, &w.Else,
		&w.First)
	return w, err
}

// waitColumns are waits on their way to insertWaits.
type waitColumns struct {
	keyColumns
	address, otherwise []string
	until              []int64
	first              []bool
}

func (c *waitColumns) add(w *rules.Wait) {
	c.keyColumns.add(w.ID, w.Seq)
	c.address = append(c.address, w.Address)
	c.until = append(c.until, w.Until)
	c.otherwise = append(c.otherwise, w.Else)
	c.first = append(c.first, w.First)
}

func (c *waitColumns) queries(clock any) []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(insertWaits, clock, c.batch, c.n, c.seq, c.address, c.until, c.otherwise,
		c.first)}
}

// dropped makes the queries that delete what belongs to waits of tasks that are deleted: what they
// wait for, or have waited for, what was sent to them, and how their children stand.
func dropped(ids []task.ID) []query {
	batches, ns := idColumns(ids)
	from, to := batches[0], batches[0]
	for _, b := range batches {
		from, to = min(from, b), max(to, b)
	}
	list := []query{tell(dropCounts, batches, ns, from, to),
		tell(dropWaits, batches, ns, from, to), tell(dropSignals, batches, ns, from, to)}
	if after := dependents(ids); len(after) > 0 {
		batches, ns := idColumns(after)
		list = append(list, tell(dropDependencies, batches, ns))
	}
	return list
}

// errWentOn: a task went on between the lock of its wait and the reading of the task, or it began
// to wait while a transaction looked that had not locked its wait. The transaction begins anew, as
// locks have an order.
var errWentOn = fmt.Errorf("%w: %w", store.ErrBusy, errors.New("the task went on meanwhile"))

// lockingWaits locks what tasks wait for, in the first statement of a transaction that does so.
func (t *tx) lockingWaits(ids []task.ID) []query {
	if t.waits != nil {
		return nil
	}
	t.waits = map[task.ID]bool{}
	batches, ns := idColumns(ids)
	return []query{ask(lockWaits, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		t.waits[id] = true
		return err
	}, batches, ns)}
}

// leaving are the consequences for waits of steps that were not woken ones.
type leaving struct {
	over, on keyColumns
	parked   []int64 // the spans that they leave, once for each
}

// add notes an action's step. An edit lets the task wait on.
func (l *leaving) add(t *tx, f *fact, edited bool) {
	switch {
	case !t.waits[f.ID]:
	case edited && f.Owner.Parked():
		l.on.add(f.ID, f.Seq+2)
	default:
		l.over.add(f.ID, 0)
		delete(t.waits, f.ID)
	}
}

func (l *leaving) queries() (list []query) {
	if len(l.over.batch) > 0 {
		list = append(list, tell(deleteWaits, l.over.batch, l.over.n))
	}
	if len(l.on.batch) > 0 {
		list = append(list, tell(waitOn, l.on.batch, l.on.n, l.on.seq))
	}
	if len(l.parked) > 0 {
		list = append(list, tell(leaveParked, l.parked))
	}
	return list
}

// wokenBy reads what woke tasks, as of the seqs $3 of their next hand-outs: the newest of the steps
// that begin a stage, if it is a woken one.
const wokenBy = `SELECT w.i::int, p.result
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, n, seq, i)
CROSS JOIN LATERAL (SELECT kind, result FROM rota.step WHERE batch = w.batch AND n = w.n
AND seq < w.seq AND kind IN (2, 11, 15) ORDER BY seq DESC LIMIT 1) p
WHERE p.kind = 15`

// waking are tasks of which it is to be read what woke them.
type waking struct {
	tasks []*store.Loaded
	keyColumns
}

// add notes a task of a batch, if its span says that a step tells what woke it.
func (w *waking) add(batch int64, linked store.Links, l *store.Loaded) {
	if linked&store.LinkWoken != 0 {
		w.tasks = append(w.tasks, l)
		w.keyColumns.add(task.ID{Batch: batch, N: l.N}, l.Seq)
	}
}

func (w *waking) queries() []query {
	if len(w.tasks) == 0 {
		return nil
	}
	return []query{ask(wokenBy, func(r row) error {
		var i int
		var text []byte
		if err := r.Scan(&i, &text); err != nil {
			return err
		}
		by, err := rules.WokenBy(text)
		if err != nil {
			return fmt.Errorf("read what woke a task: %w", err)
		}
		w.tasks[i-1].Woken = by
		return nil
	}, w.batch, w.n, w.seq)}
}
