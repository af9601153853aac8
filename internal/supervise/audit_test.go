package supervise_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// audit checks what must hold at every moment, by what workers really run: nothing runs that the
// store says has ended, no worker runs more than its capacity, and of no replica run two but while
// it moves.
func (h *house) audit() {
	h.T.Helper()
	for _, fault := range h.faults() {
		h.T.Error(fault)
	}
	if h.T.Failed() {
		h.T.Fatalf("runs: %v\nrows: %v", h.running(), h.stand("g"))
	}
}

func (h *house) faults() (faults []string) {
	type replica struct {
		key
		n int
	}
	changes := map[string]store.Changes{}
	settled := map[replica]int{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		w.mu.Lock()
		if w.frozen || time.Since(w.thawed) < thawing {
			w.mu.Unlock()
			continue
		}
		load := task.Units(0)
		for k, r := range w.runs {
			load += r.Load
			c, ok := changes[k.group]
			if !ok {
				c, _ = h.Store.Changes(context.Background(), k.group, 0)
				changes[k.group] = c
			}
			row := find(c.Assignments, k.job, w.name)
			switch {
			case h.lax: // the store has lost rows
			case row == nil || row.Token != r.Token.Number || row.State == store.Ended:
				faults = append(faults,
					fmt.Sprintf("%s runs %s/%s/%d with token %v, which is over", w.name, k.group,
						k.job, r.Replica, r.Token))
			case row.State != task.JobMoving && row.State != task.JobEnding:
				settled[replica{k, r.Replica}]++
			}
		}
		if load.Float() > w.most {
			faults = append(faults,
				fmt.Sprintf("%s runs a load of %v, and has a capacity of %v", w.name, load.Float(),
					w.most))
		}
		w.mu.Unlock()
	}
	for r, n := range settled {
		if n > 1 {
			faults = append(faults,
				fmt.Sprintf("replica %s/%s/%d runs %d times", r.group, r.job, r.n, n))
		}
	}
	return faults
}

func find(list []store.Assignment, job, worker string) *store.Assignment {
	for i := range list {
		if list[i].Job == job && list[i].Worker == worker {
			return &list[i]
		}
	}
	return nil
}

// thawing is how long a process that was stopped goes on with what it was at.
const thawing = 200 * time.Millisecond

// copies is how many copies of each job run.
func (h *house) copies() map[string]int {
	counts := map[string]int{}
	for _, r := range h.running() {
		counts[strings.Split(r, "/")[1]]++
	}
	return counts
}

// begun and ended count what all workers were told to begin and to end.
func (h *house) begun() (begun, ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		w.mu.Lock()
		begun, ended = begun+w.begun, ended+w.ended
		w.mu.Unlock()
	}
	return begun, ended
}
