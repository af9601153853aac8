//go:build unix

package pgtest

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// connect opens a connection that is closed with the test.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestDatabasesOfOneClusterAreApart(t *testing.T) {
	c := Shared(t)
	if Shared(t) != c {
		t.Error("the second test would start another server")
	}
	one, two := connect(t, c.Database(t)), connect(t, c.Database(t))
	run(t, one, "CREATE TABLE x ()")
	run(t, two, "CREATE TABLE x ()")
}

func TestDurableClusterKeepsWhatWasCommittedWhenItIsKilled(t *testing.T) {
	c := Start(t, Config{Durable: true})
	dsn := c.DSN("postgres")
	run(t, connect(t, dsn), "CREATE TABLE x AS SELECT 7 AS y")
	c.Kill9(t)
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Fatal("a killed server answers")
	}
	c.Restart(t)
	var y int
	if err := connect(t, dsn).QueryRow(t.Context(), "SELECT y FROM x").Scan(&y); err != nil ||
		y != 7 {
		t.Errorf("got %d, %v, want 7", y, err)
	}
	c.Stop(t)
	c.Restart(t)
	run(t, connect(t, dsn), "SELECT y FROM x")
}

func TestPausedServerAnswersNothingUntilItGoesOn(t *testing.T) {
	c := Start(t, Config{Settings: []string{"application_name = 'set'"}})
	conn := connect(t, c.DSN("postgres"))
	run(t, conn, "SELECT 1")
	c.Pause(t)
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	c.Resume(t)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestMissingPostgreSQLSaysWhatToInstall(t *testing.T) {
	if !strings.Contains(errMissing.Error(), "apt-get install postgresql") {
		t.Error(errMissing)
	}
	t.Setenv("PATH", "")
	if dir, err := programs(); err == nil && !isFile(dir+"/postgres") {
		t.Errorf("%s has no server", dir)
	}
}

func TestPromotedStandbyGoesOnAlone(t *testing.T) {
	primary := Start(t, Config{})
	run(t, connect(t, primary.DSN("postgres")), "CREATE TABLE x AS SELECT 7 AS y")
	standby := primary.Standby(t)
	primary.Kill9(t)
	standby.Promote(t)
	run(t, connect(t, standby.DSN("postgres")), "INSERT INTO x VALUES (8)")
}

func TestServerCPUIsCounted(t *testing.T) {
	c := Shared(t)
	before, err := c.CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	run(t, connect(t, c.DSN("postgres")), "SELECT sum(x) FROM generate_series(1, 3000000) x")
	after, err := c.CPUTime()
	if err != nil || runtime.GOOS == "linux" && after <= before {
		t.Errorf("the server used %v before and %v after hard work (%v)", before, after, err)
	}
}

func TestRemovedClusterLeavesNoProcessAndNoFiles(t *testing.T) {
	c := Start(t, Config{})
	c.Pause(t)
	c.Remove(t)
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
	if _, err := pgx.Connect(t.Context(), c.DSN("postgres")); err == nil {
		t.Error("it answers")
	}
}

func TestSynchronousStandbyHasWhatWasAnswered(t *testing.T) {
	primary := Start(t, Config{Settings: []string{"synchronous_standby_names = 'walreceiver'"}})
	standby := primary.Standby(t)
	run(t, connect(t, primary.DSN("postgres")), "CREATE TABLE x AS SELECT 7 AS y")
	primary.Remove(t)
	standby.Promote(t)
	var y int
	if err := connect(t, standby.DSN("postgres")).QueryRow(t.Context(),
		"SELECT y FROM x").Scan(&y); err != nil || y != 7 {
		t.Errorf("got %d, %v, want 7", y, err)
	}
}

func TestAFreePortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for range 1000 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Errorf("port %d comes again, though its server may only be away", port)
		}
		given[port] = true
	}
}
