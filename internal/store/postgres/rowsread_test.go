package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
)

// planned is a connection with the settings of transactions: its plans know no values.
func planned(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn := must(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	for name, value := range transactions {
		if _, err := conn.Exec(t.Context(), `SELECT set_config($1, $2, false)`, name,
			value); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// rowsRead is how many rows of tables a query reads by the plan that a connection keeps of it, and
// that plan. What it writes is undone.
func rowsRead(t *testing.T, conn *pgx.Conn, q query) (n float64, text string) {
	t.Helper()
	tx := must(conn.Begin(t.Context()))(t)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "PREPARE statement AS "+q.text); err != nil {
		t.Fatal(err)
	}
	literals := make([]string, len(q.args))
	for i, arg := range q.args {
		literals[i] = literal(t, arg)
	}
	var answer []byte
	if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE statement("+
		strings.Join(literals, ", ")+")").Scan(&answer); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "DEALLOCATE statement"); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan.read(), string(answer)
}

// A piece of the children of what ended, and a page of a list, read those children alone, however
// many batches of others there are and however few parents have many.
func TestChildrenAreReadWithoutThoseOfOthers(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{NoNotify: true}))
	sp := c.parent()
	var batches []store.Batch
	for i := range 200 {
		batches = append(batches, c.brood(i, 1, false))
	}
	must(c.under(&sp, 0, batches...))(t)
	conn := planned(t, c.conf.DSN)
	for _, text := range []string{`INSERT INTO rota.child_batch
SELECT m.batch + 2 * i, i % 5, 0, 0, 0, false, false, 'c ' || i % 5
FROM generate_series(1, 50000) i, (SELECT max(batch) AS batch FROM rota.child_batch) m`,
		`INSERT INTO rota.pack SELECT (jsonb_populate_record(p, jsonb_build_object('batch', c.batch))).*
FROM (SELECT p FROM rota.pack p LIMIT 1) p, rota.child_batch c WHERE c.parent_batch < 5`} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	one, zero, none := []int64{sp.Batch}, []int64{0}, []int32{0}
	for _, analyze := range []string{"", "ANALYZE"} {
		if _, err := conn.Exec(t.Context(), analyze); err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]query{
			"behind": tell(childrenBehind, one, none, zero, []int32{-1}, 1000, []int32{9}),
			"list":   tell(childrenOf, sp.Batch, 0, 0, -1, 1000),
			"behind, a piece": tell(childrenBehind, zero, none, zero, []int32{-1}, 400,
				[]int32{9}),
			"family":       tell(childPacks, one, none, 1000),
			"family, some": tell(childPacks, zero, none, 400),
			"list, a page": tell(childrenOf, 0, 0, 0, -1, 400),
		} {
			n, text := rowsRead(t, conn, q)
			if n > 1000 {
				t.Errorf("%s reads %v rows:\n%s", name, n, text)
			}
		}
	}
}

// Pruning reads the tombstones that go, not all that are kept.
func TestPruningJobsReadsNoTombstonesThatStay(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{NoNotify: true}))
	conn := planned(t, c.conf.DSN)
	for _, text := range []string{`INSERT INTO rota.job_group (id, name, config, read, refresh,
rebalance, since, version, horizon, jobs) SELECT i, 'g' || i, '{}', '', 0, 0, 0, 0, 0, 0
FROM generate_series(1, 10) i`,
		`INSERT INTO rota.assignment (grp, job, worker, replica, token, state, load, since, failed,
note, version) SELECT 1 + i % 10, 'j' || i, 'w', 0, 0, 'ended', 0,
CASE WHEN i <= 3 THEN i ELSE rota.micros(NULL) END, 0, '', 0 FROM generate_series(1, 20000) i`,
		`INSERT INTO rota.job (grp, job, load, gone, version) SELECT 1 + i % 10, 'j' || i, 0,
CASE WHEN i <= 3 THEN i ELSE rota.micros(NULL) END, 0 FROM generate_series(1, 20000) i`} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	groups, hour := []int64{2, 3, 4}, time.Hour.Microseconds()
	for _, analyze := range []string{"", "ANALYZE"} {
		if _, err := conn.Exec(t.Context(), analyze); err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]query{
			"over":   tell(jobsOver, nil, hour, hour),
			"groups": tell(groupsOver, nil, hour, 100),
			"sites":  tell(purgeSites, nil, hour, groups, 100),
			"jobs":   tell(purgeJobs, nil, hour, groups, 100),
		} {
			if n, text := rowsRead(t, conn, q); n > 100 {
				t.Errorf("%s reads %v rows:\n%s", name, n, text)
			}
		}
	}
}
