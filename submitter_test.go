package rota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// open opens a submitter on a database, and closes it at the end of the test.
func openSubmitter(t *testing.T, conf SubmitterConfig) *Submitter {
	t.Helper()
	conf.Log = slog.New(slog.DiscardHandler)
	s, err := NewSubmitter(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// What a submitter stores is done by nodes as what anybody stores, and none of them sees it as one
// of theirs.
func TestSubmitterIsNoMember(t *testing.T) {
	dsn := database(t)
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n", Capacity: 8})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	done := map[string]int{}
	n.Handle("mail", func(_ context.Context, h task.Handout) task.Outcome {
		mu.Lock()
		defer mu.Unlock()
		done[string(h.Context)]++
		return task.Finish(nil)
	})
	running(t, n)
	s := openSubmitter(t, SubmitterConfig{Store: dsn})
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mail := func(text string) task.Submission {
		return task.Submission{Queue: "mail", Context: fmt.Appendf(nil, "%q", text), Key: text}
	}
	large := strings.Repeat("x", 5000)
	var receipts []task.Receipt
	add := func(list []task.Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, list...)
	}
	add(s.Submit(t.Context(), mail("a"), mail("b"), mail(large[:100]), task.Submission{
		Queue: "mail", Context: fmt.Appendf(nil, "%q", large),
	}))
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.SubmitTx(t.Context(), tx, mail("pgx"))
		if commit {
			add(list, errors.Join(err, tx.Commit(t.Context())))
		} else if err := errors.Join(err, tx.Rollback(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.SubmitSQL(t.Context(), tx, mail("sql"))
	add(list, errors.Join(err, tx.Commit()))
	add(s.Submit(t.Context(), mail("a")))
	if last := receipts[len(receipts)-1]; !last.Existing || last.ID != receipts[0].ID {
		t.Errorf("the key %q led to %+v, want %v", "a", last, receipts[0].ID)
	}
	for _, r := range receipts {
		if v, err := n.Task(t.Context(), r.ID, time.Minute); err != nil || v.State != task.Done {
			t.Errorf("%v is %s, %v", r.ID, v.State, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, text := range []string{"a", "b", "pgx", "sql", large} {
		if times := done[fmt.Sprintf("%q", text)]; times != 1 {
			t.Errorf("%.10q was handled %d times", text, times)
		}
	}
	nodes, err := n.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Name != "n" {
		t.Errorf("the nodes are %+v, %v", nodes, err)
	}
}

// A submitter lives for long: what operators set meanwhile holds for it, too.
func TestSubmitterLearnsWhatQueuesAllow(t *testing.T) {
	dsn := database(t)
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	s := openSubmitter(t, SubmitterConfig{Store: dsn})
	long := task.Submission{Queue: "q", Context: []byte(`"` + strings.Repeat("x", 2000) + `"`)}
	if _, err := s.Submit(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if _, err := n.PutQueue(t.Context(), "q",
		client.QueueChange{ContextLimit: new(int64(1000))}); err != nil {
		t.Fatal(err)
	}
	s.refreshed = time.Now().Add(-time.Hour)
	if _, err := s.Submit(t.Context(), long); !errors.Is(err, ErrInvalid) {
		t.Errorf("2,000 bytes, where 1,000 are allowed: %v", err)
	}
}

func TestSubmitterNeedsAStoreThatStands(t *testing.T) {
	dsn := database(t)
	for store, want := range map[string]string{
		"sqlite:rota.db":                      "no PostgreSQL",
		"mysql://x":                           "known are",
		dsn:                                   "start a node on it first",
		strings.Replace(dsn, "?", "x?", 1):    "does not exist",
		dsn + "&rota_connections=1":           "must be a number",
		"postgres://nobody@127.0.0.1:1/rota":  "refused",
		dsn + "&rota_schema=elsewhere&x_y=z1": "",
	} {
		s, err := NewSubmitter(t.Context(), SubmitterConfig{
			Store: store, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", store, err, want)
		}
		if err == nil {
			s.Close()
		}
	}
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for change, want := range map[string]string{
		"INSERT INTO rota.version (version_id, is_applied) VALUES (99, true)": "use a newer rota",
		"DELETE FROM rota.version WHERE version_id > 3":                       "start a node of this version",
	} {
		if _, err := conn.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		_, err := NewSubmitter(t.Context(), SubmitterConfig{
			Store: dsn, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
		if _, err := conn.Exec(t.Context(),
			"DELETE FROM rota.version WHERE version_id = 99"); err != nil {
			t.Fatal(err)
		}
	}
}

// Many at a time, beside nodes, never come to the same ids.
func TestSubmittersOfOneMomentHaveTheirOwnIDs(t *testing.T) {
	dsn := database(t)
	n, err := Open(t.Context(), Config{Store: dsn, Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var mu sync.Mutex
	var ids []task.ID
	var all sync.WaitGroup
	for range 4 {
		s := openSubmitter(t, SubmitterConfig{Store: dsn})
		for range 4 {
			all.Go(func() {
				for range 25 {
					list, err := s.Submit(t.Context(), task.Submission{Queue: "q"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					ids = append(ids, list[0].ID)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	slices.SortFunc(ids, task.ID.Compare)
	if n := len(slices.Compact(ids)); n != 400 {
		t.Errorf("%d ids for 400 tasks", n)
	}
}
