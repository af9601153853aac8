package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/task"
)

func TestLevelGivesToWhoeverHasTheMostRoom(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 0))
	for range 2000 {
		list := make([]store.Share, 1+luck.IntN(5))
		for i := range list {
			list[i].Tasks = luck.IntN(8)
		}
		n := luck.IntN(20)
		want := make([]int, len(list)) // one by one
		room := slices.Clone(list)
		for range n {
			best := 0
			for i := range room {
				if room[i].Tasks > room[best].Tasks {
					best = i
				}
			}
			if room[best].Tasks > 0 {
				room[best].Tasks--
				want[best]++
			}
		}
		given := slices.Clone(list)
		level(given, n)
		for i := range given {
			if given[i].Tasks != want[i] {
				t.Fatalf("%d tasks for rooms %v: %v, want %v", n, list, given, want)
			}
		}
	}
}

// linked is a store whose submissions tell the other nodes, as a database does that notifies.
type linked struct {
	contract.Store
	node string
	road *road
}

// road is between the nodes; it loses what it is told to lose.
type road struct {
	houses map[string]*house

	mu   sync.Mutex
	lost func(to string) bool // guarded by mu
}

func (l *linked) Submit(ctx context.Context, s store.Submission) (store.Submitted, error) {
	got, err := l.Store.Submit(ctx, s)
	for _, sp := range got.Spans {
		if sp.Token == 0 && sp.Due <= got.Now {
			l.road.tell(l.node, func(d *Dispatcher) {
				d.HearOffer(store.Offer{Queue: sp.Queue, Rank: sp.Rank, Shares: s.Shares})
			})
			break
		}
	}
	return got, err
}

func (l *linked) Give(ctx context.Context, g store.GiveRequest) error {
	err := l.Store.Give(ctx, g)
	l.road.tell(l.node, func(d *Dispatcher) { d.Hear("", nil) })
	return err
}

func (l *linked) GiveRest(ctx context.Context, r store.RestRequest) ([]bool, error) {
	given, err := l.Store.GiveRest(ctx, r)
	l.road.tell(l.node, func(d *Dispatcher) { d.Hear("", nil) })
	return given, err
}

func (l *linked) Settle(ctx context.Context, s store.Settlement) (store.Settled, error) {
	got, err := l.Store.Settle(ctx, s)
	var ids []task.ID
	for i := range s.Reports {
		ids = append(ids, s.Reports[i].ID)
	}
	if len(ids) > 0 {
		l.road.tell(l.node, func(d *Dispatcher) { d.Hear("", ids) })
	}
	return got, err
}

func (r *road) tell(from string, hear func(*Dispatcher)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, h := range r.houses {
		if name != from && !r.lost(name) {
			go func() {
				time.Sleep(time.Millisecond)
				hear(h.d)
			}()
		}
	}
}

// lose changes what is lost from now on.
func (r *road) lose(lost func(to string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = lost
}

// linkedTown is three nodes that hear each other.
func linkedTown(t *testing.T, story func(t *testing.T, r *road)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model := model.New(time.Now)
		r := &road{houses: map[string]*house{}, lost: func(string) bool { return false }}
		for _, name := range []string{"a", "b", "c"} {
			h := openAs(t, &linked{model, name, r}, name, func(c *Config) {
				c.Look = time.Second
				c.Announce = func(queues map[string]int) {
					r.tell(name, func(d *Dispatcher) { d.HearRoom(name, queues) })
				}
			})
			r.mu.Lock()
			r.houses[name] = h
			r.mu.Unlock()
		}
		story(t, r)
		for _, h := range r.houses {
			h.close()
		}
		time.Sleep(10 * time.Millisecond) // hints that are on their way
	})
}

// starts collects when tasks were begun, by node.
type starts struct {
	mu sync.Mutex
	at map[string][]time.Time
}

// waits lets a worker of a capacity wait at a node until ctx ends; it never finishes anything.
func (s *starts) waits(ctx context.Context, h *house, capacity int) {
	node := h.d.conf.Holder.Node
	h.beat("w"+node, "1", float64(capacity))
	for ctx.Err() == nil {
		a, err := h.d.Hold(ctx, task.HoldRequest{
			Worker: "w" + node, Incarnation: "1", Queues: []string{"q"}, Limit: capacity,
			Wait: 4 * time.Second,
		})
		if err != nil {
			return
		}
		s.mu.Lock()
		for range a.Tasks {
			s.at[node] = append(s.at[node], time.Now())
		}
		s.mu.Unlock()
	}
}

func TestTasksGoAtOnceToTheNodesWhoseWorkersWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity map[string]int
		submit   []int
		want     map[string]int
	}{
		{"six at once", map[string]int{"a": 4, "b": 4, "c": 4}, []int{6}, map[string]int{
			"a": 2, "b": 2, "c": 2,
		}},
		{"six, one after the other", map[string]int{"a": 4, "b": 4, "c": 4},
			[]int{1, 1, 1, 1, 1, 1}, map[string]int{"a": 2, "b": 2, "c": 2}},
		{"the workers wait at other nodes", map[string]int{"b": 4, "c": 4}, []int{6},
			map[string]int{"b": 3, "c": 3}},
		{"one has more room", map[string]int{"a": 1, "b": 8, "c": 4}, []int{6}, map[string]int{
			"b": 5, "c": 1,
		}},
		{"a burst larger than all", map[string]int{"a": 4, "b": 4, "c": 4}, []int{100},
			map[string]int{"a": 4, "b": 4, "c": 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			linkedTown(t, func(t *testing.T, r *road) {
				ctx, stop := context.WithCancel(t.Context())
				var crew sync.WaitGroup
				s := &starts{at: map[string][]time.Time{}}
				for node, n := range c.capacity {
					crew.Go(func() { s.waits(ctx, r.houses[node], n) })
				}
				time.Sleep(2500 * time.Millisecond)
				for _, n := range c.submit {
					r.houses["a"].many(n)
					time.Sleep(5 * time.Millisecond)
				}
				s.mu.Lock()
				for _, node := range []string{"a", "b", "c"} {
					if n := len(s.at[node]); n != c.want[node] {
						t.Errorf("%d tasks began at %s within 5 ms, want %d", n, node, c.want[node])
					}
				}
				s.mu.Unlock()
				stop()
				crew.Wait()
			})
		})
	}
}

func TestTasksWhoseOfferIsLostBeginWithinABeat(t *testing.T) {
	linkedTown(t, func(t *testing.T, r *road) {
		ctx, stop := context.WithCancel(t.Context())
		var crew sync.WaitGroup
		s := &starts{at: map[string][]time.Time{}}
		for _, node := range []string{"b", "c"} {
			crew.Go(func() { s.waits(ctx, r.houses[node], 8) })
		}
		time.Sleep(2500 * time.Millisecond)
		r.lose(func(string) bool { return true })
		r.houses["a"].many(6)
		time.Sleep(1100 * time.Millisecond)
		s.mu.Lock()
		if n := len(s.at["b"]) + len(s.at["c"]); n != 6 {
			t.Errorf("%d tasks began within a beat, want 6", n)
		}
		s.mu.Unlock()
		r.lose(func(to string) bool { return to == "b" }) // its share is taken by the other one
		r.houses["a"].many(2)
		time.Sleep(200 * time.Millisecond)
		s.mu.Lock()
		if n := len(s.at["b"]) + len(s.at["c"]); n != 8 {
			t.Errorf("%d tasks began, want 8: %s", n, fmt.Sprint(s.at))
		}
		s.mu.Unlock()
		stop()
		crew.Wait()
	})
}

func TestWhatNobodyHereHasRoomForGoesToWorkersThatWaitElsewhere(t *testing.T) {
	linkedTown(t, func(t *testing.T, r *road) {
		a := r.houses["a"]
		a.many(3)
		x := a.hold("wa", 3)
		if len(x) != 3 {
			t.Fatalf("held %d tasks, want 3", len(x))
		}
		ctx, stop := context.WithCancel(t.Context())
		var crew sync.WaitGroup
		s := &starts{at: map[string][]time.Time{}}
		crew.Go(func() { s.waits(ctx, r.houses["b"], 4) })
		time.Sleep(2500 * time.Millisecond)
		a.report("wa", x[0], task.Next("second", nil), task.Recorded)
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		if n := len(s.at["b"]); n != 1 {
			t.Errorf("%d tasks began at b, want 1", n)
		}
		s.mu.Unlock()
		for _, h := range x[1:] { // they went along, and are its worker's all the same
			a.report("wa", h, task.Finish(nil), task.Recorded)
		}
		stop()
		crew.Wait()
	})
}

// What is ready here goes as soon as a room elsewhere is heard of, not with the next round.
func TestWhatNobodyHereHasRoomForGoesWhenARoomElsewhereIsHeardOf(t *testing.T) {
	linkedTown(t, func(t *testing.T, r *road) {
		a := r.houses["a"]
		a.many(1)
		x := a.one("wa")
		time.Sleep(1500 * time.Millisecond) // between two rounds
		a.report("wa", x, task.Next("second", nil), task.Recorded)
		held := func() int {
			spans, err := a.store.Held(a.ctx, a.d.conf.Holder, nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(spans)
		}
		if n := held(); n != 1 {
			t.Fatalf("a holds %d spans, want 1", n)
		}
		a.d.HearRoom("b", map[string]int{"q": 1})
		synctest.Wait()
		if n := held(); n != 0 {
			t.Errorf("a holds %d spans still", n)
		}
		if got := r.houses["b"].one("wb"); got.ID != x.ID {
			t.Errorf("b hands out %+v", got)
		}
	})
}

// A worker that waits with all the room it had when it asked has room for more once it finished
// something; one that asked for less wants no more.
func TestRoomIsWhatTheWaitingWorkersHaveNow(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit, want int
	}{
		{"all it had room for", 2, 4},
		{"less", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			linkedTown(t, func(t *testing.T, r *road) {
				b := r.houses["b"]
				b.beat("wb", "1", 4)
				b.many(2)
				x := b.hold("wb", 2)
				ctx, stop := context.WithCancel(t.Context())
				var waits sync.WaitGroup
				waits.Go(func() {
					_, err := b.d.Hold(ctx, task.HoldRequest{
						Worker: "wb", Incarnation: "1", Queues: []string{"q"}, Limit: c.limit,
						Wait: time.Minute,
					})
					if err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				for _, h := range x {
					b.report("wb", h, task.Finish(nil), task.Recorded)
				}
				time.Sleep(1500 * time.Millisecond)
				if n := r.houses["a"].d.RoomElsewhere("q"); n != c.want {
					t.Errorf("the room elsewhere is %d, want %d", n, c.want)
				}
				stop()
				waits.Wait()
			})
		})
	}
}

// Who shares tasks out counts the room that it offered them to as taken. That of a worker which has
// finished them by the next round is heard of again, though it is what it was.
func TestRoomThatWasOfferedIsAnnouncedAgain(t *testing.T) {
	linkedTown(t, func(t *testing.T, r *road) {
		ctx, stop := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		waits.Go(func() { r.houses["b"].works(ctx) })
		time.Sleep(2500 * time.Millisecond)
		a := r.houses["a"].d
		if n := a.RoomElsewhere("q"); n != 4 {
			t.Fatalf("the room elsewhere is %d, want 4", n)
		}
		r.houses["a"].many(3)
		if n := a.RoomElsewhere("q"); n != 1 {
			t.Errorf("the room elsewhere is %d after 3 were offered, want 1", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := a.RoomElsewhere("q"); n != 4 {
			t.Errorf("the room elsewhere is %d a round later, want 4", n)
		}
		stop()
		waits.Wait()
	})
}

// works lets a worker of 4 at the house finish what it gets at once, until ctx ends.
func (h *house) works(ctx context.Context) {
	h.beat("w", "1", 4)
	for ctx.Err() == nil {
		a, err := h.d.Hold(ctx, task.HoldRequest{
			Worker: "w", Incarnation: "1", Queues: []string{"q"}, Limit: 4, Wait: time.Minute,
		})
		if err != nil {
			return
		}
		for _, x := range a.Tasks {
			h.report("w", x, task.Finish(nil), task.Recorded)
		}
	}
}
