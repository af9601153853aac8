package rota

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/logshare"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

// A handler inside the node writes its log with the share that a worker elsewhere has.
func TestLogsOfTheNodesOwnHandlersHaveTheirShare(t *testing.T) {
	conf := Config{Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n"}
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	// so slow that no machine is slower
	n.logs = logshare.New(logshare.Config{LogRate: 1, LogBurst: 2000})
	n.Handle("q", func(ctx context.Context, _ task.Handout) task.Outcome {
		for i := range 200 {
			worker.Logf(ctx, "%d %s", i, strings.Repeat("x", 100))
		}
		return task.Finish(nil)
	})
	running(t, n)
	got, err := n.Submit(t.Context(), task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	var lines []task.LogLine
	settled(t, "the log says what it lacks", func() bool {
		page, err := n.tasks.Lines(t.Context(), got[0].ID, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		lines = page.Lines
		return len(lines) == 200 || slices.ContainsFunc(lines, func(l task.LogLine) bool {
			return l.Stream == "rota"
		})
	})
	if len(lines) > 100 || n.logs.Dropped() == 0 {
		t.Errorf("the log has %d lines of 200, and %d were dropped", len(lines), n.logs.Dropped())
	}
}

func TestJobLogsOfTheNodesOwnHandlersHaveTheirShare(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	n.logs = logshare.New(logshare.Config{LogRate: 1, LogBurst: 2000})
	n.HandleJob("g", func(ctx context.Context, _ task.Assignment) error {
		for i := range 200 {
			worker.Logf(ctx, "%d %s", i, strings.Repeat("x", 100))
		}
		<-ctx.Done()
		return nil
	})
	running(t, n)
	if _, err := n.PutGroup(t.Context(), "g", client.GroupChange{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.PutJobs(t.Context(), "g", task.Job{Name: "j"}); err != nil {
		t.Fatal(err)
	}
	var lines []task.LogLine
	settled(t, "the log says what it lacks", func() bool {
		page, err := n.jobs.JobLog(t.Context(), "g", "j", 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		lines = page.Lines
		return len(lines) == 200 || slices.ContainsFunc(lines, func(l task.LogLine) bool {
			return l.Stream == "rota"
		})
	})
	if len(lines) > 100 || n.logs.Dropped() == 0 {
		t.Errorf("the log has %d lines of 200, and %d were dropped", len(lines), n.logs.Dropped())
	}
}

// What handlers inside the node and callers of its API write passes through one gate, and is
// counted together.
func TestTheAPICountsWhatTheNodesOwnHandlersLack(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	// in one call, so that it takes no time
	lines := slices.Repeat([]task.LogLine{{Text: strings.Repeat("x", 1000)}}, 3000)
	err := n.logs.WriteLines(t.Context(), "a", lines, func(context.Context, []task.LogLine) error {
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Get("http://" + n.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	want := fmt.Sprintf("rota_log_lines_dropped_total %d\n", n.logs.Dropped())
	if err != nil || n.logs.Dropped() == 0 || !strings.Contains(string(text), want) {
		t.Errorf("/metrics lacks %q, %v", want, err)
	}
}
