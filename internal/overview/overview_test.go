package overview

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// now is the time of all facts, in microseconds.
const now = int64(1_000_000_000_000)

// many are facts of more than an overview shows.
func many(queues, workers, nodes int) *Facts {
	f := &Facts{Now: now, Paused: map[string]bool{"q7": true}, Cluster: &store.Cluster{AtOnce: 2}}
	for i := range queues {
		q := store.QueueCounts{Queue: fmt.Sprint("q", i)}
		q.Counts.Waiting = int64(i % 10)
		if i%3 == 0 {
			q.Counts.Ready, q.OldestReady = int64(i+1), now-int64(i)*1_500_000
		}
		f.Queues = append(f.Queues, q)
	}
	for i := range workers {
		w := task.Worker{
			Name: fmt.Sprint("w", i), Node: fmt.Sprint("n", i%7), Capacity: 0.1, Running: 1,
			State: task.WorkerActive,
		}
		switch i % 100 {
		case 0:
			w.State = task.WorkerSilent
		case 1:
			w.State = task.WorkerDraining
		case 2:
			w.State = task.WorkerLeft
		}
		f.Workers = append(f.Workers, w)
	}
	for i := range nodes {
		n := store.Node{Name: fmt.Sprint("n", i), State: "working", Score: 12.34, CPU: 0.123}
		if i%2 == 1 {
			n.State, n.Down = "offline", now
		}
		f.Cluster.Nodes = append(f.Cluster.Nodes, n)
	}
	return f
}

func TestOverviewSaysWhichQueuesTheirLimitsHoldBack(t *testing.T) {
	f := many(12, 0, 0)
	f.Limited = map[string]bool{"q3": true, "q9": true, "gone": true}
	var limited []string
	for _, q := range Of(f, Scope{Queue: func(name string) bool { return name != "q9" }}).Queues {
		if q.Limited {
			limited = append(limited, q.Queue)
		}
	}
	if len(limited) != 1 || limited[0] != "q3" {
		t.Errorf("limited are %v, want q3", limited)
	}
}

func TestOverviewShowsTheOldestFirstAndCountsWhatItLeavesOut(t *testing.T) {
	o := Of(many(1000, 10_000, 300), Scope{})
	const age = view.Duration(1498500 * time.Millisecond)
	if len(o.Queues) != MaxQueues || o.QueuesLeftOut != 800 || o.Queues[0].Queue != "q999" ||
		*o.OldestReady != (view.OldestReady{Queue: "q999", Age: age}) {
		t.Errorf("%d queues, %d left out, %+v first", len(o.Queues), o.QueuesLeftOut, o.Queues[0])
	}
	for i := 1; i < len(o.Queues); i++ {
		if *o.Queues[i].OldestReady > *o.Queues[i-1].OldestReady {
			t.Fatalf("queue %d is older than the one before", i)
		}
	}
	if len(o.Fleet) != MaxWorkers || o.FleetLeftOut != 9900-MaxWorkers ||
		o.Workers != (view.WorkerStates{Active: 9700, Draining: 100, Silent: 100}) ||
		o.Capacity != 980 {
		t.Errorf("fleet of %d, %d left out, %+v, capacity %v", len(o.Fleet), o.FleetLeftOut,
			o.Workers, o.Capacity)
	}
	states := map[task.WorkerState]int{}
	for _, w := range o.Fleet {
		states[w.State]++
	}
	if states[task.WorkerSilent] != 100 || states[task.WorkerDraining] != 100 {
		t.Errorf("those that matter are left out: %v", states)
	}
	if len(o.Nodes) != MaxNodes || o.NodesLeftOut != 100 || *o.Budget != 2 {
		t.Errorf("%d nodes, %d left out", len(o.Nodes), o.NodesLeftOut)
	}
	if o.Nodes[0].Score != 12 || o.Nodes[0].CPU != 0.12 {
		t.Errorf("what changes at every beat is not rounded: %+v", o.Nodes[0])
	}
}

func TestOverviewDoesNotDependOnTheOrderOfFacts(t *testing.T) {
	f := many(250, 600, 20)
	want := Of(f, Scope{})
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(f.Queues), func(i, j int) {
			f.Queues[i], f.Queues[j] = f.Queues[j], f.Queues[i]
		})
		r.Shuffle(len(f.Workers), func(i, j int) {
			f.Workers[i], f.Workers[j] = f.Workers[j], f.Workers[i]
		})
		if diff := cmp.Diff(want, Of(f, Scope{})); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestOverviewOfNothingHasNoNullsInsteadOfLists(t *testing.T) {
	told, err := Tell(Of(&Facts{Now: now}, Scope{}))
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(told.Append(nil), &o); err != nil {
		t.Fatal(err)
	}
	for name, value := range o {
		switch name {
		case "oldest_ready", "budget", "budget_workers", "at":
			if value != nil {
				t.Errorf("%s is %v", name, value)
			}
		default:
			if value == nil {
				t.Errorf("%s is null", name)
			}
		}
	}
}

// patchedBy applies a patch as RFC 7396 says, for objects whose members are replaced whole.
func patchedBy(t *testing.T, target map[string]any, patch []byte) {
	t.Helper()
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		t.Fatal(err)
	}
	for name, value := range change {
		if target[name] = value; value == nil {
			delete(target, name)
		}
	}
}

func TestPatchesLeadFromOneOverviewToTheNext(t *testing.T) {
	var is map[string]any
	var before Told
	for i, o := range []view.Overview{
		Of(many(3, 3, 2), Scope{}), Of(many(0, 3, 2), Scope{}), Of(many(7, 0, 2), Scope{}),
		Of(&Facts{Now: now}, Scope{}), Of(many(3, 3, 2), Scope{}),
	} {
		o.At = view.Time{Time: time.UnixMicro(now + int64(i)*1e6)}
		told, err := Tell(o)
		if err != nil {
			t.Fatal(err)
		}
		if before == nil {
			is = map[string]any{}
			patchedBy(t, is, told.Append(nil))
		} else {
			patchedBy(t, is, Patch(before, told, false).Append(nil))
		}
		want := map[string]any{}
		patchedBy(t, want, told.Append(nil))
		if diff := cmp.Diff(want, is); diff != "" {
			t.Fatalf("overview %d: %s", i, diff)
		}
		before = told
	}
}

func TestTimeAloneIsToldOnlyWhenItIsTime(t *testing.T) {
	o := Of(many(3, 3, 2), Scope{})
	tell := func(at int64) Told {
		o.At = view.Time{Time: time.UnixMicro(at)}
		told, err := Tell(o)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}
	first, later := tell(now), tell(now+1e6)
	if p := Patch(first, later, false); p != nil {
		t.Errorf("patched by %s", p.Append(nil))
	}
	if p := Patch(first, later, true); len(p) != 1 || p[0].name != memberAt {
		t.Errorf("patched by %s", p.Append(nil))
	}
	if p := Patch(first, first, true); p != nil {
		t.Errorf("nothing moved, and patched by %s", p.Append(nil))
	}
	for age, want := range map[time.Duration]string{
		2900 * time.Millisecond: `{"age":"0s"}`, 3100 * time.Millisecond: `{"age":"3s"}`,
		90*time.Second + 1: `{"age":"1m30s"}`,
	} {
		p := Patch(later.Aged(time.Hour), later.Aged(age), false)
		if got := string(p.Append(nil)); got != want {
			t.Errorf("%v old: %s, want %s", age, got, want)
		}
	}
}
