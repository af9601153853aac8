//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
	"github.com/rotahq/rota/worker"
)

// newPeers are nodes of the real binary on one PostgreSQL, serving.
func newPeers(t *testing.T, names ...string) map[string]*victim {
	t.Helper()
	store := pgtest.Shared(t).Database(t)
	peers := make(map[string]*victim, len(names))
	for _, name := range names {
		p := newVictim(t)
		p.member = []string{"--store", store, "--name", name}
		p.start()
		peers[name] = p
	}
	for name := range peers {
		joined(t, peers, name)
	}
	return peers
}

// joined waits until all nodes see one at work.
func joined(t *testing.T, peers map[string]*victim, name string) {
	t.Helper()
	for _, p := range peers {
		c := p.connect()
		eventuallyTrue(t, "node "+name+" is seen at work", func() bool {
			return nodeOf(c, name).State == view.NodeWorking
		})
	}
}

// nodeOf is what c's server says of a node; nothing when it does not answer, or knows none.
func nodeOf(c *client.Client, name string) view.Node {
	nodes, err := c.Nodes(context.Background())
	if i := slices.IndexFunc(nodes, func(n view.Node) bool {
		return n.Name == name
	}); err == nil && i >= 0 {
		return nodes[i]
	}
	return view.Node{}
}

// handedOut tells whether the store of all nodes knows of a hand-out of a task; one younger than
// about a second only its node knows of.
func handedOut(t *testing.T, store string, id task.ID) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var yes bool
	if err := conn.QueryRow(t.Context(),
		"SELECT EXISTS (SELECT FROM rota.running WHERE batch = $1 AND n = $2)", id.Batch,
		id.N).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}

// A worker that was told one address finds the others. Each of two nodes dies under a command that
// runs until the other one has taken over: it is not run again, and its report is accepted by the
// other node.
func TestRunningCommandOutlivesTheDeathOfEitherNode(t *testing.T) {
	t.Parallel()
	peers := newPeers(t, "a", "b")
	a, b := peers["a"], peers["b"]
	ran := filepath.Join(a.folder, "ran")
	a.run("worker", "--server", a.url, "--queue", "q", "--name", "w", "--log-level", "error", "--",
		"sh", "-c", `echo $ROTA_TASK >>`+ran+`; until [ -e `+ran+
			`.$ROTA_TASK ]; do sleep 0.1; done`)
	for _, turn := range []struct{ dies, lives *victim }{{a, b}, {b, a}} {
		c := turn.lives.connect()
		receipts, err := c.Submit(t.Context(), task.Submission{Queue: "q"})
		if err != nil {
			t.Fatal(err)
		}
		id := receipts[0].ID
		eventuallyTrue(t, "the command runs", func() bool {
			return strings.Contains(textOf(ran), id.String())
		})
		eventuallyTrue(t, "the store knows of it", func() bool {
			return handedOut(t, turn.dies.member[1], id)
		})
		turn.dies.kill()
		eventuallyTrue(t, "the other one has taken over", func() bool {
			return nodeOf(c, turn.dies.member[3]).State == view.NodeOffline
		})
		if err := os.WriteFile(ran+"."+id.String(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := c.Task(t.Context(), id, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if v.State != task.Done || len(v.Steps) != 1 || v.Steps[0].Kind != task.KindDone ||
			v.Steps[0].Worker != "w" {
			t.Errorf("task %v: %s after %+v", id, v.State, v.Steps)
		}
		if n := strings.Count(textOf(ran), id.String()); n != 1 {
			t.Errorf("the command ran %d times", n)
		}
		turn.dies.start()
		joined(t, peers, "a")
		joined(t, peers, "b")
	}
}

func textOf(file string) string {
	text, _ := os.ReadFile(file) // it comes to be when something is written
	return string(text)
}

// outcomes counts what became of each hand-out's reports.
type outcomes struct {
	t     *testing.T
	mu    sync.Mutex
	by    map[string]int // recorded, by task and seq
	stale int
}

// counted is a worker's queue that counts.
type counted struct {
	*client.Client
	*outcomes
}

func (q counted) Report(
	ctx context.Context, worker string, reports []task.Report,
) ([]task.Answer, error) {
	answers, err := q.Client.Report(ctx, worker, reports)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, a := range answers {
		token, bad := task.ParseToken(reports[i].Token)
		if bad != nil {
			q.t.Error(bad)
		}
		switch a.Status {
		case task.Recorded:
			q.by[fmt.Sprintf("%v/%d", a.ID, token.Seq)]++
		case task.Stale:
			q.stale++
		}
	}
	return answers, err
}

// work works off the queue with a worker for each list of servers until the test ends.
func work(t *testing.T, all *outcomes, urls []string) {
	t.Helper()
	working, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	var clients []*client.Client
	t.Cleanup(func() {
		stop()
		workers.Wait()
		for _, c := range clients {
			c.Close()
		}
	})
	for i := range urls {
		c, err := client.New(client.Config{
			Servers: slices.Concat(urls[i:], urls[:i]), Timeout: 3 * time.Second, RetryFloor: 1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		w, err := worker.New(worker.Config{
			Queue: counted{c, all}, Name: fmt.Sprintf("w%d", i), Capacity: 4,
			Beat: 500 * time.Millisecond, StopGrace: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("q", func(ctx context.Context, h task.Handout) task.Outcome {
			select {
			case <-time.After(50 * time.Millisecond): // a real process waits
			case <-ctx.Done():
			}
			return task.Finish(nil)
		})
		workers.Go(func() {
			if err := w.Run(working); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
}

// get is a body as the API writes it.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A node is stopped, without its knowing, for much longer than its lease, with tasks in its hands.
// The others take them over; when it goes on it finds itself ousted, joins again, and has harmed
// nobody: of each hand-out one outcome stands.
func TestNodeThatWasStoppedHarmsNobodyAndJoinsAgain(t *testing.T) {
	t.Parallel()
	peers := newPeers(t, "a", "b", "c")
	all := &outcomes{t: t, by: map[string]int{}}
	work(t, all, []string{peers["a"].url, peers["b"].url, peers["c"].url})
	c := peers["b"].connect()
	silence, attempts := 3*time.Second, 100
	if _, err := c.PutQueue(
		t.Context(), "q", client.QueueChange{Silence: &silence, MaxAttempts: &attempts},
	); err != nil {
		t.Fatal(err)
	}
	var ids []task.ID
	submit := func() {
		receipts, err := c.Submit(t.Context(),
			slices.Repeat([]task.Submission{{Queue: "q"}}, 20)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
	}
	submit()
	stopped := peers["a"].cmd.Process
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(t, "a list of workers says whose are missing", func() bool {
		// a thread of it may answer once more
		return strings.Contains(get(t, peers["b"].url+"/v1/workers"), `"missing":["a"]`)
	})
	eventuallyTrue(t, "the others end its membership", func() bool {
		submit()
		time.Sleep(200 * time.Millisecond)
		a := nodeOf(c, "a")
		return a.State == view.NodeOffline && a.Seen.IsZero()
	})
	for _, id := range ids { // what it held, too
		v, err := c.Task(t.Context(), id, time.Minute)
		if err != nil || v.State != task.Done {
			t.Fatalf("task %v is %s: %v", id, v.State, err)
		}
	}
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	joined(t, peers, "a")
	submit()
	last := peers["a"].connect()
	for _, id := range ids {
		v, err := last.Task(t.Context(), id, time.Minute) // asked of the node that came back
		if err != nil || v.State != task.Done {
			t.Fatalf("task %v is %s: %v", id, v.State, err)
		}
		done := 0
		for i, s := range v.Steps {
			if s.Seq != int32(i) {
				t.Errorf("task %v: step %d has seq %d", id, i, s.Seq)
			}
			if s.Kind == task.KindDone {
				done++
			}
		}
		if done != 1 {
			t.Errorf("task %v was done %d times: %+v", id, done, v.Steps)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for handout, n := range all.by {
		if n != 1 {
			t.Errorf("hand-out %s: %d outcomes were accepted", handout, n)
		}
	}
	if text := textOf(peers["a"].log.Name()); !strings.Contains(text, "joining again") {
		t.Errorf("it did not find itself ousted: %s", text)
	}
	t.Logf("%d tasks, %d accepted outcomes, %d stale reports", len(ids), len(all.by), all.stale)
}
