package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// A task may have an instant until which it is to be begun (task.Submission.StartWithin). When that
// comes and the task was never handed out, it expires: its step says so, under the token of the
// span, as if somebody had reported it. A pause of its queue does not stop the clock.
//
//   - What a node has in memory, ready or parked, that node lets expire: an alarm rings for the
//     earliest, each round looks as well, and whoever is about to hand a task out looks first, so
//     that none goes out once its instant has come.
//   - What is in nobody's hands the node with the chores lets expire, once a beat.
//   - A task that was handed out has begun, and never expires, however that hand-out ends. One
//     whose hand-out no worker ever saw has not.
//
// The step's key is the fence. A task whose holder died within a second of handing it out may
// expire while its worker runs it: then the worker's report is stale, as when it is handed out
// twice.

const (
	// expiredAtOnce is how many tasks one settlement lets expire, expiredPause how long the next
	// one waits at least, so that others' outcomes go in between.
	expiredAtOnce = 1000
	expiredPause  = 20 * time.Millisecond
	// expiredPieces is how many pieces one beat takes of what nobody holds; what is left is for the
	// next one.
	expiredPieces = 16
)

// Expire lets tasks expire that nobody holds, if this node is the one that does so: at most
// expiredPieces times expiredAtOnce of them, and one piece after another, so that neither memory
// nor the settlements of others feel how many there are. It takes their spans as if to hand them
// out; what has not expired of them goes out from here, or back with the next rounds.
func (ds *deadlines) Expire(ctx context.Context) error {
	if !ds.conf.Judges() {
		return nil
	}
	for range expiredPieces {
		more, err := ds.expireFree(ctx)
		if err != nil {
			ds.note(err)
			return fmt.Errorf("let tasks expire that nobody holds: %w", err)
		}
		if !more {
			break
		}
	}
	return nil
}

// expireFree lets one piece of the tasks expire that nobody holds.
func (ds *deadlines) expireFree(ctx context.Context) (more bool, err error) {
	if err := ds.conf.Reach(); err != nil {
		return false, err
	}
	got, s, err := ds.takeExpired(ctx)
	if err != nil || s == nil {
		return false, err
	}
	if !ds.settlements.settle(s) {
		ds.mu.Lock()
		defer ds.release()
		ds.mem.unsettle(s.reports, time.Now())
		return false, nil
	}
	select {
	case <-s.done:
		return got.More, s.err
	case <-ctx.Done():
		return false, nil // the settlement goes on
	}
}

// takeExpired takes spans with tasks that have expired, and makes the settlement of these; nil =
// there are none.
func (ds *deadlines) takeExpired(ctx context.Context) (got store.Taken, s *settlement, err error) {
	defer ds.loads.begin()()
	if got, err = ds.store.TakeExpired(ctx, ds.conf.Holder, expiredAtOnce); err != nil {
		return got, nil, err
	}
	if got.LeaseGone { // of which the membership tells
		return got, nil, nil
	}
	ds.mu.Lock()
	defer ds.release()
	if !ds.mem.closed {
		s = ds.mem.tookExpired(got, time.Now())
	}
	return got, s, nil
}

// tookExpired brings spans into memory that were taken for the sake of tasks that have expired, and
// lets a piece of these expire.
func (m *memory) tookExpired(got store.Taken, now time.Time) *settlement {
	var touched []*queue
	for i := range got.Spans {
		sp := &got.Spans[i]
		if !m.isLate(&sp.Span) {
			q := m.queue(sp.Queue)
			m.loadSpan(q, sp, got.Now, now)
			touched = append(touched, q)
		}
	}
	s := m.expiring.expire(nil, now)
	for _, q := range touched {
		q.match(now)
	}
	return s
}

// expiries are items by the instant at which they expire: a binary heap of those that are ready or
// parked. Each knows where it stands, so that it leaves at once when it is handed out.
type expiries struct {
	memory *memory // that it is in
	items  []*item
	timer  *tick.Timer
	at     int64 // when the alarm rings; 0 = it is not set
	pause  int64 // until when it does not
}

// watchExpiry lets an item expire in time that is about to be ready or parked.
func (it *item) watchExpiry() {
	m := it.queue.memory
	if it.expires > 0 && it.expiry == 0 {
		m.expiring.add(it)
		m.expiring.watch()
	}
}

// watch sets the alarm for the item that expires first.
func (x *expiries) watch() {
	if len(x.items) == 0 {
		return
	}
	if at := max(x.items[0].expires, x.pause); x.at == 0 || at < x.at {
		x.at = at
		x.memory.ask(alarm{what: expiry, at: at})
	}
}

// expireFirst tells whether the first ready task has expired; then it is taken care of, and another
// one is first.
func (x *expiries) expireFirst(e *entry, now time.Time) bool {
	m := x.memory
	if e.item == nil || e.item.expires == 0 || e.item.expires > m.clock.read(now) {
		return false
	}
	m.do.found = append(m.do.found, x.expire(e.item, now))
	return true
}

// expireDue lets expire what is to by now, a piece at a time, and has more tasks taken in place of
// them.
func (x *expiries) expireDue(now time.Time) {
	m := x.memory
	if m.closed || m.clock.read(now) < x.pause {
		x.watch()
		return
	}
	s := x.expire(nil, now)
	if s == nil {
		return
	}
	m.do.found = append(m.do.found, s)
	seen := map[*queue]bool{}
	for i := range s.reports {
		if q := s.reports[i].was.queue; !seen[q] {
			seen[q] = true
			q.match(now)
		}
	}
}

// expire makes a settlement of a piece of the items whose time has come, first among them if it is
// not nil; nil = there are none. What is being given back is left to whoever has it then.
func (x *expiries) expire(first *item, now time.Time) *settlement {
	at := x.memory.clock.read(now)
	var due []*item
	if first != nil {
		x.remove(first)
		due = append(due, first)
	}
	for len(due) < expiredAtOnce && len(x.items) > 0 && x.items[0].expires <= at {
		it := x.items[0]
		x.remove(it)
		if !it.span.giving {
			due = append(due, it)
		}
	}
	if len(due) == expiredAtOnce {
		x.pause = at + expiredPause.Microseconds()
	}
	x.watch()
	if len(due) == 0 {
		return nil
	}
	s := newSettlement(len(due))
	for _, it := range due {
		it.expire(s.add(), now)
	}
	return s
}

// expire sends an item into the store as one that was not begun in time.
func (it *item) expire(r *reporting, now time.Time) {
	it.reserve()
	it.worker = nil
	it.token = task.Token{Span: it.span.ID, SpanToken: it.span.Token, Seq: it.seq}
	r.first = true
	it.decide(r, task.Outcome{
		Kind: task.KindExpired, Error: expiredText(it.expires),
	}, nil, nil, "", now)
}

// expiredText says of a task that expired until when it was to be begun.
func expiredText(expires int64) string {
	return "not begun by " + time.UnixMicro(expires).UTC().Format("2006-01-02T15:04:05.000Z")
}

// add takes an item in.
func (x *expiries) add(it *item) {
	x.items = append(x.items, it)
	it.expiry = len(x.items)
	x.up(len(x.items) - 1)
}

// remove takes an item out, if it is there.
func (x *expiries) remove(it *item) {
	i := it.expiry - 1
	if i < 0 {
		return
	}
	last := len(x.items) - 1
	x.swap(i, last)
	x.items[last] = nil
	x.items = x.items[:last]
	it.expiry = 0
	if i < last {
		x.down(i)
		x.up(i)
	}
}

// expiresBefore orders items by the instant, then by id.
func (it *item) expiresBefore(b *item) bool {
	return it.expires < b.expires || it.expires == b.expires && it.id.Compare(b.id) < 0
}

func (x *expiries) swap(i, k int) {
	x.items[i], x.items[k] = x.items[k], x.items[i]
	x.items[i].expiry, x.items[k].expiry = i+1, k+1
}

func (x *expiries) up(i int) {
	for i > 0 && x.items[i].expiresBefore(x.items[(i-1)/2]) {
		x.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (x *expiries) down(i int) {
	for child := 2*i + 1; child < len(x.items); child = 2*i + 1 {
		if child+1 < len(x.items) && x.items[child+1].expiresBefore(x.items[child]) {
			child++
		}
		if !x.items[child].expiresBefore(x.items[i]) {
			return
		}
		x.swap(i, child)
		i = child
	}
}
