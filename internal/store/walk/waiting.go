package walk

import (
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// address makes up where a task waits, or somebody sends to: one of two names of a task, or one of
// two keys.
func (w *walk) address(id task.ID) store.Address {
	name := []string{"go", "stop"}[w.luck.IntN(2)]
	if w.luck.IntN(3) > 0 && id != (task.ID{}) {
		return store.Address{Task: id, Name: name}
	}
	return store.Address{Name: name, Key: []string{"k", "k 2"}[w.luck.IntN(2)]}
}

// addressed tells of an address.
func (w *walk) addressed(a store.Address) string {
	if a.Task == (task.ID{}) {
		return a.String()
	}
	if a.End {
		return "end of " + w.id(a.Task)
	}
	if a.Children() {
		return fmt.Sprintf("children of %s run %d", w.id(a.Task), a.Run)
	}
	return w.id(a.Task) + " " + a.Name
}

// await lets about every second next report wait for a signal, for a time or for ever.
func (w *walk) await(r *store.Report) {
	if r.Step.Kind != task.KindNext || len(r.Spawn) == 0 && w.luck.IntN(2) == 0 {
		return
	}
	r.Await = &store.Await{Address: w.address(r.ID)}
	if len(r.Spawn) > 0 || w.luck.IntN(5) == 0 {
		r.Await = &store.Await{Address: store.ChildrenOf(r.ID, 0), First: w.luck.IntN(2) == 0}
	}
	if w.luck.IntN(2) == 0 {
		r.Await.Until = w.clock.Micros() + []int64{1, 5e6 + 1, 60e6 + 1}[w.luck.IntN(3)]
		r.Await.Else = []string{"", lateStage}[w.luck.IntN(2)]
	}
	r.Step.Base, r.Step.Due, r.Move = r.Token.Seq+1, 0, store.Parked()
}

// lateStage is where tasks go on that were not woken in time.
const lateStage = "late"

// wait sends signals, and looks.
func (w *walk) wait() {
	for range w.luck.IntN(4) {
		var id task.ID
		if len(w.ids) > 0 {
			id = w.ids[len(w.ids)-1-w.luck.IntN(min(20, len(w.ids)))]
		}
		s := store.Signal{
			To: w.address(id), Payload: store.Value(fmt.Sprintf(`{"n": %d}`, w.luck.IntN(9))),
			By: []string{"", "ann"}[w.luck.IntN(2)],
		}
		if w.luck.IntN(4) > 0 {
			if to := w.awaitedAt(s.To); !to.Children() && !to.End {
				s.To = to
			}
		}
		if s.To.Task == (task.ID{}) {
			s.Keep = []int64{1, 20e6 + 1, 3600e6 + 1}[w.luck.IntN(3)]
		} else {
			s.Key = fmt.Sprint(w.luck.IntN(5))
		}
		w.signal(s)
	}
	w.cancelChildren()
	if w.luck.IntN(3) > 0 {
		w.lookWhoWaits(store.LookRequest{Limit: 1 + w.luck.IntN(3)})
		return
	}
	r := store.LookRequest{Limit: 100}
	for range 1 + w.luck.IntN(2) {
		r.Addresses = append(r.Addresses, w.awaitedAt(store.Address{Name: "go", Key: "k"}))
	}
	w.lookWhoWaits(r)
}

// awaitedAt is an address at which a task has waited lately; else when none has.
func (w *walk) awaitedAt(other store.Address) store.Address {
	if n := len(w.awaited); n > 0 {
		return w.awaited[n-1-w.luck.IntN(min(8, n))]
	}
	return other
}

func (w *walk) signal(s store.Signal) {
	got, err := w.Signal(w.ctx, s)
	w.note("signal %s key %q keep %d by %q -> found %v final %v repeated %v delivered %v ready %v %s",
		w.addressed(s.To), s.Key, s.Keep, s.By, got.Found, got.Final, got.Repeated, got.Delivered,
		w.readied(got.Ready), w.told(err))
}

func (w *walk) lookWhoWaits(r store.LookRequest) {
	got, err := w.Look(w.ctx, r)
	var at []string
	for _, a := range r.Addresses {
		at = append(at, w.addressed(a))
	}
	next := int64(0)
	if got.NextUntil != 0 {
		next = got.NextUntil - w.start
	}
	var cancelled []string
	for _, id := range got.Cancelled {
		cancelled = append(cancelled, w.id(id))
	}
	slices.Sort(cancelled)
	w.note("look at %v for %d -> ended %d ready %v cancelled %v more %v next %d %s", at, r.Limit,
		got.Ended, w.readied(got.Ready), cancelled, got.More, next, w.told(err))
}

func (w *walk) readied(list []store.Ready) (told []string) {
	for _, r := range list {
		told = append(told, fmt.Sprintf("%s rank %d", r.Queue, r.Rank-w.start))
	}
	return told
}

// wokenBy tells what woke a task.
func wokenBy(by *store.Woken) string {
	if by == nil {
		return ""
	}
	children := ""
	if by.Children != nil {
		children = fmt.Sprintf(" children %+v", *by.Children)
	}
	return fmt.Sprintf(" woken by %s %s from %q timed out %v%s", by.Signal, by.Payload, by.By,
		by.TimedOut, children)
}
