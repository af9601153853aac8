package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// steps records what becomes of tasks: what workers report (Settle), and what people do to tasks
// (Act). The tables step, mark and edit are its own; waiting adds steps that wake tasks or cancel
// children. At most one outcome stands at (task, seq), in either of the first two, and nothing
// changes it.
type steps struct {
	*database
	hints        *hints
	values       *values
	partitioning *partitioning
	submissions  *submissions // for final notices and children, which come with a report
}

// Settle records reports. See contract.Steps. As a rule all of them are good, and
// what some say a worker's transaction has recorded stands. So that is tried first, in one trip
// which records all or nothing. When it is not so, three trips find out which: one records what
// has the right to be recorded, one looks at the others, one does what follows and commits.
func (s *steps) Settle(ctx context.Context, set store.Settlement) (store.Settled, error) {
	d, err := s.settle(ctx, &set)
	if err != nil {
		return store.Settled{}, fmt.Errorf("settle %d reports: %w", len(set.Reports), err)
	}
	for node, ids := range d.others {
		s.hints.hint(Hint{Node: node, Tasks: ids})
	}
	for _, queue := range d.told {
		s.hints.hint(Hint{Queue: queue})
	}
	var refused []store.Value
	for i, v := range d.verdicts {
		if step := &set.Reports[i].Step; v != task.Recorded &&
			(step.Context != nil || step.Result != nil) {
			refused = append(refused, step.Context, step.Result)
		}
		if spawn := set.Reports[i].Spawn; v != task.Recorded || d.existed {
			refused = append(refused, largeOf(spawn)...)
		}
	}
	if len(refused) > 0 {
		s.values.dropUnused(ctx, refused)
	}
	return d.answer()
}

// settle records, again when the time of a final notice or of a child has no partition yet.
func (s *steps) settle(ctx context.Context, set *store.Settlement) (d *settlement, err error) {
	for range tries {
		d, err = s.settleOnce(ctx, set)
		if codeOf(err) != codeCheck {
			break
		}
		var sub store.Submission
		for i := range set.Reports {
			if n := set.Reports[i].Notice; n != nil {
				sub.Batches = append(sub.Batches, *n)
			}
			sub.Batches = append(sub.Batches, set.Reports[i].Spawn...)
		}
		if err := s.partitioning.makeRoom(ctx, &sub); err != nil {
			return d, err
		}
	}
	return d, err
}

func (s *steps) settleOnce(ctx context.Context, set *store.Settlement) (d *settlement, err error) {
	var by means
	for range tries {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			d = s.newSettlement(set.Reports, &by)
			return d.atOnce(ctx, t, set.Spent)
		})
		if !by.learn(err, d) {
			break
		}
	}
	switch codeOf(err) {
	case codeExpected, codeUnique, codeBusy:
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			d = s.newSettlement(set.Reports, &by)
			return d.oneByOne(ctx, t, set.Spent)
		})
	}
	return d, err
}

// settlement is one settlement in progress.
type settlement struct {
	*steps
	reports  []store.Report
	verdicts []task.Status
	order    []int32 // of the reports, by (batch, n, seq)
	by       *means
	now      int64
	packs    []packID             // those that it wants for itself, in order
	others   map[string][]task.ID // tasks whose spans other nodes hold
	told     []string             // queues that got tasks
	runs     map[int32]int32      // of the tasks of reports that were replayed, see readRuns
	spawned  []store.Spawned
	existed  bool // some of the children, by their keys
	repeated []repeatedSpawn
	changed  []string // addresses
}

func (s *steps) newSettlement(reports []store.Report, by *means) *settlement {
	d := &settlement{
		steps: s, by: by, reports: reports, verdicts: make([]task.Status, len(reports)),
		order: make([]int32, len(reports)),
	}
	sorted := true
	for i := range reports {
		d.order[i] = int32(i)
		sorted = sorted && (i == 0 || compare(&reports[i-1], &reports[i]) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(d.order, func(a, b int32) int {
			return compare(&reports[a], &reports[b])
		})
	}
	return d
}

// compare orders reports by the key of their step.
func compare(a, b *store.Report) int {
	return cmp.Or(cmp.Compare(a.ID.Batch, b.ID.Batch), cmp.Compare(a.ID.N, b.ID.N),
		cmp.Compare(a.Token.Seq, b.Token.Seq))
}

const (
	// lockSpans makes takers wait until what is recorded here is committed. Settlements share the
	// lock, in one order.
	lockSpans = `WITH locked AS MATERIALIZED (SELECT id, holder FROM rota.span
WHERE id = ANY($1::bigint[]) ORDER BY id FOR SHARE)
SELECT id, holder FROM locked WHERE holder <> $2`

	// recordSteps finds the reports that have the right to be recorded. The token that is right is
	// that of the running row at the seq, else that of the span, which is looked for once for each
	// run of reports on one hand ($25 to $29). It is in a later statement than lockSpans, so it
	// sees what those wrote who had the locks. What all reports have in common comes once, from $18
	// on, and no column with it.
	recordSteps = `INSERT INTO rota.step (batch, n, seq, token, hash, started, finished, attempt,
base, kind, ran, stage, worker, context_seq, due,
  error, result, context)
SELECT ($25::bigint[])[r.h], r.n, r.seq, ($27::bigint[])[r.h], r.hash, r.started, r.finished,
r.attempt, r.base, r.kind, r.ran, nullif(r.stage, r.ran),
  nullif(r.worker, ''), nullif(r.context_seq, -1), nullif(r.due, 0), nullif(r.error, ''), r.result,
  r.context
FROM (SELECT h, n, seq, hash, started, finished, coalesce(attempt, $18) AS attempt, coalesce(base,
$19) AS base, coalesce(kind, $20) AS kind,
    coalesce(ran, $21) AS ran, coalesce(stage, $22) AS stage, coalesce(worker, $23) AS worker,
    coalesce(context_seq, $24) AS context_seq, due, error,
    result, context, i
  FROM unnest($1::int[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::int[],
  $8::int[], $9::int[], $10::text[], $11::text[],
    $12::text[], $13::int[], $14::bigint[], $15::text[], $16::bytea[], $17::bytea[]) WITH ORDINALITY
    c (h, n, seq, hash, started, finished, attempt, base, kind, ran, stage, worker, context_seq,
    due, error, result, context, i)) r
LEFT JOIN rota.running u ON u.batch = ($25::bigint[])[r.h] AND u.n = r.n AND u.seq = r.seq
AND (SELECT EXISTS (SELECT FROM rota.running WHERE batch = ANY($25::bigint[])))
WHERE CASE WHEN u.batch IS NOT NULL THEN u.span = ($26::bigint[])[r.h]
AND u.token = ($27::bigint[])[r.h] ELSE
  CASE (SELECT array_agg(CASE WHEN s.id IS NULL THEN 0 WHEN s.gaps THEN 2 ELSE 1 END ORDER BY h.i)
    FROM unnest($25::bigint[], $26::bigint[], $27::bigint[], $28::int[],
    $29::int[]) WITH ORDINALITY h (batch, span, token, lo, hi, i)
    LEFT JOIN rota.span s ON s.id = h.span AND s.batch = h.batch AND s.token = h.token
    AND s.lo <= h.lo AND h.hi <= s.hi)[r.h]
  WHEN 1 THEN true WHEN 2 THEN EXISTS (SELECT FROM rota.task(($25::bigint[])[r.h], r.n))
  ELSE false END END
AND (r.kind <> 13 OR u.batch IS NULL AND ` + hasLimit + `)`

	// inOrder is that of their keys: the reports are sorted.
	inOrder = ` ORDER BY r.i`

	// unmarked is asked once for all reports at seq 0: whether none of them is marked as done. The
	// locks of their packs are shared by now.
	unmarked = ` AND (SELECT NOT EXISTS (
  SELECT FROM unnest($32::bigint[], $33::int[], $34::bigint[]) w (batch, lo, bits)
  JOIN rota.mark m ON m.batch = w.batch AND m.lo = w.lo AND m.batch BETWEEN $35 AND $36
  WHERE m.bits & w.bits <> 0))`

	// insertAll is the fence: the key of step lets one outcome stand for each hand-out. It inserts
	// all reports or fails. Their running rows go; most have none, so it looks first whether their
	// batches have any.
	insertAll = `WITH done AS (` + recordSteps + unmarked + inOrder + ` RETURNING batch, n, seq),
over AS (
  DELETE FROM rota.running u USING done d WHERE u.batch = d.batch AND u.n = d.n AND u.seq = d.seq
    AND (SELECT EXISTS (SELECT FROM rota.running WHERE batch = ANY($25::bigint[]))))
SELECT rota.micros($30), rota.expect((SELECT count(*) FROM done), $31)`

	// expectCommitted fails unless transactions of workers have recorded all of these steps.
	expectCommitted = `SELECT rota.micros($6), rota.expect(count(*), $7)
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bigint[]) r (batch, n, seq, token)
JOIN rota.step p ON p.batch = r.batch AND p.n = r.n AND p.seq = r.seq
WHERE p.token = r.token AND p.hash = $5`

	// whyNot is asked of the reports that were not recorded, in a later statement: whoever stands
	// at their seq is committed by now.
	whyNot = `SELECT r.i::int, p.token, p.hash, EXISTS (SELECT FROM rota.task(r.batch,
r.n))
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY r (batch, n, seq, i)
LEFT JOIN rota.step p ON p.batch = r.batch AND p.n = r.n AND p.seq = r.seq`

	// deleteSpans passes over a span that another settlement reads just now: the holder finds it
	// empty, and tries again.
	deleteSpans = `WITH o AS MATERIALIZED (SELECT id FROM rota.span WHERE id = ANY($1::bigint[])
AND (id, token) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
ORDER BY id FOR UPDATE SKIP LOCKED)
DELETE FROM rota.span s USING o WHERE s.id = o.id`
)

// insertSome inserts those that it can. Of several reports at one seq the first that is right may
// be recorded.
var insertSome = recordSteps + ` AND NOT (r.seq = 0 AND ` +
	isMarked("($25::bigint[])[r.h]", "r.n") + `)` + inOrder +
	` ON CONFLICT DO NOTHING RETURNING batch, n, seq, token, hash`

// atOnce records all reports, or fails: also when what some say is committed does not stand.
func (d *settlement) atOnce(ctx context.Context, t *tx, spent []store.Taking) error {
	if len(d.reports) == 0 && len(spent) == 0 {
		return t.finish(ctx, ask(countClock, func(r row) error {
			return r.Scan(&d.now)
		}, d.clock()))
	}
	if err := d.readRuns(ctx, t); err != nil {
		return err
	}
	var record, stand []int32
	for _, i := range d.order {
		if d.reports[i].Step.Hash == store.UncommittedHash {
			d.verdicts[i] = task.Repeated
			stand = append(stand, i)
		} else {
			d.verdicts[i] = task.Recorded
			record = append(record, i)
		}
	}
	now := func(r row) error {
		var n int64
		return r.Scan(&d.now, &n)
	}
	marking := d.intoMarks(record)
	record = marking.steps
	first := d.firsts(record)
	from, to := first.bounds()
	queries := append([]query{d.locking()}, d.sharing(&first)...)
	if len(stand) > 0 {
		queries = append(queries, ask(expectCommitted, now, d.committed(stand)...), tell(confirm))
	}
	if len(record) > 0 || len(stand) == 0 && len(d.packs) == 0 {
		queries = append(queries, ask(insertAll, now, append(d.columns(record, true).args(),
			d.clock(), len(record), first.batch, first.lo, first.bits, from, to)...))
	}
	if len(d.packs) > 0 {
		queries = append(queries, tell(lockPacks, int64(allPacks), marking.locks),
			ask(insertMarks, now, append(marking.args(), d.clock(), len(d.packs))...))
	}
	follow, err := d.consequences(ctx, t, spent, false)
	if err != nil {
		return err
	}
	return d.finish(ctx, t, queries, follow)
}

// locking makes the query that shares the locks of the reports' spans.
func (d *settlement) locking() query {
	return ask(lockSpans, d.sees, d.spans(), d.hints.node())
}

// spans of the reports, each once, in order.
func (d *settlement) spans() []int64 {
	list := make([]int64, len(d.reports))
	for i := range d.reports {
		list[i] = d.reports[i].Token.Span
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// committed are the arguments of expectCommitted.
func (d *settlement) committed(stand []int32) []any {
	var keys keyColumns
	tokens := make([]int64, len(stand))
	for at, i := range stand {
		r := &d.reports[i]
		keys.add(r.ID, r.Token.Seq)
		tokens[at] = r.Token.SpanToken
	}
	return []any{keys.batch, keys.n, keys.seq, tokens, store.CommittedHash, d.clock(), len(stand)}
}

// oneByOne records the reports that can be recorded, and finds out why the others can't.
func (d *settlement) oneByOne(ctx context.Context, t *tx, spent []store.Taking) error {
	if err := d.readRuns(ctx, t); err != nil {
		return err
	}
	c := d.columns(d.order, false)
	first := d.firsts(d.order)
	queries := append([]query{d.locking()}, d.sharing(&first)...)
	err := t.run(ctx, append(queries, ask(countClock, func(r row) error {
		return r.Scan(&d.now)
	}, d.clock()), d.recording(c))...)
	if err != nil {
		return err
	}
	if err := d.judgeRefused(ctx, t); err != nil {
		return err
	}
	follow, err := d.consequences(ctx, t, d.spendable(spent), true)
	if err != nil {
		return err
	}
	if slices.Contains(d.verdicts, task.Repeated) {
		follow.last = slices.Concat(follow.last, d.askSpawned(), []query{tell(confirm)})
	}
	return d.finish(ctx, t, nil, follow)
}

// sees notes the tasks whose spans other nodes hold: they are to be told.
func (d *settlement) sees(r row) error {
	var id int64
	var holder string
	if err := r.Scan(&id, &holder); err != nil {
		return err
	}
	if d.others == nil {
		d.others = map[string][]task.ID{}
	}
	for i := range d.reports {
		if d.reports[i].Token.Span == id {
			d.others[holder] = append(d.others[holder], d.reports[i].ID)
		}
	}
	return nil
}

// recording makes the query that records reports, and notes those that it recorded.
func (d *settlement) recording(c *reportColumns) query {
	at := 0
	return ask(insertSome, func(r row) error {
		var key store.Report
		if err := r.Scan(
			&key.ID.Batch, &key.ID.N, &key.Token.Seq, &key.Token.SpanToken, &key.Step.Hash,
		); err != nil {
			return err
		}
		if at >= len(c.order) || compare(&d.reports[c.order[at]], &key) > 0 {
			// rows come in order; should they not, begin anew
			at = 0
		}
		for ; at < len(c.order); at++ {
			i := c.order[at]
			rep := &d.reports[i]
			if compare(rep, &key) == 0 && rep.Token.SpanToken == key.Token.SpanToken &&
				rep.Step.Hash == key.Step.Hash && d.verdicts[i] == "" {
				d.verdicts[i] = task.Recorded
				at++
				return nil
			}
		}
		return fmt.Errorf("recorded a step of task %s at %d that nobody reported", key.ID,
			key.Token.Seq)
	}, c.args()...)
}

// judgeRefused tries once more to record what was not, and finds out why.
func (d *settlement) judgeRefused(ctx context.Context, t *tx) error {
	var refused []int32
	var ids []task.ID
	for _, i := range d.order {
		if d.verdicts[i] == "" {
			refused = append(refused, i)
			ids = append(ids, d.reports[i].ID)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	c := d.columns(refused, false)
	found := marks{}
	// marks come first: what they say holds for tasks that are known
	return t.run(ctx, d.recording(c), found.reading(ids), ask(whyNot, func(r row) error {
		var at int
		var token, hash *int64
		var known bool
		if err := r.Scan(&at, &token, &hash, &known); err != nil {
			return err
		}
		i := refused[at-1]
		rep := &d.reports[i]
		repeats := token != nil && *token == rep.Token.SpanToken &&
			store.Repeats(rep.Step.Hash, *hash)
		if rep.Token.Seq == 0 && token == nil && known {
			done, ok, err := found.find(rep.ID)
			if err != nil {
				return err
			}
			repeats = ok && done.Repeats(rep)
		}
		switch {
		case d.verdicts[i] != "":
		case repeats:
			d.verdicts[i] = task.Repeated
		case token == nil && !known:
			d.verdicts[i] = task.Unknown
		default:
			d.verdicts[i] = task.Stale
		}
		return nil
	}, c.hands.batch, c.n, c.seq))
}

// spendable leaves out the spans of which a report turned out not to be known.
func (d *settlement) spendable(spent []store.Taking) []store.Taking {
	var kept map[int64]bool
	for i, v := range d.verdicts {
		if v != task.Recorded && v != task.Repeated {
			if kept == nil {
				kept = map[int64]bool{}
			}
			kept[d.reports[i].Token.Span] = true
		}
	}
	if kept == nil {
		return spent
	}
	return slices.DeleteFunc(slices.Clone(spent), func(s store.Taking) bool { return kept[s.Span] })
}
