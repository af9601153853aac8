//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/task"
)

// A server takes writes all the time while it is backed up; it dies; its store is restored
// elsewhere, and everything that was acknowledged before the backup began is there.
func TestBackupOfALivingServerRestores(t *testing.T) {
	s := newVictim(t)
	c := s.serving()
	large := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	for i := range 20 {
		if _, err := c.Submit(t.Context(),
			task.Submission{Queue: "q", Context: large,
				Key: fmt.Sprint("large", i)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	busy := s.connect()
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				list := make([]task.Submission, 20)
				for i := range list {
					list[i] = task.Submission{Queue: "q", Context: json.RawMessage(`"small"`)}
				}
				if _, err := busy.Submit(ctx, list...); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	counted := func() int64 {
		t.Helper()
		q, err := c.Queue(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		return q.Counts.Ready
	}
	eventuallyTrue(t, "the server is busy", func() bool { return counted() > 2000 })
	before := counted()
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "old"}); err != nil {
		t.Fatal(err)
	}
	hold := task.HoldRequest{Worker: "w", Queues: []string{"old"}, Limit: 1}
	held, err := c.Hold(t.Context(), hold)
	if err != nil || len(held.Tasks) != 1 {
		t.Fatalf("got %+v, %v, want a task", held, err)
	}
	file, output := filepath.Join(t.TempDir(), "backup.db"), new(text)
	exitsWith(t,
		s.runTo(output, output, "backup", file, "--store", "sqlite:"+s.store(), "-o", "json"),
		cli.ExitDone)
	after := counted()
	stop()
	wg.Wait()
	var view struct{ Values, Missing int64 }
	if err := json.Unmarshal([]byte(output.String()), &view); err != nil || view.Values != 20 ||
		view.Missing != 0 {
		t.Errorf("it printed %s (%v), want 20 large values", output, err)
	}
	// it exists
	exitsWith(t, s.runTo(output, output, "backup", file, "--store", "sqlite:"+s.store()),
		cli.ExitFailed)
	exitsWith(t,
		s.runTo(output, output, "restore", file, "--store", "sqlite:"+s.store(), "--replace"),
		cli.ExitFailed)
	if !strings.Contains(output.String(), "(--replace)") ||
		!strings.Contains(output.String(), "in use by another process") {
		t.Errorf("it printed %s", output)
	}
	s.kill()

	exitsWith(t, s.runTo(output, output, "restore", file, "--store", "sqlite:"+s.store()),
		cli.ExitFailed)
	exitsWith(t,
		s.runTo(output, output, "restore", file, "--store", "sqlite:"+s.store(), "--replace"),
		cli.ExitDone)
	if !strings.Contains(output.String(), ".before-") {
		t.Errorf("it printed %s, want it to say where the old store is", output)
	}
	c = s.serving()
	if got := counted(); got < before || got > after {
		t.Errorf("the restored store has %d tasks, want %d to %d", got, before, after)
	}
	old := held.Tasks[0]
	again, err := c.Hold(t.Context(), hold) // it goes out again, at the same step
	if err != nil || len(again.Tasks) != 1 || again.Tasks[0].ID != old.ID {
		t.Fatalf("got %+v, %v, want task %s", again, err, old.ID)
	}
	for _, token := range []string{old.Token, again.Tasks[0].Token} {
		want := task.Recorded
		if token == old.Token {
			want = task.Stale
		}
		report := task.Report{ID: old.ID, Token: token, Outcome: task.Finish(nil)}
		answer, err := c.Report(t.Context(), "w", []task.Report{report})
		if err != nil || len(answer) != 1 || answer[0].Status != want {
			t.Errorf("a report with token %s: got %+v, %v, want %s", token, answer, err, want)
		}
	}
	receipts, err := c.Submit(t.Context(),
		task.Submission{Queue: "q", Context: large, Key: "large7"})
	if err != nil {
		t.Fatal(err)
	}
	view7, err := c.Task(t.Context(), receipts[0].ID, 0)
	if err != nil || !bytes.Equal(view7.Context, large) {
		t.Errorf("a large context: got %d bytes, %v", len(view7.Context), err)
	}
	s.end()
}

// Ctrl-C leaves nothing half, and kill -9 nothing that is in the way; what does not exist is said
// to.
func TestInterruptedBackupLeavesNoFile(t *testing.T) {
	s := newVictim(t)
	c := s.serving()
	list := make([]task.Submission, 200)
	for i := range list {
		list[i] = task.Submission{
			Queue: "q", Context: json.RawMessage(`"` + strings.Repeat("y", 3000) + `"`),
		}
	}
	for range 100 {
		if _, err := c.Submit(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	output := new(text)
	cmd := s.runTo(output, output, "backup", filepath.Join(dir, "backup.db"), "--store",
		"sqlite:"+s.store())
	eventuallyTrue(t, "it has begun", func() bool {
		list, err := os.ReadDir(dir)
		return err == nil && len(list) > 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	left, e := os.ReadDir(dir)
	if e != nil {
		t.Fatal(e)
	}
	switch { // it may have been quicker than we
	case err == nil && len(left) == 1 && left[0].Name() == "backup.db":
	case err != nil && cmd.ProcessState.ExitCode() == cli.ExitFailed && len(left) == 0 &&
		strings.Contains(output.String(), "interrupted"):
	default:
		t.Errorf("it ended with %v, said %q and left %v", err, output, left)
	}
	killed := s.runTo(output, output, "backup", filepath.Join(dir, "k"), "--store",
		"sqlite:"+s.store())
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it says that it was killed
	if _, err := c.Submit(t.Context(), list...); err != nil {
		t.Error(err)
	}
	exitsWith(t,
		s.runTo(output, output, "backup", filepath.Join(dir, "k"), "--store", "sqlite:"+s.store(),
			"--replace"), cli.ExitDone)
	exitsWith(t,
		s.runTo(output, output, "backup", filepath.Join(dir, "b"), "--store",
			"sqlite:"+filepath.Join(dir, "none")), cli.ExitNotFound)
	exitsWith(t,
		s.runTo(output, output, "restore", filepath.Join(dir, "none"), "--store",
			"sqlite:"+filepath.Join(dir, "x")), cli.ExitNotFound)
	exitsWith(t,
		s.runTo(output, output, "backup", filepath.Join(dir, "b"), "--store", "postgres://db/x"),
		cli.ExitUsage)
	s.end()
}
