package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/store"
)

const (
	sumStat = `SELECT coalesce(sum(submitted), 0), coalesce(sum(done), 0), coalesce(sum(dead), 0),
coalesce(sum(cancelled), 0), coalesce(sum(expired), 0) FROM stat WHERE queue = ?`

	// allSums are sumStat of all queues that have any; sums are those of the queues named in ?1.
	allSums = `SELECT queue, sum(submitted), sum(done), sum(dead), sum(cancelled), sum(expired)
FROM stat GROUP BY queue`
	sums = `SELECT s.queue, sum(s.submitted), sum(s.done), sum(s.dead), sum(s.cancelled), sum(s.expired)
FROM json_each(?1) q CROSS JOIN stat s ON s.queue = q.value GROUP BY q.id`

	// untouched are the tasks of spans that nobody ever held: which sleep, which are parked, and
	// since when the oldest is due that does neither.
	untouched = `SELECT q.value,
(SELECT coalesce(sum(size), 0) FROM span INDEXED BY span_due WHERE holder IS NULL
  AND queue = q.value AND due > ?2 AND due < ` + never + ` AND token = 0),
(SELECT coalesce(sum(size), 0) FROM span INDEXED BY span_due WHERE holder IS NULL
  AND queue = q.value AND due = ` + never + ` AND token = 0),
(SELECT due FROM span INDEXED BY span_due WHERE holder IS NULL AND queue = q.value
  AND due <= ?2 AND token = 0 AND size > 0 ORDER BY due LIMIT 1)
FROM json_each(?1) q`

	spansFreed = `SELECT ` + spanColumns +
		` FROM span INDEXED BY span_freed WHERE holder IS NULL AND token > 0 AND queue = ?`

	// runningNow counts what runs by its rows: each is one hand-out that is not over.
	runningNow = `SELECT q.value,
(SELECT count(*) FROM running INDEXED BY running_queue WHERE queue = q.value) FROM json_each(?1) q`

	// Spans that somebody holds or held, of the queues named in ?1: those with more than one task,
	// and the tasks of the others that belong to them and don't run: when they may. Tasks that run
	// long stand alone, and there may be many: so they are looked at by one statement.
	manyHeld = `SELECT ` + spanColumns + ` FROM span INDEXED BY span_held
WHERE holder IS NOT NULL AND lo < hi AND queue IN (SELECT value FROM json_each(?1))`
	manyFreed = `SELECT ` + spanColumns + ` FROM span INDEXED BY span_freed
WHERE holder IS NULL AND token > 0 AND lo < hi AND queue IN (SELECT value FROM json_each(?1))`
)

var (
	aloneHeld  = alone(`span s INDEXED BY span_held`, `s.holder IS NOT NULL`)
	aloneFreed = alone(`span s INDEXED BY span_freed`, `s.holder IS NULL AND s.token > 0`)
)

func alone(spans, those string) string {
	return `SELECT s.queue, max(s.due, coalesce(p.due, 0)) FROM ` + spans + `
LEFT JOIN step p ON p.batch = s.batch AND p.n = s.lo
  AND p.seq = (SELECT max(x.seq) FROM step x WHERE x.batch = s.batch AND x.n = s.lo)
WHERE ` + those + ` AND s.lo = s.hi AND s.queue IN (SELECT value FROM json_each(?1))
AND NOT EXISTS (SELECT 1 FROM running r WHERE r.batch = s.batch AND r.n = s.lo)
AND s.seq0 = coalesce(p.base, -` + isMarked("s.batch", "s.lo") + `)
AND (NOT s.gaps OR ` + isTask("s.batch", "s.lo") + `)`
}

// sum adds up what a queue's statistics say.
func (c queueReads) sum(queue string) (d counters.Counters, err error) {
	_, err = c.one(sumStat, func(st *sqlite.Stmt) {
		d = counters.Counters{
			Submitted: st.ColumnInt64(0), Done: st.ColumnInt64(1), Dead: st.ColumnInt64(2),
			Cancelled: st.ColumnInt64(3), Expired: st.ColumnInt64(4),
		}
	}, queue)
	return d, err
}

// Counts counts tasks by state, exactly, without looking at each. What is final and how many are
// not comes from the statistics; who waits among the others from spans. Only the tasks of spans
// that somebody holds or held are looked at one by one: they may be over, be backing off, or run;
// there are no more of them than nodes hold. A queue all of whose tasks are over has no spans.
func (s *viewCalls) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	var list []store.QueueCounts
	err := s.read(ctx, func(c *conn) error {
		names, all := queues, len(queues) == 0
		if all {
			var err error
			if names, err = c.queues().names(); err != nil {
				return err
			}
		}
		k := counting{conn: c, now: s.clock(), by: make(map[string]*store.QueueCounts, len(names))}
		for _, name := range names {
			k.by[name] = &store.QueueCounts{Queue: name}
		}
		if err := k.count(all); err != nil {
			return err
		}
		list = make([]store.QueueCounts, len(names))
		for i, name := range names {
			list[i] = *k.by[name]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count tasks: %w", err)
	}
	return list, nil
}

// counting counts the tasks of queues.
type counting struct {
	*conn
	now int64
	by  map[string]*store.QueueCounts
}

// count asks for all its queues at once: there may be thousands. all says that there are no others.
func (k *counting) count(all bool) error {
	unfinished, err := k.sums(all)
	if err != nil || len(unfinished) == 0 {
		return err
	}
	names, err := json.Marshal(slices.Sorted(maps.Keys(unfinished)))
	if err != nil {
		return err
	}
	if err := k.each(untouched, func(st *sqlite.Stmt) bool {
		q := k.by[st.ColumnText(0)]
		q.Counts.Waiting, q.Counts.Blocked = st.ColumnInt64(1), st.ColumnInt64(2)
		q.OldestReady = st.ColumnInt64(3)
		return true
	}, string(names), k.now); err != nil {
		return err
	}
	if err := k.used(string(names)); err != nil {
		return err
	}
	for name, n := range unfinished {
		c := &k.by[name].Counts
		c.Ready = n - c.Blocked - c.Waiting - c.Running
	}
	return nil
}

// sums counts what is final, and answers how many tasks are not, of queues that have such.
func (k *counting) sums(all bool) (unfinished map[string]int64, err error) {
	unfinished = map[string]int64{}
	add := func(st *sqlite.Stmt) bool {
		q := k.by[st.ColumnText(0)]
		if q == nil {
			return true // of a queue that has no configuration
		}
		d := counters.Counters{
			Submitted: st.ColumnInt64(1), Done: st.ColumnInt64(2), Dead: st.ColumnInt64(3),
			Cancelled: st.ColumnInt64(4), Expired: st.ColumnInt64(5),
		}
		c := &q.Counts
		c.Done, c.Dead, c.Cancelled, c.Expired = d.Done, d.Dead, d.Cancelled, d.Expired
		if n := d.Unfinished(); n != 0 {
			unfinished[q.Queue] = n
		}
		return true
	}
	if all {
		return unfinished, k.each(allSums, add)
	}
	names, err := json.Marshal(slices.Collect(maps.Keys(k.by)))
	if err != nil {
		return nil, err
	}
	return unfinished, k.each(sums, add, string(names))
}

// used counts what runs, and the tasks of spans that somebody holds or held which wait. It looks
// for the oldest of those that are ready.
func (k *counting) used(names string) error {
	if err := k.each(runningNow, func(st *sqlite.Stmt) bool {
		k.by[st.ColumnText(0)].Counts.Running = st.ColumnInt64(1)
		return true
	}, names); err != nil {
		return err
	}
	for _, query := range []string{aloneHeld, aloneFreed} {
		if err := k.each(query, func(st *sqlite.Stmt) bool {
			k.note(st.ColumnText(0), st.ColumnInt64(1))
			return true
		}, names); err != nil {
			return err
		}
	}
	var many []store.Span
	for _, query := range []string{manyHeld, manyFreed} {
		if err := k.each(query, func(st *sqlite.Stmt) bool {
			many = append(many, scanSpan(st))
			return true
		}, names); err != nil {
			return err
		}
	}
	for i := range many {
		if err := k.countSpan(&many[i]); err != nil {
			return fmt.Errorf("queue %q: %w", many[i].Queue, err)
		}
	}
	return nil
}

// note counts a task that does not run, and may from a time on.
func (k *counting) note(queue string, due int64) {
	switch q := k.by[queue]; {
	case due > k.now:
		q.Counts.Waiting++
	case q.OldestReady == 0 || due < q.OldestReady:
		q.OldestReady = due
	}
}

// countSpan notes the tasks of a span that don't run.
func (k *counting) countSpan(sp *store.Span) error {
	runs := map[int32]bool{} // by number
	if err := k.each(runningIn, func(st *sqlite.Stmt) bool {
		runs[scanRunning(st).ID.N] = true
		return true
	}, sp.Batch, sp.Lo, sp.Hi); err != nil {
		return err
	}
	return k.members().members(sp.Batch, sp.Lo, sp.Hi, brief, func(s *member) bool {
		if s.Base == sp.Seq0 && !runs[s.N] {
			k.note(sp.Queue, max(sp.Due, s.outcome.Due))
		}
		return true
	})
}
