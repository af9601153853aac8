package walk

import (
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

// events reports something, reads on, and looks after a notifier.
func (w *walk) events() {
	var list []store.Event
	for range w.luck.IntN(3) {
		kind := []string{"node.online", "node.offline", "store.full"}[w.luck.IntN(3)]
		list = append(list, store.Event{
			Key: fmt.Sprint(kind, "/", w.luck.IntN(6)), Kind: kind, Subject: "a", Text: "☃",
		})
	}
	n, err := w.Append(w.ctx, list)
	w.note("append %d events -> %d new %s", len(list), n, w.told(err))
	q := store.EventQuery{After: w.read, Limit: 1 + w.luck.IntN(3)}
	switch w.luck.IntN(4) {
	case 0:
		q.After = 0
	case 1:
		q.After, q.Kinds = 0, []string{"node.*"}
	}
	page, err := w.Events(w.ctx, q)
	var told []string
	for i, e := range page.Events {
		told = append(told, fmt.Sprintf("%d %s at %d", e.Seq, e.Key, e.Time-w.start))
		if q.Kinds == nil && e.Seq != q.After+int64(i)+1 {
			w.breach("I10: event %d came %d after %d", e.Seq, i+1, q.After)
		}
	}
	if q.After == w.read && q.Kinds == nil {
		w.read = page.Next
	}
	w.note("events after %d %v at most %d -> %q next %d %s", q.After, q.Kinds, q.Limit, told,
		page.Next, w.told(err))
	w.notify()
}

// notify changes or advances a notifier.
func (w *walk) notify() {
	name := []string{"x", "y"}[w.luck.IntN(2)]
	switch w.luck.IntN(5) {
	case 0:
		refuse := len(w.lines)%8 == 0
		changed, err := w.ChangeNotifier(w.ctx, name, func(n *store.Notifier, _ bool) error {
			// the chat is what stood
			n.Chat, n.Secrets.Key = string(n.Secrets.Key), store.Secret(fmt.Sprint(len(w.lines)))
			if refuse {
				return store.ErrConflict
			}
			return nil
		})
		w.note("change notifier %s -> created %v chat %q %s", name, changed.Created,
			changed.Is.Chat, w.told(err))
	case 1:
		w.note("delete notifier %s -> %s", name, w.told(w.DeleteNotifier(w.ctx, name)))
	case 2, 3:
		to := store.Progress{
			Delivered: w.read, Failing: int64(w.luck.IntN(2)), Told: w.luck.IntN(2) == 0,
		}
		ok, err := w.Advance(w.ctx, name, w.served, to)
		w.note("advance %s from %d to %+v -> %v %s", name, w.served, to, ok, w.told(err))
	}
	list, err := w.Notifiers(w.ctx)
	var told []string
	for _, n := range list {
		told = append(told, fmt.Sprintf("%s %q %+v", n.Name, string(n.Secrets.Key), n.Served))
		w.served = n.Served.Delivered
	}
	slices.Sort(told)
	w.note("notifiers -> %v %s", told, w.told(err))
}
