package supervise

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/place"
	"github.com/rotahq/rota/task"
)

// What people ask the planner costs by what there is, and by what they suppose, not by what they
// are answered. So its memory is reckoned before work begins, few think at a time, and who has left
// thinks no more.
const (
	// bytes, at most, for each replica that is wanted or runs; the answer's row for it included
	thoughtReplica = 512
	thoughtWorker  = 1 << 10   // bytes for each worker
	mostThought    = 512 << 20 // bytes of all that is thought at a time
	mostThoughts   = 2         // at a time
	thoughtWaits   = time.Second
	longestThought = time.Minute
	mostChanges    = 375_000 // replicas that an answer can list: 96 MiB of it
)

// thoughts are what is thought at this moment on this node.
type thoughts struct {
	turns chan struct{}
	bytes chan int64 // of size 1: what is taken
}

func newThoughts() *thoughts {
	t := &thoughts{turns: make(chan struct{}, mostThoughts), bytes: make(chan int64, 1)}
	t.bytes <- 0
	return t
}

// wanted is how many replicas a group is to have.
func wanted(s *place.State, replicas int) (all int64) {
	for i := range s.Jobs {
		all += int64(cmp.Or(s.Jobs[i].Replicas, replicas, 1))
	}
	return all
}

// tooMany refuses a change of which the answer could not list all that starts, stops or waits,
// whatever comes of it.
func tooMany(s *place.State, replicas int) error {
	var e task.InvalidError
	if n := wanted(s, replicas) - int64(len(s.Current)); max(n, -n) > mostChanges {
		e.Add("body",
			"%d replicas would start, stop or wait, and %d is the limit of what an answer lists: suppose less",
			max(n, -n), mostChanges)
	}
	return e.Err()
}

// weigh is how much memory it takes to think about a group.
func weigh(s *place.State, replicas int) int64 {
	all := wanted(s, replicas) + int64(len(s.Current))
	return all*thoughtReplica + int64(len(s.Workers))*thoughtWorker
}

// begin waits for a turn to think about a state; done ends it. What would take too much memory is
// refused before that, and what finds no turn after a second, too. The policy it answers ends with
// ctx.
func (t *thoughts) begin(
	ctx context.Context, s *place.State, p place.Policy,
) (ending place.Policy, done func(), err error) {
	need := weigh(s, p.Replicas)
	if need > mostThought {
		var e task.InvalidError
		e.Add("body",
			"%d jobs of %d replicas on %d workers take about %d MiB to think about, and %d MiB is the limit: fewer jobs, replicas or workers",
			len(s.Jobs), max(p.Replicas, 1), len(s.Workers), need>>20, mostThought>>20)
		return p, nil, &e
	}
	patience := time.NewTimer(thoughtWaits)
	defer patience.Stop()
	select {
	case t.turns <- struct{}{}:
	case <-patience.C:
		return p, nil,
			fmt.Errorf("%d plans are being made at this node, which is the limit: %w", mostThoughts,
				store.ErrBusy)
	case <-ctx.Done():
		return p, nil, context.Cause(ctx)
	}
	if taken := <-t.bytes; taken+need > mostThought {
		t.bytes <- taken
		<-t.turns
		return p, nil,
			fmt.Errorf("the plan beside this one takes %d MiB, of %d MiB that all may take: %w",
				taken>>20, mostThought>>20, store.ErrBusy)
	} else {
		t.bytes <- taken + need
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestThought,
		fmt.Errorf("it took longer than %v: %w", longestThought, store.ErrBusy))
	p.Stop = func() error { return context.Cause(ctx) }
	return p, func() {
		cancel()
		t.bytes <- <-t.bytes - need
		<-t.turns
	}, nil
}
