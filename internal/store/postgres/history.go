package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rotahq/rota/internal/history"
)

const (
	// manyChanges are added up within seconds, fewer within a minute: until then they are added up
	// anew with each answer.
	manyChanges = 1000
	// changesOnce is how many changes one transaction of the fold adds up, and foldOnce how many
	// such transactions one call does.
	changesOnce, foldOnce = 5000, 20
	// historyPiece is how many rows of the history one transaction deletes.
	historyPiece = 5000
	// foldLock lets one node at a time write the rows of the history: it reads them before, and
	// nobody else may have changed them meanwhile. Between it and migrateLock are partitionLock and
	// allPacks, behind it is stepLock.
	foldLock = migrateLock + 3
)

const (
	// tryFold also keeps apart from nodes of the version before, whose lock for it was that of
	// allPacks. It shares that one, as those do who write marks, so that they keep nobody waiting.
	tryFold = `SELECT pg_try_advisory_xact_lock($1) AND pg_try_advisory_xact_lock_shared($2)`

	takeChanges = `WITH gone AS (
  DELETE FROM rota.history_change WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM rota.history_change ORDER BY id LIMIT $1)) RETURNING body)
SELECT body FROM gone`

	historyRows = `SELECT k.i::int, h.body
FROM unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[])
  WITH ORDINALITY k (minutes, at, worker, queue, stage, i)
JOIN rota.history h ON h.minutes = k.minutes AND h.at = k.at AND h.worker = k.worker
  AND h.queue = k.queue AND h.stage = k.stage`

	// countHistory counts rows of times: of queues, of stages and workers, or of the stages of a
	// queue; see history.Kind.
	countHistory = `SELECT k.minutes, k.at, k.kind, k.queue, CASE k.kind
  WHEN 0 THEN (SELECT count(*) FROM rota.history h WHERE h.minutes = k.minutes AND h.at = k.at
    AND h.worker = '' AND h.queue > '' AND h.stage = '')
  WHEN 1 THEN (SELECT count(*) FROM rota.history h WHERE h.minutes = k.minutes AND h.at = k.at
    AND (h.worker > '' OR h.stage > ''))
  ELSE (SELECT count(*) FROM rota.history h WHERE h.minutes = k.minutes AND h.at = k.at
    AND h.worker = '' AND h.queue = k.queue AND h.stage > '') END
FROM unnest($1::int[], $2::bigint[], $3::int[], $4::text[]) k (minutes, at, kind, queue)`

	putHistory = `INSERT INTO rota.history AS h (minutes, at, worker, queue, stage, body)
SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[])
ON CONFLICT (minutes, at, worker, queue, stage) DO UPDATE SET body = excluded.body`

	dropHistory = `WITH gone AS (
  DELETE FROM rota.history WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM rota.history WHERE minutes = $1 AND at < $2 LIMIT $3)) RETURNING 1)
SELECT count(*) FROM gone`

	// readHistory reads the rows of a series, and all that is not in them yet, from one state of
	// the store.
	readHistory = `SELECT h.at, h.body FROM generate_series($2::bigint, $3::bigint - 1) t (at)
JOIN rota.history h ON h.minutes = $1 AND h.at = t.at AND h.worker = $4 AND h.queue = $5
  AND h.stage = $6
UNION ALL SELECT -1, body FROM rota.history_change`

	minutesFrom = `SELECT at, queue, body FROM rota.history
WHERE minutes = 1 AND at >= $1 AND worker = '' AND queue > '' AND stage = ''
UNION ALL SELECT -1, '', body FROM rota.history_change`
)

// fold adds what transactions changed to the rows of the history, and says whether it left some.
// What is in the way of one of them is said in the log, and that one is left out.
func (s *statistics) fold(ctx context.Context, now int64) (left bool, err error) {
	for range foldOnce {
		n := 0
		err := s.write(ctx, func(ctx context.Context, t *tx) error {
			n = 0
			mine := false
			f := history.NewFold(s.conf.History, now)
			err := t.run(ctx, foldAlone(&mine))
			if err != nil || !mine { // another node is at it
				return err
			}
			err = t.run(ctx, ask(takeChanges, func(r row) error {
				var body []byte
				if err := r.Scan(&body); err != nil {
					return err
				}
				n++
				if err := f.Add(body); err != nil {
					s.conf.Log.Warn("a change is not in the history", "error", err)
				}
				return nil
			}, changesOnce))
			if err != nil || n == 0 {
				return err
			}
			return t.addToHistory(ctx, s.conf.Log, f)
		})
		if err != nil || n < changesOnce {
			return false, err
		}
	}
	return true, nil
}

// foldAlone has the fold's lock until the commit, if nobody else has it.
func foldAlone(mine *bool) query {
	return ask(tryFold, func(r row) error { return r.Scan(mine) }, int64(foldLock),
		int64(allPacks))
}

// manyChanges tells whether there is so much that is not added up yet that it should be.
func (s *statistics) manyChanges(ctx context.Context) (many bool, err error) {
	err = s.glance(ctx, ask(`SELECT EXISTS (
SELECT FROM rota.history_change LIMIT 1 OFFSET $1)`, func(r row) error {
		return r.Scan(&many)
	}, manyChanges))
	return many, err
}

// sample notes how many tasks are ready and running.
func (s *statistics) sample(ctx context.Context, now int64) error {
	list, err := s.Counts(ctx)
	if err != nil {
		return err
	}
	f := history.NewFold(s.conf.History, now)
	have, some := f.Samples(list, s.sampled)
	if !some {
		return nil
	}
	mine := false
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		mine = false
		err := t.run(ctx, foldAlone(&mine))
		if err != nil || !mine {
			return err
		}
		return t.addToHistory(ctx, s.conf.Log, f)
	})
	if err == nil && mine {
		s.sampled = have
	}
	return err
}

// historyColumns are keys of rows on their way to a statement.
type historyColumns struct {
	minutes              []int32
	at                   []int64
	worker, queue, stage []string
}

func (c *historyColumns) add(k history.Key) {
	c.minutes = append(c.minutes, int32(k.Minutes))
	c.at = append(c.at, k.At)
	c.worker = append(c.worker, k.Worker)
	c.queue = append(c.queue, k.Queue)
	c.stage = append(c.stage, k.Stage)
}

func (c *historyColumns) args() []any {
	return []any{c.minutes, c.at, c.worker, c.queue, c.stage}
}

// addToHistory adds what was added up to the rows that are there, or makes them, if there is room,
// and ends the transaction. Who calls it has the fold's lock.
func (t *tx) addToHistory(
	ctx context.Context, log *slog.Logger, f *history.Fold,
) error {
	var all historyColumns
	var keys []history.Key
	for k := range f.Rows() {
		all.add(k)
		keys = append(keys, k)
	}
	stand := make(map[history.Key][]byte, len(keys))
	err := t.run(ctx, ask(historyRows, func(r row) error {
		var i int
		var body []byte
		err := r.Scan(&i, &body)
		if err == nil {
			stand[keys[i-1]] = body
		}
		return err
	}, all.args()...))
	if err != nil {
		return err
	}
	counts, err := t.countHistory(ctx, keys, stand)
	if err != nil {
		return err
	}
	room := history.Room{}
	var put historyColumns
	var bodies [][]byte
	for k, r := range f.Rows() {
		if body := stand[k]; body != nil {
			if r, err = r.Onto(body); err != nil {
				log.Warn("a row of the history begins anew", "row", k, "error", err)
			}
		} else if fits, _ := room.Take(k, counts.of); !fits {
			continue
		}
		put.add(k)
		bodies = append(bodies, r.Encode())
	}
	return t.finish(ctx, tell(putHistory, append(put.args(), bodies)...))
}

// historyCounts are how many rows there are.
type historyCounts map[history.Counted]int64

func (c historyCounts) of(k history.Counted) (int64, error) { return c[k], nil }

// countHistory counts what is to be known of the rows that have to be made.
func (t *tx) countHistory(
	ctx context.Context, keys []history.Key, stand map[history.Key][]byte,
) (historyCounts, error) {
	counts := historyCounts{}
	var minutes, kinds []int32
	var ats []int64
	var queues []string
	for _, k := range keys {
		if stand[k] != nil {
			continue
		}
		for _, c := range k.Counts() {
			if _, known := counts[c]; known {
				continue
			}
			counts[c] = 0
			minutes = append(minutes, int32(c.Minutes))
			ats = append(ats, c.At)
			kinds = append(kinds, int32(c.Kind))
			queues = append(queues, c.Queue)
		}
	}
	if len(counts) == 0 {
		return counts, nil
	}
	return counts, t.run(ctx, ask(countHistory, func(r row) error {
		var c history.Counted
		var n int64
		err := r.Scan(&c.Minutes, &c.At, &c.Kind, &c.Queue, &n)
		counts[c] = n
		return err
	}, minutes, ats, kinds, queues))
}

// forgetHistory deletes the rows that are kept no longer, some at a time.
func (s *statistics) forgetHistory(ctx context.Context, now int64) error {
	for _, minutes := range [...]int{history.Minute, history.Hour} {
		for n := historyPiece; n == historyPiece; {
			err := s.write(ctx, func(ctx context.Context, t *tx) error {
				return t.finish(ctx, ask(dropHistory, func(r row) error { return r.Scan(&n) },
					minutes, s.conf.History.Oldest(minutes, now), historyPiece))
			})
			if err != nil {
				return fmt.Errorf("delete old history: %w", err)
			}
		}
	}
	return nil
}

// History says what a series did. See contract.Views.
func (s *statistics) History(ctx context.Context, q history.Question) ([]history.Period, error) {
	answer := history.NewAnswer(q)
	from, to := q.Rows()
	err := s.glance(ctx, ask(readHistory, func(r row) error {
		var at int64
		var body []byte
		if err := r.Scan(&at, &body); err != nil {
			return err
		}
		if at >= 0 {
			return answer.Row(at, body)
		}
		_ = answer.Changes(body) // one that can't be read is said in the log when it is added up
		return nil
	}, q.Minutes(), from, to, q.Worker, q.Queue, q.Stage))
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return answer.Periods(), nil
}

// Minutes says what happened minute by minute. See contract.Views.
func (s *statistics) Minutes(
	ctx context.Context, from, whole int64,
) ([]history.QueueMinute, error) {
	m := history.NewMinutes(from, whole)
	err := s.glance(ctx, ask(minutesFrom, func(r row) error {
		var at int64
		var queue string
		var body []byte
		if err := r.Scan(&at, &queue, &body); err != nil {
			return err
		}
		if queue != "" {
			return m.Row(at, queue, body)
		}
		_ = m.Changes(body) // see History
		return nil
	}, from))
	if err != nil {
		return nil, fmt.Errorf("read minutes: %w", err)
	}
	return m.List(), nil
}
