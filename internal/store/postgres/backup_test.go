//go:build unix

package postgres

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// restoredSQL is the script in docs/backup.md.
func restoredSQL(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "```sql\n")
	script, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/backup.md has no SQL")
	}
	file := filepath.Join(t.TempDir(), "restored.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The recipe of docs/backup.md, with the commands that stand there, while the store takes writes.
func TestDumpedDatabaseRestoresWithALifeOfItsOwn(t *testing.T) {
	story.Whole(t)
	cluster := pgtest.Shared(t)
	cluster.Exec(t, "CREATE DATABASE dumped")
	t.Cleanup(func() {
		cluster.Exec(t, "DROP DATABASE dumped WITH (FORCE)",
			"DROP DATABASE IF EXISTS restored WITH (FORCE)")
	})
	s := open(t, Config{DSN: cluster.DSN("dumped")})
	c := join(t, s)
	c.submit(c.batch(100, 100, false))
	large := c.batch(1, 1, false)
	content := bytes.Repeat([]byte("x"), 50_000)
	var err error
	if large.Tasks[0].Context, err = s.Keep(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	c.submit(large)
	held := c.submit(c.batch(10, 10, true))
	runSQL(t, cluster.DSN("dumped"), `INSERT INTO rota.schedule (id, version, since, first, next,
created, name, calendar, follows, spec)
VALUES (1, 1, 1, 1, 9000000000000000, 1, 's', '', '', '{"queue":"q"}')`)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				c.submit(c.batch(20, 20, false))
			}
		}
	}()
	dump := filepath.Join(t.TempDir(), "rota.dump")
	cluster.Program(t, "pg_dump", "--format=custom", "--schema=rota", "--file="+dump, "dumped")
	close(stop)
	<-stopped
	cluster.Program(t, "createdb", "restored")
	cluster.Program(t, "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner",
		"--dbname=restored", dump)
	cluster.Program(t, "psql", "--set=ON_ERROR_STOP=1", "--dbname=restored",
		"--file="+restoredSQL(t))

	n := open(t, Config{DSN: cluster.DSN("restored")})
	got, err := n.Counts(t.Context(), "q")
	if err != nil || got[0].Counts.Ready < 111 || (got[0].Counts.Ready-111)%20 != 0 {
		t.Errorf("got %+v, %v, want 111 ready tasks and whole batches", got, err)
	}
	v, err := n.Task(t.Context(), task.ID{Batch: large.ID, N: large.Tasks[0].N})
	if err != nil || !bytes.Equal(v.Context, content) {
		t.Errorf("the large context: got %d bytes, %v", len(v.Context), err)
	}
	if is := n.Secret(); is.Key == s.Secret().Key || is.Since != 0 ||
		bytes.Equal(n.PeerKey(), s.PeerKey()) {
		t.Error("tokens of its old life are good")
	}
	report := store.Report{
		ID:    task.ID{Batch: held[0].Batch},
		Token: task.Token{Span: held[0].ID, SpanToken: held[0].Token}, Step: store.Step{
			Kind: task.KindDone, Base: store.Final,
		},
	}
	if a, err := n.Settle(
		t.Context(), store.Settlement{Reports: []store.Report{report}},
	); err != nil || a.Verdicts[0] == task.Recorded {
		t.Errorf("a report of its old life: got %v, %v", a, err)
	}
	was, err := s.Acquire(t.Context(), "node/b", "b", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	is, err := n.Acquire(t.Context(), "node/b", "b", time.Hour, nil)
	if err != nil || is.Token <= was.Token {
		t.Errorf("got lease %+v, %v, want a token beyond %d", is, err, was.Token)
	}
	r := join(t, n)
	old, anew := c.submit(c.batch(1, 1, false)), r.submit(r.batch(1, 1, false))
	if anew[0].ID <= old[0].ID {
		t.Errorf("got span %d, want one beyond %d", anew[0].ID, old[0].ID)
	}
	page, err := n.Events(t.Context(), store.EventQuery{Limit: 10})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != "store.restored" ||
		page.Events[0].Seq <= 1<<32 {
		t.Errorf("got %+v, %v, want the event that says so", page, err)
	}
	if list, err := n.Schedules(
		t.Context(), store.ScheduleQuery{Limit: 10},
	); err != nil || len(list) != 1 || !list[0].Paused {
		t.Errorf("got schedules %+v, %v, want one that is paused", list, err)
	}
}
