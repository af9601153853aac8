package rota

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// ended runs a node, does something to it, and answers what its Run ends with.
func ended(t *testing.T, n *Node, do func()) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- n.Run(context.WithoutCancel(t.Context())) }()
	settled(t, "the node looks around", func() bool { return n.rounds.Cluster().Working > 0 })
	do()
	select {
	case err := <-result:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the node runs on")
	}
	return nil
}

func quick(name, db string) Config {
	return Config{
		Store: db, Name: name, Listen: "127.0.0.1:0", Beat: 100 * time.Millisecond,
		Lease: 2 * time.Second,
	}
}

// What others ended must not be told once more: perhaps the node is back already.
func TestNodeThatOthersEndedDoesNotSayThatItLeftAndCanJoinAgain(t *testing.T) {
	dsn := database(t)
	a, err := Open(t.Context(), quick("a", dsn))
	if err != nil {
		t.Fatal(err)
	}
	err = ended(t, a, func() {
		execute(t, dsn, `UPDATE rota.lease SET token = token + 1, until = 0 WHERE name = 'node/a'`)
	})
	if !errors.Is(err, ErrOusted) || !errors.Is(err, ErrBroken) ||
		strings.Contains(err.Error(), "broken") {
		t.Fatalf("run: %v", err)
	}
	again, err := a.Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running(t, again)
	if again.Addr() != a.Addr() {
		t.Errorf("it was at %s and is at %s", a.Addr(), again.Addr())
	}
	came := func() (n int) {
		page, err := again.store.Events(t.Context(), store.EventQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			switch e.Kind {
			case store.NodeOnline:
				n++
			case store.NodeOffline:
				t.Errorf("told: %s", e.Text)
			}
		}
		return n
	}
	settled(t, "it says that it came twice", func() bool { return came() == 2 })
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Somebody puts another database where the store was.
func TestNodeServesNoStoreButItsOwn(t *testing.T) {
	cluster := pgtest.Shared(t)
	dsn, other := database(t), database(t)
	stranger, err := Open(t.Context(), quick("stranger", other))
	if err == nil {
		err = stranger.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), quick("a", dsn))
	if err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		t.Helper()
		cluster.Exec(t, "ALTER DATABASE "+from+" ALLOW_CONNECTIONS false",
			"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+from+
				"'",
			"ALTER DATABASE "+from+" RENAME TO "+to, "ALTER DATABASE "+to+" ALLOW_CONNECTIONS true")
	}
	name := func(dsn string) string {
		return dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	}
	err = ended(t, a, func() {
		rename(name(dsn), "aside")
		rename(name(other), name(dsn))
	})
	if !errors.Is(err, ErrBroken) || errors.Is(err, ErrOusted) ||
		!strings.Contains(err.Error(), "another store stands in its place") {
		t.Errorf("run: %v", err)
	}
	if n, err := a.Reopen(t.Context()); !errors.Is(err, ErrBroken) {
		if err == nil {
			n.Close()
		}
		t.Errorf("opened again: %v", err)
	}
	if _, err := a.Submit(t.Context(), task.Submission{Queue: "q"}); err == nil {
		t.Error("the node that ended took a task")
	}
	rename(name(dsn), name(other))
	rename("aside", name(dsn))
	again, err := a.Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	var found string
	conn, err := pgx.Connect(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(),
		`SELECT string_agg(DISTINCT subject, ' ') FROM rota.event`).Scan(&found); err != nil ||
		found != "stranger" {
		t.Errorf("the other store has events of %q; %v", found, fmt.Sprint(err))
	}
}

// A store that stands still, with connections open, answers nothing: callers hear of it, and of its
// return.
func TestNodeWhoseStoreStandsStillRefusesCallsThatChangedNothing(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	n, err := Open(t.Context(), quick("a", server.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	running(t, n)
	c, err := client.New(client.Config{
		Servers: []string{"http://" + n.Addr()}, Fixed: true, Attempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	submit := func() error {
		_, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
		return err
	}
	if err := submit(); err != nil {
		t.Fatal(err)
	}
	server.Pause(t)
	settled(t, "the node knows that its store does not answer", func() bool {
		return n.rounds.Reach() != nil
	})
	var refused *client.Error
	if err := submit(); !errors.As(err, &refused) || refused.Outcome != "unchanged" ||
		refused.RetryAfter == 0 || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("submit: %v", err)
	}
	if _, err := n.Submit(
		t.Context(), task.Submission{Queue: "q"},
	); !errors.Is(err, ErrOutOfReach) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the program's own: %v", err)
	}
	server.Resume(t)
	settled(t, "it takes tasks again", func() bool { return submit() == nil })
}
