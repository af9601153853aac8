// Package counters is how a store counts: what one transaction changed in the counts of its queues,
// as differences, written in the same transaction as the facts that it counts, so that the sums are
// exact. It is pure, and the same for every store.
package counters

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Counters is what changed in one queue: differences, so that those of one minute add up.
type Counters struct {
	// less what is deleted: their sums are what the tables hold
	Submitted, Done, Dead, Cancelled int64
	Runs, Retried, Lost              int64 // never taken back
}

// Final is the counter of a final state.
func (t *Counters) Final(s task.State) *int64 {
	switch s {
	case task.Done:
		return &t.Done
	case task.Cancelled:
		return &t.Cancelled
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
func (t *Counters) Unfinished() int64 { return t.Submitted - t.Done - t.Dead - t.Cancelled }

// Always is the minute of what is not told apart by the minute: deletions, which do not change what
// a minute saw, and what is old.
const Always = 0

// Key is a queue and a minute since 1970.
type Key struct {
	Queue  string
	Minute int64
}

// Changes are those of one transaction.
type Changes map[Key]*Counters

// Of is where what happens in a queue in a minute is counted.
func (t Changes) Of(queue string, minute int64) *Counters {
	k := Key{queue, minute}
	if t[k] == nil {
		t[k] = new(Counters)
	}
	return t[k]
}

// All yields those in which anything changed, sorted, as every write of many is.
func (t Changes) All() iter.Seq2[Key, *Counters] {
	return func(yield func(Key, *Counters) bool) {
		for _, k := range slices.SortedFunc(maps.Keys(t), func(a, b Key) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Minute, b.Minute))
		}) {
			if *t[k] != (Counters{}) && !yield(k, t[k]) {
				return
			}
		}
	}
}
