package walk

import (
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// depend adds tasks to some submissions that wait for others: of the same submission, each other,
// or some that stand.
func (w *walk) depend(s *store.Submission) {
	if w.luck.IntN(3) > 0 {
		return
	}
	w.batches++
	for w.batches&store.DependBit == 0 {
		w.batches++
	}
	w.ranks++
	now := w.clock.Micros()
	b := store.Batch{
		ID: store.BatchID(w.start, 0) + w.batches, Queue: walkQueues[w.luck.IntN(2)],
		Due: now + []int64{0, 0, 0, 60e6 + 1}[w.luck.IntN(4)], Created: now, Origin: "walk",
	}
	b.Call = s.Batches[w.luck.IntN(len(s.Batches))].Call
	b.Rank = b.Due - w.ranks - []int64{0, 7200e6}[w.luck.IntN(2)]
	for n := range int32(1 + w.luck.IntN(3)) {
		t := store.Task{
			N: 2 * n, Stage: "one", Context: w.keep(fmt.Sprintf(`{"after":%d}`, w.ranks)),
			GroupKey: walkKeys[w.luck.IntN(len(walkKeys))],
		}
		if w.luck.IntN(6) == 0 {
			t.Key, t.KeyUntil = fmt.Sprintf("k%d", w.luck.IntN(5)), now+3600e6+1
		}
		for range 1 + w.luck.IntN(2) {
			w.dependOn(&t, s.Batches, &b)
		}
		if len(t.After) > 0 {
			b.Tasks = append(b.Tasks, t)
		}
	}
	if len(b.Tasks) == 0 {
		return
	}
	b.Spans = []store.NewSpan{{Lo: b.Tasks[0].N, Hi: b.Tasks[len(b.Tasks)-1].N}}
	s.Batches = append(s.Batches, b)
}

// dependOn lets a task wait for one more, if that is another one.
func (w *walk) dependOn(t *store.Task, others []store.Batch, own *store.Batch) {
	var on task.ID
	switch k := w.luck.IntN(4); {
	case k == 0 && len(w.ids) > 0:
		on = w.ids[len(w.ids)-1-w.luck.IntN(min(10, len(w.ids)))]
	case k == 1 && len(own.Tasks) > 0:
		on = task.ID{Batch: own.ID, N: own.Tasks[w.luck.IntN(len(own.Tasks))].N}
	default:
		b := others[w.luck.IntN(len(others))]
		if b.Call != own.Call { // that is refused by itself
			return
		}
		on = task.ID{Batch: b.ID, N: b.Tasks[w.luck.IntN(len(b.Tasks))].N}
	}
	for i := range t.After {
		if t.After[i].On == on {
			return
		}
	}
	t.After = append(t.After, store.Dependency{
		On: on, Ref: []string{"", "x"}[w.luck.IntN(2)], Ended: w.luck.IntN(3) == 0,
	})
}

// waitsFor tells what a task of a submission waits for.
func (w *walk) waitsFor(t *store.Task) string {
	if len(t.After) == 0 {
		return ""
	}
	var told []string
	for _, d := range t.After {
		w.awaited = append(w.awaited, store.EndOf(d.On))
		told = append(told, fmt.Sprintf("%s %v", w.id(d.On), d.Ended))
	}
	return " after " + strings.Join(told, ", ")
}

// priors tells what a task has waited for.
func (w *walk) priors(list []store.Prior) (text string) {
	for _, p := range list {
		text += fmt.Sprintf(" after %s %q %s left %d, %d bytes, %v", w.id(p.On), p.Ref, p.State,
			len(p.Context), len(p.Result), p.LeftOut)
	}
	return text
}

// seesPriors tells what a view shows of what the task has waited for, or waits for.
func (w *walk) seesPriors(list []task.Prior) (text string) {
	for _, p := range list {
		text += fmt.Sprintf(" after %s %q if %s: %s", w.id(p.ID), p.Ref, p.If, p.State)
	}
	return text
}

// looksAt tells of addresses.
func (w *walk) looksAt(list []store.Address) (text string) {
	for _, a := range list {
		text += " look at " + w.addressed(a)
	}
	return text
}
