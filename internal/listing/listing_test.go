package listing_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotahq/rota/internal/listing"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// shelf is a store in memory: tasks by id, newest first, and whether the filter selects each.
type shelf struct {
	ids     []task.ID
	chosen  map[task.ID]bool
	certain bool // candidates are only those that are chosen
	cost    int
	calls   int
}

func (s *shelf) below(at task.ID) []task.ID {
	i := slices.IndexFunc(s.ids, func(id task.ID) bool { return id.Compare(at) < 0 })
	if i < 0 {
		return nil
	}
	return s.ids[i:]
}

func (s *shelf) Candidates(
	_ context.Context, below task.ID, size int,
) (c listing.Candidates, err error) {
	list := s.below(below)
	if len(list) < size {
		c.End = true
	}
	list = list[:min(size, len(list))]
	c.Cost = len(list)
	for _, id := range list {
		c.Floor = id
		if !s.certain || s.chosen[id] {
			c.IDs = append(c.IDs, id)
		}
	}
	s.cost += c.Cost
	s.calls++
	return c, nil
}

func (s *shelf) Views(_ context.Context, ids []task.ID) ([]task.View, error) {
	views := make([]task.View, len(ids))
	for i, id := range ids {
		if s.chosen[id] {
			views[i].ID = id
		}
	}
	s.cost += len(ids) * listing.Look
	return views, nil
}

// full is a shelf of n tasks, of which one in odds is chosen.
func full(luck *rand.Rand, n, odds int) *shelf {
	s := &shelf{chosen: map[task.ID]bool{}, certain: luck.IntN(2) == 0}
	for batch := int64(n); len(s.ids) < n; batch-- {
		for i := luck.IntN(5); i >= 0; i-- {
			id := task.ID{Batch: batch, N: int32(i)}
			s.ids = append(s.ids, id)
			s.chosen[id] = luck.IntN(odds) == 0
		}
	}
	return s
}

// follow lists all pages.
func follow(
	t *testing.T, r listing.Reader, limit, budget int, page func(list []task.View),
) (all []task.ID) {
	t.Helper()
	for at := listing.Top; ; {
		list, next, err := listing.Walk(t.Context(), r, at, limit, budget)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > limit {
			t.Fatalf("a page of %d has %d tasks", limit, len(list))
		}
		page(list)
		for _, v := range list {
			all = append(all, v.ID)
		}
		if next == (task.ID{}) {
			return all
		}
		if next.Compare(at) >= 0 {
			t.Fatalf("page at %v goes on at %v", at, next)
		}
		at = next
	}
}

func TestPagesListEachTaskOnceWhateverTheyMayCost(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s := full(luck, 1+luck.IntN(3000), 1+luck.IntN(200))
		var want []task.ID
		for _, id := range s.ids {
			if s.chosen[id] {
				want = append(want, id)
			}
		}
		limit, budget := 1+luck.IntN(150), 1+luck.IntN(5000)
		if got := follow(t, s, limit, budget, func([]task.View) {}); !slices.Equal(got, want) {
			t.Fatalf("pages of %d for %d rows list %d tasks, want %d", limit, budget, len(got),
				len(want))
		}
	}
}

func TestPageCostsWhatItMayAndOnePieceMore(t *testing.T) {
	const limit, examined, piece = 100, 2000, 1000 * listing.Compare
	luck := rand.New(rand.NewPCG(3, 4))
	for _, odds := range []int{1, 10, 1000, 1 << 30} {
		s := full(luck, 50_000, odds)
		follow(t, s, limit, examined, func(list []task.View) {
			most := examined + piece + (len(list)+limit+1)*(listing.Compare+listing.Look)
			if s.cost > most {
				t.Errorf("one in %d: a page cost %d rows, want at most %d", odds, s.cost, most)
			}
			s.cost = 0
		})
	}
}

func TestLongPageSearchesNoFurtherThanAShortOne(t *testing.T) {
	var cost []int
	for _, limit := range []int{100, 1000} {
		s := full(rand.New(rand.NewPCG(11, 12)), 100_000, 1<<30)
		s.certain = false
		if list, next, err := listing.Walk(t.Context(), s, listing.Top, limit,
			listing.Examined); err != nil || len(list) > 0 || next == (task.ID{}) {
			t.Fatalf("a page of %d has %d tasks and goes on at %v, %v", limit, len(list), next, err)
		}
		cost = append(cost, s.cost)
	}
	if cost[1] > cost[0]+1000 { // a piece
		t.Errorf("a page of 1000 that finds nothing cost %d rows, one of 100 %d", cost[1], cost[0])
	}
}

func TestPageOfAFilterThatSelectsAllIsFull(t *testing.T) {
	for _, limit := range []int{1, 100, 1000} {
		s := full(rand.New(rand.NewPCG(5, 6)), 10_000, 1)
		list, next, err := listing.Walk(t.Context(), s, listing.Top, limit,
			listing.Examined)
		if err != nil || len(list) != limit || next != list[limit-1].ID {
			t.Errorf("a page of %d has %d tasks and goes on at %v, %v", limit, len(list), next, err)
		}
	}
}

func TestLastPageThatIsJustFullIsTheLast(t *testing.T) {
	s := full(rand.New(rand.NewPCG(7, 8)), 50, 1)
	n := len(s.ids)
	_, next, err := listing.Walk(t.Context(), s, listing.Top, n,
		listing.Examined)
	if err != nil || next != (task.ID{}) {
		t.Errorf("goes on at %v, %v", next, err)
	}
}

func TestMergeGoesNoFurtherThanTheTableReadLeast(t *testing.T) {
	id := func(batch int64) task.ID { return task.ID{Batch: batch} }
	got := listing.Merge([]task.ID{id(3), id(8)},
		listing.Candidates{IDs: []task.ID{id(9), id(6), id(5)}, Floor: id(5), Cost: 10},
		listing.Candidates{IDs: []task.ID{id(8), id(2)}, End: true, Cost: 2})
	if want := []task.ID{id(9), id(8), id(6), id(5)}; !slices.Equal(got.IDs, want) ||
		got.Floor != id(5) || got.End || got.Cost != 12 {
		t.Errorf("got %+v, want %v", got, want)
	}
}

// Stretches that overlap, batches of all widths, windows of some rows: what is read is what there
// is, once, in order.
func TestStretchesReadEachPlaceOnce(t *testing.T) {
	luck := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		var all []listing.Stretch
		want := map[task.ID]bool{}
		for batch := int64(1); batch <= int64(1+luck.IntN(40)); batch++ {
			for range luck.IntN(4) {
				lo := int32(luck.IntN(300))
				s := listing.Stretch{
					Batch: batch, Lo: lo, Hi: lo + int32(luck.IntN(1+luck.IntN(300))),
				}
				all = append(all, s)
				for n := s.Lo; n <= s.Hi; n++ {
					want[task.ID{Batch: batch, N: n}] = true
				}
			}
		}
		r := &stretched{t: t}
		r.Load = func(_ context.Context, bound int64, size int) (w listing.Window, err error) {
			list := slices.Clone(all)
			slices.SortFunc(list, func(a, b listing.Stretch) int { return int(b.Batch - a.Batch) })
			for _, s := range list {
				if s.Batch >= bound || w.Cost >= max(size/10, 1) && s.Batch != w.Floor {
					continue
				}
				w.Stretches = append(w.Stretches, s)
				w.Floor = s.Batch
				w.Cost++
			}
			w.Stretches = listing.Apart(w.Stretches)
			w.End = w.Cost < max(size/10, 1)
			return w, nil
		}
		got := follow(t, r, 1+luck.IntN(120), 1+luck.IntN(2000), func([]task.View) { r.fresh() })
		if len(got) != len(want) || !slices.IsSortedFunc(got, func(a, b task.ID) int {
			return b.Compare(a)
		}) {
			t.Fatalf("got %d places, want %d, of %v", len(got), len(want), all)
		}
		for _, id := range got {
			if !want[id] {
				t.Fatalf("got %v, which is in no stretch", id)
			}
		}
	}
}

// stretched is a reader of stretches in which every place is a task.
type stretched struct {
	t *testing.T
	listing.Stretches
}

// fresh is what a new page begins with.
func (r *stretched) fresh() { r.Stretches = listing.Stretches{Load: r.Load, Read: r.read} }

func (r *stretched) read(
	_ context.Context, list []listing.Stretch, size int,
) (c listing.Candidates, err error) {
	for i, s := range list {
		if i > 0 && c.Cost >= size {
			r.t.Errorf("stretches with more than %d places between them before the last: %v", size,
				list)
		}
		for n := s.Hi; n >= s.Lo && (i < len(list)-1 || int(s.Hi-n) < size); n-- {
			c.Floor = task.ID{Batch: s.Batch, N: n}
			c.IDs = append(c.IDs, c.Floor)
			c.Cost++
		}
	}
	return c, nil
}

func (r *stretched) Candidates(
	ctx context.Context, below task.ID, size int,
) (listing.Candidates, error) {
	if r.Read == nil {
		r.fresh()
	}
	return r.Stretches.Candidates(ctx, below, size)
}

func (r *stretched) Views(_ context.Context, ids []task.ID) ([]task.View, error) {
	views := make([]task.View, len(ids))
	for i, id := range ids {
		views[i].ID = id
	}
	return views, nil
}

func TestTimesOfAFilterBoundTheWalk(t *testing.T) {
	const hour = 3_600_000_000
	const created = 1_800_000_000_000_000
	for _, set := range []struct {
		idTime int64
		in     bool
	}{{created, true}, {created + hour, true}} {
		batch := store.BatchID(set.idTime, 1023)
		f := store.Filter{Since: created, Until: created + 1}
		from := listing.From(f, task.ID{})
		if (task.ID{Batch: batch}).Compare(from) >= 0 || batch < listing.Bottom(f) {
			t.Errorf(
				"a batch of %d µs after its creation is outside of the walk from %v down to %d",
				set.idTime-created, from, listing.Bottom(f),
			)
		}
	}
	if after := (task.ID{Batch: 5, N: 3}); listing.From(store.Filter{Until: created},
		after) != after {
		t.Error("a walk that is further does not go on where it was")
	}
}
