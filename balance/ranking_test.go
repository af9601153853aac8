package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ExampleRanking() {
	var lanes Ranking[string]
	lanes.Add("a", 0)
	lanes.Add("b", 0)
	heavy := lanes.Pick(100)
	for range 3 {
		fmt.Println(lanes.Pick(40).Value)
	}
	lanes.Set(heavy, 0) // its work is done
	fmt.Println(lanes.Pick(40).Value)
	// Output:
	// b
	// b
	// b
	// a
}

// Two replicas on two different members, the least loaded first.
func ExampleRanking_PickN() {
	var workers Ranking[string]
	workers.Add("a", 3)
	workers.Add("b", 1)
	workers.Add("c", 2)
	for _, w := range workers.PickN(nil, 2, 10) {
		fmt.Println(w.Value)
	}
	sum := 0.0
	for w := range workers.All() {
		sum += w.Load()
	}
	fmt.Println(workers.Len(), sum)
	// Output:
	// b
	// c
	// 3 26
}

// Most free first: the load is what is free, negated.
func ExampleRanking_mostFreeFirst() {
	var nodes Ranking[string]
	nodes.Add("a", -3)
	nodes.Add("b", -1)
	c := nodes.Add("c", -2)
	for nodes.Min() != nil && nodes.Min().Load() < 0 { // somebody has room
		node := nodes.Min()
		if node == c {
			fmt.Println("c cannot be reached")
			nodes.Remove(c)
			continue
		}
		fmt.Println(nodes.Pick(1).Value)
	}
	// Output:
	// a
	// c cannot be reached
	// a
	// b
	// a
}

func TestMostFreeFirstMinusOneEach(t *testing.T) {
	for _, test := range []struct {
		free []int // of a, b, c …
		want string
	}{
		// a has 3, then a and c have 2 and c was longer not picked, and so on
		{[]int{3, 1, 2}, "acabca"},
		{[]int{2, 2, 2}, "abcabc"},
		{[]int{4, 0, 0}, "aaaa"},
		{[]int{1, 4}, "bbbab"},
		{[]int{0, 0}, ""}, // nobody has room: nothing is handed out, not even to this node
		{nil, ""},
	} {
		var r Ranking[rune]
		for i, free := range test.free {
			r.Add(rune('a'+i), float64(-free))
		}
		var got []rune
		for r.Min() != nil && r.Min().Load() < 0 {
			got = append(got, r.Pick(1).Value)
		}
		if string(got) != test.want {
			t.Errorf("free %v: handed out to %q, want %q", test.free, string(got), test.want)
		}
	}
}

func TestEqualLoadsTakeTurns(t *testing.T) {
	var r Ranking[int]
	for i := range 3 {
		r.Add(i, 0)
	}
	for i := range 9 {
		m := r.Pick(10)
		r.Set(m, 0)
		if m.Value != i%3 {
			t.Fatalf("pick %d took member %d, want %d", i, m.Value, i%3)
		}
	}
}

func TestNewcomersStandBehindTheirEquals(t *testing.T) {
	var r Ranking[string]
	r.Add("first", 1)
	second := r.Add("second", 1)
	if r.Remove(r.Min()); r.Min() != second {
		t.Fatalf("after the first left, %q is first", r.Min().Value)
	}
	r.Add("first again", 1)
	if r.Min() != second {
		t.Fatalf("%q pushed in", r.Min().Value)
	}
}

func TestPickNTakesDistinctMembersInOrder(t *testing.T) {
	var r Ranking[int]
	for i, load := range []float64{5, 1, 3, 0, 2} {
		r.Add(i, load)
	}
	var got []int
	for _, m := range r.PickN(nil, 3, 10) {
		got = append(got, m.Value)
	}
	if want := []int{3, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("PickN(3) = %v, want %v", got, want)
	}
	if got := r.PickN(nil, 99, 0); len(got) != 5 {
		t.Errorf("PickN(99) of 5 took %d", len(got))
	}
	if got := r.PickN(nil, -1, 0); got != nil {
		t.Errorf("PickN(-1) = %v", got)
	}
}

func TestAnEmptyRankingAnswersNil(t *testing.T) {
	var r Ranking[int]
	if r.Min() != nil || r.Pick(1) != nil || r.PickN(nil, 1, 1) != nil || r.Len() != 0 {
		t.Error("an empty ranking found a member")
	}
}

func TestStrangersChangeNothing(t *testing.T) {
	var r, other Ranking[int]
	m := r.Add(1, 1)
	stranger := other.Add(2, 2)
	if r.Set(stranger, 9) || r.Remove(stranger) {
		t.Error("a member of another ranking was accepted")
	}
	if !r.Remove(m) || r.Remove(m) || r.Set(m, 9) {
		t.Error("a member must leave exactly once")
	}
	if stranger.Load() != 2 || m.Load() != 1 || other.Min() != stranger {
		t.Error("a refused call changed something")
	}
}

func TestNaNIsRefusedBeforeAnythingChanges(t *testing.T) {
	nan := math.NaN()
	for name, call := range map[string]func(r *Ranking[int]){
		"Add":   func(r *Ranking[int]) { r.Add(7, nan) },
		"Set":   func(r *Ranking[int]) { r.Set(r.Min(), nan) },
		"Pick":  func(r *Ranking[int]) { r.Pick(nan) },
		"PickN": func(r *Ranking[int]) { r.PickN(nil, 2, nan) },
		"Inf−Inf": func(r *Ranking[int]) {
			r.Set(r.Add(7, 3), math.Inf(1))
			r.PickN(nil, 3, math.Inf(-1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Ranking[int]
			r.Add(0, 1)
			r.Add(1, 2)
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
				if r.Len() < 2 || r.heap[0].member.at != 0 || r.Min().Load() != 1 {
					t.Error("the ranking is damaged")
				}
			}()
			call(&r)
		})
	}
}

// naive is the definition: a list, sorted before every look.
type naive struct {
	members []naiveMember
	picks   int
}

type naiveMember struct {
	id, picked int
	load       float64
}

func (n *naive) sort() {
	slices.SortFunc(n.members, func(a, b naiveMember) int {
		if a.load != b.load {
			if a.load < b.load {
				return -1
			}
			return 1
		}
		return a.picked - b.picked
	})
}

func (n *naive) find(id int) *naiveMember {
	return &n.members[slices.IndexFunc(n.members, func(m naiveMember) bool { return m.id == id })]
}

// pick takes the first k, in order.
func (n *naive) pick(k int, add float64) (ids []int) {
	n.sort()
	for i := range min(k, len(n.members)) {
		n.picks++
		m := &n.members[i]
		m.picked, m.load = n.picks, m.load+add
		ids = append(ids, m.id)
	}
	n.sort()
	return ids
}

func TestEveryHistoryAgreesWithSorting(t *testing.T) { rapid.Check(t, agreesWithSorting) }

func FuzzEveryHistoryAgreesWithSorting(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(agreesWithSorting))
}

func agreesWithSorting(t *rapid.T) {
	var (
		r       Ranking[int]
		model   naive
		members []*Member[int]
		loads   = rapid.SampledFrom([]float64{0, 0, 1, 1, 2, 3.5, -1, 1e300, math.Inf(1)})
		some    = func(t *rapid.T) *Member[int] {
			if len(members) == 0 {
				t.Skip("nobody there")
			}
			return rapid.SampledFrom(members).Draw(t, "member")
		}
		next int
	)
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			load := loads.Draw(t, "load")
			members = append(members, r.Add(next, load))
			model.picks++
			model.members = append(model.members, naiveMember{next, model.picks, load})
			next++
		},
		"set": func(t *rapid.T) {
			m, load := some(t), loads.Draw(t, "load")
			r.Set(m, load)
			model.find(m.Value).load = load
		},
		"remove": func(t *rapid.T) {
			m := some(t)
			r.Remove(m)
			members = slices.DeleteFunc(members, func(o *Member[int]) bool { return o == m })
			model.members = slices.DeleteFunc(model.members, func(o naiveMember) bool {
				return o.id == m.Value
			})
		},
		"pick": func(t *rapid.T) {
			add := rapid.Float64Range(0, 3).Draw(t, "add")
			m, want := r.Pick(add), model.pick(1, add)
			if (m == nil) != (want == nil) || m != nil && m.Value != want[0] {
				t.Fatalf("picked %v, want %v", m, want)
			}
		},
		"pick some": func(t *rapid.T) {
			k, add := rapid.IntRange(0, 5).Draw(t, "k"), rapid.Float64Range(0, 3).Draw(t, "add")
			var got []int
			for _, m := range r.PickN(nil, k, add) {
				got = append(got, m.Value)
			}
			if want := model.pick(k, add); !slices.Equal(got, want) {
				t.Fatalf("picked %v, want %v", got, want)
			}
		},
		"": func(t *rapid.T) {
			model.sort()
			if r.Len() != len(model.members) {
				t.Fatalf("Len() = %d, want %d", r.Len(), len(model.members))
			}
			if m := r.Min(); m != nil &&
				(m.Value != model.members[0].id || m.Load() != model.members[0].load) {
				t.Fatalf("Min() = %d with %g, want %+v", m.Value, m.Load(), model.members[0])
			}
		},
	})
}

func TestChangesDoNotAllocate(t *testing.T) {
	var r Ranking[int]
	for i := range 100 {
		r.Add(i, 0)
	}
	if n := testing.AllocsPerRun(100, func() { r.Set(r.Pick(3), 1) }); n != 0 {
		t.Errorf("pick and set allocate %g times", n)
	}
	picked := make([]*Member[int], 0, 10)
	if n := testing.AllocsPerRun(100, func() { picked = r.PickN(picked[:0], 10, 1) }); n != 0 {
		t.Errorf("PickN into a buffer allocates %g times", n)
	}
}

// BenchmarkPick takes the least loaded of n members whose loads spread over a range of a hundred.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{8, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var r Ranking[int]
			for i := range n {
				r.Add(i, float64(i*37%100))
			}
			b.ReportAllocs()
			for b.Loop() {
				r.Pick(100)
			}
		})
	}
}

// BenchmarkPickAndGiveBack is a pool's turn: the load is added, and taken away from another one.
func BenchmarkPickAndGiveBack(b *testing.B) {
	for _, n := range []int{8, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var (
				r    Ranking[int]
				busy []*Member[int]
			)
			for i := range n {
				busy = append(busy, r.Add(i, float64(i*37%100)))
			}
			for i := 0; b.Loop(); i++ {
				m := busy[i%n]
				busy[i%n] = r.Pick(100)
				r.Set(m, max(m.Load()-100, 0))
			}
		})
	}
}
