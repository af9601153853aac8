package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// handouts are the holds of workers: they wait for tasks, and are answered with what memory gives
// them, complete and written down as far as it must be.
type handouts struct {
	*core
	gates *gates // ask whether what has limits may begin
}

// waiter is one hold that waits for tasks.
type waiter struct {
	worker *worker
	limit  int
	ahead  int // beyond the worker's capacity
	// whole: it asked for all that its worker had room for, so the worker will ask again for what
	// it has room for by then
	whole   bool
	members []member
	given   []spot        // what it was given
	parcel  *parcel       // that the last plain ones of it are in
	ready   chan struct{} // closed when given is complete
}

// member is a waiter's place among those that wait for one queue.
type member struct {
	queue *queue
	place *balance.Member[*waiter]
}

// Hold answers with tasks for a worker, at most r.Limit and never more than its capacity leaves
// room for (and r.Ahead beyond it, while nobody else has room), waiting up to r.Wait for the first.
// Errors: *task.InvalidError, ErrClosed, ErrDraining. When ctx ends, tasks chosen meanwhile are
// ready again.
func (hs *handouts) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	r, own := readHold(r)
	if err := checkHold(r); err != nil {
		return task.HoldAnswer{}, err
	}
	r.Limit = min(r.Limit, limits.MaxHold) // who asks for more gets what one answer holds
	until := time.Now().Add(r.Wait)
	var answer task.HoldAnswer
	var of []*queue // of which the store was asked what may begin
	for held := true; held; {
		hs.mu.Lock()
		wt, poll, err := hs.mem.wait(r, time.Now())
		giveLeft(of, time.Now())
		hs.release()
		if err != nil {
			return task.HoldAnswer{}, err
		}
		hs.await(ctx, wt, r.Wait)
		hs.mu.Lock()
		lost := wt.lost()
		list, tasks := wt.collect(ctx.Err() != nil, time.Now())
		hs.release()
		answer, of, held = hs.answer(ctx, list, tasks, r.Room)
		held = held || lost
		answer.PollInterval = poll
		// who was to get what was held back or is forgotten, and nothing else, waits on
		r.Wait = min(r.Wait, time.Until(until))
		held = held && len(answer.Tasks) == 0 && r.Wait > 0 && ctx.Err() == nil
	}
	if len(of) > 0 {
		hs.mu.Lock()
		giveLeft(of, time.Now())
		hs.release()
	}
	for i := range answer.Tasks {
		answer.Tasks[i].Queue = own.Write(answer.Tasks[i].Queue)
	}
	return answer, nil
}

func checkHold(r task.HoldRequest) error {
	var e task.InvalidError
	if !limits.ValidName(r.Worker) {
		e.Add("body.worker", "%.40q %s", r.Worker, limits.NameRule)
	}
	if len(r.Queues) == 0 || len(r.Queues) > limits.MaxQueues {
		e.Add("body.queues", "must name 1 to %d queues", limits.MaxQueues)
	}
	for i, name := range r.Queues {
		if !limits.ValidName(name) {
			e.Add(fmt.Sprintf("body.queues[%d]", i), "%.40q %s", name, limits.NameRule)
		}
	}
	if !limits.ValidText(r.Incarnation, limits.MaxName) {
		e.Add("body.incarnation", "must be at most %d bytes of printable UTF-8", limits.MaxName)
	}
	if r.Ahead < 0 || r.Ahead > limits.MaxHold {
		e.Add("body.ahead", "must be 0 to %d", limits.MaxHold)
	}
	if r.Limit < 0 {
		e.Add("body.limit", "must not be negative; 0 = the queue's hold_limit")
	}
	if r.Wait < 0 || r.Wait > limits.MaxWait {
		e.Add("body.wait", "must be 0s to %v", limits.MaxWait)
	}
	return e.Err()
}

// wait registers a hold among the waiting and gives it what is ready already.
func (m *memory) wait(
	r task.HoldRequest, now time.Time,
) (wt *waiter, poll time.Duration, err error) {
	if m.closed {
		return nil, 0, ErrClosed
	}
	if m.draining {
		return nil, 0, ErrDraining
	}
	w := m.worker(r.Worker, now)
	if w.over(r.Incarnation) {
		nothing := make(chan struct{})
		close(nothing)
		return &waiter{worker: w, ready: nothing}, 0, nil
	}
	w.touch(now)
	w.meet(r.Incarnation, now)
	wt = &waiter{worker: w, limit: r.Limit, ahead: r.Ahead, ready: make(chan struct{})}
	queues := make([]*queue, 0, len(r.Queues))
	for _, name := range r.Queues {
		q := m.queue(name)
		if !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
		if poll == 0 || q.conf.PollInterval < poll {
			poll = q.conf.PollInterval
		}
		if r.Limit == 0 {
			wt.limit = max(wt.limit, q.conf.HoldLimit)
		}
	}
	wt.whole = w.measured && wt.limit >= w.room()
	w.holdsFrom(queues, now)
	for _, q := range queues {
		wt.members = append(wt.members, member{q, q.waiting.Add(wt, wt.load())})
	}
	w.waiting = append(w.waiting, wt)
	wt.match(now)
	return wt, poll, nil
}

// await returns when the waiter has tasks, its time is over, or the caller is gone. A hold that
// does not wait still lets the takes that it causes end: "nothing" must be true.
func (hs *handouts) await(ctx context.Context, wt *waiter, wait time.Duration) {
	if isClosed(wt.ready) {
		return
	}
	if wait <= 0 {
		for range 3 { // a take under way may be for others
			hs.mu.Lock()
			takes := wt.takes(time.Now())
			hs.release()
			for _, took := range takes {
				select {
				case <-took:
				case <-wt.ready:
					return
				case <-ctx.Done():
					return
				}
			}
			if len(takes) == 0 {
				return
			}
		}
		return
	}
	timer := time.NewTimer(together(time.Duration(time.Now().UnixNano()), wait))
	defer timer.Stop()
	select {
	case <-wt.ready:
	case <-timer.C:
	case <-ctx.Done():
	case <-hs.stop:
	}
}

// together shortens a wait by at most a 32nd, so that the idle polls of many workers end in groups:
// waking up costs a process more than answering one more poll. The grids of different waits fall
// together, because they are powers of two.
func together(now, wait time.Duration) time.Duration {
	grid := time.Duration(1)
	for 2*grid <= wait/32 {
		grid *= 2
	}
	return (now+wait)/grid*grid - now
}

// takes are the takes under way for the waiter's queues, begun where there may be something to
// take.
func (wt *waiter) takes(now time.Time) (under []chan struct{}) {
	for _, in := range wt.members {
		in.queue.takeSoon(now)
		if in.queue.taking {
			under = append(under, in.queue.took)
		}
	}
	return under
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leave takes a waiter out of the queues that it waits for. Idempotent.
func (wt *waiter) leave() {
	for _, m := range wt.members {
		m.queue.waiting.Remove(m.place)
	}
	wt.members = nil
	w := wt.worker
	for i, x := range w.waiting {
		if x == wt {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			break
		}
	}
}
