package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	// lockCursors keeps others from firing the same schedules. All lock schedules in the order of
	// their names; what has a row is read by the statements after it.
	lockCursors = `SELECT name, id, version, next FROM rota.schedule WHERE name = ANY($1::text[])
ORDER BY name FOR NO KEY UPDATE`

	// followed are those that others follow by now; read when they are locked, so that nobody comes
	// to follow them before the commit.
	followed = `SELECT DISTINCT p FROM rota.schedule s, unnest(string_to_array(s.follows, ',')) p
WHERE string_to_array(s.follows, ',') && $1::text[] AND s.follows <> ''`
	// tailsOf are the newest due times of schedules that have rows with parents.
	tailsOf = `SELECT s.name, coalesce((SELECT max(at) FROM rota.fire
WHERE schedule = s.id AND parents IS NOT NULL), -1)
FROM rota.schedule s WHERE s.name = ANY($1::text[])`

	// runningFires counts the open fires of schedules whose tasks are not final.
	runningFires = `SELECT s.name, count(*) FROM rota.schedule s
JOIN rota.fire f ON f.schedule = s.id AND f.open AND f.outcome = 'fired'
CROSS JOIN LATERAL rota.task(f.batch, f.n) t
LEFT JOIN LATERAL (SELECT base FROM rota.step WHERE batch = t.batch AND n = t.n ORDER BY seq DESC
LIMIT 1) p ON true
WHERE s.name = ANY($1::text[]) AND CASE WHEN p.base IS NULL THEN NOT EXISTS (SELECT FROM rota.mark m
  WHERE m.batch = t.batch AND m.lo = (t.n & -64) AND (m.bits >> (t.n & 63)) & 1 = 1)
ELSE p.base <> -1 END GROUP BY s.name`

	// firesThere finds the rows that stand where fires are to be written.
	firesThere = `SELECT w.name, f.at, f.outcome FROM unnest($1::text[], $2::bigint[]) w (name, at)
CROSS JOIN LATERAL (SELECT id FROM rota.schedule WHERE name = w.name OFFSET 0) s
CROSS JOIN LATERAL (SELECT at, outcome FROM rota.fire WHERE schedule = s.id
AND at = w.at OFFSET 0) f`
	// firesFromNow is the clock, and the rows from now on of schedules that are to be fired now.
	firesFromNow = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT c.now, coalesce(r.name, ''), coalesce(r.at, 0), coalesce(r.outcome, '') FROM clock c
LEFT JOIN (SELECT s.name, f.at, f.outcome FROM rota.schedule s JOIN rota.fire f ON f.schedule = s.id
  WHERE s.name = ANY($2::text[]) AND f.at >= (SELECT now FROM clock)) r ON true`
	// fireOfTask finds the newest row of a schedule that has a task. It is a new one: the same
	// firing was done a moment ago.
	fireOfTask = `SELECT at FROM rota.fire WHERE schedule = $1 AND batch = $2 AND n = $3
ORDER BY at DESC LIMIT 1`

	// putFires writes rows where there are none, or none that may not be replaced: the schedules
	// are locked.
	putFires = `INSERT INTO rota.fire (schedule, at, time, batch, through, count, n, room, seq,
tries, ended, watch, origin, outcome, node, reason, root, root_at, parents)
SELECT f.schedule, f.at, $1, nullif(f.batch, 0), nullif(f.through, f.at), f.count,
CASE WHEN f.batch <> 0 THEN f.n END, f.room, -1, 0, 0,
  f.watch = 1, f.origin, f.outcome, $2, nullif(f.reason, ''), nullif(f.root, ''),
  CASE WHEN f.root <> '' THEN f.root_at END, nullif(f.parents, '')
FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[],
$9::int[], $10::int[], $11::text[], $12::text[],
    $13::text[], $14::text[], $15::bigint[], $16::text[])
  f (schedule, at, batch, through, count, n, room, watch, origin, outcome, reason, root, root_at,
  parents)
ON CONFLICT (schedule, at)
DO UPDATE SET time = excluded.time, batch = excluded.batch, through = excluded.through,
count = excluded.count,
  n = excluded.n, room = excluded.room, seq = excluded.seq, tries = excluded.tries,
  ended = excluded.ended, watch = excluded.watch,
  origin = excluded.origin, outcome = excluded.outcome, node = excluded.node,
  reason = excluded.reason, root = excluded.root, root_at = excluded.root_at,
  parents = excluded.parents`
	moveCursors = `UPDATE rota.schedule s SET next = w.next
FROM unnest($1::text[], $2::bigint[]) w (name, next) WHERE s.name = w.name`

	// putEnds locks rows in their order, as reopenFires does. A queued fire has no task that could
	// end.
	putEnds = `UPDATE rota.fire f SET ended = e.ended, seq = e.seq
FROM (SELECT w.schedule, w.at, w.ended, w.seq
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::int[])
    w (schedule, at, batch, n, ended, seq)
  CROSS JOIN LATERAL (SELECT FROM rota.fire WHERE schedule = w.schedule AND at = w.at AND open
  AND outcome <> 'queued'
    AND coalesce(batch, 0) = w.batch AND coalesce(n, 0) = w.n
    AND seq <= w.seq FOR NO KEY UPDATE) o) e
WHERE f.schedule = e.schedule AND f.at = e.at`

	// reopenFires opens the watched fires of tasks that begin again.
	reopenFires = `WITH o AS MATERIALIZED (
  SELECT f.schedule, f.at, w.seq FROM unnest($1::bigint[], $2::int[], $3::int[]) w (batch, n, seq)
  JOIN rota.fire f ON f.batch = w.batch AND f.n = w.n AND f.watch
  ORDER BY f.schedule, f.at FOR NO KEY UPDATE OF f)
UPDATE rota.fire f SET ended = 0, seq = o.seq, tries = f.tries + 1 FROM o
WHERE f.schedule = o.schedule AND f.at = o.at`
)

// firing is a Fire call in progress.
type firing struct {
	*store.Firing
	found  rules.Fires
	answer []store.FiredPart
}

// Fire writes down what came of due times, and submits their tasks. See contract.Schedules.
func (s *schedules) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	var v *firing
	var submitted store.Submitted
	sub := store.Submission{NewQueues: f.NewQueues, Batches: f.Batches}
	err := s.submissions.writeBatches(ctx, &sub, func(ctx context.Context, t *tx, _ bool) error {
		v, submitted = newFiring(&f), store.Submitted{}
		c, err := s.submissions.look(ctx, t, &sub, v.look(s.database)...)
		if err == nil {
			err = v.lookAgain(ctx, t, c.stands)
		}
		if err != nil {
			return err
		}
		v.answer = v.found.Decide(f.Parts)
		left := rules.Submission(&f, v.answer)
		writes, err := v.queries()
		if err != nil {
			return err
		}
		if c.sub = &left; len(left.Batches) == 0 {
			return t.finish(ctx, append(writes, tell(confirm))...)
		}
		submitted, err = c.insert(ctx, t, t, func(ctx context.Context, queries ...query) error {
			return t.finish(ctx, append(queries, writes...)...)
		})
		return err
	})
	if err != nil {
		return store.Fired{}, fmt.Errorf("fire %d schedules: %w", len(f.Parts), err)
	}
	s.hints.hintReady(&submitted, nil)
	return store.Fired{Now: v.found.Now, Parts: v.answer}, nil
}

func newFiring(f *store.Firing) *firing {
	return &firing{
		Firing: f, found: rules.Fires{
			Node: f.Node, Stands: map[int64]bool{}, Schedules: map[string]*rules.FireSchedule{},
		},
	}
}

// look makes the queries that lock the schedules and read what stands of them.
func (v *firing) look(d *database) []query {
	var names, asked, at, bounded, joining []string
	var times []int64
	for i := range v.Parts {
		p := &v.Parts[i]
		names = append(names, p.Schedule)
		if p.Most > 0 {
			bounded = append(bounded, p.Schedule)
		}
		if p.Tail != 0 {
			joining = append(joining, p.Schedule)
		}
		for k := range p.Fires {
			if p.Fires[k].At == 0 {
				asked = append(asked, p.Schedule)
			} else {
				at = append(at, p.Schedule)
				times = append(times, p.Fires[k].At)
			}
		}
	}
	for i := range v.Ends {
		names = append(names, v.Ends[i].Schedule)
	}
	return append(v.lookAt(d, names, asked, at, times), v.lookBefore(bounded, joining)...)
}

// lookAt makes the queries that lock schedules, and read what stands where fires are to be written.
func (v *firing) lookAt(
	d *database, names, asked, at []string, times []int64,
) []query {
	return []query{ask(lockCursors, func(r row) error {
		var name string
		c := &rules.FireSchedule{}
		err := r.Scan(&name, &c.ID, &c.Version, &c.Next)
		v.found.Schedules[name] = c
		return err
	}, distinct(names)), ask(followed, func(r row) error {
		var name string
		err := r.Scan(&name)
		if c := v.found.Schedules[name]; c != nil {
			c.Followed = true
		}
		return err
	}, names), ask(firesFromNow, func(r row) error {
		var k store.FireKey
		var outcome task.FireOutcome
		err := r.Scan(&v.found.Now, &k.Schedule, &k.At, &outcome)
		v.stands(k, outcome)
		return err
	}, d.clock(), distinct(asked)), ask(firesThere, func(r row) error {
		var k store.FireKey
		var outcome task.FireOutcome
		err := r.Scan(&k.Schedule, &k.At, &outcome)
		v.stands(k, outcome)
		return err
	}, at, times)}
}

// lookBefore makes the queries that read what fires before the call have left: how many tasks of
// some schedules run, and the newest row with parents of others.
func (v *firing) lookBefore(bounded, joining []string) (list []query) {
	if len(bounded) > 0 {
		list = append(list, ask(runningFires, func(r row) error {
			var name string
			var n int64
			err := r.Scan(&name, &n)
			if c := v.found.Schedules[name]; c != nil {
				c.Running = n
			}
			return err
		}, bounded))
	}
	if len(joining) > 0 {
		list = append(list, ask(tailsOf, func(r row) error {
			var name string
			var tail int64
			err := r.Scan(&name, &tail)
			if c := v.found.Schedules[name]; c != nil {
				c.Tail = tail
			}
			return err
		}, joining))
	}
	return list
}

// stands notes a row that stands. A schedule that came after the cursors were locked is none of
// theirs, nor is the row without a schedule that brings the clock.
func (v *firing) stands(k store.FireKey, outcome task.FireOutcome) {
	if c := v.found.Schedules[k.Schedule]; c != nil {
		c.Row(k.At, outcome)
	}
}

// lookAgain finds the rows of fires that were asked for now and are there: they were asked for by
// this same firing, as their batches say.
func (v *firing) lookAgain(ctx context.Context, t *tx, batches map[int64]standing) error {
	for id := range batches {
		v.found.Stands[id] = true
	}
	var list []query
	for i := range v.Parts {
		p := &v.Parts[i]
		c := v.found.Schedules[p.Schedule]
		for k := range p.Fires {
			f := &p.Fires[k]
			if f.At != 0 || c == nil || !v.found.Stands[f.Task.Batch] {
				continue
			}
			list = append(list, ask(fireOfTask, func(r row) error {
				var at int64
				err := r.Scan(&at)
				c.Asked(f.Task, at)
				return err
			}, c.ID, f.Task.Batch, f.Task.N))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return t.run(ctx, list...)
}

// queries write the rows, move the cursors and then close fires.
func (v *firing) queries() (list []query, err error) {
	if wrote := v.wrote(); len(wrote) > 0 {
		put, err := v.putFires(wrote)
		if err != nil {
			return nil, err
		}
		list = append(list, put)
	}
	var names []string
	var next []int64
	for _, name := range slices.Sorted(maps.Keys(v.found.Schedules)) {
		if c := v.found.Schedules[name]; c.Moved {
			names = append(names, name)
			next = append(next, c.Next)
		}
	}
	if len(names) > 0 {
		list = append(list, tell(moveCursors, names, next))
	}
	return append(list, v.putEnds()...), nil
}

// wrote is the rows that are to be written. Of one due time it is the last: a part may replace what
// one before it wrote.
func (v *firing) wrote() map[store.FireKey]*store.Fire {
	rows := map[store.FireKey]*store.Fire{}
	for i := range v.answer {
		for k := range v.answer[i].Fires {
			f := &v.answer[i].Fires[k]
			rows[store.FireKey{Schedule: f.Schedule, At: f.At}] = f
		}
	}
	return rows
}

func (v *firing) putFires(rows map[store.FireKey]*store.Fire) (query, error) {
	var schedules, ats, batches, throughs, counts, rootAts []int64
	var ns, rooms, watches []int32
	var origins, outcomes, reasons, roots, parents []string
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b store.FireKey) int {
		return cmp.Or(cmp.Compare(v.found.Schedules[a.Schedule].ID,
			v.found.Schedules[b.Schedule].ID), cmp.Compare(a.At, b.At))
	}) {
		f := rows[k]
		schedules = append(schedules, v.found.Schedules[k.Schedule].ID)
		ats = append(ats, f.At)
		batches = append(batches, f.Task.Batch)
		ns = append(ns, f.Task.N)
		throughs = append(throughs, f.Through)
		counts = append(counts, f.Count)
		rooms = append(rooms, f.Limit)
		watches = append(watches, int32(one(f.Watch)))
		origins = append(origins, string(f.Origin))
		outcomes = append(outcomes, string(f.Outcome))
		reasons = append(reasons, printable(f.Reason))
		root := f.Run
		if root == k {
			root = store.FireKey{}
		}
		roots = append(roots, root.Schedule)
		rootAts = append(rootAts, root.At)
		text, err := store.Parents(f.Parents)
		if err != nil {
			return query{}, err
		}
		parents = append(parents, text)
	}
	return tell(putFires, v.found.Now, v.Node, schedules, ats, batches, throughs, counts, ns, rooms,
		watches, origins, outcomes, reasons, roots, rootAts, parents), nil
}

// putEnds closes fires. Each round has at most one end of a fire: only while those before it left
// it open does the next one count.
func (v *firing) putEnds() (list []query) {
	var rounds [][]*store.FireEnd
	seen := map[store.FireKey]int{}
	for i := range v.Ends {
		e := &v.Ends[i]
		k := store.FireKey{Schedule: e.Schedule, At: e.At}
		if v.found.Schedules[e.Schedule] == nil {
			continue
		}
		if seen[k] == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[seen[k]] = append(rounds[seen[k]], e)
		seen[k]++
	}
	for _, round := range rounds {
		slices.SortFunc(round, func(a, b *store.FireEnd) int {
			return cmp.Or(cmp.Compare(v.found.Schedules[a.Schedule].ID,
				v.found.Schedules[b.Schedule].ID), cmp.Compare(a.At, b.At))
		})
		var schedules, ats, batches []int64
		var ns, ended, seqs []int32
		for _, e := range round {
			schedules = append(schedules, v.found.Schedules[e.Schedule].ID)
			ats = append(ats, e.At)
			batches = append(batches, e.Task.Batch)
			ns = append(ns, e.Task.N)
			ended = append(ended, int32(e.Ended))
			seqs = append(seqs, e.Seq)
		}
		list = append(list, tell(putEnds, schedules, ats, batches, ns, ended, seqs))
	}
	return list
}
