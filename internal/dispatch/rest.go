package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// What runs of a queue with limits counts against them, and whether its worker fell silent only
// somebody sees who holds its span. So such spans are held as long as something of them runs: if
// nobody holds one the node that judges takes it in the next beat (see takeRunning), and who gave
// it back would give it back for ever. What the others may have of it is its rest, what stands
// behind the last task that runs: that becomes a span of its own, and free. What stays here is as
// much as runs, and what came back of it meanwhile: for that the whole span goes to where it may
// begin.

// rest is the rest of a span that is to be given back.
type rest struct {
	span *span
	store.Rest
}

// rest says what of the span is idle and stands behind all that runs of it.
func (sp *span) rest() (r rest, found bool) {
	r.span = sp
	for s := range sp.live() {
		switch at := s.place(); {
		case at == out || at == settling:
			found = false
		case !found:
			r.From, found = s.cell.n, true
		}
	}
	if found {
		r.Taking, r.Move = sp.Taking(), sp.order(r.From)
	}
	return r, found
}

// beginsElsewhere tells whether an idle task of a span of which something runs may begin where
// workers wait, as far as is known. With nothing behind what runs only the whole span can bring it
// there: it came back, and its place is free.
func (sp *span) beginsElsewhere(now time.Time) bool {
	q := sp.queue
	if q.conf.Paused || q.gate.shut() || q.workersRoom() > 0 || !q.roomElsewhere(now) {
		return false
	}
	for s := range sp.live() {
		if s.place() == ready && q.ready.hasRoom(s) {
			return true
		}
	}
	return false
}

// giveRests gives the rests of spans back.
func (ts *transfers) giveRests(ctx context.Context, list []rest, now time.Time) error {
	req := store.RestRequest{Holder: ts.conf.Holder}
	for i := range list {
		req.Rests = append(req.Rests, list[i].Rest)
	}
	var given []bool
	err := ts.again(func() (err error) {
		given, err = ts.store.GiveRest(ctx, req)
		return err
	})
	ts.mu.Lock()
	defer ts.release()
	for i := range list {
		list[i].end(err == nil && given[i], now)
	}
	if err != nil {
		return fmt.Errorf("give the rests of %d spans back: %w", len(list), err)
	}
	return nil
}

// end forgets a rest that was given back, and lets out again what was not.
func (r *rest) end(given bool, now time.Time) {
	sp := r.span
	if given && sp.memory.holds(sp) {
		sp.endBefore(r.From)
		sp.queue.openLane(sp)
		sp.queue.signAt(r.Rank, 0, 0, now)
	}
	sp.reopen()
}

// endBefore forgets what of the span begins with a number. Cells move, so that nothing of the rest
// is kept in mind: what is left of it are items, which know where they are.
func (sp *span) endBefore(from int32) {
	for s := range sp.live() {
		if it := s.unqueued(); s.cell.n >= from {
			it.forget()
		}
	}
	if !sp.memory.holds(sp) { // the last of what ran has ended meanwhile
		return
	}
	sp.memory.index.remove(sp)
	i, _ := sp.at(from)
	sp.cells, sp.Hi = slices.Clone(sp.cells[:i]), from-1
	if sp.keys != nil {
		sp.keys = slices.Clone(sp.keys[:i])
	}
	for i := range sp.cells {
		if c := &sp.cells[i]; c.item != nil {
			c.item.cell = c
		}
	}
	sp.memory.index.add(sp)
}
