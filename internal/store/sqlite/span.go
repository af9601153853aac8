package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// spanCalls moves tasks in runs: it inserts them, hands them to nodes and takes them back. Its
// tables are batch, pack, keyed, task_key and span; of running, which a hand-out's begin fills and
// its end empties, it writes down what runs on (Sync, Give). Within which time tasks are to begin
// (table expiry) and who has a unique key (table unique_key) is looked after here, too.
type spanCalls struct {
	*database
	values *valueCalls

	stuck toLook // behind which TakeExpired looks next; owned by the writer
}

// spanReads reads spans, and the tasks in them as their holder needs them.
type spanReads struct{ *conn }

func (c *conn) spans() spanReads { return spanReads{c} }

// spanWrites makes spans, gives them holders and takes them away.
type spanWrites struct{ *tx }

func (t *tx) spans() spanWrites { return spanWrites{t} }

// spanColumns are what scanSpan reads.
const spanColumns = `id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths, key,
linked`

func scanSpan(st *sqlite.Stmt) store.Span {
	return store.Span{
		ID: st.ColumnInt64(0), Batch: st.ColumnInt64(1), Lo: st.ColumnInt32(2),
		Hi: st.ColumnInt32(3), Seq0: st.ColumnInt32(4),
		Queue: st.ColumnText(5), Rank: st.ColumnInt64(6), Due: st.ColumnInt64(7),
		Holder: store.Holder{Node: st.ColumnText(8), Token: st.ColumnInt64(9)},
		Token:  st.ColumnInt64(10), Deaths: st.ColumnInt32(11),
		Key: st.ColumnText(12), Sorted: st.ColumnType(12) != sqlite.TypeNull,
		Linked: store.Links(st.ColumnInt(13)),
	}
}

// width is how many numbers a span has.
func width(sp *store.Span) int { return int(sp.Hi-sp.Lo) + 1 }

// Take makes a holder hold ready spans. See contract.Spans.
func (s *spanCalls) Take(ctx context.Context, r store.TakeRequest) (store.Taken, error) {
	var answer store.Taken
	err := s.write(ctx, func(t *tx) (err error) {
		answer, err = t.spans().take(r)
		return err
	})
	if err != nil {
		return store.Taken{}, fmt.Errorf("take from queue %q: %w", r.Queue, err)
	}
	return answer, nil
}

// readySpans: due follows from rank only where priorities differ, so both are asked; rank ends the
// search before the sleepers. Those with keys are left from a time in which their queue went by
// keys.
const (
	readySpans = `SELECT ` + spanColumns + `, size, gaps FROM span INDEXED BY span_ready
WHERE holder IS NULL AND key IS NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2
ORDER BY rank, id LIMIT ?3`
	sortedSpans = `SELECT ` + spanColumns + `, size, gaps FROM span INDEXED BY span_sorted
WHERE holder IS NULL AND key IS NOT NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2
ORDER BY rank, id LIMIT ?3`
	nextRank = `SELECT min(rank) FROM (
SELECT * FROM (SELECT rank FROM span INDEXED BY span_ready WHERE holder IS NULL AND key IS NULL
  AND queue = ?1 AND rank <= ?2 AND due <= ?2 ORDER BY rank, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT rank FROM span INDEXED BY span_sorted WHERE holder IS NULL
  AND key IS NOT NULL AND queue = ?1 AND rank <= ?2 AND due <= ?2 ORDER BY rank, id LIMIT 1))
HAVING count(*) > 0`
	nextDue = `SELECT due FROM span INDEXED BY span_due WHERE holder IS NULL AND queue = ?
AND due > ? AND due < ` + never + ` ORDER BY due LIMIT 1`
	queuePause = `SELECT 1 FROM queue WHERE name = ? AND paused`
	holdSpan   = `UPDATE span SET holder = ?, htok = ?, token = token + 1 WHERE id = ?`
)

func (t spanWrites) take(r store.TakeRequest) (store.Taken, error) {
	answer := store.Taken{Now: t.now}
	lives, err := t.leases().lives(r.Holder)
	if err != nil || !lives {
		answer.LeaseGone = !lives
		return answer, err
	}
	if paused, err := t.has(queuePause, r.Queue); err != nil || paused {
		return answer, err
	}
	if r.Keys != nil {
		return t.takeByKey(r)
	}
	return t.takeByRank(r)
}

// takeByRank takes the first tasks of a queue, whatever keys they have.
func (t spanWrites) takeByRank(r store.TakeRequest) (store.Taken, error) {
	answer := store.Taken{Now: t.now}
	list, err := t.ready(readySpans, r)
	if err != nil {
		return answer, err
	}
	sorted, err := t.ready(sortedSpans, r)
	if err != nil {
		return answer, err
	}
	if len(sorted) > 0 {
		list = append(list, sorted...)
		slices.SortFunc(list, func(a, b free) int {
			return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
		})
	}
	left := r.Limit
	for i := range list {
		sp := &list[i].Span
		if left <= 0 {
			break
		}
		if width(sp) > left {
			err = t.split(sp, list[i].size, list[i].gaps, left, r.Holder)
		} else {
			_, err = t.exec(holdSpan, r.Holder.Node, r.Holder.Token, sp.ID)
		}
		if err != nil {
			return answer, err
		}
		left -= width(sp)
		sp.Holder = r.Holder
		sp.Token++
		tasks, err := t.conn.spans().load(sp)
		if err != nil {
			return answer, err
		}
		answer.Spans = append(answer.Spans, store.HeldSpan{Span: *sp, Tasks: tasks})
	}
	if left <= 0 {
		answer.More, err = t.one(nextRank, func(st *sqlite.Stmt) {
			answer.NextRank = st.ColumnInt64(0)
		}, r.Queue, t.now)
		if err != nil {
			return answer, err
		}
	}
	_, err = t.one(nextDue, func(st *sqlite.Stmt) {
		answer.NextDue = st.ColumnInt64(0)
	}, r.Queue, t.now)
	return answer, err
}

// free is a free span, with what splitting it needs to know.
type free struct {
	store.Span
	size int
	gaps bool
}

// ready lists ready spans by rank, as many as have the tasks that a take asks for.
func (t spanWrites) ready(query string, r store.TakeRequest) (list []free, err error) {
	left := r.Limit
	err = t.each(query, func(st *sqlite.Stmt) bool {
		f := free{scanSpan(st), st.ColumnInt(14), st.ColumnBool(15)}
		list = append(list, f)
		left -= width(&f.Span)
		return left > 0
	}, r.Queue, t.now, max(r.Limit, 0))
	return list, err
}

// Ready says which queues have ready spans that nobody holds. See contract.Spans.
func (s *spanCalls) Ready(ctx context.Context, queues []string) (list []store.Ready, err error) {
	err = s.read(ctx, func(c *conn) error {
		now := s.clock()
		list = nil
		for _, queue := range queues {
			paused, err := c.has(queuePause, queue)
			if err != nil {
				return err
			}
			if paused {
				continue
			}
			_, err = c.one(nextRank, func(st *sqlite.Stmt) {
				list = append(list, store.Ready{Queue: queue, Rank: st.ColumnInt64(0)})
			}, queue, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look which of %d queues have ready tasks: %w", len(queues), err)
	}
	return list, nil
}

const cutSpan = `UPDATE span SET lo = ?, size = ? WHERE id = ?`

// split takes the first n numbers of a span into a new one, which sp then is. The free rest keeps
// its row, so that another taker that waits for the row finds something.
func (t spanWrites) split(sp *store.Span, size int, gaps bool, n int, h store.Holder) error {
	rest, whole := sp.ID, size == width(sp)
	sp.Hi = sp.Lo + int32(n) - 1
	taken := n
	if gaps || !whole {
		// Some numbers may be no tasks, and some tasks may have left the span.
		taken = 0
		if err := t.members().members(sp.Batch, sp.Lo, sp.Hi, brief, func(s *member) bool {
			if s.Base == sp.Seq0 {
				taken++
			}
			return true
		}); err != nil {
			return err
		}
	}
	if _, err := t.exec(cutSpan, sp.Hi+1, max(size-taken, 0), rest); err != nil {
		return err
	}
	held := *sp
	held.Holder = h
	held.Token++
	var err error
	sp.ID, err = t.insertSpan(held, taken, gaps)
	return err
}

const (
	headStartOf = `SELECT due - rank FROM batch WHERE id = ?`
	// contextAt also says who wrote it. What an edit wrote is as good as submitted.
	contextAt = `SELECT context, iif(kind = 14, '', coalesce(worker, '?')) FROM step
WHERE batch = ? AND n = ? AND seq = ?`
)

// load reads the tasks that belong to a span: their newest outcome's base is its seq0.
func (c spanReads) load(sp *store.Span) ([]store.Loaded, error) {
	headStart := sp.Due - sp.Rank
	if sp.Seq0 > 0 { // it has a rank of its own
		if _, err := c.one(headStartOf, func(st *sqlite.Stmt) {
			headStart = st.ColumnInt64(0)
		}, sp.Batch); err != nil {
			return nil, err
		}
	}
	tasks := make([]store.Loaded, 0, min(width(sp), loadedAtOnce))
	limited := false
	err := c.members().members(sp.Batch, sp.Lo, sp.Hi, brief, func(s *member) bool {
		if s.Base == sp.Seq0 {
			tasks = append(tasks, s.loaded(headStart))
			limited = limited || s.within() != 0
		}
		return true
	})
	if err == nil && limited {
		err = c.expiries().loadLimits(sp.Batch, tasks)
	}
	if err == nil && sp.Seq0 > 0 { // who is edited moves into a span of its own
		err = c.loadOverrides(sp, tasks)
	}
	if err == nil && sp.Linked&store.LinkWoken != 0 {
		err = c.waits().noteWoken(sp.Batch, tasks)
	}
	if err == nil {
		err = c.waits().notePrior(sp.Batch, tasks)
	}
	for i := range tasks {
		l := &tasks[i]
		if err != nil || l.ContextSeq < 0 {
			continue
		}
		_, err = c.one(contextAt, func(st *sqlite.Stmt) {
			l.Context, l.ContextBy = bytesOf(st, 0), st.ColumnText(1)
		}, sp.Batch, l.N, l.ContextSeq)
	}
	if err == nil {
		err = c.uniqueKeys().noteUnique(sp.Batch, tasks)
	}
	if err == nil {
		err = c.children().noteParent(sp.Batch, tasks)
	}
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	return tasks, c.addRunning(sp.Batch, sp.Lo, sp.Hi, tasks)
}

// loadOverrides makes tasks what edits made of them.
func (c spanReads) loadOverrides(sp *store.Span, tasks []store.Loaded) error {
	for i := range tasks {
		l := &tasks[i]
		o, found, err := c.facts().override(task.ID{Batch: sp.Batch, N: l.N})
		if err != nil {
			return err
		}
		if found {
			if l.HeadStart, l.MaxAttempts = o.HeadStart, o.MaxAttempts; o.Meta != nil {
				l.Meta = *o.Meta
			}
			if o.seq == l.Seq-1 {
				l.Expires = o.Expires
			}
		}
	}
	return nil
}

// loadedAtOnce is for how many tasks of a span room is made before they are read: most of a wide
// one may be over.
const loadedAtOnce = 1024

// loaded is the task as its holder reads it, with the context that it was submitted with.
func (s *member) loaded(headStart int64) store.Loaded {
	return store.Loaded{
		N: s.N, Standing: progress.Standing{
			Stage: s.stage(), Seq: s.Seq + 1, Attempt: s.Attempt, Base: s.Base,
		},
		Context: s.Context, ContextSeq: s.ContextSeq, MaxAttempts: s.MaxAttempts,
		Timeout: s.Timeout, Meta: s.Meta, Due: s.outcome.Due, HeadStart: headStart,
		Expires: s.within(),
	}
}

const runningIn = `SELECT batch, n, seq, span, token, worker, incarnation, started, until
FROM running WHERE batch = ? AND n BETWEEN ? AND ? ORDER BY n`

func scanRunning(st *sqlite.Stmt) store.Running {
	return store.Running{
		ID: task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}, Seq: st.ColumnInt32(2),
		Span: st.ColumnInt64(3), Token: st.ColumnInt64(4),
		Worker: st.ColumnText(5), Incarnation: st.ColumnText(6), Started: st.ColumnInt64(7),
		Until: st.ColumnInt64(8),
	}
}

// addRunning adds to tasks, ascending in N, the running rows at their next seqs.
func (c spanReads) addRunning(batch int64, lo, hi int32, tasks []store.Loaded) error {
	i := 0
	return c.each(runningIn, func(st *sqlite.Stmt) bool {
		r := scanRunning(st)
		for i < len(tasks) && tasks[i].N < r.ID.N {
			i++
		}
		if i < len(tasks) && tasks[i].N == r.ID.N && tasks[i].Seq == r.Seq {
			tasks[i].Running = &r
			tasks[i].Expires = 0 // it is begun
		}
		return i < len(tasks)
	}, batch, lo, hi)
}

const (
	freeSpan = `UPDATE span SET holder = NULL, htok = 0 WHERE id = ?1 AND token = ?2
AND holder = ?3 AND htok = ?4`
	freeSpanFor = `UPDATE span SET holder = NULL, htok = 0, rank = ?5, due = ?6 WHERE id = ?1
AND token = ?2 AND holder = ?3 AND htok = ?4`
)

// Give gives spans back. See contract.Spans.
func (s *spanCalls) Give(ctx context.Context, g store.GiveRequest) error {
	err := s.write(ctx, func(t *tx) error {
		if lives, err := t.leases().lives(g.Holder); err != nil || !lives {
			return err
		}
		if _, err := t.spans().writeDown(g.Holder, g.Running); err != nil {
			return err
		}
		for i, taking := range g.Spans {
			statement, args := freeSpan,
				[]any{taking.Span, taking.Token, g.Holder.Node, g.Holder.Token}
			if len(g.Orders) > 0 {
				statement, args = freeSpanFor, append(args, g.Orders[i].Rank, g.Orders[i].Due)
			}
			if _, err := t.exec(statement, args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("give %d spans back: %w", len(g.Spans), err)
	}
	return nil
}

const (
	heldRest = `SELECT ` + spanColumns + `, size, gaps FROM span WHERE id = ? AND token = ?
AND holder = ? AND htok = ?`
	endSpan = `UPDATE span SET hi = ?, size = ? WHERE id = ?`
)

// GiveRest gives the rests of spans back. See contract.Spans.
func (s *spanCalls) GiveRest(ctx context.Context, r store.RestRequest) (given []bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		given = make([]bool, len(r.Rests))
		if lives, err := t.leases().lives(r.Holder); err != nil || !lives {
			return err
		}
		for i := range r.Rests {
			var err error
			if given[i], err = t.spans().giveRest(r.Holder, &r.Rests[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("give the rests of %d spans back: %w", len(r.Rests), err)
	}
	return given, nil
}

// giveRest gives the rest of a span back, if it is the holder's. How many tasks either part has is
// not exact, as it was held.
func (t spanWrites) giveRest(h store.Holder, x *store.Rest) (given bool, err error) {
	var f free
	found, err := t.one(heldRest, func(st *sqlite.Stmt) {
		f = free{scanSpan(st), st.ColumnInt(14), st.ColumnBool(15)}
	}, x.Span, x.Token, h.Node, h.Token)
	if err != nil || !found || f.Lo >= x.From || f.Hi < x.From-1 {
		return false, err
	}
	if f.Hi < x.From { // given back already
		return true, nil
	}
	kept, rest := f.Span, f.Span
	kept.Hi = x.From - 1
	rest.Lo, rest.Holder, rest.Rank, rest.Due = x.From, store.Holder{}, x.Rank, x.Due
	if _, err := t.exec(endSpan, kept.Hi, min(f.size, width(&kept)), kept.ID); err != nil {
		return false, err
	}
	_, err = t.insertSpan(rest, min(f.size, width(&rest)), f.gaps)
	return true, err
}

const heldSpans = `SELECT ` + spanColumns + ` FROM span WHERE holder = ? AND htok = ?`

// Held answers the spans that h holds beyond the known ones. See contract.Spans.
func (s *spanCalls) Held(
	ctx context.Context, h store.Holder, known []int64,
) ([]store.HeldSpan, error) {
	skip := make(map[int64]struct{}, len(known))
	for _, id := range known {
		skip[id] = struct{}{}
	}
	var list []store.HeldSpan
	err := s.read(ctx, func(c *conn) error {
		err := c.each(heldSpans, func(st *sqlite.Stmt) bool {
			if _, ok := skip[st.ColumnInt64(0)]; !ok {
				list = append(list, store.HeldSpan{Span: scanSpan(st)})
			}
			return true
		}, h.Node, h.Token)
		for i := range list {
			if err == nil {
				list[i].Tasks, err = c.spans().load(&list[i].Span)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read spans of node %q: %w", h.Node, err)
	}
	return list, nil
}
