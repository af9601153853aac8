package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/worker"
)

const capacity = 12

// A test starts its own binary as a worker, so that it can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "worker" {
		f := fleet{server: os.Args[2], conf: worker.Config{
			Name: os.Args[3], Zone: os.Args[4], Capacity: capacity,
		}}
		fmt.Fprintln(os.Stderr, f.run(context.Background()))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fixture is a node with a fleet of three.
type fixture struct {
	*testing.T
	node  *rota.Node
	fleet []*exec.Cmd
	jobs  []task.Job
}

func newFixture(t *testing.T) *fixture {
	node, err := rota.Open(t.Context(), rota.Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "rota.db"), Listen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	x := &fixture{T: t, node: node}
	x.readJobs()
	for _, zone := range []string{"a", "b", "c"} {
		cmd := exec.Command(os.Args[0], "worker", "http://"+node.Addr(), "w"+zone, zone)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		x.fleet = append(x.fleet, cmd)
	}
	return x
}

// readJobs reads cameras.txt.
func (x *fixture) readJobs() {
	text, err := os.ReadFile("cameras.txt")
	if err != nil {
		x.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		load, err := strconv.Atoi(fields[1])
		if err != nil {
			x.Fatal(err)
		}
		x.jobs = append(x.jobs, task.Job{
			Name: fields[0], Load: task.Units(load) * task.Unit,
			Spec: json.RawMessage(strings.Join(fields[2:], " ")),
		})
	}
}

// until waits for want replicas that run on the workers that live, and holds what is assigned
// against the capacity all the while.
func (x *fixture) until(want int, alive ...string) {
	x.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		all, _, err := x.node.Assignments(x.Context(), cameras, client.PlacementFilter{}, "", 1000)
		if err != nil {
			x.Fatal(err)
		}
		run, loads, seen := 0, map[string]task.Units{}, map[string]bool{}
		for _, p := range all {
			if p.Worker == "" {
				continue
			}
			if slices.Contains(alive, p.Worker) && p.State == task.JobRunning {
				run++
			}
			at := slices.IndexFunc(x.jobs, func(j task.Job) bool { return j.Name == p.Job })
			loads[p.Worker] += x.jobs[at].Load
			if seen[p.Worker+" "+p.Job] {
				x.Errorf("%s has two replicas of %s", p.Worker, p.Job)
			}
			seen[p.Worker+" "+p.Job] = true
		}
		for name, load := range loads {
			if load > capacity*task.Unit {
				x.Errorf("%s has a load of %v", name, load)
			}
		}
		if run == want {
			return
		}
		if time.Since(begun) > 2*time.Minute {
			x.Fatalf("%d replicas run on %v, want %d: %+v", run, alive, want, all)
		}
	}
}

// clips are the numbers of each camera's clips, in order. All of them are looked at in the end.
func (x *fixture) clips() map[string][]int64 {
	found := map[string][]int64{}
	tasks, _, err := x.node.Tasks(x.Context(), client.TaskFilter{Queue: clips.Queue}, "", 1000)
	if err != nil {
		x.Fatal(err)
	}
	for _, v := range tasks {
		v, err = x.node.Task(x.Context(), v.ID, time.Minute)
		if err != nil || v.State != task.Done {
			x.Fatalf("task %v is %v: %v", v.ID, v.State, err)
		}
		clip, err := clips.Decode(v.Context)
		if err != nil {
			x.Fatal(err)
		}
		found[clip.Camera] = append(found[clip.Camera], clip.Number)
	}
	for _, numbers := range found {
		slices.Sort(numbers)
	}
	return found
}

// Three workers watch four cameras, each camera by two of them, and one worker is killed: each clip
// is looked at once, none is missed, and no worker has more than it can carry.
func TestNoClipIsMissedThoughAWorkerIsKilled(t *testing.T) {
	x := newFixture(t)
	if _, err := x.node.PutGroup(t.Context(), cameras,
		client.GroupChange{Replicas: new(2)}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.node.PutJobs(t.Context(), cameras, x.jobs...); err != nil {
		t.Fatal(err)
	}
	x.until(2*len(x.jobs), "wa", "wb", "wc")
	if err := x.fleet[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	x.until(2*len(x.jobs), "wb", "wc")
	found := x.clips()
	if len(found) != len(x.jobs) {
		t.Errorf("there are clips of %d cameras", len(found))
	}
	for name, numbers := range found {
		first, last := numbers[0], numbers[len(numbers)-1]
		if int64(len(numbers)) != last-first+1 {
			t.Errorf("%s: there are %d clips from %d to %d", name, len(numbers), first, last)
		}
		t.Logf("%s: %d clips", name, len(numbers))
	}
}
