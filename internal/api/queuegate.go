package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/bucket"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// A queue comes to be at the first submission to it, so whoever may submit makes queues, and each
// costs memory at every node and a page of metrics. So submissions make only so many; who may
// operate creates more, one by one.
const (
	// maxMade is how many queues there may be for a submission to make another one.
	maxMade = 10_000
	// madeAtOnce is how many queues the submissions of one submitter's token may make at this node,
	// and madePerHour how many more with every hour.
	madeAtOnce  = 1_000
	madePerHour = 100
	// maxMakers is how many tokens are known that made queues lately.
	maxMakers = 10_000
	// listWithin is how long a submission waits for the list of queues.
	listWithin = 5 * time.Second
)

// queueGate lets submissions make queues, or not.
type queueGate struct {
	list *observe.Value[[]task.Queue]

	mu    sync.RWMutex
	seen  time.Time                 // when the list was asked for that known is made of
	known map[string]bool           // queues that are there, or will be soon
	by    map[string]*bucket.Bucket // by submitter, in queues
}

// admit tells whether a submission may make those of its queues that are not there yet. Refused, it
// makes none.
func (g *queueGate) admit(c *Caller, tasks []task.Submission, now time.Time) error {
	fresh := g.unknown(tasks)
	if len(fresh) == 0 {
		return nil
	}
	list, _ := g.list.Get(listWithin)
	if list.Err != nil || list.At.IsZero() {
		return cmp.Or(list.Err, error(store.ErrBusy))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if list.At.After(g.seen) { // else another caller has had a later one
		g.seen, g.known = list.At, make(map[string]bool, len(list.Value))
		for i := range list.Value {
			g.known[list.Value[i].Name] = true
		}
	}
	var names []string
	first := -1
	for _, i := range fresh {
		if name := tasks[i].Queue; !g.known[name] {
			names = append(names, name)
			if first < 0 {
				first = i
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	at := fmt.Sprintf("body.tasks[%d].queue", first)
	if len(g.known)+len(names) > maxMade {
		return wrong(at,
			"there is no queue %.140q, and there are %d: submissions make no more; an operator does, with PUT /v1/queues/…",
			tasks[first].Queue, len(g.known))
	}
	if c.who.Role == roleSubmitter && !g.charge(c.key(), len(names), now) {
		return wrong(at,
			"there is no queue %.140q, and this token has made as many as it may by submitting, %d and %d an hour: an operator makes more, with PUT /v1/queues/…",
			tasks[first].Queue, madeAtOnce, madePerHour)
	}
	for _, name := range names {
		g.known[strings.Clone(name)] = true // not the body that it stands in
	}
	return nil
}

// learn notes that there is a queue.
func (g *queueGate) learn(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known != nil {
		g.known[name] = true
	}
}

// unknown are the first tasks of each queue that is not known.
func (g *queueGate) unknown(tasks []task.Submission) (fresh []int) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var met map[string]bool
	for i := range tasks {
		name := tasks[i].Queue
		if i > 0 && name == tasks[i-1].Queue {
			// most submissions are to one queue: they cost one look
			continue
		}
		if g.known[name] || met[name] || !limits.ValidName(name) {
			// the engine says what is wrong with it
			continue
		}
		if met == nil {
			met = map[string]bool{}
		}
		met[name] = true
		fresh = append(fresh, i)
	}
	return fresh
}

// charge takes n queues of what a submitter may make.
func (g *queueGate) charge(submitter string, n int, now time.Time) bool {
	s := g.by[submitter]
	if s == nil {
		if len(g.by) >= maxMakers {
			clear(g.by)
		}
		s = &bucket.Bucket{Rate: madePerHour / 3600.0, Burst: madeAtOnce, Left: madeAtOnce, At: now}
		g.by[submitter] = s
	}
	if s.Look(now) < float64(n) {
		return false
	}
	s.Left -= float64(n)
	return true
}

func newQueueGate(queues func(context.Context) ([]task.Queue, error)) *queueGate {
	return &queueGate{
		list: observe.New(observe.Config[[]task.Queue]{Ask: queues, Fresh: time.Second}),
		by:   map[string]*bucket.Bucket{},
	}
}
