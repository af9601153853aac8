package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// leftovers are what answers that were lost, or came to nothing, may have left in the store: the
// rounds look for it.
type leftovers struct {
	rounds    int           // in which spans were to be looked for
	unmatched map[int64]int // rounds in a row since which a held span was not in memory
	// found by a round because their answer seemed lost: it may come yet
	recovered  map[int64]sighting
	gave       map[int64]sighting // that this node itself gave back while tasks of theirs ran
	unresolved []*item            // settling: where they stand could not be read
	unanswered []*item            // out, and asked: the store did not say whether they began
	untold     []handed           // of which no worker was told: they are to end
	// hand-outs that began perhaps in the very moment in which somebody else ended them: a row that
	// nobody deletes would count against a limit. The next round has such rows swept.
	litter []store.Watch
}

// isLate tells whether an answer that brings a span came so late that a round has found the span
// before: it may be over by now.
func (lo *leftovers) isLate(sp *store.Span) bool {
	return lo.recovered[sp.ID].token >= sp.Token
}

// forgetOld forgets spans whose answers no longer come.
func (lo *leftovers) forgetOld(now time.Time) {
	old := func(_ int64, f sighting) bool { return now.Sub(f.at) > forgetAfter }
	maps.DeleteFunc(lo.recovered, old)
	maps.DeleteFunc(lo.gave, old)
}

// readLater has the next round read where settling items stand that could not be read now.
func (lo *leftovers) readLater(items []*item) { lo.unresolved = append(lo.unresolved, items...) }

// askLater has the next round ask again whether a hand-out began.
func (lo *leftovers) askLater(it *item) { lo.unanswered = append(lo.unanswered, it) }

// endLater has the next rounds end a hand-out that is about to end, and of which no worker was
// told, should the store fail now.
func (lo *leftovers) endLater(it *item) { lo.untold = append(lo.untold, it.handed()) }

// takeUnanswered takes the hand-outs of which the store is to be asked again whether they began.
func (lo *leftovers) takeUnanswered() []*item {
	asked := slices.DeleteFunc(lo.unanswered, func(it *item) bool {
		return it.place != out || !it.asked
	})
	lo.unanswered = nil
	return asked
}

// sweepLater has the next round sweep rows of hand-outs that are over, should they stand.
func (lo *leftovers) sweepLater(rows ...store.Watch) { lo.litter = append(lo.litter, rows...) }

// noteGiven notes that this node itself gave a span back while tasks of it ran.
func (lo *leftovers) noteGiven(sp *span, now time.Time) {
	lo.gave[sp.ID] = sighting{sp.Token, now}
}

// comesBack tells whether a span that is taken was last held by this node, which gave it back while
// tasks of it ran; and forgets that.
func (lo *leftovers) comesBack(sp *store.Span) bool {
	gave, known := lo.gave[sp.ID]
	delete(lo.gave, sp.ID)
	return known && gave.token == sp.Token-1
}

// takeUnresolved takes the items that could not be read.
func (lo *leftovers) takeUnresolved() []*item {
	items := lo.unresolved
	lo.unresolved = nil
	return items
}

// recover gives back what the store says this node holds and memory misses: the answer to the
// submission or take that got it was lost. It must be missed for some rounds, because answers on
// their way are not lost. While the store answers, nothing is lost, and it looks seldom.
//
// Nothing of such a span goes out before it is taken anew, with the next token: memory may have
// handed out of it, and have forgotten that with an outcome that a failover of the database took
// back. Then those tokens would be given to somebody else.
func (ts *transfers) recover(ctx context.Context, now time.Time) error {
	ts.mu.Lock()
	if ts.mem.rounds++; ts.mem.rounds%calmRounds != 0 && len(ts.mem.unmatched) == 0 &&
		ts.doubts.Add(-1) < 0 {
		ts.release()
		return nil
	}
	known := ts.mem.knownSpans()
	ts.release()
	defer ts.loads.begin()()
	held, err := ts.store.Held(ctx, ts.conf.Holder, known)
	if err != nil {
		return fmt.Errorf("read held spans: %w", err)
	}
	ts.mu.Lock()
	found := ts.mem.noteHeld(held, now)
	ts.release()
	if len(found) == 0 {
		return nil
	}
	req := store.GiveRequest{Holder: ts.conf.Holder}
	for _, s := range found {
		ts.log.Info("give back a span whose answer was lost", "span", s.ID, "tasks", len(s.Tasks))
		req.Spans = append(req.Spans, s.Taking())
		req.Orders = append(req.Orders, store.Move{Rank: s.Rank, Due: s.Due})
	}
	if err := ts.give(ctx, req); err != nil {
		return fmt.Errorf("give back spans whose answer was lost: %w", err)
	}
	ts.mu.Lock()
	defer ts.release()
	for _, s := range found {
		ts.mem.hearReady(s.Queue, s.Rank, now)
	}
	return nil
}

// knownSpans are the spans that memory holds, or is about to have deleted.
func (hs *holdings) knownSpans() []int64 {
	known := make([]int64, 0, len(hs.spans)+len(hs.spent))
	for id := range hs.spans {
		known = append(known, id)
	}
	for _, s := range hs.spent {
		known = append(known, s.Span)
	}
	return known
}

// noteHeld answers what of the spans that the store says this node holds memory has missed for some
// rounds: should their answers come yet, they are too late.
func (m *memory) noteHeld(held []store.HeldSpan, now time.Time) (found []*store.HeldSpan) {
	missed := make(map[int64]int, len(held))
	spent := make(map[int64]bool, len(m.spent))
	for _, s := range m.spent {
		spent[s.Span] = true
	}
	for i := range held {
		s := &held[i]
		if m.spans[s.ID] != nil || spent[s.ID] {
			continue
		}
		if missed[s.ID] = m.unmatched[s.ID] + 1; missed[s.ID] >= unmatchedRounds {
			found = append(found, s)
			delete(missed, s.ID)
			m.recovered[s.ID] = sighting{s.Token, now}
		}
	}
	m.unmatched = missed
	return found
}
