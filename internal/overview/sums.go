package overview

import (
	"iter"
	"maps"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/view"
)

// Stores say what happened minute by minute, and only for so long; sums that only grow are added up
// here. A minute that is over may still be added to, by a transaction that took its time, so a few
// are read again each time.
const (
	hour     = 60 // minutes that "the last hour" has
	unsettle = 3  // minutes back from now that may still be added to
)

// Sums are what happened in each queue since a minute. Sums never change: Add makes others.
type Sums struct {
	since int64 // the first minute that is in it
	next  int64 // what is of minutes before it is in settled, and is read no more
	now   int64 // the minute up to which it goes
	// by queue: of minutes before next. Under "" is what happened in queues that are no more, which
	// no scope names.
	settled map[string]*history.Record
	open    map[minute]*history.Record // from next on
	dead    map[minute]int64           // of the last hour, where any died
	byQueue map[string]*history.Record // by queue: settled and open together
}

type minute struct {
	queue string
	at    int64
}

// From is the minute from which the store is to be read for Add, at the minute now. t may be nil.
func (t *Sums) From(now int64) int64 {
	if t == nil || now-t.next > hour || now < t.next { // the clock was set back
		return now - hour
	}
	return t.next
}

// Whole is the minute from which on Add wants waits and runs, too. Sums that begin have those of
// the last minutes only: those of an hour of many queues take much memory.
func (t *Sums) Whole(now int64) int64 {
	if from := t.From(now); t != nil && from == t.next {
		return from
	}
	return now - unsettle
}

// Add is the sums with what the store said of all minutes since From(now), after it listed the
// queues that there are. Queues that are not among them give their sums to those that are no more;
// what is read of one that is not was made since, and is read again when it is. Sums that nobody
// asked for during an hour begin anew, and so they do when the clock was set back by minutes.
func (t *Sums) Add(now int64, read []history.QueueMinute, queues []store.QueueCounts) *Sums {
	from := t.From(now)
	if t == nil || from != t.next {
		t = &Sums{since: from, next: from}
	}
	now = max(now, t.now)
	next := &Sums{
		since: t.since, next: max(t.next, now-unsettle), now: now,
		settled: make(map[string]*history.Record, len(t.settled)),
		open:    map[minute]*history.Record{}, dead: map[minute]int64{},
	}
	there := make(map[string]bool, len(queues))
	for i := range queues {
		there[queues[i].Queue] = true
	}
	name := func(queue string) string {
		if there[queue] {
			return queue
		}
		return ""
	}
	for queue, c := range t.settled {
		next.settled[name(queue)] = plus(next.settled[name(queue)], c)
	}
	known := make(map[minute]*history.Record, len(t.open)+len(read))
	maps.Copy(known, t.open)
	for i := range read {
		c := &read[i]
		if !there[c.Queue] {
			continue
		}
		known[minute{c.Queue, c.Minute}] = &c.Record
	}
	for m, c := range known {
		m.queue = name(m.queue)
		if m.at < next.next {
			next.settled[m.queue] = plus(next.settled[m.queue], c)
		} else {
			next.open[m] = plus(next.open[m], c)
		}
		if c.Dead > 0 && m.at > now-hour {
			next.dead[m] += c.Dead
		}
	}
	for m, n := range t.dead {
		if _, again := known[m]; !again && m.at > now-hour {
			m.queue = name(m.queue)
			next.dead[m] += n
		}
	}
	next.byQueue = maps.Clone(next.settled)
	for m, c := range next.open {
		next.byQueue[m.queue] = plus(next.byQueue[m.queue], c)
	}
	return next
}

// plus adds up; a may be nil. Neither is changed, ever: the answer may be one of them.
func plus(a, b *history.Record) *history.Record {
	if a == nil {
		return b
	}
	both := new(history.Record)
	both.Merge(a)
	both.Merge(b)
	return both
}

// Of is what happened in a queue. It is only read.
func (t *Sums) Of(queue string) *history.Record {
	if r := t.byQueue[queue]; r != nil {
		return r
	}
	return new(history.Record)
}

// Queues yields each queue in which anything happened, in no order, and "" for all that are no
// more. The records are only read.
func (t *Sums) Queues() iter.Seq2[string, *history.Record] { return maps.All(t.byQueue) }

// totals are the sums over queues.
func (t *Sums) totals(in func(string) bool) view.Totals {
	var c history.Counts
	ended := int64(0)
	for queue, one := range t.byQueue {
		if in(queue) {
			c.Add(&one.Counts)
			ended += one.Ended()
		}
	}
	return view.Totals{
		Since:     view.Time{Time: time.Unix(t.since*60, 0).UTC()},
		Submitted: c.Submitted, Started: ended, Done: c.Done, Retried: c.Retried, Dead: c.Dead,
		Cancelled: c.Cancelled, Expired: c.Expired, Lost: c.Lost,
	}
}

// deadHour is how many tasks died in the last hour.
func (t *Sums) deadHour(in func(string) bool) (n int64) {
	for m, dead := range t.dead {
		if in(m.queue) {
			n += dead
		}
	}
	return n
}
