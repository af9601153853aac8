package sqlite

import (
	"context"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// expiryReads reads limits within which tasks are to be begun, and table expiry.
type expiryReads struct{ *conn }

func (c *conn) expiries() expiryReads { return expiryReads{c} }

// expiryWrites notes when batches are to be looked at, and takes what nobody has begun in time.
type expiryWrites struct{ *tx }

func (t *tx) expiries() expiryWrites { return expiryWrites{t} }

// A task that is to be begun within a time says so in its pack, or in its newest edit. The table
// expiry has a row for each batch with such tasks: when to look at it. That is never later than the
// first limit of one that is not begun, so whoever looks when it says finds all of them. Nothing
// else writes there, so it may be earlier: then a look finds nothing, and says when the next is, or
// that there is none.

const (
	lookAt = `INSERT INTO expiry (batch, look) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET look = min(look, ?2)`
	looksDue = `SELECT batch, look FROM expiry INDEXED BY expiry_look WHERE look <= ?1
AND (look, batch) > (?2, ?3) ORDER BY look, batch LIMIT ?4`
	nextLook   = `SELECT look FROM expiry INDEXED BY expiry_look ORDER BY look LIMIT 1`
	lookAgain  = `UPDATE expiry SET look = ? WHERE batch = ?`
	lookNoMore = `DELETE FROM expiry WHERE batch = ?`
	freeSpans  = `SELECT ` + spanColumns + ` FROM span WHERE batch = ? AND holder IS NULL`
	handedOut  = `SELECT 1 FROM step WHERE batch = ? AND n = ? AND (kind < 9 OR started > 0) LIMIT 1`
)

const (
	// batches that one call looks at: about as many of one task as it could take otherwise
	looksAtOnce = 1000
	// tasks after which it looks at no further batch
	lookedThrough = 20_000
)

// lookAt notes that a task of a batch has a limit.
func (t expiryWrites) lookAt(batch, at int64) error {
	_, err := t.exec(lookAt, batch, at)
	return err
}

// forgetLook forgets when to look at a batch that is deleted.
func (t expiryWrites) forgetLook(batch int64) error {
	_, err := t.exec(lookNoMore, batch)
	return err
}

// TakeExpired takes free spans with tasks that nobody has begun in time. See
// contract.Spans. It is called in every beat and mostly finds nothing to look at, so it looks
// before it waits for the writer.
func (s *spanCalls) TakeExpired(
	ctx context.Context, h store.Holder, limit int,
) (answer store.Taken, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		answer = store.Taken{Now: s.clock()}
		lives, err := c.has(findLease, h.Node, h.Token, answer.Now)
		if answer.LeaseGone = !lives; err == nil && lives {
			answer.NextDue, err = c.expiries().nextLook()
		}
		return err
	})
	if err == nil && answer.NextDue != 0 && answer.NextDue <= answer.Now {
		err = s.write(ctx, func(t *tx) (err error) {
			answer, err = t.expiries().takeExpired(h, limit, &s.stuck)
			return err
		})
	}
	if err != nil {
		return store.Taken{}, fmt.Errorf("take what nobody has begun in time: %w", err)
	}
	return answer, nil
}

// nextLook says when to look at a batch next; at 0 no task has a limit.
func (c expiryReads) nextLook() (at int64, err error) {
	_, err = c.one(nextLook, func(st *sqlite.Stmt) { at = st.ColumnInt64(0) })
	return at, err
}

// toLook is a row of expiry.
type toLook struct{ batch, at int64 }

// takeExpired looks at batches that are due behind stuck, and notes there how far it came. What
// others hold stays due: so the next call begins behind it when there are more than one looks at.
func (t expiryWrites) takeExpired(
	h store.Holder, limit int, stuck *toLook,
) (store.Taken, error) {
	answer := store.Taken{Now: t.now}
	lives, err := t.leases().lives(h)
	if err != nil || !lives {
		answer.LeaseGone = !lives
		return answer, err
	}
	var list []toLook
	if err := t.each(looksDue, func(st *sqlite.Stmt) bool {
		list = append(list, toLook{st.ColumnInt64(0), st.ColumnInt64(1)})
		return true
	}, t.now, stuck.at, stuck.batch, looksAtOnce); err != nil {
		return answer, err
	}
	full := len(list) == looksAtOnce
	last := *stuck
	some := false // something came of it: what others hold is no reason to look again at once
	for i, seen := 0, 0; i < len(list); i++ {
		if limit <= 0 || seen >= lookedThrough {
			full = true
			break
		}
		n, next, err := t.lookInto(list[i].batch, h, &limit, &answer)
		if err == nil && next != 0 && next != list[i].at {
			_, err = t.exec(lookAgain, next, list[i].batch)
		}
		if err != nil {
			return answer, fmt.Errorf("batch %d: %w", list[i].batch, err)
		}
		seen += n
		if next == 0 || next > t.now {
			some = true
		} else if limit > 0 {
			last = list[i]
		}
	}
	if *stuck = last; !full {
		*stuck = toLook{}
	}
	answer.More = answer.More || full && (some || len(answer.Spans) > 0)
	answer.NextDue, err = t.conn.expiries().nextLook()
	return answer, err
}

// lookInto takes what is to be taken of one batch. It answers how many tasks it looked at, and when
// to look again; at 0 there is nothing to look for, and it has deleted the batch's row.
func (t expiryWrites) lookInto(
	batch int64, h store.Holder, limit *int, answer *store.Taken,
) (seen int, next int64, err error) {
	limited, seen, err := t.conn.expiries().limited(batch)
	if err == nil && len(limited) == 0 {
		_, err = t.exec(lookNoMore, batch)
	}
	if err != nil || len(limited) == 0 {
		return seen, 0, err
	}
	var free []store.Span
	if err := t.each(freeSpans, func(st *sqlite.Stmt) bool {
		free = append(free, scanSpan(st))
		return true
	}, batch); err != nil {
		return seen, 0, err
	}
	over, next := rules.Expired(t.now, limited, free)
	for i := range over {
		if *limit <= 0 {
			answer.More = true
			break
		}
		sp := &over[i]
		*limit -= width(sp)
		if err := t.spans().takeWhole(sp, h, answer); err != nil {
			return seen, next, err
		}
	}
	return seen, next, nil
}

// limited reads those tasks of a batch that have a limit and are not begun, and says how many tasks
// it read.
func (c expiryReads) limited(batch int64) (list []rules.Limited, seen int, err error) {
	b, found, err := c.facts().batch(batch)
	if err != nil || !found {
		return nil, 0, err
	}
	runs := map[task.ID]int32{}
	if err := c.each(runningIn, func(st *sqlite.Stmt) bool {
		u := scanRunning(st)
		runs[u.ID] = max(runs[u.ID], u.Seq+1)
		return true
	}, batch, 0, math.MaxInt32); err != nil {
		return nil, 0, err
	}
	var bad error
	err = c.members().members(batch, 0, math.MaxInt32, brief, func(m *member) bool {
		seen++
		f := b.factOf(batch, m)
		if f.Kind == task.KindEdited {
			var o override
			if o, _, bad = c.facts().override(f.ID); bad != nil {
				return false
			}
			f.Apply(&o.Override)
		}
		if f.Expires != 0 && runs[f.ID] <= f.Seq+1 {
			list = append(list, rules.Limited{N: m.N, Base: f.Base, Expires: f.Expires})
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return list, seen, err
}

// loadLimits makes of the times within which tasks of a batch are to be begun their limits.
func (c expiryReads) loadLimits(batch int64, tasks []store.Loaded) error {
	b, _, err := c.facts().batch(batch)
	for i := range tasks {
		if tasks[i].Expires != 0 {
			tasks[i].Expires += b.due
		}
	}
	return err
}

// mayExpire tells whether a report may say of its task that nobody began it in time: it has a limit
// and is not begun.
func (c expiryReads) mayExpire(r *store.Report) (bool, error) {
	f, found, err := c.facts().fact(r.ID)
	return found && f.Limit() != 0 && f.Seq+1 == r.Token.Seq, err
}

// wasBegun tells whether a task was handed out, as far as outcomes tell.
func (c expiryReads) wasBegun(id task.ID) (bool, error) {
	begun, err := c.has(handedOut, id.Batch, id.N)
	if err != nil || begun {
		return begun, err
	}
	return c.members().isMarked(id)
}
