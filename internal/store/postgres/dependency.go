package postgres

import (
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A row of dependency is a task that another one waits for. Whoever ends tasks asks, by a later
// statement than the one that says so, whether any such row is open, and leaves a change at the end
// of each task that has one: at the row's address. A look does what follows (afterend.go).
//
// Who begins to wait for a task that stands leaves such a change himself, as the task may be over
// by then, or end just now by a transaction that could not see the dependency.
//
// Rows are locked behind waits: by a look, which notes how a task ended, by a replay, which opens
// them again, and by whoever deletes who waits.

const (
	insertDependencies = `INSERT INTO rota.dependency (batch, n, i, on_batch, on_n, ref, ended,
address)
SELECT d.batch, d.n, d.i, d.on_batch, d.on_n, d.ref, d.ended, d.address
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[], $5::int[], $6::text[], $7::bool[],
$8::text[]) d (batch, n, i, on_batch, on_n, ref, ended, address) ORDER BY d.batch, d.n, d.i`

	// insertOthersWaits leaves no change: who waits for others waits at no address that changes.
	insertOthersWaits = `INSERT INTO rota.wait (batch, n, seq, address, since, until, otherwise)
SELECT a.batch, a.n, a.seq, $5, c.now, 0, ''
FROM unnest($2::bigint[], $3::int[], $4::int[]) a (batch, n, seq)
CROSS JOIN (SELECT rota.micros($1) AS now) c
ORDER BY a.batch, a.n
ON CONFLICT (batch, n) DO UPDATE SET seq = excluded.seq, address = excluded.address,
  since = excluded.since, until = excluded.until, otherwise = excluded.otherwise, first = false`

	// leaveEnds has somebody look at the ends of tasks.
	leaveEnds = `INSERT INTO rota.change (address) SELECT a FROM unnest($1::text[]) a`

	// noteEnds leaves changes at the ends of those of some tasks, pack by pack, for which somebody
	// waits. As a rule nobody does for any task of batches from $4 to $5.
	noteEnds = `INSERT INTO rota.change (address)
SELECT DISTINCT d.address FROM unnest($1::bigint[], $2::int[], $3::bigint[]) w (batch, lo, bits)
CROSS JOIN LATERAL (SELECT address FROM rota.dependency
  WHERE on_batch = w.batch AND on_n BETWEEN w.lo AND w.lo + 63 AND state IS NULL
  AND (w.bits >> (on_n & 63)) & 1 = 1 OFFSET 0) d
WHERE (SELECT EXISTS (SELECT FROM rota.dependency
  WHERE on_batch BETWEEN $4 AND $5 AND state IS NULL))
RETURNING address`

	// awaitedEnds are the addresses at which somebody may wait for those of some tasks that are
	// over: their ends, and where they count as children.
	awaitedEnds = `WITH over AS MATERIALIZED (
  SELECT w.batch, w.n FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  WHERE EXISTS (SELECT FROM rota.step WHERE batch = w.batch AND n = w.n AND base = -1))
SELECT d.address FROM over w
JOIN rota.dependency d ON d.on_batch = w.batch AND d.on_n = w.n AND d.state IS NULL
UNION SELECT c.address FROM over w JOIN rota.child_batch c ON c.batch = w.batch`

	// lockDependencies locks what tasks wait for, or have waited for.
	lockDependencies = `SELECT FROM unnest($1::bigint[], $2::int[]) w (batch, n)
JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n
ORDER BY d.batch, d.n, d.i FOR UPDATE OF d`

	// openAgain opens dependencies. Who asks has locked them.
	openAgain = `UPDATE rota.dependency d SET state = NULL, seq = NULL
FROM unnest($1::bigint[], $2::int[], $3::int[]) o (batch, n, i)
WHERE d.batch = o.batch AND d.n = o.n AND d.i = o.i`

	// dropDependencies deletes what tasks that are deleted have waited for.
	dropDependencies = `WITH o AS MATERIALIZED (
  SELECT d.batch, d.n, d.i FROM unnest($1::bigint[], $2::int[]) w (batch, n)
  JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n
  ORDER BY d.batch, d.n, d.i FOR UPDATE OF d)
DELETE FROM rota.dependency d USING o WHERE d.batch = o.batch AND d.n = o.n AND d.i = o.i`

	// dependencyColumns is what dependency.scan reads.
	dependencyColumns = `d.i, d.on_batch, d.on_n, d.ref, d.ended, coalesce(d.state, ''),
coalesce(d.seq, -1), d.address`
)

// dependency is a row of that table.
type dependency struct {
	store.Dependency
	i       int32
	state   task.State // "" = open
	seq     int32
	address string
}

// scan reads a row, and what comes before it.
func (d *dependency) scan(r row, first ...any) error {
	return r.Scan(append(first, &d.i, &d.On.Batch, &d.On.N, &d.Ref, &d.Ended,
		(*string)(&d.state), &d.seq, &d.address)...)
}

// dependColumns are dependencies on their way.
type dependColumns struct {
	batch, onBatch []int64
	n, i, onN      []int32
	ref, address   []string
	ended          []bool
}

func (c *dependColumns) add(who task.ID, i int, d *store.Dependency) {
	c.batch = append(c.batch, who.Batch)
	c.n = append(c.n, who.N)
	c.i = append(c.i, int32(i))
	c.onBatch = append(c.onBatch, d.On.Batch)
	c.onN = append(c.onN, d.On.N)
	c.ref = append(c.ref, printable(d.Ref))
	c.ended = append(c.ended, d.Ended)
	c.address = append(c.address, store.EndOf(d.On).String())
}

// dependAtOnce is how many rows one statement inserts.
const dependAtOnce = 20_000

func (c *dependColumns) queries() (list []query) {
	for at := 0; at < len(c.batch); at += dependAtOnce {
		to := min(at+dependAtOnce, len(c.batch))
		list = append(list, tell(insertDependencies, c.batch[at:to], c.n[at:to], c.i[at:to],
			c.onBatch[at:to], c.onN[at:to], c.ref[at:to], c.ended[at:to], c.address[at:to]))
	}
	return list
}

// waitsForOthers makes the queries that let tasks wait for others until a step stands at seq.
func waitsForOthers(c *keyColumns, clock any) []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(insertOthersWaits, clock, c.batch, c.n, c.seq, store.Address{}.String())}
}

// depending is what the tasks of a submission wait for.
type depending struct {
	rows  dependColumns
	waits keyColumns
	ends  []string         // of tasks that stood before, for which what is inserted waits
	look  map[task.ID]bool // those tasks of all, as the submission is answered
}

// depend notes what those tasks of batches wait for that are inserted, and at which ends somebody
// has to look: existing are tasks that were not inserted, and refuses tells of batches that were
// not.
func (l *loading) depend(
	batches []store.Batch, existing []store.Existing, refuses func(*store.Batch) bool,
) {
	if !slices.ContainsFunc(batches, func(b store.Batch) bool { return b.Depends() }) {
		return
	}
	first := make(map[task.ID]task.ID, len(existing))
	for _, e := range existing {
		first[e.ID] = e.First
	}
	mine, inserted := map[int64]bool{}, map[int64]bool{}
	for i := range batches {
		mine[batches[i].ID] = true
	}
	for i := range l.made {
		inserted[l.made[i].batch.ID] = true
	}
	p := &l.after
	p.look = map[task.ID]bool{}
	ends := map[string]bool{}
	for i := range batches {
		b := &batches[i]
		if !b.Depends() || refuses(b) {
			continue
		}
		for k := range b.Tasks {
			id := task.ID{Batch: b.ID, N: b.Tasks[k].N}
			if _, exists := first[id]; exists {
				continue
			}
			if inserted[b.ID] {
				p.waits.add(id, 0)
			}
			for j, d := range b.Tasks[k].After {
				if other, exists := first[d.On]; exists {
					d.On = other
				}
				if inserted[b.ID] {
					p.rows.add(id, j, &d)
				}
				if !mine[d.On.Batch] {
					end := store.EndOf(d.On).String()
					p.look[d.On] = true
					if inserted[b.ID] && !ends[end] {
						ends[end] = true
						p.ends = append(p.ends, end)
					}
				}
			}
		}
	}
}

func (p *depending) queries(clock any) []query {
	list := append(p.rows.queries(), waitsForOthers(&p.waits, clock)...)
	if len(p.ends) > 0 {
		list = append(list, tell(leaveEnds, p.ends))
	}
	return list
}

// lookAt are the ends at which somebody has to look.
func (p *depending) lookAt() (list []store.Address) {
	for id := range p.look {
		list = append(list, store.EndOf(id))
	}
	slices.SortFunc(list, func(a, b store.Address) int { return a.Task.Compare(b.Task) })
	return list
}

// ended are tasks that are over since a moment, by (batch, n).
type ended []task.ID

// queries leave changes where somebody waits, and call changed with the address of each, if it is
// not nil.
func (list ended) queries(changed func(address string)) []query {
	if len(list) == 0 {
		return nil
	}
	c := packsOf(list)
	from, to := c.bounds()
	return []query{ask(noteEnds, eachAddress(changed), c.batch, c.lo, c.bits, from, to)}
}

// awaited calls changed with the addresses at which somebody may wait for those that are over.
func (list ended) awaited(changed func(address string)) []query {
	if len(list) == 0 {
		return nil
	}
	batches, ns := idColumns(list)
	return []query{ask(awaitedEnds, eachAddress(changed), batches, ns)}
}

// dependents are those of some tasks that may wait for others.
func dependents(ids []task.ID) (list []task.ID) {
	for _, id := range ids {
		if store.MayDepend(id.Batch) {
			list = append(list, id)
		}
	}
	return list
}

// replayedOf are those that may have waited for others of the tasks that actions replay.
func replayedOf(actions []store.Action) (ids []task.ID) {
	for i := range actions {
		if a := &actions[i]; a.Kind == task.KindReplayed && store.MayDepend(a.ID.Batch) {
			ids = append(ids, a.ID)
		}
	}
	slices.SortFunc(ids, task.ID.Compare)
	return slices.Compact(ids)
}

// lockingDependencies locks what those tasks wait for that actions replay, behind their waits: in
// the first statement of a transaction that acts, and never again.
func (t *tx) lockingDependencies(actions []store.Action) []query {
	if t.depend != nil {
		return nil
	}
	t.depend = map[task.ID][]dependency{}
	ids := replayedOf(actions)
	if len(ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	return []query{tell(lockDependencies, batches, ns)}
}

// readDependencies makes the query that reads them, by a later statement than the lock.
func (t *tx) readDependencies(actions []store.Action) []query {
	ids := replayedOf(actions)
	if len(ids) == 0 {
		return nil
	}
	clear(t.depend)
	batches, ns := idColumns(ids)
	return []query{ask(dependenciesOf, func(r row) error {
		var id task.ID
		var d dependency
		err := d.scan(r, &id.Batch, &id.N)
		t.depend[id] = append(t.depend[id], d)
		return err
	}, batches, ns)}
}

// dependenciesOf are what tasks wait for, or have waited for.
const dependenciesOf = `SELECT d.batch, d.n, ` + dependencyColumns + `
FROM unnest($1::bigint[], $2::int[]) w (batch, n)
JOIN rota.dependency d ON d.batch = w.batch AND d.n = w.n ORDER BY d.batch, d.n, d.i`

// again are dependencies that replays open again, and the tasks that wait for them.
type again struct {
	opened keyColumns // the place of each stands as seq
	waits  keyColumns
	ends   []string
}

// add lets a task that a step at seq replays wait for those that did not end as they should;
// false: there are none.
func (a *again) add(id task.ID, seq int32, after []dependency) (waits bool) {
	for i := range after {
		d := &after[i]
		if d.state != "" && rules.Fits(&d.Dependency, d.state) {
			continue
		}
		waits = true
		if d.state != "" {
			a.opened.add(id, d.i)
		}
		a.ends = append(a.ends, d.address)
	}
	if waits {
		a.waits.add(id, seq+1)
	}
	return waits
}

func (a *again) queries(clock any) (list []query) {
	if len(a.opened.batch) > 0 {
		list = append(list, tell(openAgain, a.opened.batch, a.opened.n, a.opened.seq))
	}
	if len(a.ends) > 0 {
		slices.Sort(a.ends)
		list = append(list, tell(leaveEnds, slices.Compact(a.ends)))
	}
	return append(list, waitsForOthers(&a.waits, clock)...)
}
