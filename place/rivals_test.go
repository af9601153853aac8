package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/rotahq/rota/balance"
)

// What others do about the same: which worker has which replica, as an assignment made of the one
// before and the workers that live.

// assignment says where each replica is; the r-th of job j stands at j × replicas + r. No worker is
// -1.
type assignment []int

// seat is a worker in a comparison.
type seat struct {
	name     string
	capacity int
	alive    bool
}

// rival is a way to assign.
type rival interface {
	// assign may keep nothing, some or all of the assignment before, in which replicas of the dead
	// have no worker. It says how long it thought, translations aside.
	assign(before assignment, replicas int, seats []seat) (after assignment, took time.Duration)
}

// boundedLoads is consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam 2018):
// a replica goes to the first worker clockwise from its place on a ring that is below its bound,
// the factor c above its even part, and does not have another replica of the job. It needs no
// memory.
type boundedLoads struct{ c float64 }

// ringPoints is how often a worker of the smallest capacity stands on the ring.
const ringPoints = 64

func (b boundedLoads) assign(
	before assignment, replicas int, seats []seat,
) (after assignment, took time.Duration) {
	begin := time.Now()
	type point struct {
		hash uint64
		seat int
	}
	var ring []point
	whole, least := 0, math.MaxInt
	for _, s := range seats {
		if s.alive {
			whole += s.capacity
			least = min(least, s.capacity)
		}
	}
	bound := make([]int, len(seats))
	for i, s := range seats {
		if !s.alive {
			continue
		}
		bound[i] = int(math.Ceil(b.c * float64(len(before)) * float64(s.capacity) / float64(whole)))
		for n := range ringPoints * s.capacity / least {
			ring = append(ring, point{balance.Rendezvous(s.name, fmt.Sprint(n)), i})
		}
	}
	slices.SortFunc(ring, func(x, y point) int {
		return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.seat, y.seat))
	})
	after = make(assignment, len(before))
	load := make([]int, len(seats))
	for i := range after {
		job := i / replicas * replicas
		at, _ := slices.BinarySearchFunc(ring, balance.Rendezvous("", fmt.Sprint(i)),
			func(p point, h uint64) int {
				return cmp.Compare(p.hash, h)
			})
		after[i] = -1
		for step := range ring {
			s := ring[(at+step)%len(ring)].seat
			if load[s] < bound[s] && !slices.Contains(after[job:i], s) {
				after[i] = s
				load[s]++
				break
			}
		}
	}
	return after, time.Since(begin)
}

// sticky is Kafka's sticky assignor for members with equal subscriptions (KIP-54, as constrained
// since KIP-429): with p partitions and n members each keeps what it has up to ⌊p/n⌋, and p mod n
// of them one more; what is over goes in turn to those that have less. It knows no replicas,
// capacities or zones: a replica is a partition like any other.
type sticky struct{}

func (sticky) assign(
	before assignment, _ int, seats []seat,
) (after assignment, took time.Duration) {
	begin := time.Now()
	after = slices.Clone(before)
	var members []int
	for i, s := range seats {
		if s.alive {
			members = append(members, i)
		}
	}
	least, more := len(before)/len(members), len(before)%len(members)
	load := make([]int, len(seats))
	for _, s := range before {
		if s >= 0 {
			load[s]++
		}
	}
	// who has more may keep more
	slices.SortStableFunc(members, func(x, y int) int { return cmp.Compare(load[y], load[x]) })
	quota := make([]int, len(seats))
	for i, m := range members {
		quota[m] = least
		if i < more {
			quota[m]++
		}
	}
	kept := make([]int, len(seats))
	for i, s := range after {
		if s >= 0 {
			if kept[s]++; kept[s] > quota[s] {
				after[i] = -1
			}
		}
	}
	next := 0
	for i, s := range after {
		if s >= 0 {
			continue
		}
		for kept[members[next]] >= quota[members[next]] {
			next = (next + 1) % len(members)
		}
		after[i] = members[next]
		kept[members[next]]++
		next = (next + 1) % len(members)
	}
	return after, time.Since(begin)
}

// planner is this package, its plans carried out until there are no more.
type planner struct{ policy Policy }

func (p planner) assign(
	before assignment, replicas int, seats []seat,
) (after assignment, took time.Duration) {
	s := State{Jobs: make([]Job, len(before)/replicas)}
	index := map[string]int{}
	for j := range s.Jobs {
		s.Jobs[j] = Job{Name: fmt.Sprintf("%08d", j), Load: Unit, Replicas: replicas}
	}
	for i, seat := range seats {
		index[seat.name] = i
		if seat.alive {
			s.Workers = append(s.Workers, Worker{
				Name: seat.name, Capacity: Load(seat.capacity) * Unit,
			})
		}
	}
	for i, at := range before {
		if at >= 0 {
			s.Current = append(s.Current, Replica{
				Job: s.Jobs[i/replicas].Name, Replica: i % replicas, Worker: seats[at].name,
			})
		}
	}
	for {
		begin := time.Now()
		plan, err := Compute(s, p.policy)
		took += time.Since(begin)
		if err != nil {
			panic(err)
		}
		if plan.Empty() {
			break
		}
		s = applied(s, plan)
		slices.SortFunc(s.Current, func(x, y Replica) int { return compareReplicas(&x, &y) })
	}
	after = slices.Repeat(assignment{-1}, len(before))
	for _, r := range s.Current {
		job, err := strconv.Atoi(r.Job)
		if err != nil {
			panic(err)
		}
		after[job*replicas+r.Replica] = index[r.Worker]
	}
	return after, took
}
