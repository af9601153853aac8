package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/counters"
	"github.com/rotahq/rota/internal/store"
)

const (
	sumStat = `SELECT coalesce(sum(submitted), 0), coalesce(sum(done), 0), coalesce(sum(dead), 0),
coalesce(sum(cancelled), 0), coalesce(sum(expired), 0) FROM stat WHERE queue = ?`

	sleeping = `SELECT coalesce(sum(iif(due < ` + never + `, size, 0)), 0),
coalesce(sum(iif(due = ` + never + `, size, 0)), 0)
FROM span INDEXED BY span_due WHERE holder IS NULL AND queue = ? AND due > ? AND token = 0`
	oldestReady = `SELECT due FROM span INDEXED BY span_due WHERE holder IS NULL AND queue = ?
AND due <= ? AND token = 0 AND size > 0 ORDER BY due LIMIT 1`

	spansHeld  = `SELECT ` + spanColumns + ` FROM span WHERE holder IS NOT NULL`
	spansFreed = `SELECT ` + spanColumns +
		` FROM span INDEXED BY span_freed WHERE holder IS NULL AND token > 0 AND queue = ?`
)

// sum adds up what a queue's statistics say.
func (c *conn) sum(queue string) (d counters.Counters, err error) {
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
// there are no more of them than nodes hold.
func (s *Store) Counts(ctx context.Context, queues ...string) ([]store.QueueCounts, error) {
	var list []store.QueueCounts
	now := s.clock()
	err := s.read(ctx, func(c *conn) error {
		names := queues
		if len(names) == 0 {
			all, err := c.queues()
			if err != nil {
				return err
			}
			for _, q := range all {
				names = append(names, q.Name)
			}
		}
		held := map[string][]store.Span{}
		err := c.each(spansHeld, func(st *sqlite.Stmt) bool {
			sp := scanSpan(st)
			held[sp.Queue] = append(held[sp.Queue], sp)
			return true
		})
		if err != nil {
			return err
		}
		list = make([]store.QueueCounts, len(names))
		for i, name := range names {
			if list[i], err = c.count(name, held[name], now); err != nil {
				return fmt.Errorf("queue %q: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count tasks: %w", err)
	}
	return list, nil
}

func (c *conn) count(queue string, used []store.Span, now int64) (store.QueueCounts, error) {
	q := store.QueueCounts{Queue: queue}
	d, err := c.sum(queue)
	if err != nil {
		return q, err
	}
	q.Counts.Done, q.Counts.Dead, q.Counts.Cancelled = d.Done, d.Dead, d.Cancelled
	q.Counts.Expired = d.Expired
	if _, err := c.one(sleeping, func(st *sqlite.Stmt) {
		q.Counts.Waiting, q.Counts.Blocked = st.ColumnInt64(0), st.ColumnInt64(1)
	}, queue, now); err != nil {
		return q, err
	}
	if _, err := c.one(oldestReady, func(st *sqlite.Stmt) {
		q.OldestReady = st.ColumnInt64(0)
	}, queue, now); err != nil {
		return q, err
	}
	err = c.each(spansFreed, func(st *sqlite.Stmt) bool {
		used = append(used, scanSpan(st))
		return true
	}, queue)
	if err != nil {
		return q, err
	}
	for i := range used {
		if err := c.countSpan(&q, &used[i], now); err != nil {
			return q, err
		}
	}
	q.Counts.Ready = d.Unfinished() - q.Counts.Blocked - q.Counts.Waiting - q.Counts.Running
	return q, nil
}

// countSpan counts the tasks of a span that wait or run, and looks for the oldest of those that are
// ready.
func (c *conn) countSpan(q *store.QueueCounts, sp *store.Span, now int64) error {
	runs := map[int32]int32{} // the seqs of running rows, by number
	if err := c.each(runningIn, func(st *sqlite.Stmt) bool {
		u := scanRunning(st)
		runs[u.ID.N] = max(runs[u.ID.N], u.Seq)
		return true
	}, sp.Batch, sp.Lo, sp.Hi); err != nil {
		return err
	}
	return c.members(sp.Batch, sp.Lo, sp.Hi, brief, func(s *member) bool {
		due := max(sp.Due, s.outcome.Due)
		seq, runs := runs[s.N]
		switch {
		case s.Base != sp.Seq0:
		case runs && seq == s.Seq+1:
			q.Counts.Running++
		case due > now:
			q.Counts.Waiting++
		case q.OldestReady == 0 || due < q.OldestReady:
			q.OldestReady = due
		}
		return true
	})
}
