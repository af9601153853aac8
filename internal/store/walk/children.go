package walk

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// birth is what the walk of children knows, and draws from.
type birth struct {
	parents []task.ID // of children, the newest last
}

// brood makes up to two batches of children. No N stands twice.
func (w *walk) brood() (list []store.Batch) {
	n := int32(0)
	for range 1 + w.luck.IntN(2) {
		w.batches += 1 + w.batches%2 // ids with ChildBit
		w.ranks++
		now := w.clock.Micros()
		b := store.Batch{
			ID: store.BatchID(w.start, 0) + w.batches, Queue: walkQueues[w.luck.IntN(2)],
			Due: now + []int64{0, 0, 0, 60e6 + 1}[w.luck.IntN(4)], Created: now, Origin: "walk",
			Orphan: w.luck.IntN(3) == 0,
		}
		b.Rank = b.Due - w.ranks - []int64{0, 7200e6}[w.luck.IntN(2)]
		from := n
		for range 1 + w.luck.IntN(3) {
			t := store.Task{
				N: n, Stage: "one", Context: w.keep(fmt.Sprintf(`{"child":%d}`, w.ranks)),
				GroupKey:    walkKeys[w.luck.IntN(len(walkKeys))],
				StartWithin: []int64{0, 0, 0, 20e6 + 1}[w.luck.IntN(4)],
			}
			if w.luck.IntN(6) == 0 {
				t.Key, t.KeyUntil = fmt.Sprintf("k%d", w.luck.IntN(5)), now+3600e6+1
			}
			b.Tasks = append(b.Tasks, t)
			n += 2 // between them are gaps, see report
		}
		b.Spans = []store.NewSpan{{Lo: from, Hi: b.Tasks[len(b.Tasks)-1].N}}
		list = append(list, b)
	}
	return list
}

// spawn lets some reports have children.
func (w *walk) spawn(r *store.Report) {
	often := map[task.Kind]int{task.KindNext: 3, task.KindDone: 9}[r.Step.Kind]
	if often > 0 && w.luck.IntN(often) == 0 {
		r.Spawn = w.brood()
	}
	for i := range r.Spawn { // with other children it is another report
		for _, t := range r.Spawn[i].Tasks {
			h := fnv.New64a()
			fmt.Fprint(h, r.Step.Hash, r.Spawn[i].Queue, t.N, t.Key)
			r.Step.Hash = int64(h.Sum64())
		}
	}
}

// spawns tells of a report's children.
func (w *walk) spawns(r *store.Report) string {
	var told []string
	for i := range r.Spawn {
		told = append(told, w.submission(store.Submission{Batches: r.Spawn[i : i+1]}))
	}
	return strings.Join(told, " ")
}

// bore takes in the children that a report submitted.
func (w *walk) bore(r *store.Report, ids []task.ID) {
	for i := range r.Spawn {
		b := &r.Spawn[i]
		for _, t := range b.Tasks {
			id := task.ID{Batch: b.ID, N: t.N}
			if !slices.Contains(ids, id) || slices.Contains(w.ids, id) {
				continue
			}
			text, err := w.Value(w.ctx, t.Context)
			if err != nil {
				w.breach("I8: context of %s: %v", w.id(id), err)
			}
			w.ids = append(w.ids, id)
			w.texts[id], w.metas[id] = string(text), t.Meta
			w.came(id, t.Stage)
		}
	}
	w.births.parents = append(w.births.parents, r.ID)
}

// spawnedBy tells of the children of a settlement, and takes them in.
func (w *walk) spawnedBy(s store.Settlement, got store.Settled) (told []string) {
	for _, c := range got.Spawned {
		r := &s.Reports[c.Report]
		text := fmt.Sprintf("report %d", c.Report)
		for _, id := range c.IDs {
			text += " " + w.id(id)
		}
		told = append(told, text)
		if got.Verdicts[c.Report] == task.Recorded {
			w.bore(r, c.IDs)
		}
	}
	return told
}

// add adds children to a hand-out, which may be over.
func (w *walk) add(n *walkNode) {
	if len(w.outs) == 0 || w.luck.IntN(4) > 0 {
		return
	}
	o := w.outs[len(w.outs)-1-w.luck.IntN(min(8, len(w.outs)))]
	s := store.Submission{
		Holder: n.Holder, NewQueues: walkQueues, Batches: w.brood(),
		Under: &store.Right{ID: o.ID(), Token: o.Token()},
	}
	if w.luck.IntN(6) == 0 {
		s.Under.Token.SpanToken++
	}
	got, err := w.Submit(w.ctx, s)
	w.note("add to %s seq %d by s%d %s -> %s %s", w.id(o.ID()), o.Seq, w.spans[o.Span.ID].name,
		w.submission(s), w.submitted(got), w.told(err))
	if err == nil {
		w.acknowledge(n, s, got)
		w.births.parents = append(w.births.parents, o.ID())
	}
}

// childOr is a hand-out of a child, or another one.
func (w *walk) childOr(other walkOut) walkOut {
	if w.luck.IntN(2) == 0 {
		return other
	}
	for _, o := range slices.Backward(w.outs) {
		if o.Parent != (task.ID{}) && !w.outcomes[moment{o.ID(), o.Seq}] {
			return o
		}
	}
	return other
}

// cancelChildren cancels what is open of the children of a task, now and then.
func (w *walk) cancelChildren() {
	n := len(w.births.parents)
	if n == 0 || w.luck.IntN(4) > 0 {
		return
	}
	id := w.births.parents[n-1-w.luck.IntN(min(10, n))]
	page, _, err := w.Children(w.ctx, store.ChildrenQuery{Parent: id, Limit: 100})
	if err != nil {
		return
	}
	w.asked = nil
	for _, v := range page {
		if !v.State.Final() && len(w.asked) < 3 {
			w.ranks++
			w.asked = append(w.asked, store.Action{
				ID: v.ID, Kind: task.KindCancelled, By: "somebody", Mark: w.ranks,
				Due: w.clock.Micros(),
			})
		}
	}
	if len(w.asked) > 0 {
		w.actAsked(true)
	}
}

// family tells how some parents and their children stand.
func (w *walk) family() {
	n := len(w.births.parents)
	for range min(3, n) {
		id := w.births.parents[n-1-w.luck.IntN(min(10, n))]
		v, err := w.Task(w.ctx, id)
		counts := "none"
		if v.Children != nil {
			counts = fmt.Sprintf("%+v", *v.Children)
		}
		page, next, err2 := w.Children(w.ctx, store.ChildrenQuery{Parent: id, Limit: 100})
		var told []string
		for _, c := range page {
			told = append(told, fmt.Sprintf("%s %s", w.id(c.ID), c.State))
		}
		parent := ""
		if v.Parent != (task.ID{}) {
			parent = " child of " + w.id(v.Parent)
		}
		w.note("children of %s%s -> %s %s; %v %v %s", w.id(id), parent, counts, w.told(err), told,
			next != (task.ID{}), w.told(err2))
		w.relatives(id)
	}
}

// relatives tells what a picture of a task and its children shows. Deleted ones may be among them.
func (w *walk) relatives(id task.ID) {
	list, err := w.Families(w.ctx, store.FamilyQuery{IDs: []task.ID{id}, Children: 100})
	var children []store.Family
	if err == nil {
		children, err = w.Families(w.ctx, store.FamilyQuery{IDs: list[0].Children, Children: 100})
	}
	if err != nil {
		w.note("family of %s -> %s", w.id(id), w.told(err))
		return
	}
	var told []string
	for _, f := range append(list, children...) {
		if f.Task.ID != (task.ID{}) {
			told = append(told, fmt.Sprintf("%s %s %d %d", w.id(f.Task.ID), f.Task.State,
				f.Began.UnixMicro(), f.Finished.UnixMicro()))
		}
	}
	w.note("family of %s -> %v", w.id(id), told)
}
