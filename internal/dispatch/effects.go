package dispatch

import (
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/tick"
)

// effects are what memory wants done by the verbs that ran since the lock was taken. Memory itself
// waits for nobody and calls nobody: whoever holds the lock carries them out as it lets go.
type effects struct {
	stopped []*tick.Timer // alarms that nobody needs any more
	alarms  []alarm
	found   []*settlement // outcomes that no worker reported
	takes   []taking
	reloads []reloading
	give    bool           // what nobody here has room for is to go where workers wait
	room    map[string]int // what room there is here, for the other nodes; nil = as they know it
	looks   []keyLook
	look    bool            // begin to look at what tasks wait for
	places  []string        // queues with limits of which tasks have ended
	follow  bool            // begin to follow what was changed at other nodes
	unblock bool            // begin to delete the spans that are in the way of their keys
	away    []string        // workers that serve groups and fell silent
	ended   []chan struct{} // of those who wait for news of a worker, or for a task's end
	holds   []*waiter       // that have got tasks, or end with nothing
}

// ends has the other nodes told that tasks of a queue with limits have ended.
func (e *effects) ends(queue string) {
	if !slices.Contains(e.places, queue) {
		e.places = append(e.places, queue)
	}
}

// alarm is a moment at which memory wants to be asked again.
type alarm struct {
	what   what
	item   *item
	parcel *parcel // the deadline is that of all its tasks
	queue  *queue
	token  task.Token // of the item's hand-out
	wait   time.Duration
	at     int64 // when, by the store's clock, in place of wait; 0 = not so
}

// what says what an alarm is for.
type what uint8

const (
	deadline    what = iota // a hand-out's hard limit
	nap                     // the end of an item's sleep
	waking                  // the earliest sleeping span of a queue is due
	leftOver                // free tasks that were left to other nodes are anybody's now
	expiry                  // a task expires that is ready here
	opening                 // the rate of a queue allows more
	keysOpening             // the rates of some of its group keys do
	keysFreed               // tasks of a queue have ended at other nodes
	goingOn                 // a take by keys left something to the next one
	waitOver                // the time of a task that waits is over
)

// taking is a question to the store for ready tasks. signs is how many signs of some there had been
// when it was decided.
type taking struct {
	queue *queue
	store.TakeRequest
	signs int
}

// reloading is a question to the store where tasks stand of which somebody says that they were
// touched.
type reloading struct {
	given  []handed // what a worker has it keeps until that is known to be true
	others []*item
}

// release lets the lock go, after what memory wants done was begun. Nothing of it waits for the
// store.
func (c *core) release() {
	do := &c.mem.do
	for _, s := range do.found {
		if c.mem.closed || !c.errands.settle(s) {
			c.mem.unsettle(s.reports, time.Now())
		}
	}
	for _, t := range do.stopped {
		t.Stop()
	}
	for i := range do.alarms {
		c.set(do.alarms[i])
	}
	for _, t := range do.takes {
		c.work.Go(func() { c.errands.take(t) })
	}
	for _, r := range do.reloads {
		c.work.Go(func() {
			c.errands.verify(r.given)
			c.errands.reload(r.others)
		})
	}
	for _, l := range do.looks {
		c.work.Go(func() { c.note(c.errands.lookAt(c.ctx, l)) })
	}
	if do.look {
		c.work.Go(c.errands.lookOn)
	}
	if do.follow {
		c.work.Go(c.errands.followOn)
	}
	if do.unblock {
		c.work.Go(c.errands.unblockOn)
	}
	if do.give {
		c.work.Go(func() { c.errands.giveNow(c.ctx) })
	}
	if do.room != nil {
		c.conf.Announce(do.room)
	}
	if len(do.places) > 0 && c.conf.Ended != nil {
		c.conf.Ended(do.places)
	}
	for _, name := range do.away {
		c.conf.Jobs.Away(name)
	}
	for _, news := range do.ended {
		close(news)
	}
	holds := do.holds
	do.clear()
	c.mu.Unlock()
	for _, wt := range holds { // who wakes up wants the lock
		close(wt.ready)
	}
}

// clear makes room for the next effects, in the same arrays but for the holds', which outlive the
// lock.
func (e *effects) clear() {
	*e = effects{
		stopped: emptied(e.stopped), alarms: emptied(e.alarms), found: emptied(e.found),
		takes: emptied(e.takes), ended: emptied(e.ended),
	}
}

// emptied is an array to use again, unless a crowd made it large.
func emptied[T any](list []T) []T {
	const large = 1024
	if cap(list) > large {
		return nil
	}
	clear(list)
	return list[:0]
}

// set starts an alarm, unless what it is for is over by now.
func (c *core) set(a alarm) {
	if c.mem.closed || !a.wanted() {
		return
	}
	timer := c.conf.Clock.After(max(a.after(&c.mem.clock, time.Now()), 0), func() {
		c.mu.Lock()
		defer c.release()
		c.mem.ring(a, time.Now())
	})
	switch {
	case a.parcel != nil:
		a.parcel.timer = timer
	case a.item != nil:
		a.item.timer.Stop()
		a.item.timer = timer
	case a.what == waking:
		a.queue.wake.Stop()
		a.queue.wake = timer
	case a.what == expiry:
		c.mem.expiring.timer.Stop()
		c.mem.expiring.timer = timer
	case a.what == waitOver:
		c.mem.waits.timer.Stop()
		c.mem.waits.timer = timer
	}
}

// after is how long it is until the alarm.
func (a *alarm) after(clock *storeClock, now time.Time) time.Duration {
	if a.at == 0 {
		return a.wait
	}
	return time.Duration(a.at-clock.read(now)) * time.Microsecond
}

// wanted tells whether what the alarm is for is still to come.
func (a *alarm) wanted() bool {
	switch {
	case a.parcel != nil:
		return a.parcel.left > 0
	case a.what == deadline:
		return a.item.place == out && a.item.token == a.token
	case a.what == nap:
		return a.item.place == asleep
	}
	return true
}

// ask asks to be rung.
func (m *memory) ask(a alarm) { m.do.alarms = append(m.do.alarms, a) }

// ring does what an alarm is for.
func (m *memory) ring(a alarm, now time.Time) {
	if !a.wanted() {
		return
	}
	switch a.what {
	case deadline:
		a.timeOut(now)
	case nap:
		a.item.enqueue()
		a.item.queue.match(now)
	case waking:
		a.queue.wakeAt = 0
		a.queue.sign(unknownRank)
		a.queue.takeSoon(now)
	case leftOver:
		a.queue.takeLeftOver(now)
	case opening:
		a.queue.opens(now)
	case keysOpening:
		a.queue.opensKeys(a.at, now)
	case goingOn:
		a.queue.goOn(now)
	case keysFreed:
		a.queue.keys.waiting = false
		a.queue.keysFreed(now)
		a.queue.match(now)
	case expiry:
		m.expiring.at = 0
		m.expiring.expireDue(now)
	case waitOver:
		m.waits.until = 0
		m.waits.lookAround()
	}
}

// timeOut ends what is past its deadline.
func (a *alarm) timeOut(now time.Time) {
	late := []*item{a.item}
	if a.parcel != nil {
		late = late[:0]
		for _, s := range a.parcel.out() {
			late = append(late, s.item())
		}
	}
	for _, it := range late {
		it.end(task.KindTimeout, overdueText(it.until.Sub(it.started)), now)
	}
}

// stopAlarms lets all alarms of tasks be: nobody waits for them any more.
func (m *memory) stopAlarms() {
	for _, sp := range m.spans {
		for i := range sp.cells {
			if it := sp.cells[i].item; it != nil {
				it.timer.Stop()
			}
		}
	}
	for _, w := range m.workers {
		for _, p := range w.parcels {
			p.timer.Stop()
		}
	}
	m.expiring.timer.Stop()
	m.waits.timer.Stop()
}

// stopAlarm lets an item's alarm be, if it has one.
func (it *item) stopAlarm() {
	if it.parcel != nil {
		it.parcel.less()
		it.parcel = nil
	}
	m := it.queue.memory
	m.expiring.remove(it)
	if it.timer != nil {
		m.do.stopped = append(m.do.stopped, it.timer)
		it.timer = nil
	}
}
