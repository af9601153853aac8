package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// lanesTest is a memory with one queue that goes by keys.
type lanesTest struct {
	*testing.T
	m     *memory
	q     *queue
	rand  *rand.Rand
	spans int64
	pairs map[[2]string]*stretch
}

// stretch is a time in which two keys both have ready work that may go out.
type stretch struct {
	ahead, least, most int // how many more hand-outs the first has had, and how far that went
	back               int // hand-outs of the two that were taken back
}

func newLanesTest(t *testing.T, seed uint64, conf task.Queue) *lanesTest {
	m := newMemory(policy{
		Holder: store.Holder{Node: "n", Token: 1}, Beat: time.Second, Ahead: 100,
		AheadBytes: 1 << 20,
	}, seal.NewSealer(seal.Secret{}))
	q := m.queue("q")
	conf.Name = "q"
	q.setConf(conf)
	return &lanesTest{
		T: t, m: m, q: q, rand: rand.New(rand.NewPCG(seed, 0)), pairs: map[[2]string]*stretch{},
	}
}

// span takes a span of a key into memory.
func (t *lanesTest) span(key string, rank int64, n int) {
	t.spans++
	hs := &store.HeldSpan{Span: store.Span{
		ID: t.spans, Token: 1, Batch: t.spans, Hi: int32(n) - 1, Queue: "q", Rank: rank, Due: rank,
		Key: key, Sorted: true,
	}}
	for i := range n {
		l := store.Loaded{
			N: int32(i), ContextSeq: -1, Context: make(store.Value, t.rand.IntN(9)),
		}
		if t.rand.IntN(4) == 0 {
			l.MaxAttempts = 3
		}
		hs.Tasks = append(hs.Tasks, l)
	}
	t.m.loadSpan(t.q, hs, 0, time.Time{})
}

// mixed takes a span with tasks of several keys into memory.
func (t *lanesTest) mixed(rank int64, keys ...string) {
	t.spans++
	hs := &store.HeldSpan{Span: store.Span{
		ID: t.spans, Token: 1, Batch: t.spans, Hi: int32(len(keys)) - 1, Queue: "q", Rank: rank,
		Due: rank,
	}, Keys: keys}
	for i := range keys {
		l := store.Loaded{
			N: int32(i), ContextSeq: -1, Context: make(store.Value, t.rand.IntN(9)),
		}
		if t.rand.IntN(4) == 0 {
			l.MaxAttempts = 3
		}
		hs.Tasks = append(hs.Tasks, l)
	}
	t.m.loadSpan(t.q, hs, 0, time.Time{})
}

// ready are the tasks that are ready, by key, each key's in the order in which they are to go out.
func (t *lanesTest) ready() map[string][]spot {
	keys := map[string][]spot{}
	for _, sp := range t.m.spans {
		for s := range sp.live() {
			if s.place() == ready {
				keys[s.key()] = append(keys[s.key()], s)
			}
		}
	}
	for _, list := range keys {
		slices.SortFunc(list, byRank)
	}
	return keys
}

func byRank(a, b spot) int {
	return cmp.Or(cmp.Compare(a.span.Rank, b.span.Rank), a.id().Compare(b.id()))
}

// open are the keys that have ready work that may go out, in order.
func (t *lanesTest) open(ready map[string][]spot) (keys []string) {
	for key := range ready {
		if t.q.ready.lanes.by[key].room > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// watch begins the stretches of all pairs of open keys, and ends others.
func (t *lanesTest) watch(open []string) {
	now := map[[2]string]*stretch{}
	for i, a := range open {
		for _, b := range open[i+1:] {
			pair := [2]string{a, b}
			if now[pair] = t.pairs[pair]; now[pair] == nil {
				now[pair] = &stretch{}
			}
		}
	}
	t.pairs = now
}

// went notes that a key had a hand-out, or had one taken back.
func (t *lanesTest) went(key string, n int) {
	for pair, s := range t.pairs {
		if key != pair[0] && key != pair[1] {
			continue
		}
		if n < 0 {
			s.back++
		}
		if key == pair[0] {
			s.ahead += n
		} else {
			s.ahead -= n
		}
		s.least, s.most = min(s.least, s.ahead), max(s.most, s.ahead)
		if t.q.conf.Fair && s.most-s.least > 1+s.back {
			t.Fatalf("%v: one had %d more than the other, %d were taken back", pair,
				s.most-s.least, s.back)
		}
	}
}

// Whatever comes, leaves and is shut: what goes out is of an open lane, and the first by rank in
// it; by rank of all, or in turns. Each key that has ready work has a lane, and what is counted is
// so.
func TestLanesGiveEachKeyItsTurn(t *testing.T) {
	for seed := range uint64(story.Often(300, 20)) {
		for _, conf := range []task.Queue{
			{PerKey: task.KeyLimits{MaxRunning: 3}},
			{Fair: true},
			{Fair: true, PerKey: task.KeyLimits{MaxRunning: 3}},
		} {
			name := fmt.Sprintf("seed %d, fair %v, %d of a key", seed, conf.Fair,
				conf.PerKey.MaxRunning)
			l := newLanesTest(t, seed, conf)
			for range 150 {
				l.step(name)
				sound(t, l.m)
				if t.Failed() {
					t.Fatal(name)
				}
			}
		}
	}
}

func (t *lanesTest) step(name string) {
	ls, all := t.q.ready.lanes, t.ready()
	n, usable := 0, 0
	for key, list := range all {
		n += len(list)
		if ls.by[key] == nil {
			t.Fatalf("%s: %d tasks of %q have no lane", name, len(list), key)
		}
		usable += min(len(list), max(ls.by[key].room, 0))
	}
	if t.q.ready.count() < n || t.q.ready.usable() < usable {
		t.Fatalf("%s: %d ready, %d usable; counted %d, %d", name, n, usable, t.q.ready.count(),
			t.q.ready.usable())
	}
	open := t.open(all)
	t.watch(open)
	any := func() spot {
		keys := slices.Sorted(maps.Keys(all))
		list := all[keys[t.rand.IntN(len(keys))]]
		return list[t.rand.IntN(len(list))]
	}
	switch what := t.rand.IntN(12); {
	case what == 0 && ls.mixes():
		keys := make([]string, 1+t.rand.IntN(6))
		for i := range keys {
			keys[i] = []string{"", "a", "b", "c", "d"}[t.rand.IntN(5)]
		}
		t.mixed(int64(t.rand.IntN(5)), keys...)
	case what < 2 || n == 0:
		t.span([]string{"", "a", "b", "c", "d"}[t.rand.IntN(5)], int64(t.rand.IntN(5)),
			1+t.rand.IntN(6))
	case what == 2:
		any().item()
	case what == 3:
		any().item().forget()
	case what == 4:
		any().span.drop()
	case what == 5:
		for _, key := range slices.Sorted(maps.Keys(ls.by)) {
			if ls.limits(key) && t.rand.IntN(2) == 0 {
				ls.setRoom(ls.by[key], t.rand.IntN(4), 0)
			}
		}
	case what == 6:
		ls.tidy()
		if len(ls.by) != len(all) {
			t.Fatalf("%s: %d keys have ready tasks, %d have lanes", name, len(all), len(ls.by))
		}
	default:
		t.popOne(name, all, open)
	}
}

// popOne hands out what is next, if anything may, and now and then takes it back.
func (t *lanesTest) popOne(name string, all map[string][]spot, open []string) {
	e := t.q.ready.first()
	if len(open) == 0 {
		if e != nil {
			t.Fatalf("%s: %v is next though nothing is open", name, e.id)
		}
		return
	}
	first := e.id
	key, _ := e.span.keyOf(first.N)
	l := t.q.ready.lanes.by[key]
	room := l.room
	s := t.q.ready.pop()
	if limited := t.q.ready.lanes.limits(key); limited && l.room != room-1 ||
		!limited && l.room != room {
		t.Fatalf("%s: %q had room for %d, and has for %d", name, key, room, l.room)
	}
	if s.id() != first || !slices.Contains(open, key) || all[key][0] != s {
		t.Fatalf("%s: %v of %q went out, %v was first, of %q open", name, s.id(), key, first, open)
	}
	for _, other := range open {
		if !t.q.conf.Fair && byRank(all[other][0], s) < 0 {
			t.Fatalf("%s: %v of %q went out before %v", name, s.id(), key, all[other][0].id())
		}
	}
	t.went(key, 1)
	if s.cell.item == nil && t.rand.IntN(2) == 0 {
		s.cell.place = out // as a plain task that is settled at once
		s.span.idle--
		s.forget()
		return
	}
	it := s.cell.item
	if it == nil {
		it = s.span.newItem(s.cell.n, s.cell.stage, s.cell.context)
		s.become(it)
	}
	it.turn = t.q.ready.turn()
	if t.rand.IntN(4) > 0 {
		it.place = settling
		it.span.idle--
		it.forget()
		return
	}
	it.addRoom(1)
	it.span.under--
	it.enqueue()
	t.q.ready.giveBack(it)
	t.went(key, -1)
	e = t.q.ready.first()
	if e == nil {
		t.Fatalf("%s: %q had its turn, which came to nothing, and nothing is next", name, key)
	}
	if next, _ := e.span.keyOf(e.id.N); next != key {
		t.Fatalf("%s: %q had its turn, which came to nothing, and %q is next", name, key, next)
	}
}

func TestAKeyThatIsNewWaitsForOneTurn(t *testing.T) {
	l := newLanesTest(t, 1, task.Queue{Fair: true})
	l.span("large", 1, 1000)
	l.span("other", 1, 1000)
	for range 20 {
		l.q.ready.pop()
	}
	l.span("small", 2, 10)
	var got []string
	for range 30 {
		got = append(got, l.q.ready.pop().span.Key)
	}
	for i, want := range slices.Repeat([]string{"large", "other", "small"}, 10) {
		if got[i] != want {
			t.Fatalf("%q", got)
		}
	}
	if ls := l.q.ready.lanes; len(ls.by) != 2 {
		t.Errorf("%d keys have lanes", len(ls.by))
	}
}

// A hand-out that is held back gives its part of the turn back, the first of a turn as well as the
// last, so that keys have as much of each turn as they weigh.
func TestWhatIsHeldBackGivesItsPartOfTheTurnBack(t *testing.T) {
	l := newLanesTest(t, 1, task.Queue{Fair: true})
	l.q.ready.lanes.weights["b"] = 3
	l.span("a", 1, 100)
	l.span("b", 1, 100)
	order := ""
	for i := range 160 {
		s := l.q.ready.pop()
		it := s.cell.item
		if it == nil {
			it = s.span.newItem(s.cell.n, s.cell.stage, s.cell.context)
			s.become(it)
		}
		it.turn = l.q.ready.turn()
		if i%5 < 2 { // one after another comes to be held back
			it.span.under--
			it.enqueue()
			l.q.ready.giveBack(it)
			continue
		}
		it.place = settling
		it.span.idle--
		it.forget()
		order += s.span.Key
	}
	for i := range len(order) - 4 {
		if n := strings.Count(order[i:i+4], "a"); n != 1 {
			t.Fatalf("%d of a in %s at %d of %s", n, order[i:i+4], i, order)
		}
	}
}
