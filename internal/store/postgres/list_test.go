package postgres

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// plan is a node of what EXPLAIN (ANALYZE, FORMAT JSON) says.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Plans    []plan
}

// read is how many rows of tables were read.
func (p *plan) read() (n float64) {
	if p.Relation != "" {
		n = (p.Rows + p.Filtered) * p.Loops
	}
	for i := range p.Plans {
		n += p.Plans[i].read()
	}
	return n
}

// What a list's statements read is bounded by their size, not by the tables.
func TestListsReadAsManyRowsAsTheySay(t *testing.T) {
	story.Whole(t)
	const size, batches = 5000, 4
	c := join(t, open(t, Config{}))
	for range batches {
		b := c.batch(size, size, true)
		c.submit(b)
		var actions []store.Action
		for n := range int32(size) {
			actions = append(actions, store.Action{
				ID: task.ID{Batch: b.ID, N: n}, Kind: task.KindCancelled,
			})
		}
		if acted, err := c.Act(t.Context(), actions); err != nil || !acted[size-1].Changed {
			t.Fatalf("%+v, %v", acted[size-1], err)
		}
	}
	conn, err := pgx.Connect(t.Context(), c.conf.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `INSERT INTO rota.keyed
SELECT 'same', batch, n FROM rota.tasks; ANALYZE`); err != nil {
		t.Fatal(err)
	}
	top := listing.Top
	compared := []any{"q", int64(1), int64(0), "first", int32(0), "w", `{"order":"17"}`}
	for name, scan := range map[string]struct {
		scan
		args []any
	}{
		"byKey":     {byKey, []any{top.Batch, top.N, int64(0), "same"}},
		"byFinal":   {byFinal, []any{top.Batch, top.N, int64(0), int32(9)}},
		"expired":   {byFinal, []any{top.Batch, top.N, int64(0), int32(13)}},
		"byRunning": {byRunning, []any{top.Batch, top.N, int64(0), "w"}},
		"byWorker":  {byWorker, []any{top.Batch, top.N, int64(0), "w"}},
	} {
		for text, most := range map[string]float64{
			// the row, its task, two steps, and its batch among the four that there are
			scan.few: few, scan.many: many, scan.fewCompared: 10 * few,
			scan.manyCompared: 10 * many,
		} {
			args := scan.args
			if text == scan.fewCompared || text == scan.manyCompared {
				args = append(args, compared...)
			}
			var answer []byte
			if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+text,
				args...).Scan(&answer); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(answer, &plans); err != nil {
				t.Fatal(err)
			}
			if read := plans[0].Plan.read(); read > most+10 {
				t.Errorf("%s reads %v rows, want at most %v:\n%s\n%s", name, read, most, text,
					answer)
			}
		}
	}
}
