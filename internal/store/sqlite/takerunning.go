package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
)

// freeRunning are free spans of queues with limits that have tasks which run. A task that moved
// belongs to the span with the last beginning before its hand-out.
const freeRunning = `SELECT ` + spanColumns + ` FROM span s WHERE s.holder IS NULL AND s.token > 0
AND s.queue IN (SELECT queue FROM gate) AND EXISTS (
  SELECT 1 FROM running r WHERE r.batch = s.batch AND r.n BETWEEN s.lo AND s.hi
  AND r.seq >= s.seq0 AND NOT EXISTS (
    SELECT 1 FROM span x WHERE x.batch = s.batch AND x.seq0 > s.seq0 AND x.seq0 <= r.seq
    AND r.n BETWEEN x.lo AND x.hi))
ORDER BY s.id LIMIT ?`

// TakeRunning takes free spans of queues with limits that have tasks which run. See
// contract.Spans. It is called in every beat and mostly finds nothing, so it looks before it waits
// for the writer.
func (s *spanCalls) TakeRunning(
	ctx context.Context, h store.Holder, limit int,
) (answer store.Taken, err error) {
	var free []store.Span
	err = s.read(ctx, func(c *conn) (err error) {
		answer = store.Taken{Now: s.clock()}
		lives, err := c.has(findLease, h.Node, h.Token, answer.Now)
		if answer.LeaseGone = !lives; err == nil && lives {
			free, err = c.spans().freeRunning(1)
		}
		return err
	})
	if err == nil && len(free) > 0 {
		err = s.write(ctx, func(t *tx) (err error) {
			answer, err = t.spans().takeRunning(h, limit)
			return err
		})
	}
	if err != nil {
		return store.Taken{}, fmt.Errorf("take what runs and nobody holds: %w", err)
	}
	return answer, nil
}

func (c spanReads) freeRunning(limit int) (list []store.Span, err error) {
	err = c.each(freeRunning, func(st *sqlite.Stmt) bool {
		list = append(list, scanSpan(st))
		return true
	}, limit)
	return list, err
}

func (t spanWrites) takeRunning(h store.Holder, limit int) (store.Taken, error) {
	answer := store.Taken{Now: t.now}
	lives, err := t.leases().lives(h)
	if answer.LeaseGone = !lives; err != nil || !lives {
		return answer, err
	}
	free, err := t.conn.spans().freeRunning(max(limit, 0) + 1)
	if err != nil {
		return answer, err
	}
	for i := range free {
		if limit <= 0 {
			answer.More = true
			break
		}
		limit -= width(&free[i])
		if err := t.takeWhole(&free[i], h, &answer); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// takeWhole makes a holder hold a free span, and answers it.
func (t spanWrites) takeWhole(sp *store.Span, h store.Holder, answer *store.Taken) error {
	if _, err := t.exec(holdSpan, h.Node, h.Token, sp.ID); err != nil {
		return err
	}
	sp.Holder = h
	sp.Token++
	tasks, err := t.conn.spans().load(sp)
	answer.Spans = append(answer.Spans, store.HeldSpan{Span: *sp, Tasks: tasks})
	return err
}
