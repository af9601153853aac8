package dispatch

import (
	"errors"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// A key that goes in order goes on with the first of its spans (ADR 56). One that is spent stands
// in the way of those behind it until it is deleted: nothing of the key begins, at whichever node.
// A settlement deletes the spans that it ends. A task that was reported at another node than the
// span's holder, or cancelled, or that a handler's own transaction ended, leaves a spent span to
// the holder, who deletes it as soon as it learns of that.

// blocking is what is known of spent spans that are in the way of their keys.
type blocking struct {
	spans    []*span // to be deleted
	deleting bool    // somebody does so, until there are none
}

// blocked notes that a spent span is in the way of its key.
func (m *memory) blocked(sp *span) {
	m.blocking.spans = append(m.blocking.spans, sp)
	if !m.blocking.deleting {
		m.blocking.deleting, m.do.unblock = true, true
	}
}

// nextBlocking is what to delete now; none says that nobody deletes any more.
func (hs *holdings) nextBlocking() (list []*span) {
	list, hs.blocking.spans = hs.blocking.spans, nil
	hs.blocking.deleting = len(list) > 0
	return list
}

// unblockOn deletes spent spans that are in the way of their keys until there are none.
func (st *settlements) unblockOn() {
	for {
		st.mu.Lock()
		list := st.mem.nextBlocking()
		st.release()
		if len(list) == 0 {
			return
		}
		set := store.Settlement{}
		for _, sp := range list {
			set.Spent = append(set.Spent, sp.Taking())
		}
		err := st.again(func() error {
			_, err := st.store.Settle(st.ctx, set)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrOutOfReach) {
			st.log.Warn("delete spent spans", "error", err)
		}
		st.mu.Lock()
		if err != nil {
			st.mem.deleteLater(set.Spent...)
		} else {
			st.mem.unblocked(list, time.Now())
		}
		st.release()
	}
}

// unblocked notes that spans were deleted that were in the way: the next tasks of their keys may
// begin, at whichever node.
func (m *memory) unblocked(list []*span, now time.Time) {
	var queues []*queue
	for _, sp := range list {
		sp.queue.keyFree(sp.Key, sp.Sorted, now)
		if !slices.Contains(queues, sp.queue) {
			queues = append(queues, sp.queue)
		}
	}
	for _, q := range queues {
		q.match(now)
		m.do.ends(q.name)
	}
}
