package walk

import (
	"github.com/rotahq/rota/internal/store"
)

// expires tells whether a report of a hand-out is to say that it never went out: because its time
// is over, or by mistake, which a store refuses of what was begun or has no limit.
func (w *walk) expires(o walkOut) bool {
	over := o.Expires != 0 && o.Expires <= w.clock.Micros() && o.Running == nil
	return over && w.ranks%3 > 0 || w.ranks%13 == 0
}

// expiry is the limit of a task as traces tell it; -1 = none.
func (w *walk) expiry(at int64) int64 {
	if at == 0 {
		return -1
	}
	return at - w.start
}

// takeExpired takes what is free and not begun in time, all of it.
func (w *walk) takeExpired(n *walkNode) {
	now := w.clock.Micros()
	got, err := w.TakeExpired(w.ctx, n.Holder, 10_000)
	w.note("take expired by %s -> %s gone %v more %v %s", n.name, w.held(n, got.Spans),
		got.LeaseGone, got.More, w.told(err))
	for _, sp := range got.Spans {
		found := false
		for _, l := range sp.Tasks {
			found = found || l.Expires != 0 && l.Expires <= now
		}
		if !found {
			w.breach("expired: nothing in %s is", w.span(sp.Span))
		}
	}
	if err == nil && !got.LeaseGone {
		w.checkNext(got)
	}
}

// checkNext watches that the next look is not after the limit of a task that is not begun.
func (w *walk) checkNext(got store.Taken) {
	stood, err := w.Stand(w.ctx, w.ids)
	if err != nil {
		w.breach("stand of %d tasks: %v", len(w.ids), err)
	}
	for _, st := range stood {
		if st.Expires > got.Now && (got.NextDue == 0 || got.NextDue > st.Expires) {
			w.breach("expired: the next look is at %d, %s expires at %d", w.expiry(got.NextDue),
				w.id(st.ID), w.expiry(st.Expires))
		}
		if st.Owner.Holder == (store.Holder{}) && st.Expires != 0 && st.Expires <= got.Now {
			w.breach("expired: %s is free and not taken", w.id(st.ID))
		}
	}
}
