package place

import (
	"cmp"
	"slices"
	"strings"
)

// plan is what of the goal can be done now: what is started or moved to a site must have room
// beside all that is there still.
func (b *board) plan() Plan {
	p := Plan{Stop: b.stops}
	slices.SortFunc(p.Stop, func(x, y Stop) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), cmp.Compare(x.Replica, y.Replica),
			strings.Compare(x.Worker, y.Worker))
	})
	d := newDoor(b)
	started := b.begin(d)
	b.move(d, &p)
	b.report(d, started, &p)
	return p
}

// door lets in what has room on its site beside all that is there.
type door struct {
	b    *board
	room []Load
	left []int // what a site may still get
}

func newDoor(b *board) *door {
	d := &door{b: b, room: make([]Load, len(b.sites)), left: make([]int, len(b.sites))}
	for w := range b.sites {
		s := &b.sites[w]
		d.room[w], d.left[w] = s.keeps-s.Used.plus(s.Passing).plus(s.held), b.fresh
	}
	for slot, w := range b.at {
		if w != none && b.home[slot] == w {
			d.room[w] -= b.loadOf(int32(slot))
		}
	}
	return d
}

func (d *door) admit(slot int32) bool {
	w, l := d.b.at[slot], d.b.loadOf(slot)
	if d.left[w] == 0 || d.room[w] < l {
		return false
	}
	d.left[w]--
	d.room[w] -= l
	return true
}

// begin lets starts in, first replicas first.
func (b *board) begin(d *door) (started []bool) {
	started = make([]bool, len(b.at))
	if !slices.Contains(b.home, none) {
		return started
	}
	for _, slots := range b.levels(b.home) {
		for _, slot := range slots {
			started[slot] = b.at[slot] != none && d.admit(slot)
		}
	}
	return started
}

// move lets moves in, the most needed first.
func (b *board) move(d *door, p *Plan) {
	var moves []int32
	for slot, w := range b.at {
		if home := b.home[slot]; home != none && w != home && w != none {
			moves = append(moves, int32(slot))
		}
	}
	rank := []Code{MakesRoom, Penalised, Unselected, Drained, Shed, ZoneShared, Balance}
	of := func(slot int32) int { return slices.Index(rank, b.cause[slot].Code) }
	slices.SortStableFunc(moves, func(x, y int32) int { return cmp.Compare(of(x), of(y)) })
	for _, slot := range moves {
		why := b.cause[slot]
		job, replica := b.name(slot)
		switch leaves := why.Code != MakesRoom && why.Code != Balance; {
		case len(p.Move) < b.moves && d.admit(slot):
			p.Move = append(p.Move,
				Move{job, replica, b.sites[b.home[slot]].Name, b.sites[b.at[slot]].Name, why})
		case leaves && len(p.Move) == b.moves:
			b.stays = append(b.stays, drive{slot, why.Code})
			b.fate[slot] = Reason{Code: MoveLimit, Limit: b.moves}
		case leaves:
			b.stays = append(b.stays, drive{slot, why.Code})
		}
	}
	slices.SortFunc(p.Move, func(x, y Move) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), cmp.Compare(x.Replica, y.Replica))
	})
}

// name is the job and the replica of a slot.
func (b *board) name(slot int32) (string, int) {
	j := b.owner[slot]
	return b.jobs[j].Name, int(slot - b.first[j])
}

// report says what starts, what waits and what stays against the rules, and why.
func (b *board) report(d *door, started []bool, p *Plan) {
	starts, waits := 0, 0
	for slot, home := range b.home {
		switch {
		case started[slot]:
			starts++
		case home == none:
			waits++
		}
	}
	c := census{b: b}
	p.Start = slices.Grow(p.Start, starts)
	p.Pending = slices.Grow(p.Pending, waits)
	for slot, home := range b.home {
		b.step(1)
		if home != none {
			continue
		}
		job, replica := b.name(int32(slot))
		if started[slot] {
			p.Start = append(p.Start, Start{job, replica, b.sites[b.at[slot]].Name})
		} else if !b.former[int32(slot)] {
			p.Pending = append(p.Pending, Pending{job, replica, b.refusal(&c, d, int32(slot))})
		}
	}
	slices.SortFunc(b.stays, func(x, y drive) int { return cmp.Compare(x.slot, y.slot) })
	for _, s := range b.stays {
		job, replica := b.name(s.slot)
		p.Stay = append(p.Stay,
			Stay{job, replica, b.sites[b.home[s.slot]].Name, s.why, b.refusal(&c, d, s.slot)})
	}
}

// refusal is why a slot is not where it is to be.
func (b *board) refusal(c *census, d *door, slot int32) Reason {
	if why, known := b.fate[slot]; known {
		why.Load = b.loadOf(slot)
		return why
	}
	w := b.at[slot]
	if w == none || w == b.home[slot] {
		why := c.take(slot)
		if why.Code != "" {
			return why
		}
		if b.later == nil {
			b.later = newTree(b, false)
		}
		b.mark(slot)
		w = b.pick(b.later, slot)
	}
	if d.left[w] == 0 {
		return Reason{Code: NewLimit, Load: b.loadOf(slot), Limit: b.fresh}
	}
	return Reason{Code: Ending, Load: b.loadOf(slot), On: b.sites[w].Name}
}
