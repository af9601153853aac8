//go:build unix

package rota

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/store/postgres"
	"github.com/rotahq/rota/task"
)

// ahead is a database whose clock is an hour later than that of this machine.
func ahead(t *testing.T) (dsn string) {
	t.Helper()
	dsn = database(t)
	// makes the tables, and the clock
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `CREATE OR REPLACE FUNCTION rota.micros(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
		'SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 3600000000)'`)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

func TestNodesGoByTheDatabasesClock(t *testing.T) {
	nodes := members(t, Config{Store: ahead(t)}, "a", "b")
	a, b := speaks(t, nodes[0]), speaks(t, nodes[1])
	ready, err := a.Ready(t.Context())
	if err != nil || (ready.ClockOffset+time.Hour).Abs() > 10*time.Second {
		t.Errorf("the node is %v ahead of its store, %v; want an hour behind", ready.ClockOffset,
			err)
	}
	got, err := a.Submit(t.Context(),
		task.Submission{Queue: "q"}, task.Submission{Queue: "q", Delay: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range got {
		held, err := b.Hold(t.Context(), task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: 20 * time.Second,
		})
		if err != nil || len(held.Tasks) != 1 || held.Tasks[0].ID != want.ID {
			t.Fatalf("%+v, %v, want %v", held.Tasks, err, want.ID)
		}
	}
	if list, _, err := a.Workers(t.Context()); err != nil || len(list) != 1 {
		// nodes know each other by passes with times
		t.Errorf("%+v, %v", list, err)
	}
}
