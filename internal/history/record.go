package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Counts are how often something happened.
type Counts struct {
	Submitted int64 // tasks that were submitted
	Entered   int64 // tasks that came from another stage
	Started   int64 // hand-outs that have an outcome by now
	Done      int64 // tasks that were done
	Passed    int64 // tasks that went on to a next stage
	Retried   int64 // outcomes after which the same stage is tried again
	Dead      int64 // tasks that died
	Cancelled int64 // tasks that were cancelled
	Lost      int64 // hand-outs whose worker or node fell silent
	Expired   int64 // tasks that nobody had begun in time
	Snoozed   int64 // outcomes that let the same stage be tried again later, uncharged
	Released  int64 // hand-outs that came back unrun
	TimedOut  int64 // attempts that passed their limit
	Woken     int64 // tasks of which what they waited for came, or the time for it was over
}

// fields are the counts, in the order in which they are written down. A further one goes behind
// the last.
func (c *Counts) fields() [14]*int64 {
	return [...]*int64{&c.Submitted, &c.Entered, &c.Started, &c.Done, &c.Passed, &c.Retried,
		&c.Dead, &c.Cancelled, &c.Lost, &c.Expired, &c.Snoozed, &c.Released, &c.TimedOut, &c.Woken}
}

// Add adds other counts.
func (c *Counts) Add(other *Counts) {
	mine, theirs := c.fields(), other.fields()
	for i := range mine {
		*mine[i] += *theirs[i]
	}
}

// Record is what happened in some time.
type Record struct {
	Counts
	Wait Histogram // from when a task might run to when it was handed out, which was in this time
	Run  Histogram // from the hand-out to the outcome that its worker reported in this time
	// Waited are the waits of the hand-outs whose outcome came in this time, for sums that only
	// grow: Wait of a time that is over grows when a long attempt ends.
	Waited Histogram

	// Ready and Running are how many tasks there were when somebody last looked; each plus one, 0 =
	// nobody looked.
	Ready, Running int64
}

// Merge adds what happened later, or beside it.
func (r *Record) Merge(other *Record) {
	r.Counts.Add(&other.Counts)
	r.Wait.Merge(&other.Wait)
	r.Run.Merge(&other.Run)
	r.Waited.Merge(&other.Waited)
	if other.Ready != 0 {
		r.Ready = other.Ready
	}
	if other.Running != 0 {
		r.Running = other.Running
	}
}

// Ended is how many hand-outs ended.
func (r *Record) Ended() int64 { return r.Run.Count() + r.Lost }

// Series is what a record is of: a queue, a stage of a queue (Queue and Stage), a worker, or the
// store as a whole (nothing is given).
type Series struct{ Queue, Stage, Worker string }

// minute is the minute since 1970 of a time in microseconds.
func minute(micros int64) int64 { return micros / time.Minute.Microseconds() }

// cell is where a transaction counts: what a worker did in a stage of a queue in a minute. What
// nobody's worker did, a submission for instance, has no worker.
type cell struct {
	minute int64
	Series
}

// Changes are what one transaction changed. The zero value is empty. It keeps the cell at hand that
// it counted in last: the outcomes of a settlement come in runs that share theirs.
type Changes struct {
	cells map[cell]*Record
	last  cell
	at    *Record
}

func (c *Changes) of(at int64, s Series) *Record {
	k := cell{minute(at), s}
	if c.at != nil && c.last == k {
		return c.at
	}
	r := c.cells[k]
	if r == nil {
		if c.cells == nil {
			c.cells = map[cell]*Record{}
		}
		r = new(Record)
		c.cells[k] = r
	}
	c.last, c.at = k, r
	return r
}

// Submitted counts tasks that were submitted to a stage at a time in microseconds.
func (c *Changes) Submitted(at int64, queue string, tasks []store.Task) {
	for i := range tasks {
		c.of(at, Series{Queue: queue, Stage: tasks[i].Stage}).Submitted++
	}
}

// Cancelled counts a task that was cancelled while no worker had it.
func (c *Changes) Cancelled(at int64, queue, stage string) {
	c.of(at, Series{Queue: queue, Stage: stage}).Cancelled++
}

// Woken counts a task whose wait was over, in the stage that it goes on in.
func (c *Changes) Woken(at int64, queue, stage string) {
	c.of(at, Series{Queue: queue, Stage: stage}).Woken++
}

// Settled counts the outcome of a hand-out, or that there was none in time. ready is since when the
// task might run; 0 = not known.
func (c *Changes) Settled(queue string, ready int64, s *store.Step) {
	if s.Kind == task.KindExpired {
		c.of(s.Finished, Series{Queue: queue, Stage: s.Ran}).Expired++
		return
	}
	mine := Series{Queue: queue, Stage: s.Ran, Worker: s.Worker}
	began := min(s.Started, s.Finished)
	if began == 0 { // its node died meanwhile: nobody knows when
		began = s.Finished
	}
	r := c.of(began, mine)
	r.Started++
	if s.Started != 0 && ready != 0 {
		r.Wait.Add(s.Started - ready)
	}
	r = c.of(s.Finished, mine)
	if s.Started != 0 && ready != 0 {
		r.Waited.Add(s.Started - ready)
	}
	if s.Started != 0 && s.Kind != task.KindLost && s.Kind != task.KindRelease {
		r.Run.Add(s.Finished - s.Started)
	}
	switch s.Kind { // each by itself, whatever follows from it
	case task.KindLost:
		r.Lost++
	case task.KindSnooze:
		r.Snoozed++
	case task.KindRelease:
		r.Released++
	case task.KindTimeout:
		r.TimedOut++
	}
	switch {
	case s.Base == store.Final:
		switch s.Kind.Leaves() {
		case task.Done:
			r.Done++
		case task.Cancelled:
			r.Cancelled++
		default:
			r.Dead++
		}
	case s.Kind == task.KindNext:
		r.Passed++
		c.of(s.Finished, Series{Queue: queue, Stage: s.Stage}).Entered++
	case s.Kind != task.KindRelease:
		r.Retried++
	}
}

// String says what is not zero, for tests and logs; Waited only where it is not as Wait.
func (r *Record) String() string {
	var words []string
	for i, n := range r.fields() {
		if *n != 0 {
			words = append(words, fmt.Sprintf("%s %d", names[i], *n))
		}
	}
	wait, waited := r.Wait.short(), r.Waited.short()
	for _, h := range [...]struct{ name, text string }{
		{"wait", wait}, {"run", r.Run.short()}, {"waited", waited},
	} {
		if h.text != "" && (h.name != "waited" || waited != wait) {
			words = append(words, h.name+" "+h.text)
		}
	}
	if r.Ready+r.Running != 0 {
		words = append(words, fmt.Sprintf("ready %d running %d", r.Ready-1, r.Running-1))
	}
	return strings.Join(words, ", ")
}

// names are those of the fields, in their order.
var names = [...]string{"submitted", "entered", "started", "done", "passed", "retried", "dead",
	"cancelled", "lost", "expired", "snoozed", "released", "timed out", "woken"}

// short is how many durations there are, the median and the longest; "" = none.
func (h *Histogram) short() string {
	half, some := h.Quantile(0.5)
	if !some {
		return ""
	}
	all, _ := h.Quantile(1)
	return fmt.Sprintf("%d: %v..%v", h.Count(), short(half), short(all))
}

// short keeps two digits of a duration.
func short(d time.Duration) time.Duration {
	to := time.Duration(1)
	for d/to >= 100 {
		to *= 10
	}
	return d.Round(to)
}
