package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// A list walks candidates, newest first; see package listing. Which table gives the candidates
// depends on the filter, so that a rare state is not looked for among millions of others:
//
//	key               the table of keys
//	dead, cancelled,  the index on final steps that are not done
//	expired
//	running           running rows, and what the filter's memory knows
//	blocked           what tasks wait for
//	waiting, ready    the tasks of spans that may have some
//	a worker          the steps and marks of all tasks, running rows, and what the filter's memory
//	                  knows
//	else              the tasks of batches that the filter selects
//
// Each of these statements reads some rows below ($1, $2), down to the batch $3, and says of each
// whether its task may be selected: first by the row itself, which $4 is for, then by what it is
// compared with ($5 to $11).
var (
	byKey = candidates(`true`, `SELECT batch, n FROM rota.keyed
WHERE key = $4::text AND (batch, n) < ($1::bigint, $2::int) AND batch >= $3::bigint
ORDER BY batch DESC, n DESC LIMIT <rows>`)

	byFinal = candidates(`kind <> 12 AND CASE WHEN kind IN (9, 13) THEN kind ELSE 0 END = $4::int`,
		`SELECT batch, n, kind
FROM rota.step
WHERE base = -1 AND kind <> 1 AND (batch, n) < ($1::bigint, $2::int) AND batch >= $3::bigint
ORDER BY batch DESC, n DESC LIMIT <rows>`)

	byRunning = candidates(`($4::text = '' OR worker = $4)`, `SELECT batch, n, worker
FROM rota.running
WHERE (batch, n) < ($1::bigint, $2::int) AND batch >= $3::bigint ORDER BY batch DESC, n DESC
LIMIT <rows>`)

	byWait = candidates(`true`, `SELECT batch, n FROM rota.wait
WHERE (batch, n) < ($1::bigint, $2::int) AND batch >= $3::bigint AND $4::text IS NULL
ORDER BY batch DESC, n DESC LIMIT <rows>`)

	byWorker = candidates(`coalesce(worker = $4::text, false)`, `SELECT batch, n, worker
FROM rota.step
WHERE (batch, n) < ($1::bigint, $2::int) AND batch >= $3::bigint
ORDER BY batch DESC, n DESC, seq DESC LIMIT <rows>`)

	inStretches = candidates(`true`, `SELECT t.batch, t.n
FROM unnest($1::bigint[], $2::int[], $3::int[]) w (batch, lo, hi)
CROSS JOIN LATERAL (SELECT p.batch, i.n FROM rota.pack p
  CROSS JOIN LATERAL generate_series(greatest(p.lo, w.lo), least(p.lo | 63, w.hi)) i (n)
  WHERE p.batch = w.batch AND p.lo BETWEEN (w.lo & -64) AND w.hi AND p.has >> (i.n & 63) & 1 = 1
  AND $4::text IS NULL ORDER BY p.lo DESC, i.n DESC LIMIT <rows>) t`)
)

// compared compares tasks with a filter without reading them whole: $5 queue, $6 and $7 since and
// until, $8 stage, $9 class, $10 a worker that one of its steps names, or perhaps its mark: that of
// a pack has the names of all who worked in it; $11 a meta. What the filter does not say is not
// looked up.
const compared = ` FROM c
LEFT JOIN LATERAL (SELECT queue, created FROM rota.batch WHERE id = c.batch
AND c.mine OFFSET 0) b ON true
LEFT JOIN LATERAL (SELECT stage, meta FROM rota.task(c.batch, c.n) WHERE c.mine
AND ($8::text <> '' OR $11::text <> '') OFFSET 0) t ON true
LEFT JOIN LATERAL (SELECT meta FROM rota.edit WHERE batch = c.batch AND n = c.n AND c.mine
  AND $11 <> '' ORDER BY seq DESC LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT coalesce(stage, ran) AS stage, base, kind FROM rota.step
  WHERE batch = c.batch AND n = c.n AND c.mine AND ($8 <> '' OR $9::int <> 0) ORDER BY seq DESC
  LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT position(convert_to($10::text, 'UTF8') in body) > 0 AS names
  FROM rota.mark WHERE batch = c.batch AND lo = (c.n & -64) AND (bits >> (c.n & 63)) & 1 = 1
  AND c.mine AND ($10 <> '' OR $9 <> 0)) m ON true
LEFT JOIN LATERAL (SELECT 1 AS one FROM rota.step
  WHERE batch = c.batch AND n = c.n AND c.mine AND $10 <> '' AND worker = $10
  LIMIT 1) w ON true`

const selected = `c.mine AND ($5::text = '' OR b.queue = $5) AND b.created >= $6::bigint AND ($7::bigint = 0 OR b.created < $7)
AND ($8 = '' OR coalesce(p.stage, t.stage) = $8) AND ($10 = '' OR w.one IS NOT NULL OR m.names)
AND CASE WHEN $11 <> '' THEN nullif(coalesce(e.meta, t.meta), '')::jsonb @> $11::jsonb ELSE true END
AND CASE $9 WHEN 1 THEN CASE WHEN p.base IS NULL THEN m.names IS NOT NULL ELSE p.base = -1
AND p.kind = 1 END WHEN 2 THEN CASE WHEN p.base IS NULL THEN m.names IS NULL ELSE p.base <> -1 END ELSE true END`

// A statement says in its text how many rows it reads at most: of a number that comes with each
// call the planner would think that it is a tenth of the table, and read all of it. few is enough
// for a page of a filter that selects much.
const (
	few  = 100
	many = 1000
)

// scan is a statement that reads candidates, by how many of them and by whether they are compared
// with the filter.
type scan struct{ few, many, fewCompared, manyCompared string }

func candidates(mine, from string) scan {
	read := `WITH c AS MATERIALIZED (SELECT batch, n, ` + mine + ` AS mine FROM (` + from + `) r) `
	plain := read + `SELECT batch, n, mine FROM c`
	comparing := read + `SELECT c.batch, c.n, coalesce(` + selected + `, false)` + compared
	return scan{
		sized(plain, few), sized(plain, many), sized(comparing, few), sized(comparing, many),
	}
}

// sized is a statement that reads at most so many rows.
func sized(text string, size int) string {
	return strings.ReplaceAll(text, "<rows>", strconv.Itoa(size))
}

const (
	batchesBelow = `WITH h AS MATERIALIZED (SELECT id, queue, created FROM rota.batch
WHERE id < $1::bigint AND id >= $2::bigint ORDER BY id DESC LIMIT <rows>)
SELECT h.id, p.lo, p.has FROM h LEFT JOIN LATERAL (SELECT lo, has FROM rota.pack WHERE batch = h.id
AND ($3::text = '' OR h.queue = $3)
  AND h.created >= $4::bigint AND ($5::bigint = 0 OR h.created < $5) ORDER BY lo DESC
  LIMIT 1) p ON true`

	spansBelow = `SELECT batch FROM rota.span WHERE batch < $1::bigint AND batch >= $2::bigint
ORDER BY batch DESC LIMIT <rows>`

	// spansThat may have tasks that are waiting ($3) or ready. Of one that nobody ever held and
	// whose tasks have no steps, its time says where its tasks stand; before its time no task of a
	// span is ready. Those of one that is parked are neither.
	spansThat = `SELECT batch, lo, hi FROM rota.span WHERE batch < $1::bigint
AND batch >= $2::bigint
AND CASE WHEN $3::boolean THEN (due > $4::bigint OR token > 0 OR seq0 > 0) AND due < ` + never + `
  ELSE due <= $4 END
AND ($5::text = '' OR queue = $5)`
)

var (
	fewBatches, manyBatches = sized(batchesBelow, few), sized(batchesBelow, many)
	fewSpans, manySpans     = sized(spansBelow, few), sized(spansBelow, many)
)

// list reads for one page.
type list struct {
	runner
	store.Filter
	now    int64
	bottom int64
	ranges listing.Stretches
}

// Tasks lists the tasks that a filter selects, newest first. See contract.Views.
func (s *views) Tasks(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	err = s.reading(ctx, func(ctx context.Context, r runner) error {
		l := &list{runner: r, Filter: f, bottom: listing.Bottom(f)}
		l.ranges = listing.Stretches{Load: l.batches, Read: l.inStretches}
		if f.State == task.Waiting || f.State == task.Ready {
			l.ranges.Load = l.spans
		}
		err := r.run(ctx, ask(countClock, func(r row) error { return r.Scan(&l.now) }, s.clock()))
		if err == nil {
			page, next, err = listing.Walk(ctx, l, listing.From(f, after), limit,
				s.examined)
		}
		return err
	})
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list tasks: %w", err)
	}
	return page, next, nil
}

// Candidates is that of a listing.Reader.
func (l *list) Candidates(
	ctx context.Context, below task.ID, size int,
) (listing.Candidates, error) {
	switch {
	case l.Key != "":
		return l.along(ctx, &byKey, below, size, l.Key, "")
	case l.State == task.Dead, l.State == task.Cancelled, l.State == task.Expired:
		return l.along(ctx, &byFinal, below, size, int32(listing.FinalKind(l.State)), l.Worker)
	case l.State == task.Blocked:
		return l.along(ctx, &byWait, below, size, nil, l.Worker)
	case l.State == task.Running:
		running, err := l.along(ctx, &byRunning, below, size, l.Worker, "")
		return listing.Merge(listing.Live(l.Filter, below), running), err
	case l.Worker != "" && (l.State == "" || l.State == task.Done):
		running, err := l.along(ctx, &byRunning, below, size, l.Worker, "")
		if err != nil {
			return running, err
		}
		steps, err := l.along(ctx, &byWorker, below, size, l.Worker, "")
		if err != nil {
			return steps, err
		}
		marked, err := l.byMarks(ctx, below, size)
		return listing.Merge(listing.Live(l.Filter, below), running, steps, marked), err
	}
	return l.ranges.Candidates(ctx, below, size)
}

// along reads candidates by one statement. The last one is one, too, when it may have rows that
// were not read.
func (l *list) along(
	ctx context.Context, s *scan, below task.ID, size int, mine any, worker string,
) (listing.Candidates, error) {
	c, read, err := l.scan(ctx, s, size, worker, below.Batch, below.N, l.bottom, mine)
	if read < rowsFor(size) {
		c.End = true
	} else if n := len(c.IDs); n == 0 || c.IDs[n-1] != c.Floor {
		c.IDs = append(c.IDs, c.Floor)
	}
	return c, err
}

// marksBelow reads the marks of packs, newest first, and the bodies of those that a worker may be
// named in.
const marksBelow = `SELECT batch, lo, bits, CASE WHEN position(convert_to($4::text, 'UTF8') in body) > 0
THEN body ELSE '' END
FROM rota.mark WHERE (batch, lo) < ($1::bigint, $2::int) AND batch >= $3::bigint
ORDER BY batch DESC, lo DESC LIMIT <rows>`

// fewMarks are as many as a page may need, by the outcomes in them.
var fewMarks, manyMarks = sized(marksBelow, few/pack.Size+1), sized(marksBelow, many/pack.Size+1)

// byMarks reads the candidates that a worker has according to marks.
func (l *list) byMarks(
	ctx context.Context, below task.ID, size int,
) (c listing.Candidates, err error) {
	text, most := fewMarks, few/pack.Size+1
	if rowsFor(size) == many {
		text, most = manyMarks, many/pack.Size+1
	}
	read := 0
	err = l.run(ctx, ask(text, func(r row) error {
		var m mark
		if err := m.scan(r); err != nil {
			return err
		}
		read++
		c.Cost += pack.Size
		c.Floor = task.ID{Batch: m.batch, N: m.lo}
		return pack.EachDone(m.body, m.lo, func(d *pack.Done) bool {
			id := task.ID{Batch: m.batch, N: d.N}
			if d.Worker == l.Worker && id.Compare(below) < 0 {
				c.IDs = append(c.IDs, id)
			}
			return true
		})
	}, below.Batch, below.N, l.bottom, l.Worker))
	slices.SortFunc(c.IDs, func(a, b task.ID) int { return b.Compare(a) })
	c.End = read < most
	return c, err
}

// rowsFor is how many rows a statement reads that is asked for some.
func rowsFor(size int) int {
	if size <= few {
		return few
	}
	return many
}

// scan reads candidates, and says how many rows it read.
func (l *list) scan(
	ctx context.Context, s *scan, size int, worker string, args ...any,
) (c listing.Candidates, read int, err error) {
	comparing := l.Queue != "" || l.Stage != "" || l.Meta != "" || worker != "" ||
		l.Since != 0 || l.Until != 0 || listing.ClassOf(l.Filter) != listing.Any
	text := s.few
	switch wide := rowsFor(size) == many; {
	case comparing && wide:
		text = s.manyCompared
	case comparing:
		text = s.fewCompared
	case wide:
		text = s.many
	}
	if comparing {
		args = append(args, l.Queue, l.Since, l.Until, l.Stage, int32(listing.ClassOf(l.Filter)),
			worker, string(l.Meta))
	}
	c.Floor = listing.Top
	err = l.run(ctx, ask(text, func(r row) error {
		var id task.ID
		var may bool
		err := r.Scan(&id.Batch, &id.N, &may)
		read++
		if id.Compare(c.Floor) < 0 {
			c.Floor = id
		}
		if may {
			c.IDs = append(c.IDs, id)
		}
		return err
	}, args...))
	slices.SortFunc(c.IDs, func(a, b task.ID) int { return b.Compare(a) })
	c.IDs = slices.Compact(c.IDs)
	c.Cost = read
	if comparing {
		c.Cost *= listing.Compare
	}
	return c, read, err
}

// batches are those that the filter selects, as stretches.
func (l *list) batches(ctx context.Context, bound int64, size int) (w listing.Window, err error) {
	text := fewBatches
	if rowsFor(size) == many {
		text = manyBatches
	}
	err = l.run(ctx, ask(text, func(r row) error {
		var batch int64
		var lo *int32
		var has *int64
		err := r.Scan(&batch, &lo, &has)
		if w.Cost == 0 || batch < w.Floor {
			w.Floor = batch
		}
		w.Cost++
		if lo != nil {
			hi := lastOf(*lo, *has)
			w.Stretches = append(w.Stretches, listing.Stretch{Batch: batch, Hi: hi})
		}
		return err
	}, bound, l.bottom, l.Queue, l.Since, l.Until))
	w.Stretches = listing.Apart(w.Stretches)
	w.End = w.Cost < rowsFor(size)
	return w, err
}

// spans are those that may have tasks in the filter's state, as stretches. A batch's spans are read
// together.
func (l *list) spans(ctx context.Context, bound int64, size int) (w listing.Window, err error) {
	text := fewSpans
	if rowsFor(size) == many {
		text = manySpans
	}
	err = l.run(ctx, ask(text, func(r row) error {
		var batch int64
		err := r.Scan(&batch)
		if w.Cost == 0 || batch < w.Floor {
			w.Floor = batch
		}
		w.Cost++
		return err
	}, bound, l.bottom))
	w.End = w.Cost < rowsFor(size)
	if err != nil || w.Cost == 0 {
		return w, err
	}
	err = l.run(ctx, ask(spansThat, func(r row) error {
		var s listing.Stretch
		err := r.Scan(&s.Batch, &s.Lo, &s.Hi)
		w.Stretches = append(w.Stretches, s)
		return err
	}, bound, w.Floor, l.State == task.Waiting, l.now, l.Queue))
	w.Stretches = listing.Apart(w.Stretches)
	w.Cost += len(w.Stretches)
	return w, err
}

// inStretches reads tasks of stretches: of all but the last all, of the last one the newest.
func (l *list) inStretches(
	ctx context.Context, list []listing.Stretch, size int,
) (listing.Candidates, error) {
	batches, lo, hi := make([]int64, len(list)), make([]int32, len(list)), make([]int32, len(list))
	for i, s := range list {
		batches[i], lo[i], hi[i] = s.Batch, s.Lo, s.Hi
	}
	c, read, err := l.scan(ctx, &inStretches, size, l.Worker, batches, lo, hi, nil)
	if last := list[len(list)-1]; read < rowsFor(size) || c.Floor.Batch != last.Batch {
		c.Floor = task.ID{Batch: last.Batch, N: last.Lo}
	}
	return c, err
}

// Views is that of a listing.Reader.
func (l *list) Views(ctx context.Context, ids []task.ID) ([]task.View, error) {
	found := make([]fact, len(ids))
	if err := l.run(ctx, factsOf(ids, false, found)...); err != nil {
		return nil, err
	}
	views := make([]task.View, len(ids))
	for i, id := range ids {
		f := &found[i]
		if f.ID == (task.ID{}) || f.Removed() {
			continue
		}
		var live *store.Live
		if l, ok := l.Live[id]; ok {
			live = &l
		}
		if v := f.view(l.now, live); listing.Selects(&l.Filter, &v) {
			views[i] = v
		}
	}
	return views, nil
}
