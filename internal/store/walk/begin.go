package walk

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// limit gives a queue limits, or takes them away.
func (w *walk) limit(name string) {
	running, rate, burst := []int{0, 1, 1, 2, 5}[w.luck.IntN(5)], task.Rate{}, 0
	if w.luck.IntN(2) == 0 {
		rate = task.Rate{Count: 1 + w.luck.Int64N(3), Per: time.Second}
		burst = w.luck.IntN(4)
	}
	perKey := task.KeyLimits{}
	if w.luck.IntN(2) == 0 {
		if perKey.MaxRunning = w.luck.IntN(3); perKey.InOrder() && w.luck.IntN(3) == 0 {
			perKey.OnDead = task.OnDeadStop
		}
	}
	if w.luck.IntN(4) == 0 {
		perKey.Rate, perKey.Burst = task.Rate{Count: 1, Per: time.Second}, w.luck.IntN(3)
	}
	changed, err := w.ChangeQueue(w.ctx, name, func(q *task.Queue, _ bool) error {
		q.MaxRunning, q.Rate, q.Burst, q.PerKey = running, rate, burst, perKey
		return nil
	})
	w.note("limit queue %s -> %d %q %d, keys %v, %s", name, changed.Is.MaxRunning, changed.Is.Rate,
		changed.Is.Burst, changed.Is.PerKey, w.told(err))
}

// letBegin lets some hand-outs of a node begin, of whatever queue.
func (w *walk) letBegin(n *walkNode) {
	if w.luck.IntN(6) == 0 {
		w.limit(walkQueues[w.luck.IntN(len(walkQueues))])
	}
	w.ruleKeys()
	if w.luck.IntN(4) > 0 {
		return
	}
	r := store.BeginRequest{Holder: n.Holder}
	var asked []string
	for _, o := range w.outs[max(0, len(w.outs)-12):] {
		if o.node != n && w.luck.IntN(10) > 0 || w.luck.IntN(3) == 0 {
			continue
		}
		r.Rows = append(r.Rows, store.Begin{
			Queue: o.Span.Queue, Key: o.Span.Key, Running: w.running(o), Unique: o.Unique,
		})
		asked = append(asked, fmt.Sprintf("%s seq %d token %d", w.id(o.ID()), o.Seq, o.Span.Token))
	}
	got, err := w.Begin(w.ctx, r)
	w.note("begin by %s %v -> %v gone %v %v %v %s", n.name, asked, got.Rows, got.LeaseGone,
		w.gates(got.Now, got.Gates), w.keyGates(got.Now, got.Keys), w.told(err))
	if w.luck.IntN(3) == 0 {
		taken, err := w.TakeRunning(w.ctx, n.Holder, 10_000)
		w.note("take running by %s -> %s gone %v more %v %s", n.name, w.held(n, taken.Spans),
			taken.LeaseGone, taken.More, w.told(err))
	}
	names := walkQueues[:w.luck.IntN(len(walkQueues))] // none = all
	now, gates, err := w.Gates(w.ctx, names...)
	w.note("gates of %v %v %s", names, w.gates(now, gates), w.told(err))
	queue := walkQueues[w.luck.IntN(len(walkQueues))]
	now, keys, err := w.KeyGates(w.ctx, queue, walkKeys)
	w.note("gates of keys of %s %v %s", queue, w.keyGates(now, keys), w.told(err))
}

// keyGates are gates of keys as traces tell them.
func (w *walk) keyGates(now int64, list []store.KeyGate) (told []string) {
	for _, g := range list {
		told = append(told, g.Key+" of "+strings.Join(w.gates(now, []store.Gate{{
			Queue: g.Queue, Gate: g.Gate,
		}}), "")+w.owner(g))
	}
	return told
}

// owner is the task that a key has to wait for as traces tell it.
func (w *walk) owner(g store.KeyGate) string {
	switch {
	case g.Owner == (task.ID{}):
		return ""
	case g.Stopped:
		return " stopped by " + w.id(g.Owner)
	}
	return " waits for " + w.id(g.Owner)
}

// gates are gates as traces tell them.
func (w *walk) gates(now int64, list []store.Gate) (told []string) {
	for _, g := range list {
		held := g.Held(now)
		told = append(told, fmt.Sprintf("%s %+v %d run, %d full, %d paused, %s until %d, %d left",
			g.Queue, g.Limits, g.Running, g.FullKeys, g.PausedKeys, held.Why,
			max(held.Until-w.start, 0),
			g.Left(1000, now)))
	}
	return told
}

// keyOf is a span's key as traces tell it.
func keyOf(sp store.Span) string {
	if !sp.Sorted {
		return "unsorted"
	}
	return fmt.Sprintf("key %q", sp.Key)
}
