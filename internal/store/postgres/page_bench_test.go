//go:build unix

package postgres

import (
	"flag"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/storetest"
)

var (
	pagesTasks = flag.Int64("pages.tasks", 100_000,
		"how many tasks the store of BenchmarkPages has")
	pagesDSN = flag.String("pages.dsn", "",
		"a database that keeps the store of BenchmarkPages from one run to the next")
)

// manyTasks fills a store as the benchmark of the same name of the other store does: $1 tasks of
// the nine days up to $2.
var manyTasks = []string{
	`INSERT INTO rota.batch (id, queue, rank, due, created, origin, span, granted)
SELECT t << 10, CASE WHEN x < 1 THEN 'rare' ELSE 'q' || (x % 20) END, t, t, t, 'o', x + 1, true
FROM (SELECT x, $2::bigint - 777600000000 + x * (388800000000 / ($1::bigint / 2000)) AS t
FROM generate_series(0, $1::bigint / 2000 - 1) x) i`,
	`INSERT INTO rota.batch (id, queue, rank, due, created, origin, span, granted)
SELECT t << 10, 'q' || (x % 20), t, t, t, 'o', 1000000 + x, true
FROM (SELECT x, $2::bigint - 388800000000 + x * (388800000000 / ($1::bigint / 2)) AS t
FROM generate_series(0, $1::bigint / 2 - 1) x) i`,
	`INSERT INTO rota.pack (batch, has, lo, stage, contexts, keys)
SELECT b.id, bit_or(1::bigint << (x & 63)), x & -64, CASE WHEN b.span = 1 THEN 'rare'
ELSE 'first' END, array_agg(convert_to('{"x":"' || repeat('y', 60) || '"}', 'UTF8') ORDER BY x),
CASE WHEN x & -64 < 100 THEN array_agg(CASE WHEN x < 100 THEN 'same' ELSE '' END ORDER BY x) END
FROM rota.batch b CROSS JOIN generate_series(0, 999) x WHERE b.span < 1000000 AND $1::bigint > 0
AND $2::bigint > 0 GROUP BY b.id, b.span, x & -64`,
	`INSERT INTO rota.keyed (key, batch, n)
SELECT 'same', b.id, x FROM rota.batch b CROSS JOIN generate_series(0, 99) x WHERE b.span < 1000000
AND $1::bigint > 0 AND $2::bigint > 0`,
	`INSERT INTO rota.pack (batch, has, lo, stage, contexts)
SELECT id, 1, 0, 'first', ARRAY[convert_to('{"x":"' || repeat('y', 60) || '"}', 'UTF8')]
FROM rota.batch WHERE span >= 1000000 AND $1::bigint > 0 AND $2::bigint > 0`,
	`INSERT INTO rota.step (batch, n, seq, token, kind, ran, attempt, base, started, finished, hash,
worker)
SELECT t.batch, t.n, 0, 1, CASE WHEN (b.span + t.n) % 10 = 7 THEN 5 WHEN (b.span + t.n) % 100 = 9
THEN 9 ELSE 1 END, t.stage, 1, -1,
  b.created, b.created + 1000, 7, CASE WHEN b.span = 1 THEN 'rare' ELSE 'w' || (b.span % 50) END
FROM rota.tasks t JOIN rota.batch b ON b.id = t.batch WHERE b.span < 1000000 + $1::bigint * 9 / 20
AND $2::bigint > 0`,
	`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths,
size, gaps)
SELECT span, id, 0, 0, 0, queue, rank, due + CASE WHEN span < 1000100 + $1::bigint * 9 / 20
THEN 8640000000000 ELSE 0 END,
  CASE WHEN span % 100 = 7 THEN 'a' END, (span % 100 = 7)::int, (span % 100 = 7)::int, 0, 1, false
FROM rota.batch WHERE span >= 1000000 + $1::bigint * 9 / 20 AND $2::bigint > 0`,
	`INSERT INTO rota.running (batch, n, seq, span, token, worker, incarnation, started, until)
SELECT batch, 0, 0, id, 1, 'w' || (id % 50), 'i', due, due + 1000000000000 FROM rota.span
WHERE id % 100 = 7 AND $1::bigint > 0 AND $2::bigint > 0`,
	`INSERT INTO rota.event (seq, time, key, kind, subject, text)
SELECT x, $2::bigint - ($1::bigint / 10 - x) * 1000000, 'k' || x, 'worker.seen', 'w', 'text'
FROM generate_series(1, $1::bigint / 10) x`,
	`UPDATE rota.event_head SET last = $1::bigint / 10, time = $2::bigint`,
}

// fill makes the store of BenchmarkPages.
func fill(b *testing.B, s *Store, tasks int64) {
	b.Helper()
	now := time.Now()
	for i := range 21 {
		name := "rare"
		if i > 0 {
			name = "q" + string(rune('0'+(i-1)%10))
		}
		if i > 10 {
			name = "q1" + string(rune('0'+(i-1)%10))
		}
		if _, err := s.ChangeQueue(
			b.Context(), name, store.Whole(limits.DefaultQueue(name)),
		); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.cover(b.Context(), store.BatchID(now.Add(-10*24*time.Hour).UnixMicro(), 0),
		store.BatchID(now.UnixMicro(), 0)); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), s.conf.DSN)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for _, text := range manyTasks {
		start := time.Now()
		if _, err := conn.Exec(b.Context(), text, tasks, now.UnixMicro()); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
		b.Logf("%v: %.60s", time.Since(start).Round(time.Millisecond), text)
	}
	if _, err := conn.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// What one page of a list takes among many tasks; see the benchmark of the other store. Ten million
// tasks in a database that stays:
//
//	go test ./internal/store/postgres -run '^$' -bench Pages -benchtime 1x -timeout 1h -args -pages.tasks 10000000 -pages.dsn postgres://…
func BenchmarkPages(b *testing.B) {
	s := open(b, Config{DSN: *pagesDSN})
	filled := false
	err := s.glance(b.Context(), ask(`SELECT EXISTS (SELECT FROM rota.batch)`, func(r row) error {
		return r.Scan(&filled)
	}))
	if err != nil {
		b.Fatal(err)
	}
	if !filled {
		fill(b, s, *pagesTasks)
	}
	storetest.BenchmarkPages(b, s, func() time.Duration { return 0 })
}
