package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/history"
)

// historyCalls keeps what was done when, by the minute and by the hour. Its tables are history and
// history_change; each transaction inserts into the latter what it changed (tx.count).
type historyCalls struct {
	*database
	views *viewCalls // that count what is ready and running

	kept history.Kept

	// of tidy, which one call of Prune at a time makes
	folded int64 // no adding up before
	tidied int64 // no sample before
	// the queues that had ready or running tasks when it was last noted how many there are
	sampled map[string]bool
}

// historyWrites adds to the rows of minutes and hours.
type historyWrites struct{ *tx }

func (t *tx) minutes() historyWrites { return historyWrites{t} }

const (
	addChanges = `INSERT INTO history_change (body) VALUES (?)`

	allChanges  = `SELECT body FROM history_change`
	someChanges = `SELECT id, body FROM history_change ORDER BY id LIMIT ?`
	dropChanges = `DELETE FROM history_change WHERE id <= ?`

	historyRow = `SELECT body FROM history
WHERE minutes = ? AND at = ? AND worker = ? AND queue = ? AND stage = ?`
	putHistory = `INSERT INTO history (minutes, at, worker, queue, stage, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET body = ?6`
	minutesFrom = `SELECT at, queue, body FROM history
WHERE minutes = 1 AND at >= ? AND worker = '' AND queue > '' AND stage = ''`
	rowsOfQueues = `SELECT count(*) FROM history
WHERE minutes = ? AND at = ? AND worker = '' AND queue > '' AND stage = ''`
	rowsOfOthers = `SELECT count(*) FROM history
WHERE minutes = ? AND at = ? AND (worker > '' OR stage > '')`
	stagesOf = `SELECT count(*) FROM history
WHERE minutes = ? AND at = ? AND worker = '' AND queue = ? AND stage > ''`
	oldHistory  = `SELECT 1 FROM history WHERE minutes = ? AND at < ? LIMIT 1`
	dropHistory = `DELETE FROM history WHERE (minutes, at, worker, queue, stage) IN (
SELECT minutes, at, worker, queue, stage FROM history WHERE minutes = ? AND at < ? LIMIT ?)`
)

const (
	// changesOnce is how many changes one transaction of the fold adds up, and foldOnce how many
	// such transactions one call does.
	changesOnce, foldOnce = 5000, 20
	// manyChanges are added up within seconds, fewer within a minute: until then they are added up
	// anew with each answer.
	manyChanges = 1000
	// historyPiece is how many rows of the history one transaction deletes.
	historyPiece = 500
)

// fold adds what transactions changed to the rows of the history, and says whether it left some.
// What is in the way of one of them is said in the log, and that one is left out.
func (s *historyCalls) fold(ctx context.Context, now int64) (left bool, err error) {
	for range foldOnce {
		f := history.NewFold(s.kept, now)
		last, n := int64(0), 0
		err := s.read(ctx, func(c *conn) error {
			last, n = 0, 0
			return c.each(someChanges, func(st *sqlite.Stmt) bool {
				last = st.ColumnInt64(0)
				n++
				if err := f.Add(bytesOf(st, 1)); err != nil {
					s.log.Warn("a change is not in the history", "error", err)
				}
				return true
			}, changesOnce)
		})
		if err != nil || n == 0 {
			return false, err
		}
		err = s.write(ctx, func(t *tx) error {
			if _, err := t.exec(dropChanges, last); err != nil {
				return err
			}
			return t.minutes().addToHistory(s.log, f)
		})
		if err != nil || n < changesOnce {
			return false, err
		}
	}
	return true, nil
}

// manyChanges tells whether there is so much that is not added up yet that it should be.
func (s *historyCalls) manyChanges(ctx context.Context) (many bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		many, err = c.has(`SELECT 1 FROM history_change LIMIT 1 OFFSET ?`, manyChanges)
		return err
	})
	return many, err
}

// sample notes how many tasks are ready and running.
func (s *historyCalls) sample(ctx context.Context, now int64) error {
	f := history.NewFold(s.kept, now)
	list, err := s.views.Counts(ctx)
	if err != nil {
		return err
	}
	have, some := f.Samples(list, s.sampled)
	if !some {
		return nil
	}
	err = s.write(ctx, func(t *tx) error { return t.minutes().addToHistory(s.log, f) })
	if err == nil {
		s.sampled = have
	}
	return err
}

// addToHistory adds what was added up to the rows that are there, or makes them, if there is room.
func (t historyWrites) addToHistory(log *slog.Logger, f *history.Fold) error {
	room := history.Room{}
	for k, r := range f.Rows() {
		var body []byte
		key := []any{k.Minutes, k.At, k.Worker, k.Queue, k.Stage}
		found, err := t.one(historyRow, func(st *sqlite.Stmt) { body = bytesOf(st, 0) }, key...)
		if err != nil {
			return err
		}
		if found {
			if r, err = r.Onto(body); err != nil {
				log.Warn("a row of the history begins anew", "row", k, "error", err)
			}
		} else if fits, err := room.Take(k, t.rowsOfHistory); err != nil {
			return err
		} else if !fits {
			continue
		}
		if _, err := t.exec(putHistory, append(key, r.Encode())...); err != nil {
			return err
		}
	}
	return nil
}

// rowsOfHistory counts rows that are there.
func (t historyWrites) rowsOfHistory(c history.Counted) (n int64, err error) {
	query := rowsOfQueues
	args := []any{c.Minutes, c.At}
	switch c.Kind {
	case history.OfOthers:
		query = rowsOfOthers
	case history.OfStages:
		query, args = stagesOf, append(args, c.Queue)
	}
	_, err = t.one(query, func(st *sqlite.Stmt) { n = st.ColumnInt64(0) }, args...)
	return n, err
}

// forgetHistory deletes the rows that are kept no longer, some at a time.
func (s *historyCalls) forgetHistory(ctx context.Context, now int64) error {
	for _, minutes := range [...]int{history.Minute, history.Hour} {
		oldest := s.kept.Oldest(minutes, now)
		for old := true; old; {
			err := s.read(ctx, func(c *conn) (err error) {
				old, err = c.has(oldHistory, minutes, oldest)
				return err
			})
			if err != nil {
				return err
			}
			if !old {
				break
			}
			err = s.write(ctx, func(t *tx) error {
				_, err := t.exec(dropHistory, minutes, oldest, historyPiece)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tidy is what Prune does for the history: once a minute, and every few seconds while much
// happens, it adds up what came; once a minute it notes how many tasks there are and deletes what
// is old. It waits longer when that takes long, so that it is busy a few percent of the time at
// most. What fails is tried again with the next turn.
func (s *historyCalls) tidy(ctx context.Context, now int64) {
	if !history.Due(now, s.folded) {
		return
	}
	minute := history.Due(now, s.tidied)
	began := time.Now()
	many, left := true, false
	var err error
	if !minute {
		many, err = s.manyChanges(ctx)
	}
	if err == nil && many {
		left, err = s.fold(ctx, now)
	}
	rest := history.Rest(time.Since(began), left)
	if minute {
		s.tidied = now + time.Minute.Microseconds()
		err = errors.Join(err, s.sample(ctx, now), s.forgetHistory(ctx, now))
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the history is not added up for now", "error", err)
	}
	s.folded = now + rest.Microseconds()
}

// History says what a series did. See contract.Views.
func (s *historyCalls) History(ctx context.Context, q history.Question) ([]history.Period, error) {
	var answer *history.Answer
	err := s.read(ctx, func(c *conn) error {
		answer = history.NewAnswer(q)
		var bad error
		from, to := q.Rows()
		for at := from; at < to && bad == nil; at++ {
			_, err := c.one(historyRow, func(st *sqlite.Stmt) {
				bad = answer.Row(at, bytesOf(st, 0))
			}, q.Minutes(), at, q.Worker, q.Queue, q.Stage)
			if err != nil {
				return err
			}
		}
		err := c.each(allChanges, func(st *sqlite.Stmt) bool {
			// one that can't be read is said in the log when it is added up
			_ = answer.Changes(bytesOf(st, 0))
			return true
		})
		if err != nil {
			return err
		}
		return bad
	})
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return answer.Periods(), nil
}

// Minutes says what happened minute by minute. See contract.Views.
func (s *historyCalls) Minutes(
	ctx context.Context, from, whole int64,
) ([]history.QueueMinute, error) {
	var m *history.Minutes
	err := s.read(ctx, func(c *conn) error {
		m = history.NewMinutes(from, whole)
		var bad error
		err := c.each(minutesFrom, func(st *sqlite.Stmt) bool {
			bad = m.Row(st.ColumnInt64(0), st.ColumnText(1), bytesOf(st, 2))
			return bad == nil
		}, from)
		if err = cmp.Or(err, bad); err != nil {
			return err
		}
		return c.each(allChanges, func(st *sqlite.Stmt) bool {
			_ = m.Changes(bytesOf(st, 0)) // see History
			return true
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read minutes: %w", err)
	}
	return m.List(), nil
}
