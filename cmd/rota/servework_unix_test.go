//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// A node runs commands itself: what it runs is counted, a drain lets it finish, it runs jobs, too,
// and no command outlives it.
func TestNodeRunsCommandsItself(t *testing.T) {
	s := newVictim(t)
	script := `if [ -n "$ROTA_JOB" ]; then echo "job $ROTA_JOB"; exec sleep 1000; fi
touch "` + s.folder + `/began"; while [ ! -e "` + s.folder + `/go" ]; do sleep 0.05; done; cat`
	s.cmd = s.run("serve", "--listen", s.listen, "--beat", "200ms", "--lease", "2s", "--store",
		"sqlite:"+s.store(), "--name", "box", "--log-level", "warn", "--capacity", "3", "--queue", "q",
		"--group", "g", "--", "sh", "-c", script)
	c := s.connect()
	within := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	node := func() view.Node {
		nodes, err := c.Nodes(t.Context())
		if err != nil || len(nodes) != 1 {
			return view.Node{}
		}
		return nodes[0]
	}
	within("the node serves", func() bool { return node().Name == "box" })
	ids := make([]task.ID, 4)
	for i := range ids {
		id, err := c.Submit(t.Context(), task.Submission{Queue: "q", Context: []byte(`"x"`)})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id[0].ID
	}
	within("three run, and the fourth waits", func() bool {
		n := node()
		return n.Executors == 3 && n.Running == 3 && n.Score >= 32
	})
	if err := c.DrainNode(t.Context(), "box", true); err != nil {
		t.Fatal(err)
	}
	within("it drains", func() bool { return node().State == view.NodeDraining })
	time.Sleep(time.Second) // within a beat it takes nothing new
	if err := os.WriteFile(filepath.Join(s.folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	within("it is drained when it has finished what it ran", func() bool {
		return node().State == view.NodeDrained
	})
	states := func() (done int) {
		for _, id := range ids {
			if got, err := c.Task(t.Context(), id, 0); err == nil && got.State == task.Done {
				done++
			}
		}
		return done
	}
	if n := states(); n != 3 {
		t.Errorf("%d of 4 tasks are done, want the 3 that ran", n)
	}
	if err := c.UndrainNode(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	within("the fourth is done", func() bool { return states() == 4 })

	replicas := 1
	if _, err := c.PutGroup(t.Context(), "g", client.GroupChange{Replicas: &replicas}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutJobs(t.Context(), "g", task.Job{Name: "one", Load: task.Unit}); err != nil {
		t.Fatal(err)
	}
	within("the job runs", func() bool {
		g, err := c.Group(t.Context(), "g")
		return err == nil && g.Running == 1
	})
	s.end()
}
