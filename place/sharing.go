package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxWork bounds what one budget costs: so many times a kind of worker is looked at beside a set of
// jobs, each time for about 200 ns.
const maxWork = 1 << 18

// sharing is several groups on common workers.
type sharing struct {
	pools  []pool
	kinds  []kind
	least  Load // of a replica
	most   Load
	grain  Load // the greatest common divisor of all loads; rooms are multiples of it
	placed bool // all replicas run now
}

// pool is the jobs that the same workers may run.
type pool struct {
	groups []string
	sizes  []Size // of all its groups, the most replicas first
	kinds  []int  // of workers that may run them
}

// kind is workers that the same pools may use and that have equal room.
type kind struct {
	pools   []int
	room    Load
	members []member // by load, the greatest first, then by name
}

// member is a worker of a kind.
type member struct {
	name string
	load Load // of what runs there now
}

// newSharing brings groups together that share workers.
func newSharing(demands []*Demand) *sharing {
	s := &sharing{least: math.MaxInt64, placed: true}
	var names strings.Builder
	byWorkers := map[string]int{} // pools, by the names of their workers
	type worker struct {
		member
		room  Load
		pools []int
	}
	workers := map[string]*worker{}
	for _, d := range demands {
		s.placed = s.placed && d.Placed
		names.Reset()
		for _, p := range d.Places {
			w := workers[p.Worker]
			if w == nil {
				w = &worker{member: member{name: p.Worker}, room: p.Room}
				workers[p.Worker] = w
			}
			w.room = min(w.room, p.Room)
			w.load = w.load.plus(p.Load)
			fmt.Fprintf(&names, "%d:%s", len(p.Worker), p.Worker)
		}
		at, seen := byWorkers[names.String()]
		if !seen {
			at = len(s.pools)
			byWorkers[names.String()] = at
			s.pools = append(s.pools, pool{})
			for _, p := range d.Places {
				workers[p.Worker].pools = append(workers[p.Worker].pools, at)
			}
		}
		s.pools[at].groups = append(s.pools[at].groups, d.Group)
		for _, z := range d.Sizes {
			s.pools[at].add(z)
			s.least, s.most = min(s.least, z.Least), max(s.most, z.Most)
			s.grain = divisor(s.grain, z.Grain)
		}
	}
	byKind := map[string]int{}
	for _, w := range workers {
		s.placed = s.placed && w.load <= w.room // what all groups have there together
		if s.grain > 0 {
			w.room -= w.room % s.grain
		}
		key := fmt.Sprint(w.room, w.pools)
		at, seen := byKind[key]
		if !seen {
			at = len(s.kinds)
			byKind[key] = at
			s.kinds = append(s.kinds, kind{pools: w.pools, room: w.room})
		}
		s.kinds[at].members = append(s.kinds[at].members, w.member)
	}
	for i := range s.kinds {
		slices.SortFunc(s.kinds[i].members, func(x, y member) int {
			return cmp.Or(cmp.Compare(y.load, x.load), strings.Compare(x.name, y.name))
		})
	}
	slices.SortFunc(s.kinds, func(x, y kind) int {
		return cmp.Or(cmp.Compare(y.room, x.room), slices.Compare(x.pools, y.pools))
	})
	for i := range s.kinds {
		for _, p := range s.kinds[i].pools {
			s.pools[p].kinds = append(s.pools[p].kinds, i)
		}
	}
	return s
}

// add takes in jobs that the pool's workers may run.
func (p *pool) add(z Size) {
	at, found := slices.BinarySearchFunc(p.sizes, z.Replicas, func(z Size, replicas int) int {
		return cmp.Compare(replicas, z.Replicas)
	})
	if !found {
		p.sizes = slices.Insert(p.sizes, at, z)
		return
	}
	has := &p.sizes[at]
	has.Jobs += z.Jobs
	has.Load = has.Load.plus(z.Load)
	has.Least, has.Most = min(has.Least, z.Least), max(has.Most, z.Most)
	has.Grain = divisor(has.Grain, z.Grain)
}

// divisor is the greatest common divisor; of 0 and n it is n.
func divisor(a, b Load) Load {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// choice is a set of jobs: of each pool its first sizes, so many.
type choice []int

// choices calls f with every set of jobs that can be the worst, and reports true; or, where that is
// more than the work allowed, with some of them, and reports false.
func (s *sharing) choices(work int, f func(choice)) bool {
	c := make(choice, len(s.pools))
	all := len(s.kinds) + 1
	for _, p := range s.pools {
		if all *= len(p.sizes) + 1; all > work {
			s.someChoices(work, f)
			return false
		}
	}
	for {
		f(c)
		at := 0
		for ; at < len(c) && c[at] == len(s.pools[at].sizes); at++ {
			c[at] = 0
		}
		if at == len(c) {
			return true
		}
		c[at]++
	}
}

// someChoices calls f with all jobs, with those of each pool, and with those of each kind of
// worker.
func (s *sharing) someChoices(work int, f func(choice)) {
	c := make(choice, len(s.pools))
	for p := range c {
		c[p] = len(s.pools[p].sizes)
	}
	f(c)
	clear(c)
	for p := range c {
		for c[p] < len(s.pools[p].sizes) {
			c[p]++
			f(c)
		}
		c[p] = 0
	}
	for k := range s.kinds {
		if work -= len(s.kinds); work < 0 {
			return
		}
		for _, p := range s.kinds[k].pools {
			c[p] = len(s.pools[p].sizes)
		}
		f(c)
		clear(c)
	}
}

// ask is what a choice asks for, as replicas and as load.
type ask struct {
	replicas int
	load     Load
	least    Load   // of a replica
	jobs     []int  // of each pool: how many are chosen
	loads    []Load // of each pool: of one replica of each of those
}

func (s *sharing) ask(c choice) ask {
	a := ask{least: math.MaxInt64, jobs: make([]int, len(c)), loads: make([]Load, len(c))}
	for p, n := range c {
		for _, z := range s.pools[p].sizes[:n] {
			a.replicas += z.Replicas * z.Jobs
			a.load = a.load.plus(z.Load.times(z.Replicas))
			a.least = min(a.least, z.Least)
			a.jobs[p] += z.Jobs
			a.loads[p] = a.loads[p].plus(z.Load)
		}
	}
	return a
}

// takes is how many replicas of a choice a worker can have if all have a load.
func (k *kind) takes(a *ask, load Load) Load {
	n := 0
	for _, p := range k.pools {
		n += a.jobs[p]
	}
	return placesFor(k.room, load, n)
}

// placesFor is how many of n replicas of a load there is room for.
func placesFor(room, load Load, n int) Load {
	if load > 0 {
		return min(room/load, Load(n))
	}
	return Load(n)
}

// carries is how much load of a choice a worker can have.
func (k *kind) carries(a *ask) Load {
	sum := Load(0)
	for _, p := range k.pools {
		sum = sum.plus(a.loads[p])
	}
	return min(k.room, sum)
}

// share is what each of some equal workers can take of what is asked for.
type share struct {
	kind    int
	workers int
	takes   Load
}

// bears is how many workers can die with as much left as is needed, or -1; the shares are put in
// order, the greatest first. Where nothing is needed, it is more than there can be.
func bears(shares []share, need Load) int {
	if need <= 0 {
		return math.MaxInt
	}
	slices.SortFunc(shares, func(x, y share) int {
		return cmp.Or(cmp.Compare(y.takes, x.takes), cmp.Compare(x.kind, y.kind))
	})
	left, deaths := Load(0), 0
	for _, x := range shares {
		left = left.plus(x.takes.times(x.workers))
	}
	if left < need {
		return -1
	}
	for _, x := range shares {
		if n := (left - need) / x.takes; n < Load(x.workers) {
			return deaths + int(n)
		}
		left -= x.takes.times(x.workers)
		deaths += x.workers
	}
	return deaths
}

// breach is a way to break the promise.
type breach struct {
	bears  int
	shares []share // in the order of the deaths
	chosen choice
}

// budget is that of all the groups together, for so much work at most.
func (s *sharing) budget(work int) Budget {
	b := Budget{}
	for i := range s.kinds {
		b.AtMost += len(s.kinds[i].members)
	}
	worst := breach{bears: b.AtMost}
	certain := b.AtMost
	all := s.choices(work, func(c choice) {
		a := s.ask(c)
		if a.replicas == 0 {
			return
		}
		count := s.shares(func(k *kind) Load { return k.takes(&a, a.least) })
		if n := bears(count, Load(a.replicas)); worst.chosen == nil || n < worst.bears {
			worst = breach{n, count, slices.Clone(c)}
		}
		weigh := s.shares(func(k *kind) Load { return k.carries(&a) })
		if n := bears(weigh, a.load); n < worst.bears {
			worst = breach{n, weigh, slices.Clone(c)}
		}
		great := s.shares(func(k *kind) Load { return k.takes(&a, s.most) })
		certain = min(certain, bears(great, Load(a.replicas)))
	})
	b.AtMost, b.Workers = worst.bears, certain
	if !all {
		b.Workers = s.divided()
	}
	if !all || s.least != s.most {
		b.Workers = max(b.Workers, s.roomy())
		if s.placed {
			b.Workers = max(b.Workers, 0)
		}
	}
	b.Workers = min(b.Workers, b.AtMost)
	b.Weakest = s.weakest(worst.shares)
	if worst.chosen != nil {
		b.Groups, b.Short = s.short(work, worst.chosen, b.Breaking())
	}
	return b
}

// shares are of the kinds of workers that can take anything.
func (s *sharing) shares(takes func(*kind) Load) []share {
	list := make([]share, 0, len(s.kinds))
	for i := range s.kinds {
		if n := takes(&s.kinds[i]); n > 0 {
			list = append(list, share{i, len(s.kinds[i].members), n})
		}
	}
	return list
}

// weakest are all workers in the order of shares, then those that have none; of equal ones first
// those with more room, then those with more load.
func (s *sharing) weakest(shares []share) (names []string) {
	shared := make([]bool, len(s.kinds))
	for _, x := range shares {
		shared[x.kind] = true
	}
	for i := range s.kinds {
		if !shared[i] {
			shares = append(shares, share{i, len(s.kinds[i].members), 0})
		}
	}
	for from := 0; from < len(shares); {
		to := from + 1
		for to < len(shares) && shares[to].takes == shares[from].takes &&
			s.sameRoom(shares, from, to) {
			to++
		}
		var equal []member
		for _, x := range shares[from:to] {
			equal = append(equal, s.kinds[x.kind].members...)
		}
		slices.SortFunc(equal, func(x, y member) int {
			return cmp.Or(cmp.Compare(y.load, x.load), strings.Compare(x.name, y.name))
		})
		for _, m := range equal {
			names = append(names, m.name)
		}
		from = to
	}
	return names
}

func (s *sharing) sameRoom(shares []share, i, j int) bool {
	return s.kinds[shares[i].kind].room == s.kinds[shares[j].kind].room
}

// short is which groups lack room, and how many replicas have no place at the least, when some
// workers are dead.
func (s *sharing) short(work int, chosen choice, dead []string) (groups []string, most int) {
	gone := make(map[string]bool, len(dead))
	for _, name := range dead {
		gone[name] = true
	}
	alive := make([]int, len(s.kinds))
	for i := range s.kinds {
		for _, m := range s.kinds[i].members {
			if !gone[m.name] {
				alive[i]++
			}
		}
	}
	s.choices(work, func(c choice) {
		a := s.ask(c)
		missing := Load(a.replicas)
		for i := range s.kinds {
			missing -= s.kinds[i].takes(&a, a.least).times(alive[i])
		}
		most = max(most, int(missing))
	})
	for p, n := range chosen {
		if n > 0 {
			groups = append(groups, s.pools[p].groups...)
		}
	}
	slices.Sort(groups)
	return groups, max(most, 1)
}

// divided is how many workers can die for certain when each divides its places among its pools, in
// proportion to what they ask for, and no pool uses another's.
func (s *sharing) divided() int {
	all := make(choice, len(s.pools))
	asks := make([]ask, len(s.pools)) // of each pool alone
	for p := range s.pools {
		all[p] = len(s.pools[p].sizes)
		asks[p] = s.ask(all)
		all[p] = 0
	}
	least := math.MaxInt
	for p := range s.pools {
		for n := 1; n <= len(s.pools[p].sizes); n++ {
			all[p] = n
			a := s.ask(all)
			var shares []share
			for _, i := range s.pools[p].kinds {
				k := &s.kinds[i]
				total, jobs := 0, 0
				for _, q := range k.pools {
					total += asks[q].replicas
					jobs += asks[q].jobs[q]
				}
				places := placesFor(k.room, s.most, jobs)
				part := places * Load(asks[p].replicas) / Load(total)
				if part = min(part, Load(a.jobs[p])); part > 0 {
					shares = append(shares, share{i, len(k.members), part})
				}
			}
			least = min(least, bears(shares, Load(a.replicas)))
		}
		all[p] = 0
	}
	return least
}

// roomy is how many workers can die with so much room left that no replica can fail to find some.
func (s *sharing) roomy() int {
	least := math.MaxInt
	for p := range s.pools {
		if len(s.pools[p].sizes) > 0 {
			least = min(least, s.roomyPool(p))
		}
	}
	return least
}

func (s *sharing) roomyPool(p int) int {
	near := map[int]bool{} // pools whose replicas may stand in the way
	var rooms []Load       // the most first, since the kinds are so sorted
	for _, i := range s.pools[p].kinds {
		k := &s.kinds[i]
		for range k.members {
			rooms = append(rooms, k.room)
		}
		for _, q := range k.pools {
			near[q] = true
		}
	}
	load, most := Load(0), Load(0)
	for q := range near {
		for _, z := range s.pools[q].sizes {
			load = load.plus(z.Load.times(z.Replicas))
		}
	}
	for _, z := range s.pools[p].sizes {
		most = max(most, z.Most)
	}
	// What makes all of rooms[i:] too full is at least full, added up from the end.
	others := s.pools[p].sizes[0].Replicas - 1
	full := Load(0)
	for i := len(rooms) - 1; i >= others; i-- {
		full = full.plus(max(rooms[i]-most+1, 0))
		if full > load-most {
			return i - others
		}
	}
	return -1
}
