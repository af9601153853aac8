package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// lockCursors keeps others from firing the same schedules. All lock schedules in the order of their names; what has a row is read by the
	// statements after it.
	lockCursors = `SELECT name, id, version, next FROM rota.schedule WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE`

	// followed are those that others follow by now; read when they are locked, so that nobody comes to follow them before the commit.
	followed = `SELECT DISTINCT follows FROM rota.schedule WHERE follows = ANY($1::text[]) AND follows <> ''`

	// runningFires counts the open fires of schedules whose tasks are not final.
	runningFires = `SELECT s.name, count(*) FROM rota.schedule s JOIN rota.fire f ON f.schedule = s.id AND f.open AND f.outcome = 'fired'
JOIN rota.task t ON t.batch = f.batch AND t.n = f.n
LEFT JOIN LATERAL (SELECT base FROM rota.step WHERE batch = t.batch AND n = t.n ORDER BY seq DESC LIMIT 1) p ON true
WHERE s.name = ANY($1::text[]) AND coalesce(p.base, 0) <> -1 GROUP BY s.name`

	// firesThere finds the rows that stand where fires are to be written.
	firesThere = `SELECT w.name, f.at, f.outcome FROM unnest($1::text[], $2::bigint[]) w (name, at)
CROSS JOIN LATERAL (SELECT id FROM rota.schedule WHERE name = w.name OFFSET 0) s
CROSS JOIN LATERAL (SELECT at, outcome FROM rota.fire WHERE schedule = s.id AND at = w.at OFFSET 0) f`
	// firesFromNow is the clock, and the rows from now on of schedules that are to be fired now.
	firesFromNow = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT c.now, coalesce(r.name, ''), coalesce(r.at, 0) FROM clock c
LEFT JOIN (SELECT s.name, f.at FROM rota.schedule s JOIN rota.fire f ON f.schedule = s.id
  WHERE s.name = ANY($2::text[]) AND f.at >= (SELECT now FROM clock)) r ON true`
	// fireOfTask finds the newest row of a schedule that has a task. It is a new one: the same firing was done a moment ago.
	fireOfTask = `SELECT at, outcome FROM rota.fire WHERE schedule = $1 AND batch = $2 AND n = $3 ORDER BY at DESC LIMIT 1`

	// putFires writes rows where there are none, or none that may not be replaced: the schedules are locked.
	putFires = `INSERT INTO rota.fire (schedule, at, time, batch, through, count, n, room, seq, tries, ended, watch, origin, outcome, node, reason)
SELECT f.schedule, f.at, $1, nullif(f.batch, 0), nullif(f.through, f.at), f.count, CASE WHEN f.batch <> 0 THEN f.n END, f.room, -1, 0, 0,
  f.watch = 1, f.origin, f.outcome, $2, nullif(f.reason, '')
FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[], $9::int[], $10::int[], $11::text[], $12::text[],
    $13::text[])
  f (schedule, at, batch, through, count, n, room, watch, origin, outcome, reason)
ON CONFLICT (schedule, at) DO UPDATE SET time = excluded.time, batch = excluded.batch, through = excluded.through, count = excluded.count,
  n = excluded.n, room = excluded.room, seq = excluded.seq, tries = excluded.tries, ended = excluded.ended, watch = excluded.watch,
  origin = excluded.origin, outcome = excluded.outcome, node = excluded.node, reason = excluded.reason`
	moveCursors = `UPDATE rota.schedule s SET next = w.next FROM unnest($1::text[], $2::bigint[]) w (name, next) WHERE s.name = w.name`

	// putEnds locks rows in their order, as reopenFires does. A queued fire has no task that could end.
	putEnds = `UPDATE rota.fire f SET ended = e.ended, seq = e.seq
FROM (SELECT w.schedule, w.at, w.ended, w.seq FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::int[], $6::int[])
    w (schedule, at, batch, n, ended, seq)
  CROSS JOIN LATERAL (SELECT FROM rota.fire WHERE schedule = w.schedule AND at = w.at AND open AND outcome <> 'queued'
    AND coalesce(batch, 0) = w.batch AND coalesce(n, 0) = w.n AND seq <= w.seq FOR NO KEY UPDATE) o) e
WHERE f.schedule = e.schedule AND f.at = e.at`

	// reopenFires opens the watched fires of tasks that begin again.
	reopenFires = `WITH o AS MATERIALIZED (
  SELECT f.schedule, f.at, w.seq FROM unnest($1::bigint[], $2::int[], $3::int[]) w (batch, n, seq)
  JOIN rota.fire f ON f.batch = w.batch AND f.n = w.n AND f.watch ORDER BY f.schedule, f.at FOR NO KEY UPDATE OF f)
UPDATE rota.fire f SET ended = 0, seq = o.seq, tries = f.tries + 1 FROM o WHERE f.schedule = o.schedule AND f.at = o.at`
)

// volley is a firing in the making: what stands, and what is to be written.
type volley struct {
	*store.Firing
	now     int64
	cursors map[string]*cursor
	leads   map[string]bool                    // schedules that others follow
	running map[string]int64                   // open fires whose tasks are not final, of schedules of which only so many may run
	stands  map[int64]standing                 // batches that were there before
	there   map[store.FireKey]task.FireOutcome // rows, those that are written included
	again   map[task.ID]int64                  // the due times of fires that are asked for now, by their tasks, when these have rows

	answer []store.FiredPart
	wrote  map[store.FireKey]*store.Fire
	moved  map[string]bool // cursors
}

// cursor is a locked schedule.
type cursor struct{ id, version, next int64 }

// Fire writes down what came of due times, and submits their tasks. See the contract, storetest.Schedules.
func (s *Store) Fire(ctx context.Context, f store.Firing) (store.Fired, error) {
	var v *volley
	var submitted store.Submitted
	sub := store.Submission{NewQueues: f.NewQueues, Batches: f.Batches}
	err := s.writeBatches(ctx, &sub, func(ctx context.Context, t *tx, _ bool) error {
		v, submitted = newVolley(&f), store.Submitted{}
		c, err := s.look(ctx, t, &sub, v.look(s)...)
		if err == nil {
			err = v.lookAgain(ctx, t, c.stands)
		}
		if err != nil {
			return err
		}
		v.decide()
		if c.sub = v.submission(); len(c.sub.Batches) == 0 {
			return t.finish(ctx, append(v.queries(), tell(confirm))...)
		}
		submitted, err = c.insert(ctx, t, func(ctx context.Context, queries ...query) error {
			return t.finish(ctx, append(queries, v.queries()...)...)
		})
		return err
	})
	if err != nil {
		return store.Fired{}, fmt.Errorf("fire %d schedules: %w", len(f.Parts), err)
	}
	s.hintReady(&submitted, nil)
	return store.Fired{Now: v.now, Parts: v.answer}, nil
}

func newVolley(f *store.Firing) *volley {
	return &volley{
		Firing: f, cursors: map[string]*cursor{}, leads: map[string]bool{}, running: map[string]int64{}, there: map[store.FireKey]task.FireOutcome{}, again: map[task.ID]int64{},
		answer: make([]store.FiredPart, len(f.Parts)), wrote: map[store.FireKey]*store.Fire{}, moved: map[string]bool{},
	}
}

// look makes the queries that lock the schedules and read what stands of them.
func (v *volley) look(s *Store) []query {
	var names, asked, at, bounded []string
	var times []int64
	for i := range v.Parts {
		p := &v.Parts[i]
		names = append(names, p.Schedule)
		if p.Most > 0 {
			bounded = append(bounded, p.Schedule)
		}
		for k := range p.Fires {
			if p.Fires[k].At == 0 {
				asked = append(asked, p.Schedule)
			} else {
				at, times = append(at, p.Schedule), append(times, p.Fires[k].At)
			}
		}
	}
	for i := range v.Ends {
		names = append(names, v.Ends[i].Schedule)
	}
	list := []query{ask(lockCursors, func(r row) error {
		var name string
		c := &cursor{}
		err := r.Scan(&name, &c.id, &c.version, &c.next)
		v.cursors[name] = c
		return err
	}, distinct(names)), ask(followed, func(r row) error {
		var name string
		err := r.Scan(&name)
		v.leads[name] = true
		return err
	}, names), ask(firesFromNow, func(r row) error {
		var k store.FireKey
		err := r.Scan(&v.now, &k.Schedule, &k.At)
		v.there[k] = ""
		return err
	}, s.clock(), distinct(asked)), ask(firesThere, func(r row) error {
		var k store.FireKey
		var outcome task.FireOutcome
		err := r.Scan(&k.Schedule, &k.At, &outcome)
		v.there[k] = outcome
		return err
	}, at, times)}
	if len(bounded) > 0 {
		list = append(list, ask(runningFires, func(r row) error {
			var name string
			var n int64
			err := r.Scan(&name, &n)
			v.running[name] = n
			return err
		}, bounded))
	}
	return list
}

// lookAgain finds the rows of fires that were asked for now and are there: they were asked for by this same firing, as their batches say.
func (v *volley) lookAgain(ctx context.Context, t *tx, stands map[int64]standing) error {
	v.stands = stands
	var list []query
	for i := range v.Parts {
		p := &v.Parts[i]
		for k := range p.Fires {
			f := &p.Fires[k]
			if _, stood := stands[f.Task.Batch]; f.At == 0 && stood && v.cursors[p.Schedule] != nil {
				list = append(list, ask(fireOfTask, func(r row) error {
					var at int64
					var outcome task.FireOutcome
					err := r.Scan(&at, &outcome)
					v.again[f.Task], v.there[store.FireKey{Schedule: p.Schedule, At: at}] = at, outcome
					return err
				}, v.cursors[p.Schedule].id, f.Task.Batch, f.Task.N))
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return t.run(ctx, list...)
}

// decide does the parts in their order.
func (v *volley) decide() {
	for i := range v.Parts {
		v.answer[i] = v.part(&v.Parts[i])
	}
}

// part does a part as a whole, or refuses it.
func (v *volley) part(p *store.FirePart) (done store.FiredPart) {
	c := v.cursors[p.Schedule]
	aside := p.Next == 0 && p.Then == 0
	switch {
	case c == nil:
		return store.FiredPart{Refused: store.FireGone}
	case c.version != p.Version || !aside && c.next != p.Next:
		return store.FiredPart{Refused: store.FireMoved}
	}
	known := map[int64]bool{} // due times of rows that this part writes
	for i := range p.Fires {
		if max(p.Fires[i].At, p.Fires[i].Through) > v.now {
			return store.FiredPart{Refused: store.FireEarly}
		}
	}
	for _, f := range p.Fires {
		f.Schedule, f.Node, f.Time, f.Ended, f.Seq, f.Tries = p.Schedule, v.Node, v.now, 0, -1, 0
		f.Watch = f.Watch || v.leads[p.Schedule] && f.HasTask()
		if at, ok := v.again[f.Task]; f.At == 0 && ok {
			done.Left = append(done.Left, at)
			continue
		}
		if f.At == 0 {
			f.At = v.free(p.Schedule, known)
		}
		f.Through = max(f.Through, f.At)
		f.Count = max(f.Count, 1)
		old, stands := v.there[store.FireKey{Schedule: p.Schedule, At: f.At}]
		if known[f.At] || stands && (!p.Over || old == task.FireFired) {
			done.Left = append(done.Left, f.At)
			continue
		}
		if _, stood := v.stands[f.Task.Batch]; stood { // its span may be taken
			return store.FiredPart{Refused: store.FireMoved}
		}
		known[f.At] = true
		done.Fires = append(done.Fires, f)
	}
	if fired := done.Fired(); p.Most > 0 && fired > 0 && v.running[p.Schedule]+int64(fired) > int64(p.Most) {
		return store.FiredPart{Refused: store.FireMoved}
	}
	if !aside {
		c.next = p.Then
		v.moved[p.Schedule] = true
	}
	for i := range done.Fires {
		k := store.FireKey{Schedule: p.Schedule, At: done.Fires[i].At}
		v.there[k], v.wrote[k] = done.Fires[i].Outcome, &done.Fires[i]
	}
	return done
}

// free is the due time of a fire that is asked for now: the next microsecond without a row that is no whole millisecond, since
// those are for due times.
func (v *volley) free(schedule string, known map[int64]bool) int64 {
	for at := v.now; ; at++ {
		if _, stands := v.there[store.FireKey{Schedule: schedule, At: at}]; at%1000 != 0 && !stands && !known[at] {
			return at
		}
	}
}

// submission is what is left of the batches: the tasks of the rows that are written, and their spans.
func (v *volley) submission() *store.Submission {
	wanted := map[task.ID]bool{}
	for i := range v.answer {
		for k := range v.answer[i].Fires {
			wanted[v.answer[i].Fires[k].Task] = true
		}
	}
	sub := &store.Submission{}
	queues := map[string]bool{}
	for _, b := range v.Batches {
		b.Tasks = slices.DeleteFunc(slices.Clone(b.Tasks), func(t store.Task) bool { return !wanted[task.ID{Batch: b.ID, N: t.N}] })
		b.Spans = slices.DeleteFunc(slices.Clone(b.Spans), func(n store.NewSpan) bool {
			i, _ := slices.BinarySearchFunc(b.Tasks, n.Lo, func(t store.Task, lo int32) int { return cmp.Compare(t.N, lo) })
			return i == len(b.Tasks) || b.Tasks[i].N > n.Hi
		})
		if len(b.Tasks) > 0 {
			sub.Batches = append(sub.Batches, b)
			queues[b.Queue] = true
		}
	}
	for _, name := range v.NewQueues {
		if queues[name] {
			sub.NewQueues = append(sub.NewQueues, name)
		}
	}
	return sub
}

// queries write the rows, move the cursors and then close fires.
func (v *volley) queries() (list []query) {
	if len(v.wrote) > 0 {
		list = append(list, v.putFires())
	}
	if len(v.moved) > 0 {
		names := slices.Sorted(maps.Keys(v.moved))
		next := make([]int64, len(names))
		for i, name := range names {
			next[i] = v.cursors[name].next
		}
		list = append(list, tell(moveCursors, names, next))
	}
	return append(list, v.putEnds()...)
}

func (v *volley) putFires() query {
	var schedules, ats, batches, throughs, counts []int64
	var ns, rooms, watches []int32
	var origins, outcomes, reasons []string
	for _, k := range slices.SortedFunc(maps.Keys(v.wrote), func(a, b store.FireKey) int {
		return cmp.Or(cmp.Compare(v.cursors[a.Schedule].id, v.cursors[b.Schedule].id), cmp.Compare(a.At, b.At))
	}) {
		f := v.wrote[k]
		schedules, ats = append(schedules, v.cursors[k.Schedule].id), append(ats, f.At)
		batches, ns = append(batches, f.Task.Batch), append(ns, f.Task.N)
		throughs, counts, rooms = append(throughs, f.Through), append(counts, f.Count), append(rooms, f.Limit)
		watches, origins = append(watches, int32(one(f.Watch))), append(origins, string(f.Origin))
		outcomes, reasons = append(outcomes, string(f.Outcome)), append(reasons, printable(f.Reason))
	}
	return tell(putFires, v.now, v.Node, schedules, ats, batches, throughs, counts, ns, rooms, watches, origins, outcomes, reasons)
}

// putEnds closes fires. Each round has at most one end of a fire: only while those before it left it open does the next one count.
func (v *volley) putEnds() (list []query) {
	var rounds [][]*store.FireEnd
	seen := map[store.FireKey]int{}
	for i := range v.Ends {
		e := &v.Ends[i]
		k := store.FireKey{Schedule: e.Schedule, At: e.At}
		if v.cursors[e.Schedule] == nil {
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
			return cmp.Or(cmp.Compare(v.cursors[a.Schedule].id, v.cursors[b.Schedule].id), cmp.Compare(a.At, b.At))
		})
		var schedules, ats, batches []int64
		var ns, ended, seqs []int32
		for _, e := range round {
			schedules, ats = append(schedules, v.cursors[e.Schedule].id), append(ats, e.At)
			batches, ns = append(batches, e.Task.Batch), append(ns, e.Task.N)
			ended, seqs = append(ended, int32(e.Ended)), append(seqs, e.Seq)
		}
		list = append(list, tell(putEnds, schedules, ats, batches, ns, ended, seqs))
	}
	return list
}
