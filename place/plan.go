package place

import (
	"cmp"
	"slices"
	"strings"
)

// planning is the last step: what of the goal can be done now.
type planning struct {
	*board
	door *door
}

// plan is what of the goal can be done now: what is started or moved to a site must have room
// beside all that is there still.
func (pr *planning) plan() Plan {
	p := Plan{Stop: pr.stops}
	slices.SortFunc(p.Stop, func(x, y Stop) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), cmp.Compare(x.Replica, y.Replica),
			strings.Compare(x.Worker, y.Worker))
	})
	pr.door = newDoor(pr.board)
	started := pr.begin()
	pr.move(&p)
	pr.report(started, &p)
	return p
}

// begin lets starts in, first replicas first.
func (pr *planning) begin() (started []bool) {
	started = make([]bool, len(pr.at))
	if !slices.Contains(pr.home, none) {
		return started
	}
	for _, slots := range pr.levels(pr.home) {
		for _, slot := range slots {
			started[slot] = pr.at[slot] != none && pr.door.admit(slot)
		}
	}
	return started
}

// move lets moves in, the most needed first, and of those the one that was decided first: of a
// chain, which may be longer than the budget, the move at its end. The others wait for a next plan.
// Without the end of a chain they would only fill a site on its way, which gives back the excess.
func (pr *planning) move(p *Plan) {
	var moves []int32
	for slot, w := range pr.at {
		if home := pr.home[slot]; home != none && w != home && w != none {
			moves = append(moves, int32(slot))
		}
	}
	rank := []Code{MakesRoom, Penalised, Unselected, Drained, Shed, ZoneShared, Balance}
	of := func(slot int32) int { return slices.Index(rank, pr.cause[slot].Code) }
	slices.SortFunc(moves, func(x, y int32) int {
		return cmp.Or(cmp.Compare(of(x), of(y)), cmp.Compare(pr.order[x], pr.order[y]))
	})
	for _, slot := range moves {
		why := pr.cause[slot]
		job, replica := pr.name(slot)
		switch leaves := why.Code != MakesRoom && why.Code != Balance; {
		case len(p.Move) < pr.moves && pr.door.admit(slot):
			p.Move = append(p.Move,
				Move{job, replica, pr.sites[pr.home[slot]].Name, pr.sites[pr.at[slot]].Name, why})
		case leaves && len(p.Move) == pr.moves:
			pr.stays = append(pr.stays, drive{slot, why.Code})
			pr.fate[slot] = Reason{Code: MoveLimit, Limit: pr.moves}
		case leaves:
			pr.stays = append(pr.stays, drive{slot, why.Code})
		}
	}
	slices.SortFunc(p.Move, func(x, y Move) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), cmp.Compare(x.Replica, y.Replica))
	})
}

// name is the job and the replica of a slot.
func (pr *planning) name(slot int32) (string, int) {
	j := pr.owner[slot]
	return pr.jobs[j].Name, int(slot - pr.first[j])
}

// report says what starts, what waits and what stays against the rules, and why.
func (pr *planning) report(started []bool, p *Plan) {
	starts, waits := 0, 0
	for slot, home := range pr.home {
		switch {
		case started[slot]:
			starts++
		case home == none:
			waits++
		}
	}
	c := census{b: pr.board}
	p.Start = slices.Grow(p.Start, starts)
	p.Pending = slices.Grow(p.Pending, waits)
	for slot, home := range pr.home {
		pr.step(1)
		if home != none {
			continue
		}
		job, replica := pr.name(int32(slot))
		if started[slot] {
			p.Start = append(p.Start, Start{job, replica, pr.sites[pr.at[slot]].Name})
		} else if !pr.former[int32(slot)] {
			p.Pending = append(p.Pending, Pending{job, replica, pr.refusal(&c, int32(slot))})
		}
	}
	slices.SortFunc(pr.stays, func(x, y drive) int { return cmp.Compare(x.slot, y.slot) })
	for _, s := range pr.stays {
		job, replica := pr.name(s.slot)
		p.Stay = append(p.Stay,
			Stay{job, replica, pr.sites[pr.home[s.slot]].Name, s.why, pr.refusal(&c, s.slot)})
	}
}

// refusal is why a slot is not where it is to be.
func (pr *planning) refusal(c *census, slot int32) Reason {
	if why, known := pr.fate[slot]; known {
		why.Load = pr.loadOf(slot)
		return why
	}
	w := pr.at[slot]
	if w == none || w == pr.home[slot] {
		why := c.take(slot)
		if why.Code != "" {
			return why
		}
		if pr.later == nil {
			pr.later = newTree(pr.board, false)
		}
		pr.mark(slot)
		w = pr.pick(pr.later, slot)
	}
	if pr.door.left[w] == 0 {
		return Reason{Code: NewLimit, Load: pr.loadOf(slot), Limit: pr.fresh}
	}
	return Reason{Code: Ending, Load: pr.loadOf(slot), On: pr.sites[w].Name}
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
