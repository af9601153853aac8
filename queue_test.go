package rota

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/queuetest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// start opens a node on a file of its own and runs it until the test ends.
func start(t *testing.T, conf Config) *Node {
	t.Helper()
	if conf.Store == "" {
		conf.Store = "sqlite:" + filepath.Join(t.TempDir(), "work.db")
	}
	conf.Name = "n"
	ctx, stop := context.WithCancel(context.Background())
	n, err := Open(ctx, conf)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// inside is the queue of a worker inside the node.
type inside struct{ ownQueue }

func (h inside) Cancel(ctx context.Context, id task.ID) error {
	return h.Act(ctx, task.KindCancelled, "test", id)
}

func (h inside) Lines(ctx context.Context, id task.ID) ([]task.LogLine, error) {
	page, err := h.Dispatcher.Lines(ctx, id, 0, 1000)
	return page.Lines, err
}

// remote is the queue of a worker elsewhere.
type remote struct {
	*client.Client
	node *Node
}

func (h remote) Waiting(queue string) int { return h.node.tasks.Waiting(queue) }

func (h remote) Submit(
	ctx context.Context, tasks []task.Submission,
) ([]task.Receipt, error) {
	return h.Client.Submit(ctx, tasks...)
}

func (h remote) Lines(ctx context.Context, id task.ID) ([]task.LogLine, error) {
	lines, _, err := h.Client.Lines(ctx, id, "", 1000)
	return lines, err
}

func TestDispatcherIsAQueue(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.House {
		n := start(t, Config{})
		return inside{ownQueue{n.tasks, n.logs}}
	})
}

func TestClientIsAQueue(t *testing.T) {
	eachDoor(t, func(t *testing.T, way func(*testing.T, *Node) *client.Client) {
		queuetest.Run(t, func(t *testing.T) queuetest.House {
			n := start(t, Config{Listen: "127.0.0.1:0"})
			return remote{way(t, n), n}
		})
	})
}

// eachDoor runs a test with clients that make each call over HTTP, and with clients that make them
// on a stream.
func eachDoor(t *testing.T, test func(*testing.T, func(*testing.T, *Node) *client.Client)) {
	t.Run("HTTP", func(t *testing.T) {
		test(t, func(t *testing.T, n *Node) *client.Client {
			return clientOf(t, client.Config{
				Servers: []string{"http://" + n.Addr()}, HTTPOnly: true,
			})
		})
	})
	t.Run("Stream", func(t *testing.T) {
		test(t, func(t *testing.T, n *Node) *client.Client {
			watched := &watchedCalls{}
			c := clientOf(t, client.Config{
				Servers: []string{"http://" + n.Addr()}, HTTP: &http.Client{Transport: watched},
			})
			onStream(t, n, c)
			before := watched.hot.Load()
			for now := before - 1; now != before; { // it stands here a moment after it does there
				before = watched.hot.Load()
				if err := idleHold(t, c); err != nil {
					t.Fatal(err)
				}
				now = watched.hot.Load()
			}
			t.Cleanup(func() {
				if got := watched.hot.Load() - before; got != 0 {
					t.Errorf("%d calls went past the stream", got)
				}
			})
			return c
		})
	})
}

func clientOf(t *testing.T, conf client.Config) *client.Client {
	t.Helper()
	c, err := client.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// onStream waits until the stream of a client to a node stands.
func onStream(t *testing.T, n *Node, c *client.Client) {
	t.Helper()
	if err := idleHold(t, c); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return metric(t, n, "rota_streams") == 1 })
}

func idleHold(t *testing.T, c *client.Client) error {
	_, err := c.Hold(t.Context(), task.HoldRequest{
		Worker: "opener", Queues: []string{"none"}, Wait: time.Millisecond,
	})
	return err
}

// watchedCalls counts the calls over HTTP that a stream would carry.
type watchedCalls struct {
	http.Transport
	hot atomic.Int64
}

func (w *watchedCalls) RoundTrip(q *http.Request) (*http.Response, error) {
	switch path := q.URL.Path; {
	case path == "/v1/tasks", path == "/v1/tasks/hold", path == "/v1/tasks/report",
		strings.HasSuffix(path, "/beat"):
		if q.Method == http.MethodPost {
			w.hot.Add(1)
		}
	}
	return w.Transport.RoundTrip(q)
}

// metric is a value that the page of a node's metrics shows.
func metric(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	response, err := http.Get("http://" + n.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page := bufio.NewScanner(response.Body)
	for page.Scan() {
		if value, ok := strings.CutPrefix(page.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// jobHouse is a node that gives jobs to whoever beats: inside it, or from elsewhere.
type jobHouse struct {
	beat func(context.Context, task.Beat) (task.BeatAnswer, error)
	node *Node
}

func (h jobHouse) Beat(ctx context.Context, b task.Beat) (task.BeatAnswer, error) {
	return h.beat(ctx, b)
}

func (h jobHouse) SetJobs(ctx context.Context, group string, jobs []task.Job) error {
	if _, err := h.node.PutGroup(
		ctx, group, client.GroupChange{Policy: &client.PolicyChange{Warmup: new(time.Nanosecond)}},
	); err != nil {
		return err
	}
	return second(h.node.PutJobs(ctx, group, jobs...))
}

func TestNodeGivesJobsInside(t *testing.T) {
	queuetest.RunJobs(t, func(t *testing.T) queuetest.JobHouse {
		n := start(t, Config{Beat: 50 * time.Millisecond})
		return jobHouse{n.tasks.Beat, n}
	})
}

func TestNodeGivesJobsToClients(t *testing.T) {
	eachDoor(t, func(t *testing.T, way func(*testing.T, *Node) *client.Client) {
		queuetest.RunJobs(t, func(t *testing.T) queuetest.JobHouse {
			n := start(t, Config{Listen: "127.0.0.1:0", Beat: 50 * time.Millisecond})
			return jobHouse{way(t, n).Beat, n}
		})
	})
}

// quiet starts a node whose first round is over, that has said that it came, and whose next round
// comes in an hour: nothing but the test commits.
func quiet(t *testing.T) *Node {
	t.Helper()
	n := start(t, Config{Beat: time.Hour, Lease: 4 * time.Hour})
	if err := n.rounds.Rescan(t.Context()); err != nil { // between rounds
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		page, err := n.store.Events(t.Context(), store.EventQuery{
			Kinds: []string{store.NodeOnline}, Limit: 1,
		})
		return err == nil && len(page.Events) == 1
	})
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		// the queue's row comes first
		t.Fatal(err)
	}
	if h, err := n.tasks.Hold(
		t.Context(), task.HoldRequest{Worker: "w", Queues: []string{"q"}},
	); err != nil || len(h.Tasks) != 1 {
		t.Fatal(h, err)
	} else if _, err := n.tasks.Report(t.Context(), "w",
		[]task.Report{{ID: h.Tasks[0].ID, Token: h.Tasks[0].Token,
			Outcome: task.Finish(nil)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.store.Prune(t.Context(), 1); err != nil { // adds up the history for a minute
		t.Fatal(err)
	}
	return n
}

// A lone one-stage task costs two commits: the submission and the settlement, which takes the span
// along.
func TestLoneTaskCostsTwoCommits(t *testing.T) {
	n := quiet(t)
	ctx := t.Context()
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		h, err := n.tasks.Hold(ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: time.Minute,
		})
		if err != nil || len(h.Tasks) != 1 {
			t.Errorf("hold: %v %v", h.Tasks, err)
			return
		}
		if _, err := n.tasks.Report(ctx, "w",
			[]task.Report{{ID: h.Tasks[0].ID, Token: h.Tasks[0].Token,
				Outcome: task.Finish(nil)}}); err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, func() bool { return n.tasks.Waiting("q") == 1 })
	before := n.store.(*embedded).Commits()
	if _, err := n.Submit(ctx, task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	<-ready
	if got := n.store.(*embedded).Commits() - before; got != 2 {
		t.Errorf("%d commits, want 2", got)
	}
	q, err := n.Queue(ctx, "q")
	if err != nil || q.Counts != (task.Counts{Done: 2}) {
		t.Errorf("queue %+v %v", q, err)
	}
}

// Tasks that go together cost two commits together.
func TestTasksSubmittedTogetherShareTheirCommits(t *testing.T) {
	n := quiet(t)
	ctx := t.Context()
	const b = 50
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		h, err := n.tasks.Hold(ctx, task.HoldRequest{
			Worker: "w", Queues: []string{"q"}, Limit: b, Wait: time.Minute,
		})
		if err != nil || len(h.Tasks) != b {
			t.Errorf("hold: %d tasks, %v", len(h.Tasks), err)
			return
		}
		reports := make([]task.Report, b)
		for i, x := range h.Tasks {
			reports[i] = task.Report{ID: x.ID, Token: x.Token, Outcome: task.Finish(nil)}
		}
		if _, err := n.tasks.Report(ctx, "w", reports); err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, func() bool { return n.tasks.Waiting("q") == 1 })
	before := n.store.(*embedded).Commits()
	subs := make([]task.Submission, b)
	for i := range subs {
		subs[i].Queue = "q"
	}
	if _, err := n.Submit(ctx, subs...); err != nil {
		t.Fatal(err)
	}
	<-ready
	if got := n.store.(*embedded).Commits() - before; got != 2 {
		t.Errorf("%d commits for %d tasks, want 2", got, b)
	}
}

// waitFor waits until a real process has got somewhere.
func waitFor(t *testing.T, there func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

// An idle node writes one row a beat: its membership.
func TestIdleNodeCommitsOncePerBeat(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "work.db"), Name: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	round := func() error {
		return errors.Join(n.rounds.Round(t.Context(), time.Now()), n.rounds.Chores(t.Context()))
	}
	if err := round(); err != nil { // the first finds work: chores are claimed
		t.Fatal(err)
	}
	for beat := range 5 {
		before := n.store.(*embedded).Commits()
		if err := n.tasks.Round(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := round(); err != nil {
			t.Fatal(err)
		}
		if got := n.store.(*embedded).Commits() - before; got != 1 {
			t.Errorf("beat %d: %d commits, want 1", beat, got)
		}
	}
}

func TestSecondNodeOnTheSameFileIsRefused(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "work.db")
	start(t, Config{Store: db})
	if n, err := Open(t.Context(), Config{Store: db, Name: "other"}); err == nil {
		n.Close()
		t.Fatal("a second node opened the same file")
	}
}

func TestConfigSaysEverythingThatIsWrong(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Store: "mysql:x", Name: "Not A Name", Listen: "0.0.0.0:7700", Lease: time.Second,
		Beat: time.Second,
	})
	for _, want := range []string{"mysql", "Not A Name", "0.0.0.0:7700", "lease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %q: %v", want, err)
		}
	}
	_, err = Open(t.Context(), Config{Store: "postgres://user:secret@host/db"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error: %v", err)
	}
}

func TestErrorsCanBeToldApart(t *testing.T) {
	n := start(t, Config{})
	id := task.ID{Batch: 1 << 30, N: 1}
	if _, err := n.Task(t.Context(), id, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("Task: %v", err)
	}
	if err := n.Cancel(t.Context(), id); !errors.Is(err, ErrNotFound) {
		t.Errorf("Cancel: %v", err)
	}
	got, err := n.Submit(t.Context(), task.Submission{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Retry(t.Context(), got[0].ID); !errors.Is(err, ErrConflict) {
		t.Errorf("Retry: %v", err)
	}
}
