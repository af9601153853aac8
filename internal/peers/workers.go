package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// AllWorkersConfig is what AllWorkers needs, all of it.
type AllWorkersConfig struct {
	Own   Own
	Seats Seats
	Peers *Peers
	// Others are the other nodes that may have workers, and those of them that nobody reaches now:
	// nothing is asked of these.
	Others func() (reachable, away []store.Node)
}

// Own is what this node knows of workers: the dispatcher's.
type Own interface {
	Workers(context.Context) ([]task.Worker, error)
	DrainWorker(ctx context.Context, name string, what store.Drain) error
	UndrainWorker(ctx context.Context, name string) error
	DeleteWorker(ctx context.Context, name string) error
}

// Seats is where it stands what workers run of jobs: the store.
type Seats interface {
	DeleteSeat(ctx context.Context, worker string) error
}

// AllWorkers are those of all nodes, each of which knows the ones that it hears. A call with here
// is about what this node knows, and goes nowhere: that is how nodes ask each other.
type AllWorkers struct{ conf AllWorkersConfig }

// NewAllWorkers makes the workers of a cluster.
func NewAllWorkers(conf AllWorkersConfig) *AllWorkers { return &AllWorkers{conf} }

// Workers lists the workers that nodes know, by name. One that went from node to node is known to
// both for a while: it is where it was heard of last, and what it runs is the sum.
func (w *AllWorkers) Workers(
	ctx context.Context, here bool,
) (list []task.Worker, missing []string, err error) {
	list, err = w.conf.Own.Workers(ctx)
	if err != nil || here {
		return list, nil, err
	}
	nodes, away := w.conf.Others()
	for i := range away {
		missing = append(missing, away[i].Name)
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() {
			var theirs []task.Worker
			err := w.conf.Peers.Ask(ctx, n,
				func(ctx context.Context, peer *client.Client) (err error) {
					theirs, _, err = peer.Workers(ctx)
					return err
				})
			mu.Lock()
			defer mu.Unlock()
			if list = append(list, theirs...); err != nil {
				missing = append(missing, n.Name)
			}
		})
	}
	group.Wait()
	slices.Sort(missing)
	return merged(list), missing, nil
}

// merged makes one of all that is known of each worker, by name.
func merged(list []task.Worker) []task.Worker {
	slices.SortFunc(list, func(a, b task.Worker) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Seen.Compare(a.Seen),
			cmp.Compare(a.Node, b.Node))
	})
	out := list[:0]
	for _, next := range list {
		if n := len(out); n > 0 && out[n-1].Name == next.Name {
			out[n-1].Running += next.Running
			out[n-1].Used += float64(next.Running)
			out[n-1].Free = max(0, out[n-1].Free-next.Running)
			out[n-1].Queues = slices.Compact(slices.Sorted(slices.Values(
				slices.Concat(out[n-1].Queues, next.Queues))))
			out[n-1].Active = out[n-1].Active || next.Active
			out[n-1].Draining = out[n-1].Draining || next.Draining
			continue
		}
		out = append(out, next)
	}
	return out
}

// DrainWorker lets a worker give up work, at every node that knows it. All of them write the same
// word, so it does not matter which is the last. What a node of before would write down as a drain
// of all, for ever, the others are left to read with their next beat.
func (w *AllWorkers) DrainWorker(
	ctx context.Context, name string, what store.Drain, here bool,
) error {
	own := w.conf.Own.DrainWorker(ctx, name, what)
	return w.everywhere(ctx, name, here || own == nil && what != store.Drain{}, own,
		func(peer *client.Client, ctx context.Context, name string) error {
			// the node that was asked has weighed what it does
			_, err := peer.DrainWorkerWith(ctx, name, client.WorkerDrain{
				Shed: what.Shed.Float(), By: timeAt(what.By), Force: true,
			})
			return err
		})
}

// timeAt is a time of the store; the zero time of none.
func timeAt(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at)
}

// UndrainWorker lets a worker take work again, at every node that knows it.
func (w *AllWorkers) UndrainWorker(ctx context.Context, name string, here bool) error {
	return w.everywhere(ctx, name, here, w.conf.Own.UndrainWorker(ctx, name),
		(*client.Client).UndrainWorker)
}

// DeleteWorker makes every node that knows a worker give back what it holds and forget it, and ends
// its jobs. store.ErrNotFound: neither a node nor the store knows it.
func (w *AllWorkers) DeleteWorker(ctx context.Context, name string, here bool) error {
	seated := false
	if !here { // what it runs of jobs stands in the store, whoever hears it
		err := w.conf.Seats.DeleteSeat(ctx, name)
		if seated = err == nil; err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("end the jobs of worker %q: %w", name, err)
		}
	}
	err := w.everywhere(ctx, name, here, w.conf.Own.DeleteWorker(ctx, name),
		(*client.Client).DeleteWorker)
	if seated && errors.Is(err, store.ErrNotFound) {
		return nil // the store knew it
	}
	return err
}

// everywhere makes a call about a worker at all other nodes, too, after this node has answered own.
// Where nobody knows the worker it is store.ErrNotFound, unless a node that might did not answer:
// store.ErrAway.
func (w *AllWorkers) everywhere(
	ctx context.Context, name string, here bool, own error,
	call func(*client.Client, context.Context, string) error,
) error {
	if here || own != nil && !errors.Is(own, store.ErrNotFound) {
		return own
	}
	nodes, away := w.conf.Others()
	answers := make([]error, len(nodes), len(nodes)+len(away))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			answers[i] = w.conf.Peers.Ask(ctx, n,
				func(ctx context.Context, peer *client.Client) error {
					return call(peer, ctx, name)
				})
		})
	}
	group.Wait()
	for _, n := range away {
		answers = append(answers, fmt.Errorf("node %q is unreachable: %w", n.Name, store.ErrAway))
	}
	answers = slices.DeleteFunc(answers, func(err error) bool {
		return errors.Is(err, store.ErrNotFound)
	})
	switch {
	case own == nil || slices.Contains(answers, nil):
		return nil
	case len(answers) > 0:
		return errors.Join(answers...)
	}
	return own
}
