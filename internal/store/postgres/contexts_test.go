package postgres

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/internal/story"
)

// A page of contexts reads as many steps as it looks at, however many a task has, and its
// neighbours have.
func TestContextsReadAsManyRowsAsTheySay(t *testing.T) {
	story.Whole(t)
	const tasks, steps = 20, 10_000
	c := join(t, open(t, Config{}))
	b := c.batch(tasks, tasks, false)
	c.submit(b)
	conn, err := pgx.Connect(t.Context(), c.conf.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `INSERT INTO rota.step
(batch, n, seq, token, hash, started, finished, attempt, base, kind, ran, stage, context)
SELECT $1, n, seq, 1, seq, 0, seq, 0, 0, 2, 'a', 'b', '1'
FROM generate_series(0, $2::int - 1) n, generate_series(0, $3::int - 1) seq`, b.ID, tasks,
		steps); err != nil {
		t.Fatal(err)
	}
	const examined = rules.ContextsExamined + 1
	// What is planned before the database knows the table holds as well as what is planned after.
	for _, prepare := range []string{"SET enable_seqscan = off", "RESET ALL; ANALYZE"} {
		if _, err := conn.Exec(t.Context(), prepare); err != nil {
			t.Fatal(err)
		}
		for _, q := range []struct {
			name string
			query
			most float64 // rows
		}{
			{"submitted", tell(submittedAs, b.ID, 7), 10},
			{"first page", tell(contextSteps, b.ID, 7, -1, examined), examined + 1},
			{"a page", tell(contextSteps, b.ID, 7, steps/2, examined), examined + 1},
			{"last page", tell(contextSteps, b.ID, 7, steps-1, examined), 3},
			{"texts", tell(contextsAt, b.ID, 7, []int32{0, 5000, 9999}), 3},
		} {
			var answer []byte
			if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.text,
				q.args...).Scan(&answer); err != nil {
				t.Fatalf("%s: %v", q.name, err)
			}
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(answer, &plans); err != nil {
				t.Fatal(err)
			}
			if read := plans[0].Plan.read(); read > q.most {
				t.Errorf("after %s, %s reads %v rows, want at most %v:\n%s", prepare, q.name, read,
					q.most, answer)
			}
		}
	}
}
