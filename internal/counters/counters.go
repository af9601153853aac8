// Package counters is how a store counts: what one transaction changed in the counts of its queues,
// as differences, written in the same transaction as the facts that it counts, so that the sums are
// exact. It is pure, and the same for every store.
package counters

import (
	"iter"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Counters is what changed in one queue: differences, so that those of many transactions add up.
type Counters struct {
	// less what is deleted: their sums are what the tables hold
	Submitted, Done, Dead, Cancelled, Expired int64
	Runs, Retried, Lost                       int64 // never taken back
}

// Final is the counter of a final state.
func (t *Counters) Final(s task.State) *int64 {
	switch s {
	case task.Done:
		return &t.Done
	case task.Cancelled:
		return &t.Cancelled
	case task.Expired:
		return &t.Expired
	}
	return &t.Dead
}

// Settled counts a step that was reported.
func (t *Counters) Settled(s *store.Step) {
	if s.Started != 0 {
		t.Runs++
	}
	switch {
	case s.Base == store.Final:
		*t.Final(s.Kind.Leaves())++
	case s.Kind == task.KindRetry || s.Kind == task.KindTimeout:
		t.Retried++
	}
	if s.Kind == task.KindLost {
		t.Lost++
	}
}

// Gone counts a task that is deleted; s is the final state it was in, or another one.
func (t *Counters) Gone(s task.State) {
	t.Submitted--
	if s.Final() {
		*t.Final(s)--
	}
}

// Unfinished is how many tasks are neither final nor deleted.
func (t *Counters) Unfinished() int64 {
	return t.Submitted - t.Done - t.Dead - t.Cancelled - t.Expired
}

// Changes are those of one transaction, by queue.
type Changes map[string]*Counters

// Of is where what happens in a queue is counted.
func (t Changes) Of(queue string) *Counters {
	if t[queue] == nil {
		t[queue] = new(Counters)
	}
	return t[queue]
}

// All yields those in which anything changed, sorted, as every write of many is.
func (t Changes) All() iter.Seq2[string, *Counters] {
	return func(yield func(string, *Counters) bool) {
		for _, queue := range slices.Sorted(maps.Keys(t)) {
			if *t[queue] != (Counters{}) && !yield(queue, t[queue]) {
				return
			}
		}
	}
}
