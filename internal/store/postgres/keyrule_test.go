//go:build unix

package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// submitKeys submits a task to a queue for each of some group keys, in a span of its own.
func (c *client) submitKeys(queue string, hold bool, keys ...string) []store.Span {
	c.Helper()
	b := c.batch(len(keys), 1, hold)
	b.Queue = queue
	for i, key := range keys {
		b.Tasks[i].GroupKey = key
	}
	got := must(c.Submit(c.Context(), store.Submission{
		Holder: c.holder, Batches: []store.Batch{b}, NewQueues: []string{queue},
	}))(c.TB)
	return got.Spans
}

// holding are reports that the tasks of spans are to be tried again, and hold their keys.
func holding(d time.Duration, spans ...store.Span) (set store.Settlement) {
	for i := range spans {
		r := report(&spans[i], spans[i].Lo, 0, 1, task.Retry(nil))
		r.HoldKey = d
		set.Reports = append(set.Reports, r)
	}
	return set
}

// pauses pauses a key of queue q, or lets it go on.
func (c *client) pauses(key string, d time.Duration) store.KeyRule {
	c.Helper()
	return must(c.ChangeKey(c.Context(), store.KeyChange{
		Queue: "q", Key: key, Pause: d, Resume: d == 0,
	}))(c.TB)
}

// asksToBegin are the hand-outs of spans of one task each.
func (c *client) asksToBegin(keys []string, spans []store.Span) store.BeginRequest {
	r := store.BeginRequest{Holder: c.holder}
	for i := range spans {
		sp := &spans[i]
		r.Rows = append(r.Rows, store.Begin{Queue: sp.Queue, Key: keys[i], Running: store.Running{
			ID: task.ID{Batch: sp.Batch, N: sp.Lo}, Span: sp.ID, Token: sp.Token, Worker: "w",
			Started: 1, Until: 2,
		}})
	}
	return r
}

// What is said of keys comes with what is asked anyway, and settlements that hold none ask nothing.
func TestTripsOfKeyRules(t *testing.T) {
	story.Whole(t)
	m := &meter{}
	c := join(t, open(t, Config{NoNotify: true, tracer: m}))
	budget := func(what string, want int64, do func() error) {
		t.Helper()
		before := m.trips.Load()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := m.trips.Load() - before; got != want {
			t.Errorf("%s: %d trips, want %d", what, got, want)
		}
	}
	ctx := t.Context()
	c.settle(c.submitKeys("q", true, "x")) // span ids are reserved
	take := func() error {
		_, err := c.Take(ctx, store.TakeRequest{
			Holder: c.holder, Queue: "q", Limit: 9, Keys: &store.ByKey{Fair: true},
		})
		return err
	}
	keys := []string{"x", "y", "z"}
	begin := func() func() error {
		spans := c.submitKeys("q", true, keys...)
		return func() error { _, err := c.Begin(ctx, c.asksToBegin(keys, spans)); return err }
	}
	settle := func(d time.Duration) func() error {
		spans := c.submitKeys("q", true, keys...)
		return func() error { _, err := c.Settle(ctx, holding(d, spans...)); return err }
	}
	change := store.KeyChange{Queue: "q", Key: "x", Weight: new(2)}
	c.submitKeys("q", false, keys...)
	if err := take(); err != nil { // ids of spans for what it sorts are reserved
		t.Fatal(err)
	}
	// as many as without what is said of keys
	for _, rules := range []string{"no rules", "rules"} {
		c.submitKeys("q", false, keys...)
		budget("take, "+rules, 10, take)
		budget("begin, "+rules, 2, begin())
		budget("settle, "+rules, 1, settle(0))
		budget("change a key, "+rules, 2, func() error {
			_, err := c.ChangeKey(ctx, change)
			return err
		})
	}
	budget("settle and hold", 1, settle(time.Hour))
	budget("keys", 3, func() error { _, err := c.Keys(ctx, "q"); return err })
	budget("gates", 2, func() error { _, _, err := c.Gates(ctx); return err })

	var texts []string
	m.told.Store(&texts)
	for _, d := range []time.Duration{0, time.Hour} {
		do := settle(d)
		texts = nil
		if err := do(); err != nil {
			t.Fatal(err)
		}
		asked := slices.ContainsFunc(texts, func(text string) bool {
			return strings.Contains(text, "key_rule") || strings.Contains(text, "rota.queue")
		})
		if asked != (d > 0) {
			t.Errorf("a settlement that holds keys for %v asks for rules: %v", d, asked)
		}
	}
}

// What is read of rules is bounded by what is asked for, not by how many there are.
func TestKeyRulesAreFoundByTheirKeys(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{}))
	spans := c.submitKeys("q", true, "x", "y")
	c.pauses("x", store.Forever)
	c.pauses("z", time.Microsecond)
	conn, err := pgx.Connect(t.Context(), c.conf.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, value := range transactions {
		if _, err := conn.Exec(t.Context(), `SELECT set_config($1, $2, false)`, name,
			value); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{`INSERT INTO rota.key_rule
SELECT 'other', 'k' || i, ` + never + ` - i % 2, i % 3 FROM generate_series(1, 50000) i`,
		`INSERT INTO rota.key_rule
SELECT 'q', 'k' || i, ` + never + ` - 1, 0 FROM generate_series(1, 50000) i`,
		`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths,
size, gaps, key)
SELECT -i, -i, 0, 0, 0, 'other', 1, 1, 0, 0, 0, 1, false, 'k' FROM generate_series(1, 20000) i`,
		`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, htok, token, deaths,
size, gaps)
SELECT -i, -i, 0, 0, 0, 'q', ` + never + ` - 1, ` + never + ` - 1, 0, 0, 0, 1, false
FROM generate_series(20001, 40000) i`,
		`INSERT INTO rota.span (id, batch, lo, hi, seq0, queue, rank, due, holder, htok, token, deaths,
size, gaps) SELECT -i, -i, 0, 0, 0, 'other', 1, 1, 'b', 1, 1, 0, 1, false
FROM generate_series(40001, 41000) i`,
		`INSERT INTO rota.gate SELECT 'other' || i, 0, 0, 0 FROM generate_series(1, 1000) i`,
		`INSERT INTO rota.running (batch, n, seq, span, token, started, until, worker, incarnation,
queue, key) SELECT i, 0, 0, 0, 0, 0, 0, '', '', 'other' || i % 10,
CASE WHEN i % 20 < 10 THEN 'k' END FROM generate_series(1, 20000) i`, "UPDATE rota.queue SET max_running = 5, key_running = 5"} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	now := c.today().UnixMicro()
	q, batches := []string{"q"}, []int64{spans[0].Batch}
	for _, analyze := range []string{"", "ANALYZE"} {
		if analyze != "" {
			if _, err := conn.Exec(t.Context(), analyze); err != nil {
				t.Fatal(err)
			}
		}
		for name, q := range map[string]query{
			"gates":    tell(gatesOf, q),
			"full":     tell(fullKeys, q, namedAtOnce),
			"find":     tell(findKeyRule, "q", "x"),
			"standing": tell(standingRules, "q", store.MaxKeyRules),
			"paused":   tell(pausedKeys, q, nil),
			"over":     tell(keyRulesOver, nil),
			"lock":     tell(lockOver, now, 100),
			"drop":     tell(dropOver, now, 100, q),
			"stand": tell(keyGatesOf, []string{"q", "q"}, []string{"x", "y"}, nil,
				namedAtOnce, true),
			"name":     tell(nameKeys, q, namedAtOnce),
			"note":     tell(noteRules, q, nil),
			"forget":   tell(forgetRules, q),
			"hold":     tell(holdKeys, q, batches, []int32{0}, []int64{1e9}, nil),
			"rules":    tell(keyRulesOf, "q", 100),
			"sorted":   tell(dueSorted, "q", nil, 100),
			"unsorted": tell(dueUnsorted, "q", nil, 100),
			"held":     tell(dueHeld, "q", nil, 100),
			"keys": tell(keysIn, batches, []int32{0}, []int32{1}, []int32{0}, batches,
				[]*string{nil}, now),
		} {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// a connection keeps a plan that knows no values; EXPLAIN alone would know them
			if _, err := tx.Exec(t.Context(), "PREPARE statement AS "+q.text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			literals := make([]string, len(q.args))
			for i, arg := range q.args {
				literals[i] = literal(t, arg)
			}
			var answer []byte
			err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE statement("+
				strings.Join(literals, ", ")+")").Scan(&answer)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, err = tx.Exec(t.Context(), "DEALLOCATE statement")
			if err = errors.Join(err, tx.Rollback(t.Context())); err != nil {
				t.Fatal(err)
			}
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(answer, &plans); err != nil {
				t.Fatal(err)
			}
			most := 220.
			if name == "paused" || name == "held" { // of the latter all that are held are read
				most = 1100
			}
			if read := plans[0].Plan.read(); read > most {
				t.Errorf("%s reads %v rows:\n%s", name, read, answer)
			}
		}
	}
}

// literal is a value as it stands in a statement.
func literal(t *testing.T, value any) string {
	t.Helper()
	if value == nil {
		return "NULL"
	}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	switch v := value.(type) {
	case int, int32, int64, bool:
		return fmt.Sprint(v)
	case string:
		return quoted(v)
	case []string:
		return quoted("{" + strings.Join(v, ",") + "}")
	case []int32, []int64:
		return quoted("{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}")
	case []*string:
		return quoted("{" + strings.TrimSuffix(strings.Repeat("NULL,", len(v)), ",") + "}")
	}
	t.Fatalf("%T has no literal", value)
	return ""
}
