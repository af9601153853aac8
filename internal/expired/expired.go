// Package expired tells of tasks that nobody began in time (ADR 51): an event, queue.expired, for
// each queue and minute in which some of its tasks expired, with their number.
//
//	settlement   the task's last step, and one more in the history's minute of its queue: one
//	             transaction
//	Round        a node looks at the minutes that are over, and writes one event for each queue
//
// The history is the only source, so whichever nodes let the tasks expire, and whichever tells of
// it, the number is that of the whole cluster. One node looks for all; the event's key is made of
// the queue and the minute, so two nodes that look, or one that writes it twice because it did not
// learn that the first time had worked, make one event.
//
// # What a crash leaves
//
// A node that dies between a settlement and its event leaves the history, and whoever looks next
// goes back by Backlog. So an event is missing only when no node looked for longer than that, and
// then the history still has the number. What is recorded later than Settled after its minute, by a
// store that hung, is in the history and not in the event.
package expired

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
)

// Event is the kind of the event.
const Event = "queue.expired"

const (
	// Settled is how long after a minute it is told: what its settlements were late by.
	Settled = 30 * time.Second
	// Backlog is how far back who begins to look goes: the one before may have told of nothing.
	Backlog = 15 * time.Minute

	every  = 20 * time.Second
	atOnce = 500 // events in one write
)

// Config of a watch. All of it is needed.
type Config struct {
	// Minutes says what happened in queues by the minute, from one on; see contract.Views.
	Minutes func(ctx context.Context, from, whole int64) ([]history.QueueMinute, error)
	// Judges tells whether this node looks, of all nodes. Two that look do no harm.
	Judges func() bool
	// Now is the store's time.
	Now func() time.Time
	// Write writes events down before it returns. One whose key stands already changes nothing.
	Write func(context.Context, ...store.Event) error
	Log   *slog.Logger
}

// Watch looks for tasks that expired. One goroutine calls its methods.
type Watch struct {
	conf Config
	// next is the first minute since 1970 of which this node does not know that it was told of, all
	// before it were; 0 = it knows of none
	next int64
}

// New makes a watch.
func New(conf Config) *Watch { return &Watch{conf: conf} }

// Run looks until ctx ends, then returns nil.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.Round(ctx, w.conf.Now()); err != nil && ctx.Err() == nil {
			w.conf.Log.Warn("look for tasks that expired", "error", err)
		}
	}
}

// Round tells of the minutes that are over and not told of yet, if it is for this node to look:
// mostly none or one. What it could not write the next round writes.
func (w *Watch) Round(ctx context.Context, now time.Time) error {
	if !w.conf.Judges() {
		return nil
	}
	end := minute(now.Add(-Settled)) // the first one that is not over
	if w.next > end {                // the clock was ahead, and is set back
		w.next = 0
	}
	from := max(w.next, minute(now.Add(-Backlog)))
	if from >= end {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	list, err := w.conf.Minutes(ctx, from, math.MaxInt64)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(q history.QueueMinute) bool {
		return q.Expired == 0 || q.Minute >= end
	})
	slices.SortFunc(list, func(a, b history.QueueMinute) int {
		if a.Minute != b.Minute {
			return int(a.Minute - b.Minute)
		}
		return strings.Compare(a.Queue, b.Queue)
	})
	for some := range slices.Chunk(list, atOnce) {
		events := make([]store.Event, len(some))
		for i := range some {
			events[i] = event(&some[i])
		}
		if err := w.conf.Write(ctx, events...); err != nil {
			return err
		}
	}
	w.next = end
	return nil
}

// minute is the number of the minute since 1970 that a time lies in.
func minute(t time.Time) int64 { return t.UnixMicro() / time.Minute.Microseconds() }

// event tells of the tasks of a queue that expired in a minute.
func event(q *history.QueueMinute) store.Event {
	at := time.Unix(q.Minute*60, 0).UTC()
	tasks, them := "tasks", "them"
	if q.Expired == 1 {
		tasks, them = "task", "it"
	}
	return store.Event{
		Key: fmt.Sprintf("%s/%s/%d", Event, q.Queue, q.Minute), Kind: Event, Subject: q.Queue,
		Text: fmt.Sprintf("%d %s of queue %s expired in the minute from %s: nobody had begun %s in time",
			q.Expired, tasks, q.Queue, at.Format("15:04 UTC"), them),
		Fields: map[string]string{
			"expired": fmt.Sprint(q.Expired), "minute": at.Format(time.RFC3339),
		},
	}
}
