package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// waiter is one hold that waits for tasks.
type waiter struct {
	worker  *worker
	limit   int
	ahead   int // beyond the worker's capacity
	members []member
	items   []*item
	ready   chan struct{} // closed when items is complete
}

// member is a waiter's place among those that wait for one queue.
type member struct {
	queue *queue
	place *balance.Member[*waiter]
}

// slots is how many tasks the waiter may still be given.
func (wt *waiter) slots() int { return min(wt.limit-len(wt.items), wt.room()) }

// room is how many more tasks the waiter's worker may hold.
func (wt *waiter) room() int {
	if wt.worker.draining {
		return 0
	}
	return wt.worker.room() + wt.ahead
}

// load orders waiters: the one whose worker has the most free capacity first, behind them those that would only hold tasks
// ahead, those that can take nothing last.
func (wt *waiter) load() float64 {
	switch {
	case wt.slots() < 1:
		return math.MaxFloat64
	case !wt.worker.measured: // its capacity is unknown: it is as free as it says
		return -float64(wt.slots())
	}
	return -float64(wt.worker.room())
}

// answers are waiters that got tasks and are to be told, once the lock is released.
type answers struct{ waiters []*waiter }

func (a *answers) send() {
	for _, wt := range a.waiters {
		close(wt.ready)
	}
}

// Hold answers with tasks for a worker, at most r.Limit and never more than its capacity leaves room for (and
// r.Ahead beyond it, while nobody else has room), waiting up to r.Wait for the first. Errors: *task.InvalidError, ErrClosed, ErrDraining.
// When ctx ends, tasks chosen meanwhile are ready again.
func (d *Dispatcher) Hold(ctx context.Context, r task.HoldRequest) (task.HoldAnswer, error) {
	if err := checkHold(r); err != nil {
		return task.HoldAnswer{}, err
	}
	wt, poll, err := d.wait(r)
	if err != nil {
		return task.HoldAnswer{}, err
	}
	d.await(ctx, wt, r.Wait)
	answer := d.answer(ctx, d.collect(ctx, wt), r.Room)
	answer.PollInterval = poll
	return answer, nil
}

func checkHold(r task.HoldRequest) error {
	var e task.InvalidError
	if !task.ValidName(r.Worker) {
		e.Add("body.worker", "%.40q %s", r.Worker, task.NameRule)
	}
	if len(r.Queues) == 0 || len(r.Queues) > task.MaxQueues {
		e.Add("body.queues", "must name 1 to %d queues", task.MaxQueues)
	}
	for i, name := range r.Queues {
		if !task.ValidName(name) {
			e.Add(fmt.Sprintf("body.queues[%d]", i), "%.40q %s", name, task.NameRule)
		}
	}
	if !task.ValidText(r.Incarnation, task.MaxName) {
		e.Add("body.incarnation", "must be at most %d bytes of printable UTF-8", task.MaxName)
	}
	if r.Ahead < 0 || r.Ahead > task.MaxHold {
		e.Add("body.ahead", "must be 0 to %d", task.MaxHold)
	}
	if r.Limit < 0 || r.Limit > task.MaxHold {
		e.Add("body.limit", "must be 0 to %d", task.MaxHold)
	}
	if r.Wait < 0 || r.Wait > task.MaxWait {
		e.Add("body.wait", "must be 0s to %v", task.MaxWait)
	}
	return e.Err()
}

// wait registers a hold among the waiting and gives it what is ready already.
func (d *Dispatcher) wait(r task.HoldRequest) (wt *waiter, poll time.Duration, err error) {
	now := time.Now()
	var a answers
	d.mu.Lock()
	defer func() {
		d.mu.Unlock()
		a.send()
	}()
	if d.closed {
		return nil, 0, ErrClosed
	}
	if d.draining {
		return nil, 0, ErrDraining
	}
	w := d.worker(r.Worker, now)
	w.touch(now)
	d.meet(w, r.Incarnation)
	wt = &waiter{worker: w, limit: r.Limit, ahead: r.Ahead, ready: make(chan struct{})}
	queues := make([]*queue, 0, len(r.Queues))
	for _, name := range r.Queues {
		q := d.queue(name)
		if !contains(queues, q) {
			queues = append(queues, q)
		}
		if poll == 0 || q.conf.PollInterval < poll {
			poll = q.conf.PollInterval
		}
		if r.Limit == 0 {
			wt.limit = max(wt.limit, q.conf.HoldLimit)
		}
	}
	w.serves(queues)
	for _, q := range queues {
		wt.members = append(wt.members, member{q, q.waiting.Add(wt, wt.load())})
	}
	w.waiting = append(w.waiting, wt)
	d.matchWaiter(wt, now, &a)
	return wt, poll, nil
}

func contains(list []*queue, q *queue) bool {
	for _, x := range list {
		if x == q {
			return true
		}
	}
	return false
}

// await returns when the waiter has tasks, its time is over, or the caller is gone. A hold that does not wait still lets the takes
// that it causes end: "nothing" must be true.
func (d *Dispatcher) await(ctx context.Context, wt *waiter, wait time.Duration) {
	if isClosed(wt.ready) {
		return
	}
	if wait <= 0 {
		for range 3 { // a take under way may be for others
			takes := d.takes(wt)
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
	case <-d.stop:
	}
}

// together shortens a wait by at most a 32nd, so that the idle polls of many workers end in groups: waking up costs a process
// more than answering one more poll. The grids of different waits fall together, because they are powers of two.
func together(now, wait time.Duration) time.Duration {
	grid := time.Duration(1)
	for 2*grid <= wait/32 {
		grid *= 2
	}
	return (now+wait)/grid*grid - now
}

// takes are the takes under way for a waiter's queues, begun where there may be something to take.
func (d *Dispatcher) takes(wt *waiter) (under []chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range wt.members {
		d.takeSoon(m.queue, time.Now())
		if m.queue.taking {
			under = append(under, m.queue.took)
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

// handed is a hand-out as it was when it was chosen; its item may have gone on since.
type handed struct {
	item    *item
	token   task.Token
	context rows.Value
	guarded bool
	task.Handout
}

// current tells whether the hand-out still stands. The lock is held.
func (h *handed) current() bool { return h.item.place == out && h.item.token == h.token }

// collect ends the waiting and returns the tasks; those of a caller that is gone are ready again, as if never handed out.
func (d *Dispatcher) collect(ctx context.Context, wt *waiter) []handed {
	var a answers
	d.mu.Lock()
	wt.leave()
	list := make([]handed, len(wt.items))
	for i, it := range wt.items {
		list[i] = handed{item: it, token: it.token, context: it.context, guarded: it.span.guarded(), Handout: task.Handout{
			ID: it.id, Queue: it.queue.conf.Name, Stage: it.stage, Attempt: int(it.attempt) + 1, Deadline: it.until,
		}}
	}
	if ctx.Err() != nil {
		d.unhand(list, &a)
		list = nil
	}
	d.mu.Unlock()
	a.send()
	return list
}

// unhand takes hand-outs back whose tokens nobody has seen. The lock is held.
func (d *Dispatcher) unhand(list []handed, a *answers) {
	for i := range list {
		if !list[i].current() {
			continue
		}
		it := list[i].item
		d.takeBack(it)
		it.timer.Stop()
		it.span.idle++
		it.span.under--
		d.enqueue(it)
		d.match(it.queue, time.Now(), a)
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

// match hands ready tasks of q to waiting workers, each to the one with the most free capacity.
func (d *Dispatcher) match(q *queue, now time.Time, a *answers) {
	for !q.conf.Paused && !d.shut() {
		first := q.waiting.Min()
		if first == nil || first.Value.slots() < 1 || q.ready.first() == nil {
			break
		}
		d.hand(q.ready.drop(), first.Value, now, a)
	}
	a.dismiss()
	d.takeSoon(q, now)
}

// matchWaiter gives a new waiter what its queues have ready, smallest rank first.
func (d *Dispatcher) matchWaiter(wt *waiter, now time.Time, a *answers) {
	for !d.shut() && wt.slots() >= 1 {
		var best *entry
		for _, m := range wt.members {
			if m.queue.conf.Paused {
				continue
			}
			if e := m.queue.ready.first(); e != nil && (best == nil || e.before(best)) {
				best = e
			}
		}
		if best == nil {
			break
		}
		d.hand(best.item.queue.ready.drop(), wt, now, a)
	}
	queues := wt.members
	a.dismiss()
	for _, m := range queues {
		d.takeSoon(m.queue, now)
	}
}

// dismiss takes everybody who got something out of the waiting lines: they answer with what is there.
func (a *answers) dismiss() {
	for _, wt := range a.waiters {
		wt.leave()
	}
}

// hand puts a task into a waiting worker's hands. The caller took it off the heap.
func (d *Dispatcher) hand(it *item, wt *waiter, now time.Time, a *answers) {
	w := wt.worker
	it.place, it.worker, it.incarnation = out, w, w.incarnation
	it.token = task.Token{Span: it.span.ID, SpanToken: it.span.Token, Seq: it.seq}.Sealed(d.conf.Secret, it.id)
	it.started, it.written, it.missed, it.row = now, false, 0, false
	it.span.idle--
	limit := it.queue.conf.Timeout
	if it.timeout > 0 {
		limit = time.Duration(it.timeout) * time.Microsecond
	}
	it.until = now.Add(limit)
	d.watchDeadline(it, limit)
	w.give(it)
	it.queue.handed++
	it.queue.wanted = now
	if len(wt.items) == 0 {
		a.waiters = append(a.waiters, wt)
	}
	wt.items = append(wt.items, it)
	w.reorder()
}

// give puts an item into the worker's hands.
func (w *worker) give(it *item) {
	it.at = len(w.out)
	w.out = append(w.out, it)
}

// takeBack takes an item out of its worker's hands, if it is there.
func (d *Dispatcher) takeBack(it *item) {
	w := it.worker
	if w == nil || it.at >= len(w.out) || w.out[it.at] != it {
		return
	}
	last := len(w.out) - 1
	w.out[it.at] = w.out[last]
	w.out[it.at].at = it.at
	w.out[last] = nil
	w.out = w.out[:last]
	w.reorder()
}

// watchDeadline ends the hand-out at its hard limit, whatever signs of life its worker gives.
func (d *Dispatcher) watchDeadline(it *item, limit time.Duration) {
	if d.closed {
		return
	}
	token := it.token
	it.timer = d.conf.Clock.After(max(limit, 0), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if it.place != out || it.token != token {
			return
		}
		if left := time.Until(it.until); left > 0 { // the clock stood still when it was set
			it.timer.Reset(left)
			return
		}
		d.find(it, task.KindTimeout, fmt.Sprintf("longer than %v", it.until.Sub(it.started).Round(time.Millisecond)))
	})
}

// answer completes hand-outs: those of guarded spans are written down first, large contexts are fetched, as many as there is room
// for. What has none is ready again.
func (d *Dispatcher) answer(ctx context.Context, list []handed, room func(int64) bool) task.HoldAnswer {
	if len(list) == 0 {
		return task.HoldAnswer{}
	}
	list = d.guard(list)
	if room == nil {
		room = func(int64) bool { return true }
	}
	given := list[:0]
	var back []handed
	tokens := make([]byte, 0, 24*len(list))
	size := int64(0)
	for i := range list {
		h := list[i]
		h.Context = []byte(h.context)
		if _, large := h.context.Blob(); large {
			most := d.queueConf(h.Queue).ContextLimit // how large it is only reading it tells
			if size > d.conf.AnswerMax || !room(most) {
				back = append(back, h)
				continue
			}
			text, err := d.store.Value(ctx, h.context)
			room(int64(len(text)) - most)
			if err != nil { // one unreadable context must not hold up the others
				d.unreadable(&h, err)
				continue
			}
			h.Context = text
		}
		size += int64(len(h.Context))
		from := len(tokens)
		tokens = h.token.Append(tokens)
		h.Token = string(tokens[from:])
		given = append(given, h)
	}
	if len(back) > 0 {
		d.putBack(back)
	}
	tasks := make([]task.Handout, len(given))
	for i := range given {
		tasks[i] = given[i].Handout
	}
	return task.HoldAnswer{Tasks: tasks, Written: func() { d.written(given) }}
}

// putBack is unhand with the lock.
func (d *Dispatcher) putBack(list []handed) {
	var a answers
	d.mu.Lock()
	d.unhand(list, &a)
	d.mu.Unlock()
	a.send()
}

// unreadable takes care of a hand-out whose context can't be read. If it is gone, that is the attempt's outcome: charged, and
// finally dead. Any other trouble is not the task's: it comes back in a second.
func (d *Dispatcher) unreadable(h *handed, err error) {
	d.note(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !h.current() {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		d.find(h.item, task.KindRetry, fmt.Sprintf("read context: %v", err))
		return
	}
	d.log.Warn("read context", "task", h.item.id.String(), "error", err)
	it := h.item
	d.takeBack(it)
	it.timer.Stop()
	it.span.idle++
	d.sleep(it, time.Second)
	d.ended(it.span)
}

// guard writes hand-outs of guarded spans down before they are answered: if one of them kills this process too, it is charged.
func (d *Dispatcher) guard(list []handed) []handed {
	var insert []rows.Running
	d.mu.Lock()
	for i := range list {
		if list[i].guarded && list[i].current() {
			insert = append(insert, list[i].item.running())
		}
	}
	d.mu.Unlock()
	if len(insert) == 0 {
		return list
	}
	sortRunning(insert)
	got, err := d.store.Sync(d.ctx, rows.SyncRequest{Holder: d.conf.Holder, Insert: insert})
	if err == nil && got.LeaseGone {
		err = errLeaseGone
	}
	if err != nil {
		d.note(err)
		d.log.Warn("write down guarded hand-outs", "error", err)
		var open, shut []handed
		for _, h := range list {
			if h.guarded {
				shut = append(shut, h)
			} else {
				open = append(open, h)
			}
		}
		d.putBack(shut)
		return open
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		if list[i].guarded && list[i].current() {
			list[i].item.row = true
		}
	}
	return list
}

// sortRunning orders rows by their key, as every write of many does, so that two of them never wait for each other.
func sortRunning(list []rows.Running) {
	slices.SortFunc(list, func(a, b rows.Running) int { return a.ID.Compare(b.ID) })
}

// sortLeases does the same for leases.
func sortLeases(list []rows.Lease) {
	slices.SortFunc(list, func(a, b rows.Lease) int { return strings.Compare(a.Name, b.Name) })
}

// running is the row of a hand-out.
func (it *item) running() rows.Running {
	return rows.Running{
		ID: it.id, Seq: it.seq, Span: it.token.Span, Token: it.token.SpanToken, Worker: it.worker.name, Incarnation: it.incarnation,
		Started: micros(it.started), Until: micros(it.until),
	}
}

// written notes that an answer is on its way: beats that begin from now on must name its tasks.
func (d *Dispatcher) written(list []handed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		if list[i].current() {
			list[i].item.written = true
		}
	}
}
