package dispatch

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/seal"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// crowd is a memory with one queue, filled with spans of many shapes.
type crowd struct {
	m     *memory
	q     *queue
	rand  *rand.Rand
	spans int64
}

func newCrowd(seed uint64) *crowd {
	m := newMemory(policy{Holder: store.Holder{Node: "n", Token: 1}, Beat: time.Second},
		seal.NewSealer(seal.Secret{}))
	return &crowd{m: m, q: m.queue("q"), rand: rand.New(rand.NewPCG(seed, 0))}
}

// span takes a span of a batch into memory, with some of its tasks, some of them tried before.
func (c *crowd) span(batch, rank int64, lo, hi int32) {
	c.spans++
	hs := &store.HeldSpan{Span: store.Span{
		ID: c.spans, Token: 1, Batch: batch, Lo: lo, Hi: hi, Queue: "q", Rank: rank, Due: rank,
	}}
	for n := lo; n <= hi; n++ {
		if c.rand.IntN(4) == 0 && lo < hi {
			continue
		}
		l := store.Loaded{N: n, ContextSeq: -1, Context: make(store.Value, c.rand.IntN(9))}
		if c.rand.IntN(5) == 0 {
			l.MaxAttempts = 3
		}
		hs.Tasks = append(hs.Tasks, l)
	}
	c.m.loadSpan(c.q, hs, 0, time.Time{})
}

// ready are the tasks that are ready, in the order in which they are to go out, and the weight of
// their contexts.
func (c *crowd) ready() (ids []task.ID, bytes int64) {
	ranks := map[task.ID]int64{}
	for _, sp := range c.m.spans {
		for s := range sp.live() {
			if s.place() != ready {
				continue
			}
			ids = append(ids, s.id())
			ranks[s.id()] = sp.Rank
			if it := s.cell.item; it != nil {
				bytes += int64(len(it.context))
			} else {
				bytes += int64(len(s.cell.context))
			}
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), a.Compare(b))
	})
	return ids, bytes
}

// Whatever left meanwhile, and however runs lie among each other, what comes out is the ready task
// of least rank, then id, and nothing comes twice. The heap knows how many tasks are ready.
func TestHeapGivesTasksByRankHoweverTheyLie(t *testing.T) {
	for seed := range uint64(story.Often(300, 20)) {
		c := newCrowd(seed)
		for i := range int64(1 + c.rand.IntN(4)) {
			rank := int64(c.rand.IntN(3))
			// several spans of one batch, at several ranks: what was given back has another
			for lo := int32(0); lo < 40; {
				hi := lo + int32(c.rand.IntN(12))
				c.span(10+i, rank+int64(c.rand.IntN(2)), lo, hi)
				lo = hi + 1
			}
		}
		for {
			list, bytes := c.ready()
			if got := &c.q.ready.heap; got.count < len(list) || got.bytes < bytes {
				t.Fatalf("seed %d: %d of %d bytes are ready, and %d of %d are counted", seed,
					len(list), bytes, got.count, got.bytes)
			}
			if len(list) == 0 {
				e := c.q.ready.first()
				if e != nil || c.q.ready.count() != 0 || c.q.ready.bytes() != 0 {
					t.Fatalf("seed %d: the heap of nothing has %+v", seed, c.q.ready)
				}
				break
			}
			switch s := c.m.find(list[c.rand.IntN(len(list))]); c.rand.IntN(8) {
			case 0: // one of them becomes an item, where it is
				s.item()
			case 1:
				s.item().forget()
			case 2:
				s.span.drop()
			case 3: // it left, got another context, and is ready again
				it := s.item()
				it.context = make(store.Value, c.rand.IntN(9))
				c.q.ready.push(it)
			default:
				first := c.q.ready.first().id
				if got := c.q.ready.pop(); got.id() != list[0] || first != list[0] {
					t.Fatalf("seed %d: %v came before %v", seed, got.id(), list[0])
				} else if got.cell.item != nil {
					got.cell.item.place = out
				} else {
					got.cell.place = gone
				}
				continue
			}
		}
	}
}

// A task is found in the span in which it is live, wherever else it was.
func TestTasksAreFoundByTheirIDs(t *testing.T) {
	for seed := range uint64(200) {
		c := newCrowd(seed)
		for range 30 {
			batch, lo := int64(1+c.rand.IntN(3)), int32(c.rand.IntN(50))
			c.span(batch, 1, lo, lo+int32(c.rand.IntN(3)*c.rand.IntN(20)))
			if sp := c.m.spans[int64(1+c.rand.IntN(30))]; sp != nil && c.rand.IntN(4) == 0 {
				sp.drop()
			}
		}
		live := map[task.ID]spot{}
		for _, sp := range c.m.spans {
			for s := range sp.live() {
				if other, twice := live[s.id()]; twice {
					t.Fatalf("seed %d: %v is in span %d and in span %d", seed, s.id(),
						other.span.ID, sp.ID)
				}
				live[s.id()] = s
			}
		}
		if n := c.m.held(); n != len(live) {
			t.Fatalf("seed %d: %d tasks are held, of %d", seed, n, len(live))
		}
		for batch := range int64(5) {
			for n := range int32(100) {
				id := task.ID{Batch: batch, N: n}
				if got := c.m.find(id); got != live[id] {
					t.Fatalf("seed %d: %v is found in %+v, and is in %+v", seed, id, got, live[id])
				}
			}
		}
	}
}
