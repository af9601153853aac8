package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Sync writes down what runs, and says what others settled. See contract.Steps.
// There is nothing to sweep: whatever records a step at a seq deletes the running row there, and
// insertRunning is guarded in the same transaction.
func (s *spanCalls) Sync(ctx context.Context, r store.SyncRequest) (store.Synced, error) {
	var answer store.Synced
	err := s.write(ctx, func(t *tx) error {
		answer = store.Synced{Now: t.now}
		lives, err := t.leases().lives(r.Holder)
		answer.LeaseGone = !lives
		if err != nil || !lives {
			return err
		}
		answer.Missing, err = t.spans().writeDown(r.Holder, r.Insert)
		return err
	})
	if err == nil && !answer.LeaseGone && len(r.Watch) > 0 {
		// Thousands of questions, none of which needs the writer.
		err = s.read(ctx, func(c *conn) error { return c.spans().settled(r.Watch, &answer) })
	}
	if err != nil {
		return store.Synced{}, fmt.Errorf("sync %d hand-outs: %w", len(r.Watch), err)
	}
	return answer, nil
}

func (c spanReads) settled(watch []store.Watch, answer *store.Synced) error {
	for _, w := range watch {
		hit, err := c.has(findStep, w.ID.Batch, w.ID.N, w.Seq)
		if err == nil && !hit && w.Seq == 0 {
			hit, err = c.members().isMarked(w.ID)
		}
		if err != nil {
			return err
		}
		if hit {
			answer.Settled = append(answer.Settled, w.ID)
		}
	}
	return nil
}

// keepRunning is guarded: the span is still the holder's and covers the task, and no outcome
// stands at the seq. Otherwise the hand-out is over already, and a row would make its token good
// again.
var keepRunning = `INSERT INTO running (batch, n, seq, span, token, worker, incarnation,
started, until, queue, key)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, s.queue, coalesce(s.key, '') FROM span s
WHERE s.id = ?4 AND s.token = ?5 AND s.holder = ?10 AND s.htok = ?11
  AND s.batch = ?1 AND ?2 BETWEEN s.lo AND s.hi
  AND ` + isTask("?1", "?2") + `
  AND NOT EXISTS (SELECT 1 FROM step WHERE batch = ?1 AND n = ?2 AND seq = ?3)
  AND NOT (?3 = 0 AND ` + isMarked("?1", "?2") + `)
ON CONFLICT DO NOTHING`

// writeDown inserts the running rows of a holder's hand-outs, and answers those that have none
// then.
func (t spanWrites) writeDown(
	h store.Holder, list []store.Running,
) (missing []task.ID, err error) {
	keys := keyNamer{t.tx.limits(), map[int64]bool{}}
	for i := range list {
		r := &list[i]
		n, err := t.exec(keepRunning, r.ID.Batch, r.ID.N, r.Seq, r.Span, r.Token, r.Worker,
			r.Incarnation, r.Started, r.Until, h.Node, h.Token)
		stands := n > 0
		if err == nil && !stands {
			stands, err = t.conn.has(hasRow, r.ID.Batch, r.ID.N, r.Seq)
		}
		if err != nil {
			return nil, fmt.Errorf("write down hand-out %d of task %s: %w", r.Seq, r.ID, err)
		}
		if !stands {
			missing = append(missing, r.ID)
		}
		if err := keys.name(r); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

const hasRow = `SELECT 1 FROM running WHERE batch = ? AND n = ? AND seq = ?`

const overdue = `SELECT batch, n, seq, span, token, worker, incarnation, started, until
FROM running INDEXED BY running_until
WHERE until <= ?1 AND (started >= ?2 OR until <= ?1 - ?3)
AND (until, batch, n, seq) > (?4, ?5, ?6, ?7)
ORDER BY until, batch, n, seq LIMIT ?8`

// Overdue lists hand-outs that are past their limit. See contract.Steps.
func (s *spanCalls) Overdue(ctx context.Context, q store.OverdueQuery) (store.Overdue, error) {
	var answer store.Overdue
	err := s.read(ctx, func(c *conn) error {
		now := s.clock()
		answer = store.Overdue{}
		return c.each(overdue, func(st *sqlite.Stmt) bool {
			answer.Now = now
			answer.Rows = append(answer.Rows, scanRunning(st))
			return true
		}, now, q.Steady, q.Late, q.After.Until, q.After.ID.Batch, q.After.ID.N, q.After.Seq,
			max(q.Limit, 0))
	})
	if err != nil {
		return store.Overdue{}, fmt.Errorf("list overdue hand-outs: %w", err)
	}
	return answer, nil
}

const (
	heldBy = `SELECT holder, htok FROM span WHERE holder IS NOT NULL AND (holder, htok) > (?, ?)
ORDER BY holder, htok LIMIT 1`

	expiredLeases = `SELECT name, holder FROM lease WHERE until > 0 AND until <= ?
AND NOT (name = 'node/' || ? AND token = ?)`
	expireLease = `UPDATE lease SET token = token + 1, until = 0 WHERE name = ?`
	expireWith  = `UPDATE lease SET token = token + 1, until = 0 WHERE until = ? AND holder = ?`
	leaseStands = `SELECT 1 FROM lease WHERE name = 'node/' || ? AND token = ?`
	freeSpansOf = `UPDATE span SET holder = NULL, htok = 0, deaths = deaths + 1 WHERE holder = ?
AND htok = ?`
)

// Free ends expired leases, then frees what no living lease holds. See contract.Upkeep.
func (s *spanCalls) Free(
	ctx context.Context, self store.Holder, judge int64,
) (freed int, err error) {
	err = s.write(ctx, func(t *tx) error {
		freed = 0
		if t.now > judge {
			freed, err = t.spans().freeEnded()
			return err
		}
		var expired []store.Lease
		err := t.each(expiredLeases, func(st *sqlite.Stmt) bool {
			expired = append(expired, store.Lease{Name: st.ColumnText(0), Holder: st.ColumnText(1)})
			return true
		}, t.now, self.Node, self.Token)
		if err != nil {
			return err
		}
		for _, l := range expired {
			if _, err := t.exec(expireLease, l.Name); err != nil {
				return err
			}
			if l.Name != store.MembershipOf(l.Holder) {
				continue
			}
			if _, err := t.exec(expireWith, int64(store.WhileMember), l.Holder); err != nil {
				return err
			}
		}
		freed, err = t.spans().freeEnded()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("free spans of dead nodes: %w", err)
	}
	return freed, nil
}

// FreeEnded frees what no lease holds any more. See contract.Upkeep.
func (s *spanCalls) FreeEnded(ctx context.Context) (freed int, err error) {
	err = s.write(ctx, func(t *tx) (err error) {
		freed, err = t.spans().freeEnded()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("free spans of ended nodes: %w", err)
	}
	return freed, nil
}

func (t spanWrites) freeEnded() (freed int, err error) {
	dead, err := t.deadHolders()
	if err != nil {
		return 0, err
	}
	for _, h := range dead {
		n, err := t.exec(freeSpansOf, h.Node, h.Token)
		if err != nil {
			return 0, err
		}
		freed += n
	}
	return freed, t.jobs().orphan()
}

// deadHolders lists the holders of spans whose lease is gone.
func (t spanWrites) deadHolders() (dead []store.Holder, err error) {
	var h store.Holder
	for {
		found, err := t.one(heldBy, func(st *sqlite.Stmt) {
			h = store.Holder{Node: st.ColumnText(0), Token: st.ColumnInt64(1)}
		}, h.Node, h.Token)
		if err != nil || !found {
			return dead, err
		}
		stands, err := t.has(leaseStands, h.Node, h.Token)
		if err != nil {
			return nil, err
		}
		if !stands {
			dead = append(dead, h)
		}
	}
}
