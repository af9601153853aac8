package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestNewestPackagedPostgreSQLIsFound(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	pattern := filepath.Join(dir, "*", "bin", "initdb")
	if _, err := postgresPrograms(pattern); err == nil ||
		!strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("without any: error %v", err)
	}
	for _, version := range []string{"9.6", "15", "9"} {
		programs := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(programs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(programs, "initdb"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "15", "bin")
	if got, err := postgresPrograms(pattern); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestDatabasesAreDurableEmptyAndGoneAfterTheirRun(t *testing.T) {
	needPeers(t)
	ctx, dir := t.Context(), openDir(t)
	c, err := startCluster(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	pid := c.pid
	for range 2 {
		d, err := c.create(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := execute(ctx, d.url(), "CREATE TABLE x ()"); err != nil {
			// it is there already where databases are shared
			t.Error(err)
		}
		conn, err := pgx.Connect(ctx, d.url())
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes",
			"autovacuum"} {
			var value string
			if err := conn.QueryRow(ctx, "SHOW "+setting).Scan(&value); err != nil ||
				value != "on" {
				t.Errorf("%s is %q, %v", setting, value, err)
			}
		}
		if err := d.tidy(ctx); err != nil {
			t.Error(err)
		}
		if err := d.drop(); err != nil { // under the feet of conn
			t.Error(err)
		}
		if err := conn.Ping(ctx); err == nil {
			t.Error("a dropped database answers")
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the server is still there")
	}
	nothingLeft(t, dir)
}

func TestRotaStandsOnTheGroundOfItsRow(t *testing.T) {
	for _, c := range []struct {
		ground ground
		store  string
	}{
		{ground{folder: "/x"}, "sqlite:/x/bench.db"},
		{ground{folder: "/x", database: &database{&cluster{port: "5"}, "run_7"}},
			"postgres://bench@127.0.0.1:5/run_7?sslmode=disable"},
	} {
		command, _, err := rota{"rota"}.server(t.Context(), c.ground)
		if i := slices.Index(command, "--store"); err != nil || i < 0 || command[i+1] != c.store {
			t.Errorf("%q, %v, want %s", command, err, c.store)
		}
	}
}

func TestServerThatEndsSaysWhy(t *testing.T) {
	c := &cluster{port: "1"}
	var err error
	if c.process, err = spawn(
		func(string) {}, nil, "sh", "-c", "echo the disk is full >&2; exit 1",
	); err != nil {
		t.Fatal(err)
	}
	if err := c.await(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v", err)
	}
}

func TestFamilyTimeCountsChildrenThatEnded(t *testing.T) {
	finished := make(chan struct{}, 1)
	// A child that works and ends, then one that works and stays.
	const script = `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; sleep 60' & wait`
	p, err := spawn(func(string) { finished <- struct{}{} }, nil, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-p.pid, syscall.SIGKILL) // the children, too: they are of its group
		p.end()
	}()
	<-finished
	own, err := cpuTime(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := endedTime(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := familyTime(p.pid)
	if err != nil || ended <= 0 || all <= own+ended {
		t.Errorf("own %v, of the child that ended %v, all %v, %v", own, ended, all, err)
	}
}

func TestRiverCarriesTheSamePayload(t *testing.T) {
	got, err := json.Marshal(riverPayload(7))
	if err != nil || string(got) != string(payloads[7]) {
		t.Errorf("%s, %v, want %s", got, err, payloads[7])
	}
}

func TestRiverCountsOnlyFinishedJobs(t *testing.T) {
	needPeers(t)
	ctx := t.Context()
	c, err := startCluster(ctx, openDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	d, err := c.create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (postgresRiver{}).server(ctx, ground{database: d}); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{1, 3} {
		s, err := postgresRiver{}.connect(d.url(), load{callers: 1, batch: batch})
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		if err := s.submit(ctx, 0); err != nil {
			t.Fatal(err)
		}
		expect := func(want int64, wrong string) {
			t.Helper()
			n, err := s.done(ctx)
			if n != want || (err == nil) != (wrong == "") || err != nil &&
				!strings.Contains(err.Error(), wrong) {
				t.Errorf("batch %d: done %d, %v, want %d %q", batch, n, err, want, wrong)
			}
		}
		expect(0, "")
		set := func(state, where string) {
			t.Helper()
			if err := execute(ctx, d.url(),
				"UPDATE river_job SET state = '"+state+"', finalized_at = now() "+
					where); err != nil {
				t.Fatal(err)
			}
		}
		set("completed", "")
		expect(int64(batch), "")
		set("discarded", "WHERE id = (SELECT min(id) FROM river_job)")
		expect(0, "1 jobs failed")
		if err := execute(ctx, d.url(), "TRUNCATE river_job"); err != nil {
			t.Fatal(err)
		}
	}
}
