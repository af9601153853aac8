//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/task"
	"zombiezen.com/go/sqlite"
)

// has fails unless the server answers and has n ready tasks.
func (s *victim) has(n int64) {
	s.t.Helper()
	q, err := s.connect().Queue(s.t.Context(), "q")
	if err != nil || q.Counts.Ready != n {
		s.t.Fatalf("got %+v, %v, want %d ready tasks", q.Counts, err, n)
	}
}

// endsBroken waits for a server that ends by itself, and fails unless it says that it failed.
func endsBroken(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != cli.ExitFailed {
		t.Fatalf("the server ended with %v, want exit code %d", err, cli.ExitFailed)
	}
}

// copyOnline copies a database as other programs do, and so moves its log into it.
func copyOnline(t *testing.T, from, to string) {
	t.Helper()
	src, err := sqlite.OpenConn(from, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	dst, err := sqlite.OpenConn(to, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.NewBackup(dst, "", src, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Step(-1); err != nil {
		t.Fatal(err)
	}
	for _, close := range []func() error{b.Close, dst.Close, src.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A healthy store opens whatever became of its log, as long as nothing is lost.
func TestServerOpensItsStoreAfterEveryEndThatLosesNothing(t *testing.T) {
	s := newVictim(t)
	submit := func() {
		t.Helper()
		if _, err := s.connect().Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	s.serving()
	submit()

	folder := s.store() + ".blobs"
	move(folder, folder+".away")
	endsBroken(t, s.cmd)
	move(folder+".away", folder)
	s.serving()
	s.has(1)

	submit()
	s.kill()
	copyOnline(t, s.store(), s.store()+".copy")
	if _, err := os.Stat(s.store() + "-wal"); err == nil {
		t.Fatal("the log is still there: the test shows nothing")
	}
	s.serving()
	s.has(2)

	s.kill()
	copyOnline(t, s.store(), s.store()+".new")
	move(s.store()+".new", s.store())
	s.serving()
	s.has(2)

	submit()
	s.kill()
	log, err := os.ReadFile(s.store() + "-wal")
	if err != nil || os.Remove(s.store()+"-wal") != nil {
		t.Fatal("no log to lose")
	}
	s.start()
	endsBroken(t, s.cmd)
	if err := os.WriteFile(s.store()+"-wal", log, 0o600); err != nil { // as its advice says
		t.Fatal(err)
	}
	s.serving()
	s.has(3)
	s.end()
}
