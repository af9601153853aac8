package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// tablesBefore are those of version 15, in which each task has a row, and each outcome.
var tablesBefore = []string{
	`CREATE TABLE task (
  batch        INTEGER NOT NULL,
  n            INTEGER NOT NULL,
  stage        TEXT    NOT NULL,
  context      BLOB,
  key          TEXT,
  group_key    TEXT,
  max_attempts INTEGER,
  timeout      INTEGER,
  PRIMARY KEY (batch, n)
) WITHOUT ROWID`,
	`CREATE INDEX task_by_key ON task (key) WHERE key IS NOT NULL`,
}

// unpack takes the tables of a file back to version 15.
func unpack(t testing.TB, path string) {
	t.Helper()
	c, err := dial(path, sqlite.OpenReadWrite, append([]string{"BEGIN"}, tablesBefore...))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.unpackTasks(); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"DROP TABLE edit", "DROP TABLE pack", "DROP TABLE keyed",
		"DROP TABLE mark",
		"DROP TABLE expiry", "ALTER TABLE stat DROP COLUMN expired",
		"DROP TABLE gate", "DROP INDEX running_queue", "ALTER TABLE running DROP COLUMN queue",
		"ALTER TABLE running DROP COLUMN key", "DROP TABLE bucket", "DROP INDEX span_ready",
		"DROP INDEX span_key", "DROP INDEX span_order", "DROP INDEX span_sorted", "ALTER TABLE span DROP COLUMN key",
		"CREATE INDEX span_ready ON span (queue, rank, id, due) WHERE holder IS NULL",
		"ALTER TABLE queue DROP COLUMN key_running", "ALTER TABLE queue DROP COLUMN key_rate_count",
		"ALTER TABLE queue DROP COLUMN key_rate_per", "ALTER TABLE queue DROP COLUMN key_burst",
		"ALTER TABLE queue DROP COLUMN fair", "ALTER TABLE queue DROP COLUMN key_stop",
		"DROP TABLE key_rule", "ALTER TABLE queue DROP COLUMN key_rules",
		"DROP TABLE key_owner", "DROP TABLE wait", "DROP TABLE signal", "DROP TABLE change",
		"DROP TABLE child_batch", "DROP TABLE child_count", "DROP TABLE dependency",
		"DROP TABLE hook",
		"ALTER TABLE span DROP COLUMN linked",
		"ALTER TABLE queue DROP COLUMN max_running", "ALTER TABLE queue DROP COLUMN rate_count",
		"ALTER TABLE queue DROP COLUMN rate_per", "ALTER TABLE queue DROP COLUMN burst",
		"DROP TABLE unique_key", "ALTER TABLE batch DROP COLUMN existing",
		"DELETE FROM goose_db_version WHERE version_id > 15", "COMMIT"} {
		if err := c.run(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func (c *conn) unpackTasks() error {
	type key struct {
		batch int64
		row
	}
	var packs, marks []key
	scan := func(list *[]key) func(st *sqlite.Stmt) bool {
		return func(st *sqlite.Stmt) bool {
			*list = append(*list, key{st.ColumnInt64(0), row{
				st.ColumnInt32(1), pack.Bits(st.ColumnInt64(2)), bytesOf(st, 3),
			}})
			return true
		}
	}
	err := errors.Join(c.each(`SELECT batch, lo, has, body FROM pack`, scan(&packs)),
		c.each(`SELECT batch, lo, bits, body FROM mark`, scan(&marks)))
	stages := map[task.ID]string{}
	for _, p := range packs {
		err = errors.Join(err, pack.EachTask(p.body, p.lo, p.has, func(k *store.Task) bool {
			stages[task.ID{Batch: p.batch, N: k.N}] = k.Stage
			var key, group any
			if k.Key != "" {
				key = k.Key
			}
			if k.GroupKey != "" {
				group = k.GroupKey
			}
			_, err = c.exec(`INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, p.batch, k.N,
				k.Stage, k.Context, key, group, k.MaxAttempts, k.Timeout)
			return err == nil
		}))
	}
	for _, m := range marks {
		err = errors.Join(err, pack.EachDone(m.body, m.lo, func(d *pack.Done) bool {
			id := task.ID{Batch: m.batch, N: d.N}
			stage, stands := stages[id]
			if !stands {
				return true
			}
			s := d.Step(stage)
			_, err = c.exec(`INSERT INTO step VALUES
(?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, NULL, ?, NULL)`, id.Batch, id.N, d.Token,
				int(s.Kind), s.Ran, s.Stage, s.Attempt, s.Base, s.Started, s.Finished, s.Hash,
				s.ContextSeq, s.Worker, s.Result)
			return err == nil
		}))
	}
	return err
}

// manifold fills a store with tasks of every kind: with and without keys, contexts of every size,
// more than one pack, in every state. One batch has gaps.
func manifold(c *client) (want []task.View) {
	c.Helper()
	for _, n := range []int{1, 3, 63, 64, 65, 200} {
		b := c.batch(n, n, true)
		for i := range b.Tasks {
			k := &b.Tasks[i]
			k.Context = store.Value(fmt.Sprintf(`"%s"`, strings.Repeat("x", (i*i*7)%4000)))
			if i%5 == 1 {
				k.Context = nil
			}
			if i%3 == 0 {
				k.Key, k.KeyUntil = fmt.Sprint("key ", i), c.clock()+1e12 // three exist from 3 on
			}
			if i%7 == 2 {
				k.GroupKey, k.MaxAttempts, k.Timeout = "ü", int32(i), int64(i)*1e6
			}
			if i%11 == 4 {
				k.Stage = "second"
			}
		}
		c.finishSome(c.submit(b)[0], b.Tasks)
	}
	return c.all()
}

// finishSome reports on tasks of a span: in ten ways, a tenth of them stays as it is.
func (c *client) finishSome(sp store.Span, tasks []store.Task) {
	c.Helper()
	var set store.Settlement
	for i := range tasks {
		outcomes := []task.Outcome{
			task.Finish(nil), task.Finish("a result"), task.Finish(nil), task.Finish(i),
			task.Fail(errors.New("no")), task.Retry(errors.New("later")), task.Finish(nil),
			task.Next("second", map[string]int{"i": i}), task.Finish(nil),
		}
		if i%10 < len(outcomes) {
			r := report(&sp, tasks[i].N, 0, c.clock(), outcomes[i%10])
			r.Step.Ran = tasks[i].Stage
			if r.Step.Kind != task.KindNext {
				r.Step.Stage = r.Step.Ran
			}
			set.Reports = append(set.Reports, r)
		}
	}
	if _, err := c.Settle(c.Context(), set); err != nil {
		c.Fatal(err)
	}
}

// all are the views of all tasks, whole, and the counts.
func (c *client) all() (list []task.View) {
	c.Helper()
	at := task.ID{}
	for {
		page, next, err := c.Tasks(c.Context(), store.Filter{}, at, 100)
		if err != nil {
			c.Fatal(err)
		}
		for _, v := range page {
			one, err := c.Task(c.Context(), v.ID)
			if err != nil {
				c.Fatal(err)
			}
			list = append(list, one)
		}
		if at = next; next == (task.ID{}) {
			return list
		}
	}
}

func TestTasksOfAnEarlierVersionMoveIntoPacks(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	path := filepath.Join(t.TempDir(), "rota.db")
	s, err := Open(t.Context(), Config{Path: path, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := join(t, s)
	want := manifold(c)
	held, err := s.Held(t.Context(), c.holder, nil)
	if err != nil {
		t.Fatal(err)
	}
	keyed, _, err := s.Tasks(t.Context(), store.Filter{Key: "key 33"}, task.ID{}, 10)
	if err != nil || len(want) < 300 || len(held) != 6 || len(keyed) == 0 {
		t.Fatalf("%d tasks, %d spans, %d with the key, %v: the test shows too little", len(want),
			len(held), len(keyed), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unpack(t, path)
	for range 3 { // it is ended three times on the way
		interrupt(t, path)
	}
	if s, err = Open(t.Context(), Config{Path: path, Now: clock.Now}); err != nil {
		t.Fatal(err)
	}
	c = &client{TB: t, Store: s, holder: c.holder}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if diff := cmp.Diff(want, c.all()); diff != "" {
		t.Error(diff)
	}
	got, err := s.Held(t.Context(), c.holder, nil)
	if diff := cmp.Diff(held, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	again, _, err := s.Tasks(t.Context(), store.Filter{Key: "key 33"}, task.ID{}, 10)
	if diff := cmp.Diff(keyed, again); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if n := c.count(`SELECT count(*) FROM sqlite_schema WHERE name LIKE 'task_un%'`); n != 0 {
		t.Error("the table of before is still there")
	}
}

// interrupt begins to bring the tables up, and ends it after the first piece.
func interrupt(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := migrateBy(ctx, fileURI(path), 50, 50, func(_ string, done, all int64) {
		if done != 50 || all < done {
			t.Errorf("told of %d of %d tasks", done, all)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var packs, left int
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM pack), (SELECT count(*) FROM
task_unpacked)`).Scan(&packs, &left); err != nil || packs == 0 || left == 0 {
		t.Fatalf("%d packs, %d tasks left, %v: the test shows too little", packs, left, err)
	}
}
