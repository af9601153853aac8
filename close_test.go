package rota

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store/sqlite"
	"github.com/rotahq/rota/task"
)

// A node that is closed while Run goes on ends Run, with all that it began: nothing of the node
// goes on behind a store that is closed.
func TestCloseEndsRun(t *testing.T) {
	n := opened(t)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	waitRunning(t, n)
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("run ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("run goes on behind Close")
	}
}

func TestClosedNodeDoesNotRun(t *testing.T) {
	n := opened(t)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := n.Run(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("run of a closed node: %v", err)
	}
}

// opened is a node on a file of its own that does not run yet.
func opened(t *testing.T) *Node {
	t.Helper()
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitRunning waits until a node answers for its rounds: all its loops have begun.
func waitRunning(t *testing.T, n *Node) {
	t.Helper()
	late := time.Now().Add(20 * time.Second)
	for n.answered.Load() == nil || n.rounds.Cluster().Now.IsZero() {
		if time.Now().After(late) {
			t.Fatal("the node does not run")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A node that could not be opened is no member: nobody waits for it, or takes it for dead.
func TestNodeThatIsNotOpenedHasLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db")
	_, err := Open(t.Context(), Config{
		Store: "sqlite:" + path, Name: "n", TokenFile: filepath.Join(t.TempDir(), "none"),
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	leases, err := s.LeasesOf(t.Context(), "node/")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		if l.Until != 0 {
			t.Errorf("%s is held until %v", l.Name, time.UnixMicro(l.Until))
		}
	}
}

// A handler that comes too late is not there at all: a node without a worker has none then.
func TestHandlerOfARunningNodeIsNotTaken(t *testing.T) {
	n := start(t, Config{})
	waitRunning(t, n)
	n.Handle("late", func(context.Context, task.Handout) task.Outcome { return task.Release() })
	if busy := n.busy(); busy.Executors.Max != 0 {
		t.Errorf("it says that it has executors: %+v", busy)
	}
}
