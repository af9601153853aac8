package rota

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Run does the node's work until ctx ends, or until the store can't be trusted any more
// (ErrBroken). Stopping has two steps: no new work is taken; then what runs is waited for, and the
// rest is given back to the store, so that nothing is lost or charged. Close ends it, too.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	defer close(ended)
	defer stop(nil)
	end := func() {
		stop(errClosed)
		<-ended
	}
	if err := n.begin(end); err != nil {
		return err
	}
	// outlives ctx: what runs wants to report
	engine, stopEngine := context.WithCancelCause(context.WithoutCancel(ctx))
	work, stopWork := context.WithCancelCause(ctx)
	defer stopWork(nil)
	loops := n.loops()
	failed := make(chan error, len(loops)+1) // one of each, and one of the work
	fail := func(verb string, err error) {
		if err != nil {
			failed <- fmt.Errorf("%s: %w", verb, err)
			stopWork(err)
		}
	}
	var group sync.WaitGroup
	for _, l := range loops {
		group.Go(func() { fail(l.verb, l.run(engine)) })
	}
	if n.worker != nil {
		err := n.configureFinals(work)
		if err == nil {
			err = n.worker.Run(work)
		}
		fail("work", err)
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

// begin looks whether the node can run, once. One that can't is closed; of one that can, end ends
// Run and waits for that.
func (n *Node) begin(end func()) error {
	n.mu.Lock()
	switch {
	case n.running:
		n.mu.Unlock()
		return errors.New("run: the node runs already")
	case n.closed:
		n.mu.Unlock()
		return fmt.Errorf("run: %w", errClosed)
	}
	n.running = true
	problem := n.problem
	if n.worker != nil {
		for _, wrap := range n.around {
			n.worker.Use(wrap)
		}
		if err := n.worker.Check(); err != nil {
			problem = fmt.Errorf("work: %w", err)
		}
	}
	if problem == nil {
		n.endRun = end
	}
	n.mu.Unlock()
	if problem != nil {
		return errors.Join(problem, n.Close())
	}
	return nil
}

// loop is a part of a node that goes on until ctx ends, or it can't.
type loop struct {
	verb string // for errors
	run  func(ctx context.Context) error
}

func (n *Node) loops() []loop {
	list := []loop{
		{"clock", n.clock.Run},
		{"dispatch", n.tasks.Run},
		{"schedule", n.rounds.Run},
		{"outbox", n.outbox.Run},
		{"notify", n.sender.Run},
		{"listen", func(ctx context.Context) error {
			return n.store.listen(ctx, n.conf.Name, n.tasks, n.jobs.cache.LookSoon)
		}},
		{"sessions", n.jobs.sessions.Run},
		{"fire", n.firer.Run},
		{"watch queues", n.unserved().Run},
		{"watch expiry", n.expired().Run},
		{"watch capacity", n.capacity().Run},
	}
	if n.server != nil {
		list = append(list, loop{"serve", func(context.Context) error {
			return closedIsFine(n.server.Serve(api.Listener(n.listen, n.log)))
		}})
	}
	return list
}

// configureFinals has queues give their final notices to the queues that this node's hooks do.
func (n *Node) configureFinals(ctx context.Context) error {
	for _, f := range n.finals {
		final := func(q *task.Queue, _ bool) error {
			q.FinalQueue = f[1]
			return nil
		}
		if _, err := n.tasks.ChangeQueue(ctx, f[0], final); err != nil {
			return fmt.Errorf("configure final notices of queue %q: %w", f[0], err)
		}
	}
	return nil
}

func closedIsFine(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close gives everything back to the store and closes it, when Run was not called; else it ends Run
// and waits for that, so no handler may wait for it. Safe to call twice.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	end := n.endRun
	n.mu.Unlock()
	if end != nil {
		end()
	}
	n.closing.Do(func() { n.closeErr = n.close(func() {}) })
	return n.closeErr
}

// patience is how long a part of a node may take to end.
const patience = 10 * time.Second

// giveUp closes a node that could not be opened, as far as it was: what it has joined it leaves, so
// that nobody takes it for dead.
func (n *Node) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var errs []error
	if n.Client != nil {
		n.Client.Close()
	}
	if n.forecasts != nil {
		n.forecasts.Close()
	}
	if n.tasks != nil {
		errs = append(errs, n.tasks.Close(ctx))
	}
	if n.token != 0 {
		errs = append(errs, n.rounds.Leave(ctx))
	}
	return errors.Join(append(errs, n.abandon())...)
}

// close ends everything from the outside in: waiting calls, the API, what is under way, the rounds
// (by rest), the membership, the store.
func (n *Node) close(rest func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	n.tasks.Stop()
	var errs []error
	if n.server != nil {
		// a slow reader must not use up the time of the rest
		calls, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := n.server.Shutdown(calls); err != nil {
			errs = append(errs, fmt.Errorf("end calls: %w", err), n.server.Close())
		}
	}
	n.door.close()
	n.Client.Close()
	n.forecasts.Close()
	errs = append(errs, n.tasks.Close(ctx))
	rest()
	if n.rounds.Member(ctx) == nil {
		// else others have said that it is gone, and perhaps that it is back
		n.outbox.AddMember(store.NodeOffline, "left", n.token)
	}
	if err := n.outbox.Round(ctx); err != nil {
		n.log.Warn("what happened last was not written down", "error", err)
	}
	errs = append(errs, n.rounds.Leave(ctx), n.abandon())
	return errors.Join(errs...)
}

// abandon closes the store, the folder of sources and the address, when they were opened. The guard
// comes last: who gets it next takes this node for dead.
func (n *Node) abandon() error {
	if n.listen != nil {
		n.listen.Close() // closed already when it was served
	}
	if n.peers != nil {
		n.peers.Close()
	}
	if n.hooks != nil {
		n.hooks.Close()
	}
	errs := []error{n.folder.Close()}
	if n.check != nil {
		n.check.Close()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.guard != nil {
		errs = append(errs, n.guard.Close())
	}
	return errors.Join(errs...)
}
