package rules

import (
	"cmp"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Fact is a task as its newest step left it. What people see of it, and what may happen to it,
// follows from this.
type Fact struct {
	ID                task.ID
	Queue             string
	Rank, Due         int64 // of its batch
	HeadStart         int64 // its priority, microseconds: as it was submitted, or edited
	Created           int64
	Stage             string
	Key, GroupKey     string
	MaxAttempts       int32
	Timeout           int64
	Meta              store.Meta
	EditedMeta        *store.Meta // nil = Meta is the submitted one
	Seq               int32       // of the newest step, -1 = none
	Kind              task.Kind
	Attempt           int32
	Base, ContextSeq  int32
	StepDue, Finished int64
	Error             string // of the newest step
	// Expires is what the task was submitted with, or its newest edit says, as long as nothing but
	// edits has happened to it; 0 = no limit
	Expires int64
	// Begun tells whether a step says that the task was handed out. It is read for an edit that
	// sets a limit, and of tasks that have unique keys.
	Begun bool

	Owner   store.Span     // the span it belongs to; zero when final
	Running *store.Running // at Seq + 1
}

// Removed tells whether only a tombstone is left.
func (f *Fact) Removed() bool { return f.Kind == task.KindRemoved }

// Wake is when a task that is not final may run: when both its span and its newest step let it. Of
// a blocked task nobody knows when; it is the least that its newest step asks for.
func (f *Fact) Wake() int64 {
	if f.Owner.Parked() {
		return max(f.StepDue, 0)
	}
	return max(f.Owner.Due, f.StepDue, 0)
}

// Limit is when the task expires unless it is begun before; 0 = never.
func (f *Fact) Limit() int64 {
	if f.Running != nil {
		return 0
	}
	return f.Expires
}

// RankNow is the task's place in its queue: the rank first, then the id.
func (f *Fact) RankNow() int64 {
	return progress.RankNow(f.Owner.Rank, f.Owner.Seq0, f.Seq+1, f.StepDue,
		time.Duration(f.HeadStart)*time.Microsecond, f.Attempt)
}

// Before tells whether another task that is not final comes before f in their queue.
func (f *Fact) Before(other *Fact) bool {
	return cmp.Or(cmp.Compare(other.RankNow(), f.RankNow()), other.ID.Compare(f.ID)) < 0
}

// State is where the task stands; live tells whether a node's memory knows it to run.
func (f *Fact) State(now int64, live bool) task.State {
	switch {
	case f.Base == store.Final:
		return f.Kind.Leaves()
	case f.Running != nil || live:
		return task.Running
	case f.Owner.Parked():
		return task.Blocked
	case f.Wake() > now:
		return task.Waiting
	}
	return task.Ready
}

// Stood is what nodes are told of the task, whose present context is given, with the worker that
// wrote it.
func (f *Fact) Stood(context store.Value, by string) store.Stood {
	return store.Stood{
		ID: f.ID, Found: true, Queue: f.Queue, Final: f.Base == store.Final, Kind: f.Kind,
		Owner: f.Owner,
		Loaded: store.Loaded{
			N: f.ID.N, Standing: progress.Standing{
				Stage: f.Stage, Seq: f.Seq + 1, Attempt: f.Attempt, Base: f.Base,
			},
			Context: context, ContextSeq: f.ContextSeq, ContextBy: by,
			MaxAttempts: f.MaxAttempts, Timeout: f.Timeout, Meta: f.Meta, Due: f.StepDue,
			HeadStart: f.HeadStart, Expires: f.Limit(), Running: f.Running,
		},
	}
}

// Apply makes the fact one of a task that was edited: what stands in the newest edit holds in place
// of what was submitted.
func (f *Fact) Apply(e *store.Override) {
	f.HeadStart, f.GroupKey, f.MaxAttempts = e.HeadStart, e.GroupKey, e.MaxAttempts
	if f.EditedMeta = e.Meta; e.Meta != nil {
		f.Meta = *e.Meta
	}
	if f.Kind == task.KindEdited {
		f.Expires = e.Expires
	}
}

// MayBeEdited tells whether there may be an edit to read. It makes a step, and no outcome in a mark
// is of a task that had one.
func (f *Fact) MayBeEdited() bool { return f.Seq > 0 || f.Kind == task.KindEdited }

// Alone tells whether the task's span goes with it when it leaves: nobody holds the span, and no
// other task is in it.
func (f *Fact) Alone() bool {
	return f.Owner.Lo == f.Owner.Hi && f.Owner.Holder == (store.Holder{})
}

// Begin is where a replay lets a task begin again: at the first stage with the context that was
// submitted, or where the task first came to another stage.
//
// A context that was edited where it stood is begun with as it was edited: who corrects what was
// submitted while the task is in its first stage, or what a stage passed on in the stage that got
// it, does not want the wrong one again.
type Begin struct {
	Stage      string
	ContextSeq int32
}

// After is where to begin when edits have replaced contexts; list is in the order of Seq.
func (b Begin) After(list []store.Replacement) Begin {
	for _, r := range list {
		if (r.Stage == b.Stage || r.Restaged) && r.Over == b.ContextSeq {
			b.Stage, b.ContextSeq = r.Stage, r.Seq
		}
	}
	return b
}

// Begins says where a replay lets the task begin, when it does not say so itself: what is done
// begins as it was submitted, the stage that it ended in is over.
func (f *Fact) Begins(r store.Replay) store.Replay {
	if r == (store.Replay{}) && f.Kind == task.KindDone {
		r.Whole = true
	}
	return r
}

// Act decides what an action does to a task, at a time of the store's. repeated says that a step of
// this very action stands already: it is answered as the first time. begin is where a replay lets
// the task begin by what [Fact.Begins] says, nil if the task never was there or nothing is said. A
// nil step means that there is nothing to write; else it is the task's next.
func Act(
	f *Fact, a *store.Action, repeated bool, begin *Begin, now int64,
) (acted store.Acted, step *store.Step) {
	if f.Removed() && !repeated {
		return store.Acted{ID: a.ID}, nil
	}
	was := f.State(now, false)
	if h := f.Owner.Holder; a.Kind == task.KindEdited && !a.Fenced && !repeated &&
		h != (store.Holder{}) && h != a.Holder && a.Kind.Fits(was) {
		return store.Acted{ID: a.ID, Queue: f.Queue, Found: true, Was: was, Held: h.Node}, nil
	}
	fits := a.Kind.Fits(was) && (a.When == "" || a.When == was) &&
		(was != task.Blocked || a.Edit == nil || a.Edit.StartWithin == nil)
	placed := f.Begins(a.Replay) == (store.Replay{}) || begin != nil ||
		a.Kind != task.KindReplayed
	acted = store.Acted{
		ID: a.ID, Queue: f.Queue, Found: true, Changed: repeated || fits && placed, Was: was,
	}
	if repeated || !acted.Changed {
		return acted, nil
	}
	step = &store.Step{
		Kind: a.Kind, Stage: f.Stage, Attempt: f.Attempt, ContextSeq: f.ContextSeq,
		Base:   store.Final,
		Worker: cmp.Or(a.Worker, a.By), Started: a.Started, Finished: now, Error: a.Error,
		Hash: a.Mark,
	}
	switch a.Kind {
	case task.KindReplayed:
		if begin != nil {
			step.Stage, step.ContextSeq = begin.Stage, begin.ContextSeq
		}
		step.Attempt = 0
		fallthrough
	case task.KindMoved:
		step.Base, step.Due = f.Seq+2, a.Due
	case task.KindEdited:
		f.edit(step, a.Edit)
	}
	return acted, step
}

// counted is the due time from which the limit of a task that has one counts.
func (f *Fact) counted() int64 {
	if f.Seq < 0 {
		return f.Due
	}
	return f.StepDue
}

// edit makes a step the one of an edit. The task shows the error of its last attempt as before.
func (f *Fact) edit(step *store.Step, e *store.Edit) {
	d := &store.Override{
		HeadStart: f.HeadStart, GroupKey: f.GroupKey, MaxAttempts: f.MaxAttempts,
		Expires: f.Expires, Meta: f.EditedMeta, Changed: e.Changes(), Over: store.NotReplaced,
	}
	step.Base, step.Due, step.Error, step.Override = f.Seq+2, f.Wake(), f.Error, d
	if e.Due != nil {
		step.Due = *e.Due
		if f.Expires != 0 {
			d.Expires += step.Due - f.counted()
		}
	}
	if e.StartWithin != nil {
		d.Expires = 0
		if *e.StartWithin > 0 && !f.Begun {
			d.Expires = step.Due + *e.StartWithin
		}
	}
	if e.Priority != nil {
		d.HeadStart = *e.Priority
	}
	if e.GroupKey != nil {
		d.GroupKey = *e.GroupKey
	}
	if e.MaxAttempts != nil {
		d.MaxAttempts = *e.MaxAttempts
	}
	if e.Meta != nil {
		d.Meta = e.Meta
	}
	if e.Stage != nil {
		step.Stage = *e.Stage
	}
	if e.Context != nil {
		d.Over = f.ContextSeq
		step.Context, step.ContextSeq = *e.Context, f.Seq+1
	}
}

// MoveOf is the span of its own into which the step of an action moves a task that goes on. An edit
// that is about neither priority nor time leaves the task's place in the queue as it is. Who gives
// it a priority means it, also where the task has failed before.
func (f *Fact) MoveOf(a *store.Action, step *store.Step) store.Move {
	switch {
	case a.Kind == task.KindReplayed:
		return store.Move{Rank: a.Rank, Due: a.Due}
	case f.Owner.Parked():
		return *store.Parked()
	case a.Kind != task.KindEdited:
		return store.Move{Rank: a.Rank, Due: a.Due, Linked: f.Owner.Linked}
	}
	to := store.Move{Rank: f.RankNow(), Due: step.Due, Linked: f.Owner.Linked}
	start := time.Duration(step.Override.HeadStart) * time.Microsecond
	switch e := a.Edit; {
	case e.Priority != nil:
		to.Rank = progress.Rank(step.Due, start)
	case e.Due != nil:
		to.Rank = progress.RankAfter(step.Due, start, f.Attempt)
	}
	return to
}
