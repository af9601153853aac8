package assign

import (
	"maps"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// Seats is what a call changes of workers' seats. known are those of its workers that stood; it is
// changed as they are. Taken comes before Away, and what comes later finds what came before it: a
// worker that is in both was here and is away.
func Seats(
	r *store.SeatRequest, known map[string]*store.Seat, now int64,
) (changed []*store.Seat, superseded []string) {
	touched := map[string]bool{}
	set := func(seat store.Seat) {
		known[seat.Worker] = &seat
		touched[seat.Worker] = true
	}
	for _, beat := range r.Taken {
		seat, differs, late := Beat(known[beat.Worker], beat, r.Holder, now, r.Overlap)
		if late {
			superseded = append(superseded, beat.Worker)
		}
		if differs {
			set(seat)
		}
	}
	for _, word := range r.Away {
		if old := known[word.Worker]; old != nil {
			if seat, differs := Leave(old, word, r.Holder, now); differs {
				set(seat)
			}
		}
	}
	for _, worker := range slices.Sorted(maps.Keys(touched)) {
		changed = append(changed, known[worker])
	}
	return changed, superseded
}

// Beat is a worker's seat after a beat at a node. old is its row, nil when it has none. A beat of
// an incarnation that the row names as an earlier one changes nothing. A node that had the worker
// until now may not know that it has it no more: for so long as overlap says. One whose name this
// node has by now is gone.
func Beat(
	old *store.Seat, beat store.Seat, at store.Holder, now int64, overlap time.Duration,
) (seat store.Seat, changed, superseded bool) {
	seat = beat
	seat.Node = at
	seat.State = store.SeatTaken
	seat.Since = now
	seat.Joined = now
	seat.Before = nil
	seat.Used = 0
	seat.Overlap = 0
	if old == nil {
		return seat, true, false
	}
	if slices.Contains(old.Before, beat.Incarnation) {
		return *old, false, true
	}
	seat.Before, seat.Used, seat.Overlap = old.Before, old.Used, old.Overlap
	if overlap > 0 && old.State == store.SeatTaken && old.Node.Node != at.Node {
		seat.Overlap = now + overlap.Microseconds()
	}
	if old.State == store.SeatTaken {
		seat.Since = old.Since
	}
	if old.Incarnation == beat.Incarnation {
		seat.Joined = old.Joined
		return seat, !same(old, &seat), false
	}
	seat.Before = append([]string{old.Incarnation}, old.Before...)
	seat.Before = seat.Before[:min(len(seat.Before), store.Incarnations)]
	return seat, true, false
}

// same compares seats of one incarnation.
func same(a, b *store.Seat) bool {
	return a.Node == b.Node && a.State == b.State && a.Capacity == b.Capacity && a.Zone == b.Zone &&
		a.Draining == b.Draining && a.Shed == b.Shed && a.DrainBy == b.DrainBy &&
		a.Silence == b.Silence &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Groups, b.Groups)
}

// Leave is a worker's seat after a node said that it does not beat there any more. What a node says
// of one that beats elsewhere, or that is back as another incarnation, changes nothing.
func Leave(
	old *store.Seat, word store.Seat, at store.Holder, now int64,
) (seat store.Seat, changed bool) {
	seat = *old
	if old.Node != at || old.Incarnation != word.Incarnation || old.State == word.State {
		return seat, false
	}
	seat.State, seat.Since = word.State, now
	return seat, true
}
