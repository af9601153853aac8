package rules

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/progress"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// Wait is the row of what a blocked task waits for.
type Wait struct {
	ID      task.ID
	Seq     int32 // where the step stands that ends the wait
	Address string
	Since   int64
	Until   int64  // 0 = for ever
	Else    string // the stage that follows when the time is over; "" = the one that waits
	First   bool   // of children: the first that is dead or expired ends it, too
}

// WaitOf is the row of a report that was recorded. run is that of its task; it is looked for where
// the task waits for its children, and 0 otherwise.
func WaitOf(r *store.Report, run int32, now int64) Wait {
	a := r.Await.Address
	if a.Children() {
		a.Run = run
	}
	return Wait{
		ID: r.ID, Seq: r.Token.Seq + 1, Address: a.String(), Since: now, Until: r.Await.Until,
		Else: r.Await.Else, First: r.Await.First,
	}
}

// OfChildren tells whether the task waits for its children.
func (w *Wait) OfChildren() bool { return w.address().Children() }

// Enough tells whether the children, as they are counted, end the wait for them.
func (w *Wait) Enough(c task.Children) bool {
	return c.Open() <= 0 || w.First && c.Dead+c.Expired > 0
}

// Over tells whether the time of the wait is over.
func (w *Wait) Over(now int64) bool { return w.Until != 0 && w.Until <= now }

// Ends tells whether the wait is that of the task as it stands: else somebody was quicker, and the
// row is a leftover.
func (w *Wait) Ends(f *Fact) bool {
	return f.Base != store.Final && f.Seq+1 == w.Seq && f.Owner.Parked()
}

// Signal is the name of what the wait is for.
func (w *Wait) Signal() string { return w.address().Name }

// address is where the signal is to arrive. What stands in a row was made by Address.String.
func (w *Wait) address() store.Address {
	a, err := store.ParseAddress(w.Address)
	if err != nil {
		return store.Address{Name: w.Address}
	}
	return a
}

// View is the wait as people see it.
func (w *Wait) View() *task.Awaits {
	if w.OfOthers() {
		return &task.Awaits{Others: true}
	}
	a := w.address()
	v := &task.Awaits{Signal: a.Name, Key: a.Key, Else: w.Else, First: w.First}
	if w.Until != 0 {
		v.Until = time.UnixMicro(w.Until).UTC()
	}
	return v
}

// Wake is the step that ends a wait, and the place in its queue that the task has from then on. A
// task that is woken goes on as one that has come to a new stage: nothing is charged. One that
// waited for others begins where it would have, had it not waited. by is the signal that does it,
// or says that the time is over.
func Wake(f *Fact, w *Wait, by store.Woken, now int64) (store.Step, store.Move, error) {
	stage := f.Stage
	if by.TimedOut && w.Else != "" {
		stage = w.Else
	}
	by.Signal = w.Signal() // "" where it waits for children, or others
	said, err := json.Marshal(by)
	if err != nil {
		return store.Step{}, store.Move{}, err
	}
	s := store.Step{
		Kind: task.KindWoken, Stage: stage, ContextSeq: f.ContextSeq, Base: w.Seq + 1,
		Worker: by.By, Finished: now, Result: said,
	}
	due, linked := f.StepDue, store.LinkWoken
	if w.OfOthers() {
		due, linked = cmp.Or(f.StepDue, f.Due), 0
	}
	if due > now { // an edit said so, or the submission
		s.Due = due
	}
	start := time.Duration(f.HeadStart) * time.Microsecond
	if !w.OfOthers() {
		due = max(now, due)
	}
	return s, store.Move{Rank: progress.Rank(due, start), Due: max(now, due), Linked: linked}, nil
}

// AddReady adds what is ready to a list that has each queue once, by name.
func AddReady(list []store.Ready, r store.Ready) []store.Ready {
	at, found := slices.BinarySearchFunc(list, r.Queue, func(r store.Ready, queue string) int {
		return cmp.Compare(r.Queue, queue)
	})
	if found {
		list[at].Rank = min(list[at].Rank, r.Rank)
		return list
	}
	return slices.Insert(list, at, r)
}

// WokenBy reads what a step of KindWoken says.
func WokenBy(result []byte) (*store.Woken, error) {
	var by store.Woken
	if err := json.Unmarshal(result, &by); err != nil {
		return nil, err
	}
	return &by, nil
}
