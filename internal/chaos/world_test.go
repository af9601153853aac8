//go:build chaos && unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/view"
)

// Limits are drawn small, so that much happens in two minutes.
const (
	nodeBeat  = 500 * time.Millisecond
	nodeLease = 4 * time.Second
	silence   = 4 * time.Second // of workers

	libraries = 8 // workers of the Go library
	commands  = 2 // `rota worker`
)

// world is all processes of a run.
type world struct {
	t       *testing.T
	seed    uint64
	luck    *rand.Rand
	folder  string
	binary  string
	ledgers string // folder
	journal *book  // who died when

	db      *database
	nodes   []*node
	workers []*daemon
	client  *client.Client // to any node, for questions

	submitting    context.CancelFunc
	submitters    sync.WaitGroup
	asked, agreed atomic.Int64 // tasks
	faults        int
	hush          func()
}

// node is a process of the real binary, the line of each database server to it, and the line of
// others to it.
type node struct {
	*daemon
	url   string // its own
	links [2]*proxy
	front *proxy
}

// newWorld starts everything.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newNodes(t)
	w.configure(queueShort, queueLong, queueKeyed, queueOrdered, queueCommand)
	for i := range libraries + commands {
		w.workers = append(w.workers, w.newWorker(w.folder, w.binary, i))
	}
	for _, d := range w.workers {
		d.up()
	}
	w.submit(w.urls(), w.seed)
	w.talk()
	t.Cleanup(func() {
		w.hush()
		w.submitting()
		w.submitters.Wait()
	})
	return w
}

// newNodes starts the database and the nodes.
func newNodes(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, seed: *seed, folder: t.TempDir()}
	if w.seed == 0 {
		w.seed = rand.Uint64()
	}
	t.Logf("again with -seed %d", w.seed)
	w.luck = rand.New(rand.NewPCG(w.seed, 0))
	w.binary = filepath.Join(w.folder, "rota")
	w.ledgers = filepath.Join(w.folder, "ledgers")
	if err := os.Mkdir(w.ledgers, 0o700); err != nil {
		t.Fatal(err)
	}
	w.journal = w.open("journal")
	if out, err := exec.Command("go", "build", "-o", w.binary,
		"github.com/rotahq/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("build rota: %v\n%s", err, out)
	}
	w.db = newDatabase(t)
	for _, name := range []string{"a", "b", "c"} {
		w.nodes = append(w.nodes, w.newNode(w.folder, w.binary, name))
	}
	w.point()
	for _, n := range w.nodes {
		n.up()
	}
	w.client = w.connect(w.urls()...)
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range w.nodes {
				t.Logf("node %s said last:\n%s", n.name, n.last())
			}
			w.keep(w.folder)
		}
	})
	w.awaitNodes()
	return w
}

// urls are those of the nodes themselves.
func (w *world) urls() (list []string) {
	for _, n := range w.nodes {
		list = append(list, n.url)
	}
	return list
}

// keep saves what was written down for people to look at.
func (w *world) keep(folder string) {
	saved, err := os.MkdirTemp("", "rota-chaos-")
	if err == nil {
		err = os.RemoveAll(filepath.Join(folder, "rota"))
	}
	if err == nil {
		err = os.CopyFS(saved, os.DirFS(folder))
	}
	w.t.Logf("ledgers and logs are kept in %s (%v)", saved, err)
}

func (w *world) open(name string) *book {
	w.t.Helper()
	b, err := openBook(filepath.Join(w.ledgers, name+".jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { b.close() })
	return b
}

func (w *world) connect(servers ...string) *client.Client {
	w.t.Helper()
	c, err := client.New(client.Config{Servers: servers, Timeout: 5 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) newNode(folder, binary, name string) *node {
	w.t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	n := &node{url: "http://" + listen, front: newProxy(w.t)}
	n.front.lead(listen)
	var hosts []string
	for i := range n.links {
		n.links[i] = newProxy(w.t)
		hosts = append(hosts, n.links[i].Addr().String())
	}
	store := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&target_session_attrs=read-write",
		pgtest.User, strings.Join(hosts, ","), databaseName)
	n.daemon = newDaemon(w.t, folder, name, nil, binary, "serve", "--name", name, "--listen",
		listen, "--store", store,
		"--advertise", "http://"+n.front.Addr().String(), "--beat", nodeBeat.String(), "--lease",
		nodeLease.String())
	n.hopeful = true
	return n
}

// point makes the lines lead to the database servers that there are now.
func (w *world) point() {
	for _, n := range w.nodes {
		for i, l := range n.links {
			l.lead(w.db.servers[i].Addr())
		}
	}
}

// newWorker is worker i. One half of them reaches the nodes themselves, the other half through
// their fronts.
func (w *world) newWorker(folder, binary string, i int) *daemon {
	w.t.Helper()
	name := fmt.Sprintf("w%d", i)
	var servers []string
	for j := range w.nodes {
		n := w.nodes[(i+j)%len(w.nodes)]
		if i%2 == 0 {
			servers = append(servers, n.url)
		} else {
			servers = append(servers, "http://"+n.front.Addr().String())
		}
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	environment := []string{
		envName + "=" + name, envLedger + "=" + filepath.Join(w.ledgers, name+".jsonl"),
	}
	if i < libraries {
		environment = append(environment, envRole+"="+roleWorker,
			envServers+"="+strings.Join(servers, ","))
		return newDaemon(w.t, folder, name, environment, self)
	}
	args := []string{"worker", "--queue", queueCommand, "--name", name, "--capacity", "4"}
	for _, s := range servers {
		args = append(args, "--server", s)
	}
	return newDaemon(w.t, folder, name, append(environment, envRole+"="+roleCommand), binary,
		append(args, "--", self)...)
}

// configure makes the queues: silent workers are found soon, nothing dies of its many attempts, and
// some have limits, which hold everywhere when it returns.
func (w *world) configure(queues ...string) {
	w.t.Helper()
	quiet, attempts := silence, limits.MaxAttempts
	pause, longest := 100*time.Millisecond, time.Second
	for _, q := range queues {
		change := client.QueueChange{
			Silence: &quiet, MaxAttempts: &attempts, Retry: &client.RetryChange{
				Initial: &pause, Max: &longest,
			},
		}
		if l, ok := limitsOf[q]; ok {
			change.PerKey = &client.KeyLimitsChange{MaxRunning: &l.key}
			if l.queue < math.MaxInt {
				change.MaxRunning = &l.queue
			}
		}
		put, err := w.client.PutQueue(w.t.Context(), q, change)
		if err != nil || len(put.Unheard) > 0 {
			w.t.Fatalf("put queue %s: %v did not take it in, %v", q, put.Unheard, err)
		}
	}
}

// awaitNodes waits until every node sees all at work.
func (w *world) awaitNodes() {
	w.t.Helper()
	for _, n := range w.nodes {
		c := w.connect(n.url)
		w.await("node "+n.name+" sees all at work", func() error {
			nodes, err := c.Nodes(w.t.Context())
			working := 0
			for _, n := range nodes {
				if n.State == view.NodeWorking {
					working++
				}
			}
			if working != len(w.nodes) {
				err = errors.Join(err, fmt.Errorf("%+v", nodes))
			}
			return err
		})
	}
}

// bound is how long it may take after the last fault until everything is well.
const bound = time.Minute

// await asks until there is no error.
func (w *world) await(what string, ask func() error) {
	w.t.Helper()
	for deadline := time.Now().Add(bound); ; time.Sleep(100 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within %v: %v", what, bound, err)
		}
	}
}

// databaseName is what the nodes' database is called.
const databaseName = "chaos"

// database is two servers, a primary and its synchronous standby. Each node reaches both at
// addresses that stay.
type database struct {
	t       *testing.T
	servers [2]*pgtest.Cluster
	lead    int // the primary
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	primary := pgtest.Start(t, pgtest.Config{Durable: true, Settings: []string{
		// what a standby calls itself; before it is there no commit ends
		"synchronous_standby_names = 'walreceiver'",
		"wal_keep_size = '1GB'", "wal_retrieve_retry_interval = '200ms'",
		"wal_receiver_timeout = '5s'", "log_checkpoints = off",
	}})
	d := &database{t: t, servers: [2]*pgtest.Cluster{primary, primary.Standby(t)}}
	primary.Exec(t, "CREATE DATABASE "+databaseName)
	return d
}

func (d *database) primary() *pgtest.Cluster { return d.servers[d.lead] }
func (d *database) standby() *pgtest.Cluster { return d.servers[1-d.lead] }

// failover makes the standby the primary, and builds it a standby of its own. The old primary, if
// it was stopped only, goes on beside the new one for a moment before it is fenced: with the
// standby gone it can commit nothing.
func (d *database) failover() {
	d.standby().Promote(d.t)
	d.primary().Resume(d.t)
	time.Sleep(500 * time.Millisecond)
	d.primary().Remove(d.t)
	d.lead = 1 - d.lead
	d.servers[1-d.lead] = d.primary().Standby(d.t)
}
