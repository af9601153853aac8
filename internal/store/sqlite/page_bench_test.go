package sqlite

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/store/storetest"
	"github.com/rotahq/rota/task"
)

var (
	pagesTasks = flag.Int64("pages.tasks", 100_000,
		"how many tasks the store of BenchmarkPages has")
	pagesStore = flag.String("pages.store", "",
		"a file that keeps the store of BenchmarkPages from one run to the next")
)

// manyTasks fills a store with ?1 tasks that were submitted within nine days up to ?2: half of them
// in batches of a thousand, the newer half each in a batch of its own. The newest twentieth is
// ready; the rest is over, a tenth of it dead, a hundredth cancelled. What is rare is oldest, or
// behind all that is ready.
var manyTasks = []string{
	`WITH RECURSIVE i(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM i WHERE x + 1 < ?1 / 2000)
INSERT INTO batch (id, queue, rank, due, created, origin, span, granted)
SELECT t << 10, iif(x < 1, 'rare', 'q' || (x % 20)), t, t, t, 'o', x + 1, 1
FROM (SELECT x, ?2 - 777600000000 + x * (388800000000 / (?1 / 2000)) AS t FROM i)`,
	`WITH RECURSIVE i(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM i WHERE x + 1 < ?1 / 2)
INSERT INTO batch (id, queue, rank, due, created, origin, span, granted)
SELECT t << 10, 'q' || (x % 20), t, t, t, 'o', 1000000 + x, 1
FROM (SELECT x, ?2 - 388800000000 + x * (388800000000 / (?1 / 2)) AS t FROM i)`,
	`WITH RECURSIVE i(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM i WHERE x < 999)
INSERT INTO task (batch, n, stage, context, key, group_key)
SELECT b.id, i.x, iif(b.span = 1, 'rare', 'first'),
'{"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}', iif(i.x < 100,
'same', NULL), NULL
FROM batch b CROSS JOIN i WHERE b.span < 1000000 AND ?1 AND ?2`,
	`INSERT INTO task (batch, n, stage, context, key, group_key)
SELECT id, 0, 'first',
'{"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}', NULL, NULL
FROM batch WHERE span >= 1000000 AND ?1 AND ?2`,
	`INSERT INTO step (batch, n, seq, token, kind, ran, stage, attempt, base, started, finished,
hash, context_seq, due, worker)
SELECT t.batch, t.n, 0, 1, CASE WHEN (b.span + t.n) % 10 = 7 THEN 5 WHEN (b.span + t.n) % 100 = 9
THEN 9 ELSE 1 END, t.stage, t.stage, 1, -1,
  b.created, b.created + 1000, 7, -1, 0, iif(b.span = 1, 'rare', 'w' || (b.span % 50))
FROM task t JOIN batch b ON b.id = t.batch WHERE b.span < 1000000 + ?1 * 9 / 20 AND ?2`,
	`INSERT INTO span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths, size,
gaps)
SELECT span, id, 0, 0, 0, queue, rank, due + iif(span < 1000100 + ?1 * 9 / 20, 8640000000000, 0),
NULL, 0, 0, 0, 1, 0
FROM batch WHERE span >= 1000000 + ?1 * 9 / 20 AND ?2`,
	`INSERT INTO running (batch, n, seq, span, token, worker, incarnation, started, until)
SELECT batch, 0, 0, id, 1, 'w' || (id % 50), 'i', due, due + 1000000000000 FROM span
WHERE id % 100 = 7 AND ?1 AND ?2`,
	`UPDATE span SET holder = 'a', htok = 1, token = 1 WHERE id % 100 = 7 AND ?1 AND ?2`,
	`INSERT INTO event (seq, time, key, kind, subject, text)
WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < ?1 / 10)
SELECT x, ?2 - (?1 / 10 - x) * 1000000, 'k' || x, 'worker.seen', 'w', 'text' FROM i`,
	`UPDATE event_head SET last = ?1 / 10, time = ?2`,
	`UPDATE store SET spans = 100000000 WHERE ?1 AND ?2`,
}

// fill makes the store of BenchmarkPages.
func fill(b *testing.B, path string, tasks int64) {
	b.Helper()
	s, err := Open(b.Context(), Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	c := &client{TB: b, Store: s}
	for _, q := range append([]string{"rare"}, pageQueues()...) {
		if _, err := c.ChangeQueue(
			b.Context(), q, store.Whole(limits.DefaultQueue(q)),
		); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	unpack(b, path) // rows are made by SQL, and move into packs as those of an earlier version do
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		b.Fatal(err)
	}
	run := func(text string, args ...any) {
		if err := sqlitex.ExecuteTransient(
			conn, text, &sqlitex.ExecOptions{Args: args},
		); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF",
		"PRAGMA cache_size = -400000"} {
		run(text)
	}
	now := time.Now().UnixMicro()
	for _, text := range manyTasks {
		start := time.Now()
		run(text, tasks, now)
		b.Logf("%v: %.60s", time.Since(start).Round(time.Millisecond), text)
	}
	run("PRAGMA journal_mode = WAL")
	if err := conn.Close(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if s, err = Open(b.Context(), Config{Path: path}); err != nil {
		b.Fatal(err)
	}
	b.Logf("%v: move tasks into packs", time.Since(start).Round(time.Millisecond))
	start = time.Now()
	if err := s.write(b.Context(), markSteps); err != nil {
		b.Fatal(err)
	}
	b.Logf("%v: mark what is done", time.Since(start).Round(time.Millisecond))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// markSteps moves plain outcomes that would have come together from steps into marks.
func markSteps(t *tx) error {
	var at task.ID
	for {
		var list []pack.Done
		first := at
		err := t.each(`SELECT batch, n, token, started, finished, worker FROM step
WHERE (batch, n) > (?, ?) AND seq = 0 AND kind = 1 ORDER BY batch, n LIMIT 64`, func(
			st *sqlite.Stmt,
		) bool {
			id := task.ID{Batch: st.ColumnInt64(0), N: st.ColumnInt32(1)}
			if len(list) == 0 {
				first = id
			} else if id.Batch != first.Batch || pack.Lo(id.N) != pack.Lo(first.N) {
				return false
			}
			list = append(list, pack.Done{
				N: id.N, Token: st.ColumnInt64(2), Started: st.ColumnInt64(3),
				Finished: st.ColumnInt64(4), Worker: st.ColumnText(5),
			})
			at = id
			return true
		}, at.Batch, at.N)
		if err != nil || len(list) == 0 {
			return err
		}
		if len(list) < markedTogether {
			continue
		}
		body, bits := pack.AppendDone(nil, list)
		if _, err := t.exec(
			insertMark, first.Batch, pack.Lo(first.N), int64(bits), body,
		); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM step WHERE batch = ? AND n BETWEEN ? AND ? AND seq = 0
AND kind = 1`, first.Batch, list[0].N, at.N); err != nil {
			return err
		}
	}
}

func pageQueues() []string {
	names := make([]string, 20)
	for i := range names {
		names[i] = "q" + string(rune('0'+i%10))
		if i > 9 {
			names[i] = "q1" + string(rune('0'+i%10))
		}
	}
	return names
}

// What one page of a list takes among many tasks: the slowest of all pages of a walk, and the
// first. Ten million tasks and a store that stays:
//
//	go test ./internal/store/sqlite -run '^$' -bench Pages -timeout 1h -args -pages.tasks 10000000 -pages.store /tmp/pages.db
func BenchmarkPages(b *testing.B) {
	path := *pagesStore
	if path == "" {
		path = filepath.Join(b.TempDir(), "rota.db")
	}
	if _, err := os.Stat(path); err != nil {
		fill(b, path, *pagesTasks)
	}
	s := open(b, Config{Path: path})
	storetest.BenchmarkPages(b, s, cpuTime)
}
