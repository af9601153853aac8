package rota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/blob"
	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/sqlstore"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
	"github.com/rotahq/rota/worker"
)

// A remote worker is the same worker on another queue.
var (
	_ worker.Queue = (*dispatch.Dispatcher)(nil)
	_ worker.Queue = (*client.Client)(nil)
	_ api.Engine   = (*dispatch.Dispatcher)(nil)
)

// Errors of Open and of a node's calls that a caller may want to tell apart, with errors.Is.
var (
	ErrConfig = errors.New("configure node") // Config is wrong: nothing was opened

	ErrNotFound = rows.ErrNotFound // no such task or queue
	ErrConflict = rows.ErrConflict // not in a state that allows it
	ErrFull     = rows.ErrFull     // no room on the disk: nothing was stored
	ErrUnknown  = rows.ErrUnknown  // perhaps stored: only a submission with a key may be repeated safely
	ErrBusy     = rows.ErrBusy     // too much waits already: nothing was stored
	ErrBroken   = rows.ErrBroken   // the store can't be trusted any more: Run ends with it
)

// Node is one peer: a store, and everything that works on it. All methods may be called at the same time.
type Node struct {
	conf   Config
	log    *slog.Logger
	blobs  *blob.Folder
	store  *sqlstore.Store
	clock  *tick.Clock
	tasks  *dispatch.Dispatcher
	rounds *scheduler.Scheduler
	server *http.Server
	listen net.Listener
	joined time.Time

	mu       sync.Mutex
	worker   *worker.Worker // made at the first Handle
	problem  error          // with a handler; Run says so
	running  bool
	closing  sync.Once
	closeErr error
}

// Open opens the store and joins it. The node serves nothing before Run, but tasks can be submitted. Close it when Run was
// not called; Run closes it by itself.
func Open(ctx context.Context, conf Config) (*Node, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	n := &Node{conf: conf, log: conf.Log, clock: tick.New(tick.Config{})}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) (err error) {
	path, err := n.conf.sqlitePath()
	if err != nil {
		return err
	}
	if n.blobs, err = blob.Open(n.conf.Blobs); err != nil {
		return err
	}
	if n.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: path, Blobs: n.blobs, Log: n.log}); err != nil {
		return err
	}
	if n.rounds, err = scheduler.New(scheduler.Config{
		Leases: n.store, Chores: n.store, Name: n.conf.Name, Alone: true, TTL: n.conf.Lease, Beat: n.conf.Beat, StopGrace: n.conf.StopGrace, Log: n.log,
	}); err != nil {
		return err
	}
	holder, err := n.rounds.Join(ctx)
	if err != nil {
		return err
	}
	n.joined = time.Now()
	if _, err := n.store.Free(ctx, holder); err != nil { // what the last process held is there to be taken from the start
		return err
	}
	if n.tasks, err = dispatch.New(ctx, dispatch.Config{
		Store: n.store, Holder: holder, Secret: n.store.Secret(), Clock: n.clock, Beat: n.conf.Beat, Log: n.log,
	}); err != nil {
		return err
	}
	if n.conf.Listen == "" {
		return nil
	}
	return n.openServer()
}

// openServer binds the address and builds the API; Run serves it.
func (n *Node) openServer() error {
	tokens, err := readTokens(n.conf.TokenFile)
	if err != nil {
		return err
	}
	a, err := api.New(api.Config{
		Engine: n.tasks, Tokens: tokens, AnyHost: n.conf.Insecure, Version: n.conf.Version, Ready: n.ready, Log: n.log,
	})
	if err != nil {
		return fmt.Errorf("build API: %w", err)
	}
	if n.listen, err = net.Listen("tcp", n.conf.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	n.server = a.Server()
	return nil
}

func readTokens(name string) (api.Tokens, error) {
	if name == "" {
		return api.Tokens{}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return api.Tokens{}, fmt.Errorf("open token file: %w", err)
	}
	defer f.Close()
	tokens, err := api.ParseTokens(f)
	if err != nil {
		return api.Tokens{}, fmt.Errorf("token file %q: %w", name, err)
	}
	return tokens, nil
}

// ready says whether this node can do its work.
func (n *Node) ready(ctx context.Context) api.Readiness {
	r := api.Readiness{Ready: true, Store: "sqlite", Durability: "local", Joined: true}
	if err := n.store.Check(ctx); err != nil {
		r.Ready, r.Detail = false, err.Error()
	}
	return r
}

// Addr is the address that the API listens on; empty without one.
func (n *Node) Addr() string {
	if n.listen == nil {
		return ""
	}
	return n.listen.Addr().String()
}

// Submit stores tasks, all or none, durably before it returns. Errors: *task.InvalidError, ErrFull, ErrBusy, ErrUnknown.
func (n *Node) Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error) {
	return n.tasks.Submit(ctx, tasks)
}

// Task answers with all that is known of a task; with wait > 0 it waits so long for the task to become final. ErrNotFound.
func (n *Node) Task(ctx context.Context, id task.ID, wait time.Duration) (task.View, error) {
	return n.tasks.Task(ctx, id, wait)
}

// Cancel ends a task; the context of a handler that runs it ends with worker.ErrCancelled. ErrNotFound, ErrConflict when it is final.
func (n *Node) Cancel(ctx context.Context, id task.ID) error {
	return n.tasks.Act(ctx, task.KindCancelled, n.conf.Name, id)
}

// Retry lets a dead task begin again. ErrNotFound, ErrConflict when it is not dead.
func (n *Node) Retry(ctx context.Context, id task.ID) error {
	return n.tasks.Act(ctx, task.KindReplayed, n.conf.Name, id)
}

// PutQueue configures a queue; start from task.DefaultQueue. *task.InvalidError.
func (n *Node) PutQueue(ctx context.Context, q task.Queue) error {
	_, err := n.tasks.PutQueue(ctx, q)
	return err
}

// Counts are a queue's tasks by state.
func (n *Node) Counts(ctx context.Context, queue string) (task.Counts, error) {
	counts, err := n.tasks.Counts(ctx, queue)
	if err != nil || len(counts) == 0 {
		return task.Counts{}, err
	}
	return counts[0].Counts, nil
}

// Handle lets this node work off a queue with h: Config.Capacity calls at once, over all queues. Call it before Run, which
// says what is wrong with it.
func (n *Node) Handle(queue string, h worker.Handler) {
	if w := n.ownWorker(); w != nil {
		w.Handle(queue, h)
	}
}

// HandleStages is Handle with a function for each stage.
func (n *Node) HandleStages(queue string, stages worker.Stages) {
	if w := n.ownWorker(); w != nil {
		w.HandleStages(queue, stages)
	}
}

// ownWorker is the node's worker, made at the first call; nil when it can't be made, which Run says.
func (n *Node) ownWorker() *worker.Worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker == nil && n.problem == nil {
		n.worker, n.problem = worker.New(worker.Config{
			Queue: n.tasks, Name: n.conf.Name, Capacity: n.conf.Capacity, StopGrace: n.conf.StopGrace, Log: n.log,
		})
	}
	if n.running { // too late: Run has looked
		n.log.Error("handle: the node runs already")
		return nil
	}
	return n.worker
}

// Run does the node's work until ctx ends, or until the store can't be trusted any more (ErrBroken). Stopping has two steps: no
// new work is taken; then what runs is waited for, and the rest is given back to the store, so that nothing is lost or charged.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	if n.running {
		n.mu.Unlock()
		return errors.New("run: the node runs already")
	}
	n.running = true
	problem := n.problem
	n.mu.Unlock()
	if problem != nil {
		return errors.Join(problem, n.Close())
	}

	engine, stopEngine := context.WithCancelCause(context.WithoutCancel(ctx)) // outlives ctx: what runs wants to report
	work, stopWork := context.WithCancelCause(ctx)
	defer stopWork(nil)
	var group sync.WaitGroup
	failed := make(chan error, 5)
	start := func(verb string, f func() error) {
		group.Go(func() {
			if err := f(); err != nil {
				failed <- fmt.Errorf("%s: %w", verb, err)
				stopWork(err)
			}
		})
	}
	start("clock", func() error { return n.clock.Run(engine) })
	start("dispatch", func() error { return n.tasks.Run(engine) })
	start("schedule", func() error { return n.rounds.Run(engine) })
	if n.server != nil {
		start("serve", func() error { return closedIsFine(n.server.Serve(n.listen)) })
	}
	if n.worker != nil {
		if err := n.worker.Run(work); err != nil {
			failed <- fmt.Errorf("work: %w", err)
			stopWork(err)
		}
	}
	<-work.Done()
	n.closing.Do(func() {
		n.closeErr = n.close(func() {
			stopEngine(context.Canceled)
			group.Wait()
		})
	})
	close(failed)
	errs := []error{n.closeErr}
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func closedIsFine(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close gives everything back to the store and closes it, when Run was not called. Safe to call twice.
func (n *Node) Close() error {
	n.closing.Do(func() { n.closeErr = n.close(func() {}) })
	return n.closeErr
}

// close ends everything from the outside in: waiting calls, the API, what is under way, the rounds (by rest), the
// membership, the store.
func (n *Node) close(rest func()) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	n.tasks.Stop()
	var errs []error
	if n.server != nil {
		calls, cancel := context.WithTimeout(ctx, patience) // a slow reader must not use up the time of the rest
		defer cancel()
		if err := n.server.Shutdown(calls); err != nil {
			errs = append(errs, fmt.Errorf("end calls: %w", err), n.server.Close())
		}
		n.listen.Close() // closed already when it was served
	}
	errs = append(errs, n.tasks.Close(ctx))
	rest()
	errs = append(errs, n.rounds.Leave(ctx), n.abandon())
	return errors.Join(errs...)
}

// abandon closes the store and the blobs, when they were opened.
func (n *Node) abandon() error {
	var errs []error
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.blobs != nil {
		errs = append(errs, n.blobs.Close())
	}
	return errors.Join(errs...)
}
