package walk

import (
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// act asks for something to happen to up to three tasks, or asks once more for what it asked for
// last.
func (w *walk) act() {
	if len(w.ids) == 0 {
		return
	}
	fresh := len(w.asked) == 0 || !w.chance(10)
	if fresh {
		w.ask()
	}
	w.actAsked(fresh)
}

// actAsked asks for what was made up; fresh says that it is for the first time.
func (w *walk) actAsked(fresh bool) {
	var asked []string
	for _, a := range w.asked {
		asked = append(asked, fmt.Sprintf("%s %s due %d mark %d tree %v%s", a.Kind,
			w.id(a.ID), a.Due-w.start, a.Mark, a.Tree, w.edits(a.Edit)))
	}
	got, err := w.Act(w.ctx, w.asked)
	var answers []string
	for i, a := range got {
		answers = append(answers,
			fmt.Sprintf("%s %s found %v changed %v was %q%s", w.id(a.ID), a.Queue, a.Found,
				a.Changed, a.Was, a.Held))
		if !a.Changed {
			continue
		}
		switch w.asked[i].Kind {
		case task.KindReplayed:
			delete(w.finals, a.ID)
			if fresh {
				w.texts[a.ID] = w.began(a.ID, a.Was, w.asked[i].Replay)
			}
		case task.KindEdited:
			if fresh {
				w.edited(a.ID, w.asked[i].Edit)
			}
		case task.KindRemoved:
			w.forget(a.ID)
		}
	}
	w.note("act %v -> %v %s", asked, answers, w.told(err))
}

// ask makes up what to ask for.
func (w *walk) ask() {
	w.asked = nil
	for range 1 + w.rng.IntN(3) {
		id := recent(w, w.ids)
		if slices.ContainsFunc(w.asked, func(a store.Action) bool { return a.ID == id }) {
			continue
		}
		w.ranks++
		a := store.Action{ID: id, Mark: w.ranks,
			Kind: pick(w,
				[]task.Kind{task.KindCancelled, task.KindMoved, task.KindMoved, task.KindReplayed,
					task.KindReplayed, task.KindRemoved}), By: "somebody"}
		a.Due = w.clock.Micros() + pick(w, []int64{0, 0, 5e6 + 1, 600e6 + 1})
		a.Rank = a.Due - w.ranks
		if a.Kind == task.KindReplayed {
			// without a draw: seeds stay what they are
			a.Replay = []store.Replay{{}, {Whole: true}, {}, {Stage: new("one")},
				{Stage: new("three")}}[w.ranks%5]
			a.When = []task.State{
				"", "", task.Dead, "", task.Done, "", task.Expired,
			}[w.ranks%7]
		}
		if a.Kind == task.KindMoved && w.ranks/2%2 == 0 {
			a.Kind, a.Edit = task.KindEdited, w.edit(a.Due)
			a.Holder = w.nodes[w.ranks%int64(len(w.nodes))].Holder
			if again := w.editedLast; w.ranks/8%2 == 0 && slices.Contains(w.ids, again) &&
				!slices.ContainsFunc(w.asked, func(a store.Action) bool { return a.ID == again }) {
				a.ID = again
			}
			for _, other := range w.asked { // one node asks
				if other.Edit != nil {
					a.Holder = other.Holder
				}
			}
		}
		switch a.Kind {
		case task.KindCancelled, task.KindRemoved, task.KindReplayed:
			a.Tree = w.luck.IntN(3) == 0
		}
		w.asked = append(w.asked, a)
	}
}

// edit makes up what to change of a task, without a draw.
func (w *walk) edit(due int64) *store.Edit {
	e := &store.Edit{}
	switch {
	case w.ranks%3 == 0:
		e.Priority = new(w.ranks % 7 * 1e6)
	case w.ranks%5 == 0:
		e.GroupKey, e.MaxAttempts = new(fmt.Sprint("g", w.ranks%4)), new(int32(w.ranks%6))
	}
	if w.ranks%4 == 0 {
		e.Due = &due
	}
	if w.ranks%5 < 2 {
		e.StartWithin = new([]int64{0, 1, 4e6 + 1, 30e6 + 1}[w.ranks/5%4])
	}
	if w.ranks/4%2 == 0 {
		e.Meta = new(append(walkMetas, "")[w.ranks/8%5])
	}
	if w.ranks%7 < 4 || e.Changes() == 0 {
		e.Context = new(store.Value(fmt.Sprintf(`"edit %d"`, w.ranks)))
	}
	return e
}

// edits tells what an edit changes.
func (w *walk) edits(e *store.Edit) string {
	if e == nil {
		return ""
	}
	text := fmt.Sprintf(" [%v]", e.Changes())
	if e.StartWithin != nil {
		text += fmt.Sprintf(" within %d", *e.StartWithin)
	}
	if e.Meta != nil {
		text += fmt.Sprintf(" meta %s", *e.Meta)
	}
	if e.Context != nil {
		text += " " + string(*e.Context)
	}
	return text
}

// edited notes what an edit made of the meta of a task, and of its context: of the present one, and
// of the one with which a replay begins in this stage.
func (w *walk) edited(id task.ID, e *store.Edit) {
	w.editedLast = id
	if v, err := w.Task(w.ctx, id); err == nil && v.Stage == lateStage {
		w.came(id, v.Stage)
	}
	if e.Meta != nil {
		w.metas[id] = *e.Meta
	}
	if e.Context == nil {
		return
	}
	old := w.texts[id]
	w.texts[id] = string(*e.Context)
	for i := range w.stages[id] {
		if s := &w.stages[id][i]; s.stage == w.in[id] && s.text == old {
			s.text = w.texts[id]
		}
	}
}

// stageText is a stage that a task came to, and its context at that time.
type stageText struct{ stage, text string }

// came notes that a task is in a stage.
func (w *walk) came(id task.ID, stage string) {
	w.in[id] = stage
	if !slices.ContainsFunc(w.stages[id], func(s stageText) bool { return s.stage == stage }) {
		w.stages[id] = append(w.stages[id], stageText{stage, w.texts[id]})
	}
}

// began is the context of a task after a replay.
func (w *walk) began(id task.ID, was task.State, r store.Replay) string {
	whole := r.Whole || r.Stage == nil && was == task.Done
	for _, s := range w.stages[id] {
		if whole || r.Stage != nil && s.stage == *r.Stage {
			w.in[id] = s.stage
			return s.text
		}
	}
	return w.texts[id]
}

// forget drops a task that views no longer show. Its hand-outs stay: late reports of them are
// refused.
func (w *walk) forget(id task.ID) {
	w.ids = slices.DeleteFunc(w.ids, func(o task.ID) bool { return o == id })
	delete(w.finals, id)
	delete(w.texts, id)
	delete(w.metas, id)
}

// own are a node's hand-outs, as many as its memory would know, and some that it only thinks it
// has.
func (w *walk) own(n *walkNode) (list []walkOut) {
	for _, o := range w.outs[max(0, len(w.outs)-20):] {
		if o.node == n && o.Running == nil && w.chance(2) {
			list = append(list, o)
		}
	}
	return list
}

// started is when a hand-out began: what is written down of it and what is reported of it are one
// time, as they are of a node.
func (w *walk) started(o walkOut) int64 {
	at := moment{o.ID(), o.Seq}
	if w.begun[at] == 0 {
		w.begun[at] = w.clock.Micros()
	}
	return w.begun[at]
}

// running is the row of a hand-out.
func (w *walk) running(o walkOut) store.Running {
	u := o.Row(w.clock)
	u.Started = w.started(o)
	return u
}

func (w *walk) sync(n *walkNode) {
	r := store.SyncRequest{Holder: n.Holder}
	var asked []string
	for _, o := range w.own(n) {
		r.Insert = append(r.Insert, w.running(o))
		watch := store.Watch{ID: o.ID(), Seq: o.Seq}
		if !slices.ContainsFunc(r.Watch, func(old store.Watch) bool { return old.ID == watch.ID }) {
			r.Watch = append(r.Watch, watch)
		}
		asked = append(asked, fmt.Sprintf("%s seq %d token %d", w.id(o.ID()), o.Seq, o.Span.Token))
	}
	got, err := w.Sync(w.ctx, r)
	var settled []string
	for _, id := range slices.SortedFunc(slices.Values(got.Settled), task.ID.Compare) {
		settled = append(settled, w.id(id))
	}
	w.note("sync by %s %v -> settled %v gone %v %s", n.name, asked, settled, got.LeaseGone,
		w.told(err))
}

func (w *walk) give(n *walkNode) {
	g := store.GiveRequest{Holder: n.Holder}
	var asked []string
	for _, o := range w.own(n) {
		if slices.Contains(g.Spans, o.Span.Taking()) {
			continue
		}
		g.Spans = append(g.Spans, o.Span.Taking())
		asked = append(asked, fmt.Sprintf("s%d", w.spans[o.Span.ID].name))
		if w.chance(2) {
			g.Running = append(g.Running, w.running(o))
			asked = append(asked,
				fmt.Sprintf("with %s seq %d token %d", w.id(o.ID()), o.Seq, o.Span.Token))
		}
	}
	w.note("give by %s %v -> %s", n.name, asked, w.told(w.Give(w.ctx, g)))
}

// giveRest gives the rests of some spans back, behind what was taken of them first.
func (w *walk) giveRest(n *walkNode) {
	r := store.RestRequest{Holder: n.Holder}
	var asked []string
	for _, o := range w.outs[max(0, len(w.outs)-20):] {
		if o.node != n || w.luck.IntN(2) == 0 || slices.ContainsFunc(r.Rests,
			func(x store.Rest) bool { return x.Span == o.Span.ID }) {
			continue
		}
		from := o.N + 1
		r.Rests = append(r.Rests, store.Rest{
			Taking: o.Span.Taking(), From: from,
			Move: store.Move{Rank: o.Span.Rank, Due: o.Span.Due},
		})
		asked = append(asked, fmt.Sprintf("s%d from %d", w.spans[o.Span.ID].name, from))
	}
	given, err := w.GiveRest(w.ctx, r)
	w.note("give rest by %s %v -> %v %s", n.name, asked, given, w.told(err))
}

// prune prunes to the end and forgets what is gone. Which tasks that are, the next audit shows.
func (w *walk) prune() {
	for _, id := range w.ids { // that became final since they were looked at last
		if v, err := w.Task(w.ctx, id); err == nil && v.State.Final() && w.finals[id] == "" {
			w.finals[id] = v.State
		}
	}
	for range 1000 {
		n, err := w.Prune(w.ctx, 1000)
		if err != nil {
			w.note("prune -> %s", w.told(err))
			return
		}
		if n == 0 {
			break
		}
	}
	w.note("prune")
	w.forgetGone(func(id task.ID) bool { return w.finals[id] != "" })
}

func (w *walk) deleteQueue(name string) {
	force := w.chance(2)
	err := w.DeleteQueue(w.ctx, name, force)
	w.note("delete queue %s force %v -> %s", name, force, w.told(err))
	if err == nil {
		w.forgetGone(func(task.ID) bool { return true })
		w.putQueue(name, false)
	}
}

// forgetGone forgets the tasks that are gone, and their hand-outs; only some may be.
func (w *walk) forgetGone(may func(task.ID) bool) {
	for _, id := range slices.Clone(w.ids) {
		if _, err := w.Task(w.ctx, id); err != nil {
			if !may(id) {
				w.breach("I1: %s is gone: %v", w.id(id), err)
			}
			w.note("gone %s", w.id(id))
			w.forget(id)
		}
	}
	w.outs = slices.DeleteFunc(w.outs, func(o walkOut) bool {
		return !slices.Contains(w.ids, o.ID())
	})
}

func (w *walk) log() {
	if len(w.ids) == 0 {
		return
	}
	id := pick(w, w.ids)
	text := fmt.Sprint("line ", len(w.lines))
	err := w.AppendLog(w.ctx, id,
		[]task.LogLine{{Time: w.clock.Now(), Stream: "stdout", Text: text}})
	page, err2 := w.Log(w.ctx, id, 0, 100)
	var lines []string
	for _, l := range page.Lines {
		lines = append(lines, l.Text)
	}
	w.note("log %s %q -> %q %s %s", w.id(id), text, lines, w.told(err), w.told(err2))
}
