package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

const fireColumns = `f.at, coalesce(f.through, f.at), f.count, f.origin, f.outcome, coalesce(f.reason, ''), coalesce(f.batch, 0),
  coalesce(f.n, 0), f.node, f.time, f.room, f.watch, f.ended::int, f.seq, f.tries,
  coalesce(f.root, ''), coalesce(f.root_at, 0), coalesce(f.parents, '')`

// scanFire scans fireColumns, and what comes before them. The schedule's name is schedule, or what
// was scanned into it.
func scanFire(r row, schedule *string, first ...any) (f store.Fire, err error) {
	var ended int32
	var parents string
	err = r.Scan(append(first, &f.At, &f.Through, &f.Count, &f.Origin, &f.Outcome, &f.Reason,
		&f.Task.Batch, &f.Task.N, &f.Node, &f.Time,
		&f.Limit, &f.Watch, &ended, &f.Seq, &f.Tries, &f.Run.Schedule, &f.Run.At, &parents)...)
	f.Schedule, f.Ended = *schedule, task.Kind(ended)
	if f.Run.Schedule == "" {
		f.Run = store.FireKey{Schedule: f.Schedule, At: f.At}
	}
	if err == nil {
		f.Parents, err = store.ReadParents(parents)
	}
	return f, err
}

// Fires are those between two due times, both left out. A row that begins before the first one
// wanted, $4, is among them when it stands for that one, too.
const (
	oldestFires = selectFires + ` ORDER BY at LIMIT nullif($6::bigint, 0)) f ORDER BY f.at`
	newestFires = selectFires +
		` ORDER BY at DESC LIMIT nullif($6::bigint, 0)) f ORDER BY f.at DESC`
	selectFires = `SELECT ` + fireColumns + ` FROM (SELECT id FROM rota.schedule WHERE name = $1) s
CROSS JOIN LATERAL (SELECT least($4::bigint, min(at)) AS at FROM rota.fire WHERE schedule = s.id
AND through IS NOT NULL AND through >= $4) w
CROSS JOIN LATERAL (SELECT * FROM rota.fire WHERE schedule = s.id AND at > $2 AND at < $3
AND at >= w.at AND coalesce(through, at) >= $4
  AND (cardinality($5::text[]) = 0 OR outcome = ANY($5))`
)

// Fires lists what came of due times. See contract.Schedules.
func (s *schedules) Fires(ctx context.Context, q store.FireQuery) (list []store.Fire, err error) {
	text, after, before := oldestFires, int64(math.MinInt64), cmp.Or(q.To, math.MaxInt64)
	switch {
	case q.Newest && q.After != 0:
		text, before = newestFires, min(before, q.After)
	case q.Newest:
		text = newestFires
	case q.After != 0:
		after = q.After
	}
	outcomes := make([]string, len(q.Outcomes))
	for i, o := range q.Outcomes {
		outcomes[i] = string(o)
	}
	err = s.glance(ctx, ask(text, func(r row) error {
		f, err := scanFire(r, &q.Schedule)
		list = append(list, f)
		return err
	}, q.Schedule, after, before, q.From, outcomes, int64(q.Limit)))
	if err != nil {
		return nil, fmt.Errorf("list fires of schedule %q: %w", q.Schedule, err)
	}
	return list, nil
}

// runFires is the fire with which a run began, unless it is of another run, and those that say that
// they are of it.
const runFires = `SELECT f.name, ` + fireColumns + ` FROM (
  SELECT s.name, r.* FROM rota.schedule s JOIN rota.fire r ON r.schedule = s.id
  WHERE s.name = $1 AND r.at = $2 AND r.root IS NULL
  UNION ALL
  SELECT s.name, r.* FROM rota.fire r JOIN rota.schedule s ON s.id = r.schedule
  WHERE r.root = $1 AND r.root_at = $2) f
ORDER BY f.name, f.at LIMIT $3`

// RunFires lists the fires of a run. See contract.Schedules.
func (s *schedules) RunFires(
	ctx context.Context, run store.FireKey, limit int,
) (list []store.Fire, err error) {
	err = s.glance(ctx, ask(runFires, func(r row) error {
		var name string
		f, err := scanFire(r, &name, &name)
		list = append(list, f)
		return err
	}, run.Schedule, run.At, int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("list the run of %q: %w", run.Schedule, err)
	}
	return list, nil
}

// Open fires are found before it is looked where their tasks stand: those of some schedules by
// their schedules, those of all by themselves.
const (
	openOfSome = openColumns + `FROM (
  SELECT s.name, f.* FROM rota.schedule s CROSS JOIN LATERAL (SELECT * FROM rota.fire
  WHERE schedule = s.id AND open OFFSET 0) f
  WHERE s.name = ANY($5::text[])` + openTasks
	openOfAll = openColumns + `FROM (
  SELECT s.name, f.* FROM rota.fire f JOIN rota.schedule s ON s.id = f.schedule WHERE f.open` +
		openTasks
	openColumns = `SELECT f.name, k.batch IS NOT NULL, coalesce(k.kind, 0)::int, coalesce(k.seq,
-1), coalesce(k.base = -1, false),
  coalesce(k.finished, 0), coalesce(k.error, ''), coalesce(k.worker, ''), k.body, ` + fireColumns + `
`
	openTasks = ` AND (s.name, f.at) > ($1, $2) ORDER BY s.name, f.at LIMIT nullif($3::bigint, 0)) f
LEFT JOIN LATERAL (
  SELECT t.batch, p.*, m.body FROM rota.task(f.batch, f.n) t
  LEFT JOIN LATERAL (
    SELECT kind, seq, base, finished, error, worker FROM rota.step WHERE batch = t.batch AND n = t.n
    ORDER BY seq DESC LIMIT 1) p ON true
  LEFT JOIN rota.mark m ON p.seq IS NULL AND m.batch = t.batch AND m.lo = (t.n & -64)
    AND (m.bits >> (t.n & 63)) & 1 = 1
  WHERE p.kind IS DISTINCT FROM $4) k ON true
ORDER BY f.name, f.at`
)

// OpenFires lists fires of which something is still to come, and how their tasks stand. See the
// contract, contract.Schedules.
func (s *schedules) OpenFires(
	ctx context.Context, q store.OpenQuery,
) (list []store.OpenFire, err error) {
	text, args := openOfAll,
		[]any{q.After.Schedule, q.After.At, int64(q.Limit), int(task.KindRemoved)}
	if len(q.Schedules) > 0 {
		text, args = openOfSome, append(args, q.Schedules)
	}
	err = s.glance(ctx, ask(text, func(r row) error {
		o, err := scanOpenFire(r)
		list = append(list, o)
		return err
	}, args...))
	if err != nil {
		return nil, fmt.Errorf("list open fires: %w", err)
	}
	return list, nil
}

func scanOpenFire(r row) (o store.OpenFire, err error) {
	var name string
	var kind int32
	var body []byte // of the mark of a task without steps
	o.Fire, err = scanFire(r, &name, &name, &o.Found, &kind, &o.Step, &o.Final, &o.Finished,
		&o.Error, &o.Worker, &body)
	o.Kind = task.Kind(kind)
	if err != nil || body == nil {
		return o, err
	}
	d, _, err := pack.FindDone(body, o.Task.N)
	o.Kind, o.Step, o.Final = task.KindDone, 0, true
	o.Finished, o.Worker = d.Finished, d.Worker
	return o, err
}
