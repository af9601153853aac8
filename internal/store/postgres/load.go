package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

// The tasks of spans are read as they were submitted, pack by pack, and then what their newest
// steps made of them: most spans are taken before any of their tasks has a step, and spans without
// steps cost one look each.
const (
	freshPacks = `SELECT w.i::int, p.batch, p.first, least(p.lo | 63, w.hi), p.has, p.stage,
p.stages[p.a:p.z], p.contexts[p.a:p.z], p.max_attempts[p.a:p.z], p.timeouts[p.a:p.z],
p.metas[p.a:p.z], p.withins[p.a:p.z],
CASE WHEN p.withins IS NOT NULL THEN (SELECT due FROM rota.batch WHERE id = p.batch) END
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, lo, hi, i)
CROSS JOIN LATERAL (SELECT *, greatest(lo, w.lo) AS first, greatest(w.lo - lo + 1, 1) AS a,
  w.hi - lo + 1 AS z FROM rota.pack WHERE batch = w.batch AND lo BETWEEN (w.lo & -64) AND w.hi
  OFFSET 0) p`

	newestSteps = `SELECT w.i::int, t.n, p.seq, coalesce(p.stage, p.ran), p.attempt, p.base,
coalesce(p.context_seq, -1), coalesce(p.due, 0), c.context,
  ` + writerOf + `
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, lo, hi, i)
CROSS JOIN LATERAL (SELECT FROM rota.step WHERE batch = w.batch AND n BETWEEN w.lo AND w.hi
LIMIT 1) any_step
CROSS JOIN LATERAL rota.tasks(w.batch, w.lo, w.hi) t
CROSS JOIN LATERAL (SELECT * FROM rota.step WHERE batch = t.batch AND n = t.n ORDER BY seq DESC
LIMIT 1) p
LEFT JOIN rota.step c ON c.batch = t.batch AND c.n = t.n AND c.seq = p.context_seq`

	// marksIn are those of spans: what has a bit, and no step, is done.
	marksIn = `SELECT w.i::int, m.lo, m.bits
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, lo, hi, i)
CROSS JOIN LATERAL (SELECT lo, bits FROM rota.mark WHERE batch = w.batch
AND lo BETWEEN (w.lo & -64) AND w.hi OFFSET 0) m`

	runningOf = `SELECT w.i::int, u.batch, u.n, u.seq, u.span, u.token, u.worker, u.incarnation,
u.started, u.until
FROM unnest($1::bigint[], $2::int[], $3::int[]) WITH ORDINALITY w (batch, lo, hi, i)
CROSS JOIN LATERAL (SELECT * FROM rota.running WHERE batch = w.batch AND n BETWEEN w.lo
AND w.hi OFFSET 0) u`
)

// load reads the tasks that belong to spans: their newest step's base is the span's seq0.
func load(ctx context.Context, r runner, spans []store.Span) ([]store.HeldSpan, error) {
	l := loadedSpans{held: make([]store.HeldSpan, len(spans))}
	for i := range spans {
		l.held[i].Span = spans[i]
		l.held[i].Tasks = make([]store.Loaded, 0, width(&spans[i]))
		l.batches = append(l.batches, spans[i].Batch)
		l.los = append(l.los, spans[i].Lo)
		l.his = append(l.his, spans[i].Hi)
	}
	parents := map[int64]task.ID{}
	err := r.run(ctx, append(askParents(l.batches, parents),
		l.askPacks(), l.askSteps(), l.askMarks(), l.askRunning(), l.askUniques())...)
	if err != nil {
		return nil, err
	}
	for i := range l.held {
		h := &l.held[i]
		h.Tasks = own(h.Tasks, h.Seq0)
		if parent, child := parents[h.Batch]; child {
			for j := range h.Tasks {
				h.Tasks[j].Parent = parent
			}
		}
	}
	return l.held, headStarts(ctx, r, l.held)
}

// loadedSpans are spans with what was read of their tasks so far. Its queries follow one another:
// askPacks finds the tasks, and each of the others adds what it knows of them. An i in a row is the
// number of the span, from 1.
type loadedSpans struct {
	held     []store.HeldSpan
	batches  []int64 // of each span
	los, his []int32
}

func (l *loadedSpans) ask(text string, each func(row) error) query {
	return ask(text, each, l.batches, l.los, l.his)
}

// task is the task with a number in a span; nil when it has none.
func (l *loadedSpans) task(i int, n int32) *store.Loaded {
	list := l.held[i-1].Tasks
	at, found := search(list, n)
	if !found {
		return nil
	}
	return &list[at]
}

// askPacks reads the tasks as they were submitted. They come in the order of their numbers, but
// nothing says so: they are sorted when they do not.
func (l *loadedSpans) askPacks() query {
	return l.ask(freshPacks, func(r row) error {
		var i int
		var p loadedPack
		if err := p.scan(r, &i); err != nil {
			return err
		}
		h := &l.held[i-1]
		for t := range p.tasks() {
			h.Tasks = insert(h.Tasks, t)
		}
		return nil
	})
}

// askSteps reads what the newest steps made of tasks.
func (l *loadedSpans) askSteps() query {
	return l.ask(newestSteps, func(r row) error {
		var i int
		var n, last int32
		var s progress.Standing
		var is store.Loaded
		if err := r.Scan(&i, &n, &last, &s.Stage, &s.Attempt, &s.Base, &is.ContextSeq, &is.Due,
			&is.Context, &is.ContextBy); err != nil {
			return err
		}
		if t := l.task(i, n); t != nil {
			s.Seq = last + 1
			t.Standing, t.Due, t.Expires = s, is.Due, 0
			if t.ContextSeq = is.ContextSeq; is.ContextSeq >= 0 {
				t.Context, t.ContextBy = is.Context, is.ContextBy
			}
		}
		return nil
	})
}

// askMarks reads which tasks without a step are done.
func (l *loadedSpans) askMarks() query {
	return l.ask(marksIn, func(r row) error {
		var i int
		var lo int32
		var bits int64
		if err := r.Scan(&i, &lo, &bits); err != nil {
			return err
		}
		for n := range pack.Bits(bits).Numbers(lo) {
			if t := l.task(i, n); t != nil && t.Seq == 0 {
				t.Base = store.Final
			}
		}
		return nil
	})
}

// askRunning reads the hand-outs of tasks that run.
func (l *loadedSpans) askRunning() query {
	return l.ask(runningOf, func(r row) error {
		var i int
		var u store.Running
		if err := scanRunning(r, &u, &i); err != nil {
			return err
		}
		if t := l.task(i, u.ID.N); t != nil && t.Seq == u.Seq {
			t.Running, t.Expires = &u, 0
		}
		return nil
	})
}

// askUniques reads which tasks have a unique key.
func (l *loadedSpans) askUniques() query {
	return l.ask(uniquesIn, func(r row) error {
		var i int
		var n int32
		if err := r.Scan(&i, &n); err != nil {
			return err
		}
		if t := l.task(i, n); t != nil {
			t.Unique = true
		}
		return nil
	})
}

// headStartOf also says what edits made of tasks: who is edited moves into a span of its own.
const headStartOf = `SELECT w.i::int, coalesce(e.head_start, b.due - b.rank), e.max_attempts,
  coalesce(e.expires, 0), coalesce(e.seq, -1), e.meta
FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY w (batch, n, i)
JOIN rota.batch b ON b.id = w.batch
LEFT JOIN LATERAL (SELECT head_start, max_attempts, expires, seq, meta FROM rota.edit
  WHERE batch = w.batch AND n = w.n
ORDER BY seq DESC LIMIT 1) e ON true`

// headStarts says what the tasks' priorities are. A task that moved into a span of its own has a
// rank of its own, too: then its batch tells, or the newest edit, which may have given it another
// number of attempts as well. In the same trip it reads what woke tasks, and what they have waited
// for.
func headStarts(ctx context.Context, r runner, held []store.HeldSpan) error {
	var moved []*store.Loaded
	var ids []task.ID
	var w waking
	var after priors
	for i := range held {
		h := &held[i]
		for j := range h.Tasks {
			l := &h.Tasks[j]
			if l.HeadStart = h.Due - h.Rank; h.Seq0 > 0 {
				moved = append(moved, l)
				ids = append(ids, task.ID{Batch: h.Batch, N: l.N})
			}
			w.add(h.Batch, h.Linked, l)
			after.add(h.Batch, l)
		}
	}
	if len(moved) == 0 && len(after.ids) == 0 {
		return nil
	}
	batches, ns := idColumns(ids)
	queries := append(w.queries(), after.queries()...)
	err := r.run(ctx, append(queries, ask(headStartOf, func(r row) error {
		var i int
		var start, expires int64
		var attempts *int32
		var seq int32
		var meta *string
		if err := r.Scan(&i, &start, &attempts, &expires, &seq, &meta); err != nil {
			return err
		}
		l := moved[i-1]
		if seq == l.Seq-1 && l.Running == nil {
			l.Expires = expires
		}
		if l.HeadStart = start; attempts != nil {
			l.MaxAttempts = *attempts
		}
		if meta != nil {
			l.Meta = store.Meta(*meta)
		}
		return nil
	}, batches, ns))...)
	if err == nil {
		err = after.finish(ctx, r)
	}
	return err
}

func scanRunning(r row, u *store.Running, first ...any) error {
	return r.Scan(append(first, &u.ID.Batch, &u.ID.N, &u.Seq, &u.Span, &u.Token, &u.Worker,
		&u.Incarnation, &u.Started, &u.Until)...)
}

// own keeps the tasks that belong to a span with a seq0.
func own(tasks []store.Loaded, seq0 int32) []store.Loaded {
	kept := tasks[:0]
	for i := range tasks {
		if tasks[i].Base == seq0 {
			kept = append(kept, tasks[i])
		}
	}
	clear(tasks[len(kept):])
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// insert puts a task into its place among others; at the end, as a rule.
func insert(list []store.Loaded, l store.Loaded) []store.Loaded {
	if len(list) == 0 || list[len(list)-1].N < l.N {
		return append(list, l)
	}
	at, _ := search(list, l.N)
	return slices.Insert(list, at, l)
}

// search finds a number among tasks in its order.
func search(list []store.Loaded, n int32) (at int, found bool) {
	return slices.BinarySearchFunc(list, n, func(l store.Loaded, n int32) int {
		return cmp.Compare(l.N, n)
	})
}
