package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// submissions inserts tasks: rows of batch, pack, keyed, task_key, unique_key, child_batch, blob
// and expiry, and their first spans, waits and dependencies. A batch is inserted once; what others
// do to its tasks later is theirs.
type submissions struct {
	*database
	hints        *hints
	values       *values
	partitioning *partitioning
}

// Submit inserts batches with their tasks, keys and spans. See contract.Spans.
//
// Submissions without keys take one trip, and do not look before they insert: the key of batch says
// when one stands already. Those with keys, and those that may be a repetition, look first.
func (s *submissions) Submit(ctx context.Context, sub store.Submission) (store.Submitted, error) {
	s.hints.note(sub.Holder)
	answer, after, err := s.submit(ctx, &sub)
	if err != nil { // its large contexts stay: it may be tried again
		return store.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if len(answer.Existing) > 0 {
		s.values.dropUnused(ctx, largeOf(sub.Batches))
	}
	s.hints.hintReady(&answer, sub.Shares)
	s.hints.tellAbout(&after)
	return answer, nil
}

func (s *submissions) submit(
	ctx context.Context, sub *store.Submission,
) (answer store.Submitted, after aftermath, err error) {
	if err := ctx.Err(); err != nil {
		return answer, after, err
	}
	look := keyed(sub.Batches) || sub.Under != nil
	err = s.writeBatches(ctx, sub, func(ctx context.Context, t *tx, again bool) (err error) {
		if look || again {
			answer, after, err = s.submitWithCare(ctx, t, sub)
		} else {
			answer, err = s.submitAtOnce(ctx, t, sub)
		}
		return err
	})
	return answer, after, err
}

// writeBatches lets do insert batches in a transaction: again, when one stands already, since just
// now if it was looked for, and when the time of one has no partition yet.
func (s *submissions) writeBatches(
	ctx context.Context, sub *store.Submission,
	do func(ctx context.Context, t *tx, again bool) error,
) (err error) {
	again := false
	for range tries {
		err = s.write(ctx, func(ctx context.Context, t *tx) error { return do(ctx, t, again) })
		switch code := codeOf(err); {
		case code == codeUnique, errors.Is(err, errUniqueRace):
			again = true
		case code == codeCheck:
			if err := s.partitioning.makeRoom(ctx, sub); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return err
}

// largeOf lists the contexts of tasks in batches that are blobs.
func largeOf(batches []store.Batch) (large []store.Value) {
	for i := range batches {
		for k := range batches[i].Tasks {
			if v := batches[i].Tasks[k].Context; len(v) > 0 && v[0] == 0 {
				large = append(large, v)
			}
		}
	}
	return large
}

// keyed tells whether any task of some batches has a key, of either sort.
func keyed(batches []store.Batch) bool {
	for i := range batches {
		for k := range batches[i].Tasks {
			if t := &batches[i].Tasks[k]; t.Key != "" || t.Unique != nil {
				return true
			}
		}
	}
	return false
}

// submitAtOnce inserts a submission without keys, none of whose batches is thought to stand.
func (s *submissions) submitAtOnce(
	ctx context.Context, t *tx, sub *store.Submission,
) (answer store.Submitted, err error) {
	load := newLoading(sub.Batches, nil)
	if err := load.name(ctx, s.database, t); err != nil {
		return answer, err
	}
	granted := false
	into := func(r row) error { return r.Scan(&answer.Now, &granted) }
	err = t.finish(ctx, load.queries(s.database, sub, into)...)
	for i := range load.made {
		m := &load.made[i]
		for k, n := range m.batch.Spans {
			answer.Spans = append(answer.Spans,
				newSpan(m.span+int64(k), m.batch, n, sub.Holder, granted))
		}
	}
	answer.Look = load.after.lookAt()
	return answer, err
}

// newSpan is a span as its submission is answered.
func newSpan(id int64, b *store.Batch, n store.NewSpan, h store.Holder, granted bool) store.Span {
	sp := store.Span{
		ID: id, Batch: b.ID, Lo: n.Lo, Hi: n.Hi, Queue: b.Queue, Rank: b.Rank, Due: b.Due,
	}
	if n.Hold && granted {
		sp.Holder, sp.Token = h, 1
	}
	if b.Depends() {
		sp.Rank, sp.Due = store.Never, store.Never
	}
	return sp
}

// loading is what a submission inserts, as columns.
type loading struct {
	made  []made
	packs packs
	spans spanColumns
	blobs blobColumns
	looks lookColumns
	kin   map[int64]kinship // of the batches that are children's
	child childColumns
	after depending
	count map[string]int64 // tasks, by queue
	since history.Changes  // what they add to the history
	held  bool             // some spans are wanted by the submitter
}

// made is a batch that is to be inserted.
type made struct {
	batch    *store.Batch
	span     int64            // the id of its first span
	existing []store.Existing // tasks that others' keys keep out
}

type spanColumns struct {
	id, batch, rank, due []int64
	lo, hi, size, gaps   []int32
	hold                 []int32
	queue                []string
}

type blobColumns struct {
	batch []int64
	n     []int32
	name  []string
}

func (c *blobColumns) add(id task.ID, values ...store.Value) {
	for _, v := range values {
		if name, ok := v.Blob(); ok {
			c.batch = append(c.batch, id.Batch)
			c.n = append(c.n, id.N)
			c.name = append(c.name, name)
		}
	}
}

// newLoading takes whole batches. kin says which of them, and of those that are added, are
// children's.
func newLoading(batches []store.Batch, kin map[int64]kinship) *loading {
	l := &loading{count: map[string]int64{}, kin: kin}
	for i := range batches {
		l.add(&batches[i], batches[i].Tasks)
	}
	l.depend(batches, nil, func(*store.Batch) bool { return false })
	return l
}

// add takes a batch with those of its tasks that are to be inserted.
func (l *loading) add(b *store.Batch, tasks []store.Task) {
	l.made = append(l.made, made{batch: b})
	l.count[b.Queue] += int64(len(tasks))
	l.since.Submitted(b.Created, b.Queue, tasks)
	l.packs.add(b.ID, tasks)
	if k, child := l.kin[b.ID]; child {
		l.child.add(b, k, len(tasks))
	}
	l.looks.add(b.ID, rules.FirstLimit(b.Due, tasks))
	for i := range tasks {
		l.blobs.add(task.ID{Batch: b.ID, N: tasks[i].N}, tasks[i].Context)
	}
	p := &l.spans
	rank, due := b.Rank, b.Due
	if b.Depends() {
		rank, due = store.Never, store.Never
	}
	next := 0
	for _, n := range b.Spans {
		first := next
		for next < len(tasks) && tasks[next].N <= n.Hi {
			next++
		}
		size, gap := int32(next-first), int32(0)
		if size != n.Hi-n.Lo+1 {
			gap = 1
		}
		hold := int32(0)
		if n.Hold {
			hold, l.held = 1, true
		}
		p.batch = append(p.batch, b.ID)
		p.rank = append(p.rank, rank)
		p.due = append(p.due, due)
		p.queue = append(p.queue, b.Queue)
		p.lo = append(p.lo, n.Lo)
		p.hi = append(p.hi, n.Hi)
		p.size = append(p.size, size)
		p.gaps = append(p.gaps, gap)
		p.hold = append(p.hold, hold)
	}
}

// name gives the spans their ids.
func (l *loading) name(ctx context.Context, d *database, r runner) error {
	first, err := d.spanIDs(ctx, r, len(l.spans.batch))
	if err != nil {
		return err
	}
	next := first
	for i := range l.made {
		l.made[i].span = next
		next += int64(len(l.made[i].batch.Spans))
	}
	for id := first; id < next; id++ {
		l.spans.id = append(l.spans.id, id)
	}
	return nil
}

// The statement inserts a whole submission, but for the packs of more than chunkTasks tasks, which
// come after it in the same trip. Rows are sorted by their keys because the caller's are: batches
// by id, tasks by number.
//
// The rule LEASE stands here as me: whoever shares the row keeps the lease from being ended before
// this is committed. It is asked for when spans are to be held.
const insertSubmission = `WITH packs AS (` + insertPacks + `),
clock AS MATERIALIZED (SELECT rota.micros($16) AS now),
me AS MATERIALIZED (
  SELECT 1 FROM rota.lease WHERE name = 'node/' || $17 AND token = $18 AND until > (SELECT now
  FROM clock) FOR KEY SHARE),
batches AS (
  INSERT INTO rota.batch (id, queue, rank, due, created, origin, span, existing, granted)
  SELECT b.*, EXISTS (SELECT FROM me)
  FROM unnest($19::bigint[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[], $24::text[],
  $25::bigint[], $39::bytea[]) b),
spans AS (
  INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths,
  size, gaps)
  SELECT n.id, n.batch, n.lo, n.hi, 0, n.queue, n.rank, n.due, CASE WHEN g.mine THEN $17 END,
  CASE WHEN g.mine THEN $18 ELSE 0 END,
    g.mine::int, 0, n.size, n.gaps = 1
  FROM unnest($26::bigint[], $27::bigint[], $28::int[], $29::int[], $30::text[], $31::bigint[],
  $32::bigint[], $33::int[], $34::int[], $35::int[])
    n (id, batch, lo, hi, queue, rank, due, size, gaps, hold)
  CROSS JOIN LATERAL (SELECT n.hold = 1 AND EXISTS (SELECT FROM me) AS mine) g),
counts AS (
  INSERT INTO rota.stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
  SELECT c.queue, 0, c.submitted, 0, 0, 0, 0, 0, 0
  FROM unnest($36::text[], $37::bigint[]) c (queue, submitted)),
changed AS (
  INSERT INTO rota.history_change (body) SELECT $38::bytea WHERE $38::bytea IS NOT NULL)
SELECT now, EXISTS (SELECT FROM me) FROM clock`

// queries inserts what is loaded.
func (l *loading) queries(d *database, sub *store.Submission, into func(row) error) []query {
	var ids, ranks, dues, created, spans []int64
	var queues, origins []string
	var existing [][]byte
	for i := range l.made {
		b := l.made[i].batch
		ids = append(ids, b.ID)
		queues = append(queues, b.Queue)
		ranks = append(ranks, b.Rank)
		dues = append(dues, b.Due)
		created = append(created, b.Created)
		origins = append(origins, b.Origin)
		spans = append(spans, l.made[i].span)
		existing = append(existing, store.EncodeExisting(l.made[i].existing))
	}
	names := slices.Sorted(maps.Keys(l.count))
	var counts []int64
	for _, q := range names {
		counts = append(counts, l.count[q])
	}
	var holder store.Holder
	if l.held {
		holder = sub.Holder
	}
	var first rowColumns
	if len(l.packs.chunks) > 0 {
		first = l.packs.chunks[0]
	}
	p := &l.spans
	list := append(newQueues(sub.NewQueues),
		ask(insertSubmission, into, append(first.args(), d.clock(), holder.Node, holder.Token,
			ids, queues, ranks, dues, created, origins, spans,
			p.id, p.batch, p.lo, p.hi, p.queue, p.rank, p.due, p.size, p.gaps, p.hold, names,
			counts, l.since.Encode(), existing)...))
	return slices.Concat(list, l.packs.rest(), l.blobs.queries(), l.looks.queries(),
		l.child.queries(), l.after.queries(d.clock()))
}

const insertBlobs = `INSERT INTO rota.blob (batch, n, name) SELECT *
FROM unnest($1::bigint[], $2::int[], $3::text[]) b (batch, n, name)
ORDER BY batch, n, name ON CONFLICT DO NOTHING`

// queries remembers which tasks the blobs belong to.
func (c *blobColumns) queries() []query {
	if len(c.batch) == 0 {
		return nil
	}
	return []query{tell(insertBlobs, c.batch, c.n, c.name)}
}
