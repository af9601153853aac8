//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// unpacked puts the tasks of a store back into a table of tasks, as the versions before had it.
func unpacked(t testing.TB, dsn string) {
	t.Helper()
	tables := string(must(migrations.ReadFile("migrations/00001_tables.sql"))(t))
	_, tables, _ = strings.Cut(tables, "CREATE TABLE rota.task (")
	columns, _, _ := strings.Cut(tables, ";")
	runSQL(t, dsn, "CREATE TABLE rota.task ("+columns,
		"CREATE INDEX task_with_key ON rota.task (key, batch, n) WHERE key IS NOT NULL",
		`DO $$ DECLARE p record; BEGIN
  FOR p IN SELECT substr(c.relname::text, 5) AS suffix, pg_get_expr(c.relpartbound, c.oid) AS bound
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'rota.step'::regclass
  LOOP
    EXECUTE format('CREATE TABLE rota.%I PARTITION OF rota.task %s', 'task' || p.suffix, p.bound);
  END LOOP;
END $$`,
		`INSERT INTO rota.task (batch, n, stage, context, key, group_key, max_attempts, timeout)
SELECT batch, n, stage, context, key, group_key, max_attempts, timeout FROM rota.tasks`,
		"DROP VIEW rota.tasks", "DROP FUNCTION rota.tasks, rota.task, rota.left_of",
		"ALTER TABLE rota.stat DROP expired",
		"ALTER TABLE rota.running DROP queue, DROP key",
		"DROP INDEX rota.span_ready", "ALTER TABLE rota.span DROP key, DROP linked",
		"DROP TABLE rota.wait, rota.signal, rota.change, rota.child_batch, rota.child_count,"+
			" rota.dependency, rota.unseen, rota.hook",
		"CREATE INDEX span_ready ON rota.span (queue, rank, id) WHERE holder IS NULL",
		"DROP TABLE rota.key_rule", "ALTER TABLE rota.queue DROP key_rules",
		`ALTER TABLE rota.queue DROP key_running, DROP key_rate_count, DROP key_rate_per,
  DROP key_burst, DROP fair, DROP key_stop`, "DROP TABLE rota.key_owner",
		"ALTER TABLE rota.queue DROP max_running, DROP rate_count, DROP rate_per, DROP burst",
		"DROP TABLE rota.pack, rota.keyed, rota.edit, rota.expiry, rota.gate, rota.bucket",
		"DROP TABLE rota.unique_key, rota.batch_remains", "ALTER TABLE rota.batch DROP existing",
		"DELETE FROM rota.version WHERE version_id >= 20")
}

// mixture fills a store with tasks of all kinds and in all states, and answers their ids.
func mixture(c *client) (ids []task.ID) {
	luck := rand.New(rand.NewPCG(1, 2))
	for i, n := range []int{1, 63, 64, 65, 1, 130, 200, 1} {
		b := c.batch(n, 50, true)
		for k := range b.Tasks {
			t := &b.Tasks[k]
			switch {
			case i == 3: // numbers that begin above 0, with gaps
				t.N = 40 + 3*t.N
			case i == 5:
				t.Context = store.Value(strings.Repeat("x", luck.IntN(store.InlineLimit+1)))
			case i == 6:
				t.Stage = []string{"first", "second", ""}[luck.IntN(3)]
				t.MaxAttempts, t.Timeout = int32(luck.IntN(2)), int64(luck.IntN(3))
				t.GroupKey = []string{"", "g☃"}[luck.IntN(2)]
				t.Context = []store.Value{nil, {}, context100}[luck.IntN(3)]
			}
			if i == 2 || i == 5 && k%7 == 0 { // some keys come twice
				t.Key, t.KeyUntil = fmt.Sprint("key", (7+k*k)%50), b.Due+1e12
			}
		}
		last := b.Tasks[n-1].N
		b.Spans = []store.NewSpan{{Lo: 0, Hi: last, Hold: i%2 == 0}}
		spans := c.submit(b)
		c.spread(spans[0], i)
		for _, t := range b.Tasks {
			ids = append(ids, task.ID{Batch: b.ID, N: t.N})
		}
	}
	return ids
}

// spread puts tasks of a span that is held into all states.
func (c *client) spread(sp store.Span, round int) {
	c.Helper()
	if sp.Token == 0 || round == 4 {
		return
	}
	held := must(c.Held(c.Context(), c.holder, nil))(c.TB)
	var set store.Settlement
	var running []store.Running
	var actions []store.Action
	for _, h := range held {
		if h.ID != sp.ID {
			continue
		}
		for k, l := range h.Tasks {
			id := task.ID{Batch: sp.Batch, N: l.N}
			outcomes := []task.Outcome{task.Finish("result"), task.Fail(nil), task.Retry(nil),
				task.Next("second", "context")}
			switch {
			case k%9 < len(outcomes):
				r := report(&sp, l.N, 0, c.today().UnixMicro(), outcomes[k%9])
				set.Reports = append(set.Reports, r)
			case k%9 == 4:
				actions = append(actions, store.Action{ID: id, Kind: task.KindCancelled})
			case k%9 == 5:
				actions = append(actions, store.Action{ID: id, Kind: task.KindRemoved})
			case k%9 == 6:
				running = append(running, store.Running{ID: id, Span: sp.ID, Token: sp.Token,
					Worker: "w", Started: 1, Until: 2})
			}
		}
	}
	must(c.Settle(c.Context(), set))(c.TB)
	must(c.Act(c.Context(), actions))(c.TB)
	must(c.Sync(c.Context(), store.SyncRequest{Holder: c.holder, Insert: running}))(c.TB)
}

// state is what all calls say of some tasks.
func (c *client) state(ids []task.ID) map[string]any {
	c.Helper()
	all := map[string]any{}
	note := func(name string, v any) {
		c.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			c.Fatal(err)
		}
		all[name] = string(b)
	}
	for i, id := range ids {
		v, err := c.Task(c.Context(), id)
		note("task "+id.String(), fmt.Sprintf("%+v %v", v, err))
		if i%7 == 0 { // it takes long; each ninth is in the same state
			note("ahead "+id.String(), must(c.Ahead(c.Context(), id, 1000))(c.TB))
		}
	}
	note("stand", must(c.Stand(c.Context(), ids))(c.TB))
	note("counts", must(c.Counts(c.Context()))(c.TB))
	held := must(c.Held(c.Context(), c.holder, nil))(c.TB)
	slices.SortFunc(held, func(a, b store.HeldSpan) int { return int(a.ID - b.ID) })
	note("held", held)
	for name, f := range map[string]store.Filter{
		"all": {}, "key": {Key: "key7"}, "ready": {State: task.Ready}, "dead": {State: task.Dead},
		"done": {State: task.Done}, "waiting": {State: task.Waiting}, "stage": {Stage: "second"},
		"running": {State: task.Running}, "worker": {Worker: "worker-1"},
	} {
		var list []task.View
		for after := listing.Top; after != (task.ID{}); {
			page, next, err := c.Tasks(c.Context(), f, after, 17)
			if err != nil {
				c.Fatal(err)
			}
			list, after = append(list, page...), next
		}
		note("list "+name, list)
		if len(list) == 0 && name != "waiting" {
			c.Errorf("the list %q is empty", name)
		}
	}
	return all
}

// killer ends a context after so many trips that move tasks.
type killer struct {
	meter
	left atomic.Int64
	kill context.CancelFunc
}

func (k *killer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	for _, of := range []string{"INSERT INTO rota.pack", "FROM rota.task_", "DROP TABLE"} {
		if strings.HasPrefix(q.SQL, of) || of[0] == 'F' && strings.Contains(q.SQL, of) {
			if k.left.Add(-1) == 0 {
				k.kill()
			}
		}
	}
}

func TestStoreOfAnEarlierVersionComesOutTheSame(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	for _, piece := range []int{7, 1, 64, 10_000} {
		t.Run(fmt.Sprint("pieces of ", piece), func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Shared(t).Database(t)
			conf := Config{
				DSN: dsn + unhurried, Now: clock.Now, NoNotify: true, repackPiece: piece,
			}
			s, err := Open(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			c := join(t, s)
			ids := mixture(c)
			want := c.state(ids)
			keys := c.count("SELECT count(*) FROM rota.keyed")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			unpacked(t, dsn)
			kills := 0
			for {
				ctx, cancel := context.WithCancel(t.Context())
				k := &killer{kill: cancel}
				k.left.Store(int64(2 + 5*kills))
				killed := conf
				killed.tracer = k
				s, err = Open(ctx, killed)
				cancel()
				if err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				kills++
				conn, err := pgx.Connect(t.Context(), dsn)
				if err != nil {
					t.Fatal(err)
				}
				// as a node of the version before would
				if _, err := conn.Exec(t.Context(), `SELECT FROM rota.task`); !noTables(err) {
					t.Errorf("the table of before: %v", err)
				}
				conn.Close(t.Context())
			}
			if kills == 0 {
				t.Error("it was never killed")
			}
			c.Store = s
			t.Cleanup(func() { s.Close() })
			if diff := cmp.Diff(want, c.state(ids)); diff != "" {
				t.Errorf("after %d kills:\n%s", kills, diff)
			}
			if n := c.count("SELECT count(*) FROM rota.keyed"); n != keys {
				t.Errorf("%d keys, want %d", n, keys)
			}
			if n := c.count(`SELECT count(*) FROM pg_class WHERE relname LIKE 'task\_%'
AND relkind IN ('r', 'p') AND relname NOT LIKE 'task\_key%'`); n != 0 {
				t.Errorf("%d tables of before are left", n)
			}
		})
	}
}

// BenchmarkRepack moves a million tasks of an earlier version: of batches of a thousand, or alone.
func BenchmarkRepack(b *testing.B) {
	const tasks = 1_000_000
	for _, width := range []int{1000, 1} {
		b.Run(fmt.Sprint("batches of ", width), func(b *testing.B) {
			cluster := pgtest.Start(b, pgtest.Config{Durable: true})
			conf := Config{DSN: cluster.Database(b)}
			s, err := Open(b.Context(), conf)
			if err != nil {
				b.Fatal(err)
			}
			c := &client{TB: b, Store: s}
			first := c.batch(1, 1, false).ID
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			unpacked(b, conf.DSN)
			runSQL(b, conf.DSN, fmt.Sprintf(`INSERT INTO rota.task (batch, n, stage, context)
SELECT %d + x, n, 'first', '%s' FROM generate_series(1, %d) x, generate_series(0, %d) n`, first,
				context100, tasks/width, width-1), "ANALYZE", "CHECKPOINT")
			room := func(table string) float64 {
				conn, err := pgx.Connect(b.Context(), conf.DSN)
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close(b.Context())
				var n int64
				if err := conn.QueryRow(b.Context(), `SELECT sum(pg_total_relation_size(oid))::bigint
FROM pg_class WHERE relname LIKE $1 || '\_2%' AND relkind = 'r'`, table).Scan(&n); err != nil {
					b.Fatal(err)
				}
				return float64(n) / tasks
			}
			before := room("task")
			b.ResetTimer()
			s = open(b, conf)
			b.StopTimer()
			c.Store = s
			b.ReportMetric(before, "B/task-before")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/tasks, "µs/task")
			if n := c.count("SELECT count(*) FROM rota.tasks"); n != tasks {
				b.Errorf("%d tasks stand in packs", n)
			}
			b.ReportMetric(room("pack"), "B/task")
		})
	}
}
