package walk

import (
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// fireDue fires what is due, as a node would that decides by drawing lots.
func (w *walk) fireDue() {
	p := &w.sched
	due, err := w.Due(w.ctx, store.DueQuery{
		Until: w.clock.Micros() + int64(p.luck.IntN(2))*3600e6, Limit: p.luck.IntN(4),
	})
	w.note("due -> %s %s", w.scheduleTexts(due), w.told(err))
	if old, known := p.seen[p.any(walkSchedules)]; known && p.once(4) {
		due = append(due, old)
	}
	var f store.Firing
	for i := range due {
		s := &due[i]
		part := store.FirePart{Schedule: s.Name, Version: s.Version, Next: s.Next, Then: s.Next}
		for part.Then <= w.clock.Micros() || part.Then == s.Next && p.once(8) {
			row := store.Fire{
				At: part.Then, Through: part.Then, Count: 1, Origin: task.OriginSchedule,
			}
			w.drawOutcome(&row)
			for next := dueAfter(s, row.At); next < w.clock.Micros()-30e6; next = dueAfter(s,
				next) {
				// too many for a row each
				row.Through, row.Outcome, row.Reason = next, task.FireMissed, "long ago"
				row.Count++
			}
			part.Fires = append(part.Fires, row)
			part.Then = dueAfter(s, row.Through)
		}
		if len(part.Fires) > 0 {
			f.Parts = append(f.Parts, part)
		}
	}
	w.fire(f)
}

func (w *walk) drawOutcome(row *store.Fire) {
	p := &w.sched
	row.Outcome = []task.FireOutcome{task.FireFired, task.FireFired, task.FireQueued,
		task.FireSkipped}[p.luck.IntN(4)]
	if row.Watch = p.once(2); row.Outcome == task.FireSkipped {
		row.Reason = "lots"
	}
}

// fireAside fires now, due times of the past, and what is queued.
func (w *walk) fireAside() {
	p := &w.sched
	is := w.look(p.any(walkSchedules))
	part := store.FirePart{Schedule: is.Name, Version: is.Version, Over: p.once(2)}
	rowsOf, err := w.Fires(w.ctx, store.FireQuery{Schedule: is.Name, Newest: true, Limit: 6})
	w.note("newest fires of %q -> %s %s", is.Name, w.fireTexts(rowsOf), w.told(err))
	for range 1 + p.luck.IntN(3) {
		row := store.Fire{Origin: task.OriginManual}
		switch at := p.luck.IntN(8); {
		case at < len(rowsOf):
			old := rowsOf[at]
			if row.At, row.Origin = old.At, task.OriginBackfill; old.Count > 1 {
				// the others keep a row
				if old.At, old.Count = old.At+1000, old.Count-1; old.Count == 1 {
					old.At = old.Through
				}
				part.Fires = append(part.Fires, old)
			}
		case at == 6:
			row.At, row.Origin = w.clock.Micros()-int64(p.luck.IntN(100))*1e6, task.OriginBackfill
			if p.once(2) {
				row.At -= store.FiresKept.Microseconds()
			}
		}
		if w.drawOutcome(&row); row.At == 0 {
			row.Outcome = task.FireFired
		}
		if p.once(4) {
			w.drawParents(&row)
		}
		part.Fires = append(part.Fires, row)
	}
	part.Most = int32(max(p.luck.IntN(7)-3, 0))
	if p.once(4) {
		part.Tail = -1
		if n := len(part.Fires); n > 0 && part.Fires[n-1].At > 0 && p.once(2) {
			part.Tail = part.Fires[n-1].At
		}
	}
	w.fire(store.Firing{Parts: []store.FirePart{part}})
}

// drawParents lets a fire be one that follows others.
func (w *walk) drawParents(row *store.Fire) {
	p := &w.sched
	row.Origin = task.OriginAfter
	row.Run = store.FireKey{Schedule: p.any(walkSchedules), At: w.start + int64(p.luck.IntN(3))}
	for _, name := range walkSchedules[:1+p.luck.IntN(3)] {
		row.Parents = append(row.Parents, store.FireKey{Schedule: name, At: row.Run.At})
	}
}

// fire gives what is to be fired tasks, in up to two batches, and fires it, sometimes twice.
func (w *walk) fire(f store.Firing) {
	p := &w.sched
	f.Node, f.NewQueues = "a", walkQueues
	var batches [2]store.Batch
	for i := range batches {
		w.batches++
		w.ranks++
		now := w.clock.Micros()
		batches[i] = store.Batch{
			ID: store.BatchID(w.start, 0) + w.batches, Queue: walkQueues[i], Due: now,
			Rank: now - w.ranks, Created: now, Origin: "walk",
		}
	}
	for _, part := range f.Parts {
		for i := range part.Fires {
			if row := &part.Fires[i]; row.Outcome == task.FireFired {
				p.made++
				b := &batches[p.luck.IntN(len(batches))]
				t := store.Task{
					N: int32(len(b.Tasks)) * 2, Stage: "one",
					Context: store.Value(fmt.Sprintf(`{"fired": %d}`, p.made)),
				}
				row.Task = task.ID{Batch: b.ID, N: t.N}
				b.Tasks = append(b.Tasks, t)
			}
		}
	}
	for _, b := range batches {
		if n := len(b.Tasks); n > 0 {
			last := b.Tasks[n-1].N
			if b.Spans = []store.NewSpan{{Lo: 0, Hi: last}}; n > 2 {
				b.Spans = []store.NewSpan{{Lo: 0, Hi: 2}, {Lo: 3, Hi: last}}
			}
			f.Batches = append(f.Batches, b)
		}
	}
	got, err := w.Fire(w.ctx, f)
	w.note("fire %s -> %s %s", w.firingText(f), w.firedText(got), w.told(err))
	if err != nil {
		return
	}
	w.firedTasks(f, got)
	if p.once(3) {
		again, err := w.Fire(w.ctx, f)
		w.note("fire again -> %s %s", w.firedText(again), w.told(err))
		for _, part := range again.Parts {
			for _, row := range part.Fires {
				if row.Outcome == task.FireFired {
					w.breach("fired by a repetition: %s", w.fireTexts([]store.Fire{row}))
				}
			}
		}
	}
}

// firedTasks remembers the tasks of what was written.
func (w *walk) firedTasks(f store.Firing, got store.Fired) {
	for _, part := range got.Parts {
		for _, row := range part.Fires {
			for _, b := range f.Batches {
				for _, t := range b.Tasks {
					if id := (task.ID{Batch: b.ID, N: t.N}); id == row.Task {
						w.ids = append(w.ids, id)
						w.texts[id] = string(t.Context)
						w.came(id, t.Stage)
					}
				}
			}
		}
	}
}

// watchFires looks at open fires, and closes some.
func (w *walk) watchFires() {
	p := &w.sched
	q := store.OpenQuery{Limit: p.luck.IntN(4)}
	if p.once(2) {
		q.After = store.FireKey{
			Schedule: p.any(walkSchedules), At: w.clock.Micros() - int64(p.luck.IntN(60))*1e6,
		}
	}
	if p.once(2) {
		q.Schedules = []string{p.any(walkSchedules), p.any(walkSchedules)}
	}
	list, err := w.OpenFires(w.ctx, q)
	w.note("open fires %+v -> %s %s", q, w.openTexts(list), w.told(err))
	var f store.Firing
	for _, o := range list {
		e := store.FireEnd{Schedule: o.Schedule, At: o.At, Task: o.Task, Seq: o.Step}
		switch {
		case o.Final && !p.once(4):
			e.Ended = o.Kind
		case p.once(6):
			e.Ended, e.Seq = task.KindCancelled, o.Step-1
		}
		f.Ends = append(f.Ends, e)
	}
	_, err = w.Fire(w.ctx, f)
	w.note("ends %d -> %s", len(f.Ends), w.told(err))
	for _, o := range list {
		if o.Found && p.once(2) {
			w.stir(o)
		}
	}
}

// stir lets the task of a fire begin again, or ends it: as dead, if it is in a worker's hands.
func (w *walk) stir(o store.OpenFire) {
	i := slices.IndexFunc(w.outs, func(out walkOut) bool {
		return out.ID() == o.Task && out.Seq == o.Step+1
	})
	if !o.Final && i >= 0 {
		r := w.outs[i].Report(w.clock, task.Outcome{Kind: task.KindFail, Error: "stirred"})
		r.Step.Started = w.started(w.outs[i])
		got, err := w.Settle(w.ctx, store.Settlement{Reports: []store.Report{r}})
		if w.note(
			"stir %s -> %v %s", w.id(o.Task), got.Verdicts, w.told(err),
		); slices.Equal(got.Verdicts, []task.Status{task.Recorded}) {
			w.accepted(w.outs[i], r)
		}
		return
	}
	w.ranks++
	a := store.Action{
		ID: o.Task, Mark: w.ranks, Kind: task.KindCancelled, By: "somebody", Due: w.clock.Micros(),
	}
	if a.Rank = a.Due - w.ranks; o.Final && o.Kind != task.KindDone {
		a.Kind = task.KindReplayed
	}
	w.asked = []store.Action{a}
	w.actAsked(true)
}

// readFires asks for fires in some way.
func (w *walk) readFires() {
	p := &w.sched
	now := w.clock.Micros()
	before := func() int64 {
		return []int64{0, now - int64(p.luck.IntN(30))*1e6,
			now - int64(p.luck.IntN(4000))*1e6}[p.luck.IntN(3)]
	}
	q := store.FireQuery{
		Schedule: p.any(walkSchedules), From: before(), To: before(), After: before(),
		Newest: p.once(2),
	}
	if q.Limit = p.luck.IntN(5); p.once(3) {
		q.Outcomes = []task.FireOutcome{
			task.FireFired, []task.FireOutcome{task.FireMissed, task.FireSkipped}[p.luck.IntN(2)],
		}
	}
	list, err := w.Fires(w.ctx, q)
	w.note("fires %+v -> %s %s", q, w.fireTexts(list), w.told(err))
	page := store.DueQuery{Until: now + 3600e6, Limit: 1}
	for range 5 {
		due, err := w.Due(w.ctx, page)
		if w.note(
			"due after %+v -> %s %s", page.After, w.scheduleTexts(due), w.told(err),
		); len(due) != 1 {
			break
		}
		page.After = store.Cursor{Next: due[0].Next, Name: due[0].Name}
	}
	run := store.FireKey{Schedule: p.any(walkSchedules), At: w.start + int64(p.luck.IntN(3))}
	whole, err := w.RunFires(w.ctx, run, 1+p.luck.IntN(6))
	w.note("run of %s at %s -> %s %s", run.Schedule, w.moment(run.At), w.fireTexts(whole),
		w.told(err))
	follows := store.ScheduleQuery{Follows: []string{p.any(walkSchedules), p.any(walkSchedules)}}
	which, err := w.Schedules(w.ctx, follows)
	w.note("schedules that follow %v -> %s %s", follows.Follows, w.scheduleTexts(which),
		w.told(err))
}

func (w *walk) fireTexts(list []store.Fire) (texts []string) {
	for _, f := range list {
		id := ""
		if f.Task != (task.ID{}) {
			id = w.id(f.Task)
		}
		for _, k := range f.Parents {
			id += fmt.Sprintf(" after %s@%s", k.Schedule, w.moment(k.At))
		}
		if f.Run != (store.FireKey{Schedule: f.Schedule, At: f.At}) {
			id += fmt.Sprintf(" run %s@%s", f.Run.Schedule, w.moment(f.Run.At))
		}
		texts = append(texts,
			fmt.Sprintf("%s@%s-%s×%d %s %s %q %s by %q at %s limit %d watch %v ended %d seq %d tries %d",
				f.Schedule, w.moment(f.At), w.moment(f.Through), f.Count, f.Origin, f.Outcome,
				f.Reason,
				id,
				f.Node, w.moment(f.Time), f.Limit, f.Watch, f.Ended, f.Seq, f.Tries))
	}
	return texts
}

func (w *walk) openTexts(list []store.OpenFire) (texts []string) {
	for _, o := range list {
		texts = append(texts,
			fmt.Sprintf("%v found %v kind %d step %d final %v finished %s error %q worker %q",
				w.fireTexts([]store.Fire{o.Fire}), o.Found, o.Kind, o.Step, o.Final,
				w.moment(o.Finished), o.Error, o.Worker))
	}
	return texts
}

func (w *walk) firingText(f store.Firing) (texts []string) {
	for _, p := range f.Parts {
		texts = append(texts, fmt.Sprintf("%s version %d from %s to %s over %v %s",
			p.Schedule, p.Version, w.moment(p.Next), w.moment(p.Then), p.Over,
			w.fireTexts(p.Fires)))
	}
	return texts
}

func (w *walk) firedText(f store.Fired) (texts []string) {
	for _, p := range f.Parts {
		var left []int64
		for _, at := range p.Left {
			left = append(left, at-w.start)
		}
		texts = append(texts,
			fmt.Sprintf("refused %q %s left %v", p.Refused, w.fireTexts(p.Fires), left))
	}
	return texts
}
