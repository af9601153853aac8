package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A running task seems stuck when it has run for longer than stuckTimes the p99 of its queue and
// stage, and for stuckFloor at least; or when its worker is silent. The p99 is that of the runs
// that ended well among the newest stuckSteps steps of the store; fewer than stuckRuns prove
// nothing.
const (
	stuckTimes = 3
	stuckFloor = time.Minute
	stuckRuns  = 20
	stuckSteps = 20_000
	// stuckPage is how many running tasks a page looks at, and stuckKept how long it is remembered
	// what is usual in a queue. Where it is not remembered a page looks it up for one queue and
	// ends before the next: it takes no longer however many queues and tasks there are.
	stuckPage = 300
	stuckKept = time.Minute
)

// stuck lists tasks that seem stuck, as Tasks does.
func (vs *views) stuck(
	ctx context.Context, f store.Filter, after task.ID, limit int,
) (page []task.View, next task.ID, err error) {
	if f.State != "" && f.State != task.Running {
		return nil, task.ID{}, nil
	}
	silent := f.Stuck.Silent
	f.State, f.Stuck, f.Live = task.Running, nil, vs.live()
	list, more, err := vs.store.Tasks(ctx, f, after, stuckPage)
	if err != nil {
		vs.note(err)
		return nil, task.ID{}, err
	}
	now := time.Now().Add(-vs.ClockOffset())
	looked := "" // the queue whose times were looked up for this page
	for i := range list {
		v := &list[i]
		var usual map[string]time.Duration // by stage
		if now.Sub(v.Started) > stuckFloor {
			var known bool
			if usual, known = vs.usual.of(v.Queue, time.Now()); !known && looked != "" {
				return page, list[i-1].ID, nil
			} else if !known {
				times, err := vs.store.RunTimes(ctx, v.Queue, stuckSteps)
				if err != nil {
					vs.note(err)
					return nil, task.ID{}, err
				}
				usual, looked = usualTimes(times), v.Queue
				vs.usual.put(v.Queue, usual, time.Now())
			}
		}
		if v.Stuck = whyStuck(v, now, usual[v.Stage], silent); v.Stuck == "" {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		page = append(page, *v)
	}
	return page, more, nil
}

// usual remembers for a while how long the stages of queues take. The zero value is empty.
type usual struct {
	mu     sync.Mutex
	queues map[string]usualIn
}

type usualIn struct {
	stages map[string]time.Duration
	until  time.Time
}

func (u *usual) of(queue string, now time.Time) (stages map[string]time.Duration, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	in, ok := u.queues[queue]
	return in.stages, ok && now.Before(in.until)
}

// put forgets what is too old, too: no more is kept than queues were asked for within the time.
func (u *usual) put(queue string, stages map[string]time.Duration, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.queues == nil {
		u.queues = map[string]usualIn{}
	}
	maps.DeleteFunc(u.queues, func(_ string, in usualIn) bool { return !now.Before(in.until) })
	u.queues[queue] = usualIn{stages, now.Add(stuckKept)}
}

// usualTimes are the p99 of stages, as far as there are enough runs of them.
func usualTimes(times []store.RunTime) map[string]time.Duration {
	by := map[string][]int64{}
	for _, t := range times {
		by[t.Stage] = append(by[t.Stage], t.Took)
	}
	usual := map[string]time.Duration{}
	for stage, took := range by {
		if n := len(took); n >= stuckRuns {
			slices.Sort(took)
			usual[stage] = time.Duration(took[(99*n+99)/100-1]) * time.Microsecond
		}
	}
	return usual
}

// whyStuck says why a running task seems stuck; "" = it does not. usual is the p99 of its queue and
// stage, 0 = not known.
func whyStuck(v *task.View, now time.Time, usual time.Duration, silent map[string]int64) string {
	ran := now.Sub(v.Started).Round(time.Second)
	if usual > 0 && ran > max(stuckFloor, stuckTimes*usual) {
		return fmt.Sprintf("runs for %v; 99 of 100 in this queue and stage take at most %v", ran,
			usual.Round(time.Millisecond))
	}
	seen, quiet := silent[v.Worker]
	switch {
	case quiet && seen == 0:
		return "its worker was never heard of"
	case quiet:
		return fmt.Sprintf("its worker was not heard of for %v",
			now.Sub(time.UnixMicro(seen)).Round(time.Second))
	}
	return ""
}
