package place

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// none is no worker, or no replica.
const none int32 = -1

// board is a state with numbers for names, and the goal that is made of it. Each replica that is
// wanted has a slot. The goal is the world once all that leaves is gone; planning says which part
// of it can be done now.
//
// The steps of a plan each have a type of their own, which has the board and what only that step
// needs: settling, filling, vacating, levelling and planning. None of them knows another one. What
// one leaves behind for the next is here, and so is what several of them do with slots and sites.
type board struct {
	pace
	moves int // replicas moved at most
	fresh int // replicas new to a site at most

	jobs  []Job   // by name
	first []int32 // a job's slots are first[j] … first[j+1]-1, by replica
	owner []int32 // of a slot: its job
	home  []int32 // of a slot: the site it is on now, or none
	at    []int32 // of a slot: the site it is to be on, or none
	order []int32 // of a slot that was given a site: its place among all that were, from 1
	have  []int32 // of a job: how many of its slots are to be on a site

	waiting int  // slots that have no site
	equal   bool // all jobs have the same load
	least   Load // the smallest load above 0 of a job, or 0
	mean    Load // of all slots

	sites []site // by zone and name
	zoned bool   // zones count
	moved int    // slots that are to leave their home for another site
	given int32  // how often a slot was given a site
	bars  map[int32][]bar

	former map[int32]bool // slots that run elsewhere until their replica at home does

	cause map[int32]Reason // of a slot that moves: why
	fate  map[int32]Reason // of a slot that waits or stays: why, where it is not for want of room
	stops []Stop
	stays []drive // slots that are to leave their home and cannot yet

	on    [][]int32 // of a site: the slots that are to be on it; nil until it is needed
	now   *tree     // of the room that is free now
	later *tree     // of the room that will be free; nil until it is needed
	chain chain     // for one search after the other

	// What mark found of a slot's job: where it may not be because of itself.
	stamp     int32
	seen      []int32 // of a site: the stamp if the job is there or barred
	zoneStamp []int32 // of a zone: the stamp if zoneCount is of this job
	zoneCount []int32 // of a zone: other replicas of the job
}

// bar keeps a job off a site.
type bar struct {
	site int32
	code Code // Ending or Avoided
}

// newBoard puts the replicas where they are now. The state has been checked.
func newBoard(s State, p Policy) *board {
	b := &board{
		pace:  pace{stop: p.Stop},
		moves: cmp.Or(p.Moves, DefaultMoves), fresh: cmp.Or(p.New, DefaultNew),
		bars: map[int32][]bar{}, former: map[int32]bool{}, cause: map[int32]Reason{},
		fate: map[int32]Reason{},
	}
	b.moves = max(b.moves, 0)
	if b.fresh < 0 {
		b.fresh = math.MaxInt
	}
	b.setJobs(s.Jobs, p)
	index := b.setSites(s.Workers, p)
	for _, penalty := range s.Penalties {
		j, known := slices.BinarySearchFunc(b.jobs, penalty.Job, func(j Job, name string) int {
			return strings.Compare(j.Name, name)
		})
		if w, alive := index[penalty.Worker]; known && alive {
			b.bar(int32(j), w, Avoided)
		}
	}
	(&settling{b, index}).settle(s.Current)
	return b
}

// setJobs gives each job its slots.
func (b *board) setJobs(jobs []Job, p Policy) {
	b.jobs = sorted(jobs, func(x, y *Job) int { return strings.Compare(x.Name, y.Name) })
	b.first = make([]int32, len(b.jobs)+1)
	b.have = make([]int32, len(b.jobs))
	b.equal = true
	slots, whole := 0, Load(0)
	for j := range b.jobs {
		job := &b.jobs[j]
		n := cmp.Or(job.Replicas, p.Replicas, 1)
		slots += n
		b.first[j+1] = int32(slots)
		whole = whole.plus(job.Load.times(n))
		b.equal = b.equal && job.Load == b.jobs[0].Load
		if job.Load > 0 && (b.least == 0 || job.Load < b.least) {
			b.least = job.Load
		}
	}
	b.mean = whole / Load(max(slots, 1))
	b.waiting = slots
	all := make([]int32, 4*slots)
	b.owner, b.home = all[:slots:slots], all[slots:2*slots:2*slots]
	b.at, b.order = all[2*slots:3*slots:3*slots], all[3*slots:]
	for j := range b.jobs {
		for slot := b.first[j]; slot < b.first[j+1]; slot++ {
			b.owner[slot], b.home[slot], b.at[slot] = int32(j), none, none
		}
	}
}

// setSites numbers the workers and their zones, and returns the numbers by name.
func (b *board) setSites(workers []Worker, p Policy) map[string]int32 {
	zone := func(w *Worker) string {
		if p.Zones {
			return w.Zone
		}
		return ""
	}
	workers = sorted(workers, func(x, y *Worker) int {
		return cmp.Or(strings.Compare(zone(x), zone(y)), strings.Compare(x.Name, y.Name))
	})
	b.sites = make([]site, len(workers))
	index := make(map[string]int32, len(workers))
	zones := int32(0)
	for w := range workers {
		s := &b.sites[w]
		s.Worker = &workers[w]
		s.Capacity = workers[w].Capacity
		s.keeps = max(s.Capacity-s.Shed, 0)
		s.Used = workers[w].Used
		s.zone = none
		if name := zone(s.Worker); name != "" {
			if w == 0 || zone(b.sites[w-1].Worker) != name {
				zones++
			}
			s.zone = zones - 1
		}
		s.lacks = !p.selects(s.Labels)
		switch {
		case s.lacks, s.Capacity == 0:
			s.closed = Unselected
		case s.Draining, s.keeps == 0:
			s.closed = Drained
		}
		index[s.Name] = int32(w)
	}
	b.zoned = zones > 0
	b.seen = make([]int32, len(workers))
	b.zoneStamp, b.zoneCount = make([]int32, zones), make([]int32, zones)
	return index
}

func (p Policy) selects(labels map[string]string) bool {
	for key, value := range p.Selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// sorted is the list in order, itself if it is, else a copy.
func sorted[T any](list []T, compare func(x, y *T) int) []T {
	for i := 1; i < len(list); i++ {
		if compare(&list[i], &list[i-1]) < 0 {
			list = slices.Clone(list)
			slices.SortFunc(list, func(x, y T) int { return compare(&x, &y) })
			break
		}
	}
	return list
}

func (b *board) bar(j, w int32, code Code) { b.bars[j] = append(b.bars[j], bar{w, code}) }

func (b *board) loadOf(slot int32) Load { return b.jobs[b.owner[slot]].Load }

// siblings are the slots of a slot's job, itself included.
func (b *board) siblings(slot int32) (from, to int32) {
	j := b.owner[slot]
	return b.first[j], b.first[j+1]
}

// mark looks up where a slot may not be because of its own job: where another replica is, goes to
// or has not left yet, and where the job is barred.
func (b *board) mark(slot int32) {
	b.stamp++
	from, to := b.siblings(slot)
	b.step(1 + int(to-from))
	for u := from; u < to; u++ {
		if w := b.at[u]; w != none {
			b.seen[w] = b.stamp
			if z := b.sites[w].zone; z != none && u != slot {
				if b.zoneStamp[z] != b.stamp {
					b.zoneStamp[z], b.zoneCount[z] = b.stamp, 0
				}
				b.zoneCount[z]++
			}
		}
		if w := b.home[u]; w != none && u != slot {
			b.seen[w] = b.stamp
		}
	}
	if len(b.bars) > 0 {
		for _, bar := range b.bars[b.owner[slot]] {
			b.seen[bar.site] = b.stamp
		}
	}
}

// admits reports whether the marked slot may go to a site, room aside.
func (b *board) admits(w int32) bool { return b.seen[w] != b.stamp && b.sites[w].closed == "" }

// sharing is how many other replicas of the marked slot's job are in a site's zone.
func (b *board) sharing(zone int32) int32 {
	if zone == none || b.zoneStamp[zone] != b.stamp {
		return 0
	}
	return b.zoneCount[zone]
}

// take gives a slot a site, in place of the one it may have.
func (b *board) take(slot, w int32) {
	if b.at[slot] != none {
		b.drop(slot)
	}
	s, l := &b.sites[w], b.loadOf(slot)
	b.at[slot] = w
	b.given++
	b.order[slot] = b.given
	b.waiting--
	b.have[b.owner[slot]]++
	s.load += l
	s.count++
	switch b.home[slot] {
	case w:
		s.held -= l
	case none:
		s.fresh++
	default:
		s.fresh++
		b.moved++
	}
	if b.on != nil {
		b.on[w] = append(b.on[w], slot)
	}
	b.touch(w)
}

// drop takes a slot from its site. If it is there now, it is still to go.
func (b *board) drop(slot int32) {
	w := b.at[slot]
	s, l := &b.sites[w], b.loadOf(slot)
	b.at[slot] = none
	b.waiting++
	b.have[b.owner[slot]]--
	s.load -= l
	s.count--
	switch b.home[slot] {
	case w:
		s.held = s.held.plus(l)
	case none:
		s.fresh--
	default:
		s.fresh--
		b.moved--
	}
	if b.on != nil {
		i := slices.Index(b.on[w], slot)
		b.on[w] = slices.Delete(b.on[w], i, i+1)
	}
	b.touch(w)
}

// end stops a slot's replica where it is: the slot needs another site.
func (b *board) end(slot int32, why Reason) {
	w, j := b.home[slot], b.owner[slot]
	b.drop(slot)
	b.home[slot] = none
	delete(b.fate, slot)
	b.bar(j, w, Ending)
	b.stops = append(b.stops, Stop{b.jobs[j].Name, int(slot - b.first[j]), b.sites[w].Name, why})
}

func (b *board) touch(w int32) {
	if b.now != nil {
		b.now.update(w)
	}
	if b.later != nil {
		b.later.update(w)
	}
}

// lists makes b.on, which take and drop keep up.
func (b *board) lists() {
	if b.on != nil {
		return
	}
	b.on = make([][]int32, len(b.sites))
	all, end := make([]int32, len(b.at)), 0
	for w := range b.on {
		begin := end
		end += int(b.sites[w].count)
		b.on[w] = all[begin:begin:end]
	}
	for slot, w := range b.at {
		if w != none {
			b.on[w] = append(b.on[w], int32(slot))
		}
	}
}

// before reports whether a site stands before another in taking the next replica of the mean load:
// the one whose capacity is then in use to the smaller share, of equals the one with fewer
// replicas, of equals the first by zone and name.
func (b *board) before(v, w int32) bool {
	x, y := &b.sites[v], &b.sites[w]
	if c := compareShares(
		x.taken().plus(b.mean), x.Capacity, y.taken().plus(b.mean), y.Capacity,
	); c != 0 {
		return c < 0
	}
	if x.count != y.count {
		return x.count < y.count
	}
	return v < w
}

// levels sorts the slots that have no site in a list by how many of their job come first: those
// that have one, and those before them.
func (b *board) levels(sites []int32) [][]int32 {
	deepest := int32(0)
	for j := range b.jobs {
		deepest = max(deepest, b.first[j+1]-b.first[j])
	}
	queue := make([][]int32, deepest)
	for j := range b.jobs {
		slots := sites[b.first[j]:b.first[j+1]]
		level := 0
		for _, w := range slots {
			if w != none {
				level++
			}
		}
		b.step(len(slots))
		for i, w := range slots {
			if w == none {
				queue[level] = append(queue[level], b.first[j]+int32(i))
				level++
			}
		}
	}
	return queue
}

// pick is the first site for the marked slot, in a zone with as few other replicas of its job as
// there can be.
func (b *board) pick(t *tree, slot int32) int32 {
	load := b.loadOf(slot)
	from, to := b.siblings(slot)
	for sharing := range to - from {
		if w := t.first(load, sharing); w != none || !b.zoned || t.room[1] < load {
			return w
		}
	}
	return none
}

// makesRoom is why a slot moves in a chain that begins with another.
func (b *board) makesRoom(slot, first int32) Reason {
	return Reason{Code: MakesRoom, Load: b.loadOf(slot), Job: b.jobs[b.owner[first]].Name}
}

// share is the part of a site's capacity that is in use, for people to read.
func (b *board) share(w int32) float64 {
	s := &b.sites[w]
	return float64(s.taken()) / float64(max(s.Capacity, 1))
}

// better reports whether a load on site w would be better on site v: the share in use there would
// be smaller than it is here now.
func (b *board) better(w, v int32, load Load) bool {
	x, y := &b.sites[w], &b.sites[v]
	return v != w && compareShares(y.taken().plus(load), y.Capacity, x.taken(), x.Capacity) < 0
}
