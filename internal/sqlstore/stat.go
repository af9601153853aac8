package sqlstore

import (
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// stat is what changed in one queue: differences, so that rows of one minute add up.
type stat struct {
	submitted, done, dead, cancelled int64 // less what is deleted: their sums are what the tables hold
	runs, retried, lost              int64 // never taken back
}

// final is the counter of a final state.
func (d *stat) final(s task.State) *int64 {
	switch s {
	case task.Done:
		return &d.done
	case task.Cancelled:
		return &d.cancelled
	}
	return &d.dead
}

// settled counts a step that was reported.
func (d *stat) settled(s *rows.Step) {
	if s.Started != 0 {
		d.runs++
	}
	switch {
	case s.Base == rows.Final:
		*d.final(finalState(s.Kind))++
	case s.Kind == task.KindRetry || s.Kind == task.KindTimeout:
		d.retried++
	}
	if s.Kind == task.KindLost {
		d.lost++
	}
}

// finalState is the state that a final step leads to.
func finalState(k task.Kind) task.State {
	switch k {
	case task.KindDone:
		return task.Done
	case task.KindCancelled:
		return task.Cancelled
	}
	return task.Dead
}

// gone counts a task that is deleted; s is the final state it was in, or another one.
func (d *stat) gone(s task.State) {
	d.submitted--
	if s.Final() {
		*d.final(s)--
	}
}

// stats are the differences of one transaction. They become one row for each queue in the same transaction as the facts
// they count, so they are exact.
type stats map[statKey]*stat

type statKey struct {
	queue string
	past  bool // in the row of minute 0: deletions do not change what a minute saw
}

// of is where the transaction counts for a queue.
func (t *tx) stat(queue string, past bool) *stat {
	k := statKey{queue, past}
	d := t.stats[k]
	if d == nil {
		if t.stats == nil {
			t.stats = stats{}
		}
		d = new(stat)
		t.stats[k] = d
	}
	return d
}

const addStat = `INSERT INTO stat (queue, minute, submitted, done, dead, cancelled, runs, retried, lost)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET submitted = submitted + ?3, done = done + ?4, dead = dead + ?5, cancelled = cancelled + ?6,
  runs = runs + ?7, retried = retried + ?8, lost = lost + ?9`

func (s stats) flush(t *tx) error {
	if len(s) == 0 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(s), func(a, b statKey) int {
		if a.queue != b.queue {
			if a.queue < b.queue {
				return -1
			}
			return 1
		}
		if a.past == b.past {
			return 0
		} else if a.past {
			return -1
		}
		return 1
	})
	for _, k := range keys {
		d, minute := s[k], t.now/time.Minute.Microseconds()
		if k.past {
			minute = 0
		}
		if *d == (stat{}) {
			continue
		}
		_, err := t.exec(addStat, k.queue, minute, d.submitted, d.done, d.dead, d.cancelled, d.runs, d.retried, d.lost)
		if err != nil {
			return err
		}
	}
	return nil
}
