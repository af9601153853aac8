package walk

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// audit reads everything and holds it against the invariants. A task that the list shows as it did
// at the audit before is not read by itself again, except at the end of the walk: its steps are
// only ever added to.
func (w *walk) audit(last bool) {
	listed := map[task.ID]task.View{}
	for _, name := range walkQueues {
		counts, oldest := w.list(name, listed)
		got, err := w.Counts(w.ctx, name)
		w.note("counts of %s -> %+v %s", name, counts, w.told(err))
		if len(got) != 1 || got[0].Counts != counts {
			w.breach("I7: counts of %s: got %+v, the tasks tell %+v", name, got, counts)
		} else if got[0].OldestReady != oldest {
			w.breach("I7: the oldest ready task of %s: due %d, the tasks tell %d", name,
				got[0].OldestReady, oldest)
		}
	}
	if last {
		w.listByMeta(pick(w, walkQueues), listed)
	}
	for _, id := range w.ids {
		v, ok := listed[id]
		if !ok {
			w.breach("I1: %s was acknowledged and is not there", w.id(id))
			continue
		}
		if f := w.finals[id]; f != "" && v.State != f {
			w.breach("I2: %s was %s and is %s", w.id(id), f, v.State)
		}
		if v.State.Final() {
			w.finals[id] = v.State
		}
		if seen := summary(&v); last || w.shown[id] != seen {
			w.shown[id] = seen
			w.show(id, v)
		}
	}
	if len(listed) != len(w.ids) {
		w.breach("I7: %d tasks are listed, %d were submitted and not removed", len(listed),
			len(w.ids))
	}
	w.ahead()
	if last { // what was counted wrong stays wrong
		w.past()
	}
	w.minute()
	for _, n := range w.nodes {
		held, err := w.Held(w.ctx, n.Holder, nil)
		slices.SortFunc(held, func(a, b store.HeldSpan) int { return compareSpans(a.Span, b.Span) })
		text := ""
		for _, sp := range held {
			text += " " + w.span(sp.Span)
			for _, l := range sp.Tasks {
				text += w.loaded(l)
			}
		}
		w.note("held by %s ->%s %s; overdue ->%s; with a clock that made a step ->%s", n.name, text,
			w.told(err),
			w.overdue(store.OverdueQuery{Limit: 2}), w.overdue(store.OverdueQuery{
				Limit: 2, Steady: w.clock.Micros() - 90e6, Late: 30e6,
			}))
	}
}

// ahead notes how many tasks come before some: the oldest, one in the middle, the newest.
func (w *walk) ahead() {
	for _, i := range []int{0, len(w.ids) / 2, len(w.ids) - 1} {
		if i < 0 || i >= len(w.ids) {
			continue
		}
		got, err := w.Ahead(w.ctx, w.ids[i], 10_000)
		w.note("before %s -> %+v %s", w.id(w.ids[i]), got, w.told(err))
	}
}

// past notes what the last two hours and the last two months were, of the whole store, of a queue,
// of a stage and of a worker.
func (w *walk) past() {
	now := w.clock.Now()
	for _, of := range []history.Series{{}, {Queue: walkQueues[0]},
		{Queue: walkQueues[1], Stage: "second"}, {Worker: "w"}} {
		for _, step := range []time.Duration{time.Minute, 24 * time.Hour} {
			q := history.Question{Series: of, Step: step}
			micros := step.Microseconds()
			q.To = (now.UnixMicro()/micros + 1) * micros
			q.From = q.To - 120*micros
			if step > time.Hour {
				q.From = q.To - 60*micros
			}
			got, err := w.History(w.ctx, q)
			w.note("%+v by %v -> %q %s", of, step, caller.TellHistory(got, false), w.told(err))
		}
	}
}

// overdue lists hand-outs past their limit, page by page.
func (w *walk) overdue(q store.OverdueQuery) (text string) {
	for {
		got, err := w.Overdue(w.ctx, q)
		for _, r := range got.Rows {
			text += fmt.Sprintf(" %s seq %d", w.id(r.ID), r.Seq)
			q.After = r
		}
		if len(got.Rows) < q.Limit {
			return text + w.told(err)
		}
	}
}

// list lists a queue's tasks page by page and counts them. oldest is when the oldest ready one was
// due; 0 = none is ready.
func (w *walk) list(
	queue string, into map[task.ID]task.View,
) (counts task.Counts, oldest int64) {
	var after, last task.ID
	for {
		page, next, err := w.Tasks(w.ctx, store.Filter{Queue: queue}, after, 7)
		if err != nil {
			w.breach("list %s: %v", queue, err)
			return counts, oldest
		}
		for _, v := range page {
			if last != (task.ID{}) && v.ID.Compare(last) >= 0 {
				w.breach("list %s: %s comes after %s", queue, w.id(v.ID), w.id(last))
			}
			last = v.ID
			into[v.ID] = v
			switch v.State {
			case task.Blocked:
				counts.Blocked++
			case task.Waiting:
				counts.Waiting++
			case task.Ready:
				counts.Ready++
				if due := v.Due.UnixMicro(); oldest == 0 || due < oldest {
					oldest = due
				}
			case task.Running:
				counts.Running++
			case task.Done:
				counts.Done++
			case task.Dead:
				counts.Dead++
			case task.Cancelled:
				counts.Cancelled++
			case task.Expired:
				counts.Expired++
			}
		}
		if after = next; after == (task.ID{}) {
			return counts, oldest
		}
	}
}

// listByMeta holds the list of a queue's tasks with a meta against all of the queue.
func (w *walk) listByMeta(queue string, all map[task.ID]task.View) {
	meta := walkMetas[0]
	var after task.ID
	found := map[task.ID]bool{}
	for {
		page, next, err := w.Tasks(w.ctx, store.Filter{Queue: queue, Meta: meta}, after, 7)
		if err != nil {
			w.breach("list %s with %s: %v", queue, meta, err)
			return
		}
		for _, v := range page {
			found[v.ID] = true
		}
		if after = next; after == (task.ID{}) {
			break
		}
	}
	for id, v := range all {
		if has := v.Queue == queue && v.Meta["m"] == "1"; has != found[id] {
			w.breach("list %s with %s: %s has %v, found %v", queue, meta, w.id(id), v.Meta,
				found[id])
		}
	}
}

// summary is what a list says of a task, as far as all stores say the same.
func summary(v *task.View) string {
	due := int64(0)
	if v.State == task.Waiting || v.State == task.Blocked {
		due = v.Due.UnixMicro()
	}
	return fmt.Sprintf("%s %s %q %d %d %d %q %v %v", v.Queue, v.State, v.Stage, v.Attempt,
		v.Priority, due, v.Error, v.Meta, v.Expires)
}

// show tells of one task, and compares its view in the list with its own.
func (w *walk) show(id task.ID, listed task.View) {
	v, err := w.Task(w.ctx, id)
	if err != nil {
		w.breach("I1: view of %s: %v", w.id(id), err)
		return
	}
	if got := string(v.Context); got != w.texts[id] {
		w.breach("I8: context of %s: got %.40q, want %.40q", w.id(id), got, w.texts[id])
	}
	if got := store.MetaOf(v.Meta); got != w.metas[id] || got != store.MetaOf(listed.Meta) {
		w.breach("I8: meta of %s: got %s, in the list %v, want %s", w.id(id), got, listed.Meta,
			w.metas[id])
	}
	if v.State != listed.State || v.Stage != listed.Stage || v.Attempt != listed.Attempt ||
		v.Queue != listed.Queue || v.Expires != listed.Expires {
		w.breach("the list shows %s as %s %q attempt %d, its view as %s %q attempt %d", w.id(id),
			listed.State, listed.Stage,
			listed.Attempt, v.State, v.Stage, v.Attempt)
	}
	expires := ""
	if !v.Expires.IsZero() {
		expires = fmt.Sprint(" expires ", w.expiry(v.Expires.UnixMicro()))
	}
	var steps []string
	for _, s := range v.Steps {
		steps = append(steps, fmt.Sprintf("%d %s %q", s.Seq, s.Kind, s.Stage))
	}
	due := ""
	if v.State == task.Waiting {
		due = fmt.Sprint(" due ", v.Due.UnixMicro()-w.start, " head start ", v.Priority)
	}
	result := ""
	if v.State.Final() {
		result = fmt.Sprintf(" result %s", v.Result)
	}
	w.note("task %s %s -> %s %q attempt %d%s%s%s %v%s", w.id(id), v.Queue, v.State, v.Stage,
		v.Attempt, due, expires, result, steps, w.seesPriors(v.After))
	w.handed(id, &v)
}

// minute tells what happened in the minute that it is.
func (w *walk) minute() {
	now := w.clock.Micros() / time.Minute.Microseconds()
	got, err := w.Minutes(w.ctx, now-2, now)
	w.note("minute -> %q %s", caller.TellMinutes(got), w.told(err))
}
