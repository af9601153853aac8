package scheduler

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/story"
)

// walk lets anything go wrong, drawn from a seed, while the ledger sees whether two look after one
// key. Then the trouble ends, and all must come to rest.
func walk(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	h := newHouse(t, Config{StopGrace: 5 * time.Second})
	names := []string{"a", "b", "c", "d", "e"}
	h.add(20)
	for _, name := range names {
		h.startOne(name)
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
	var jumped time.Time
	alive := func() *node {
		list := slices.Sorted(maps.Keys(h.nodes))
		return h.nodes[list[rng.IntN(len(list))]]
	}
	for range 60 {
		n := alive()
		switch rng.IntN(15) {
		case 0:
			if !n.dead() {
				h.kill(n.name)
			}
		case 1:
			if !n.dead() {
				if rng.IntN(2) == 0 {
					n.door.Cut()
				} else {
					n.door.Restore()
				}
			}
		case 2:
			h.isolate(n.name, rng.IntN(2) == 0)
		case 3:
			n.Drain(t.Context(), n.name, "walk", rng.IntN(2) == 0)
		case 4:
			n.Undrain(t.Context(), n.name)
		case 5:
			h.add(rng.IntN(5))
		case 6:
			if h.mu.Lock(); len(h.keys) > 10 {
				h.keys = h.keys[:len(h.keys)-1]
			}
			h.mu.Unlock()
		case 7:
			h.mu.Lock()
			h.work = time.Duration(rng.IntN(5)) * time.Second
			h.mu.Unlock()
		case 8:
			if time.Since(jumped) > 5*time.Second {
				h.mu.Lock()
				h.ahead += time.Duration(rng.IntN(80)-40) * time.Second
				h.mu.Unlock()
				jumped = time.Now()
			}
		case 12:
			h.mu.Lock()
			key := h.keys[rng.IntN(len(h.keys))]
			h.mu.Unlock()
			n.Assign(t.Context(), Assignment{
				Kind: "key", Key: key, Node: names[rng.IntN(len(names))],
				For: time.Duration(1+rng.IntN(30)) * time.Second, Force: rng.IntN(2) == 0,
			})
		case 13:
			n.Shed(t.Context(), Shedding{Node: n.name, Count: rng.IntN(4), Force: rng.IntN(2) == 0})
		case 14:
			n.SetRebalance(t.Context(), []string{"auto", "manual"}[rng.IntN(2)])
		case 9:
			luck := rand.New(rand.NewPCG(seed, uint64(h.starts)))
			var mu sync.Mutex
			n.door.Fail(func(string) fault.Fault {
				mu.Lock()
				defer mu.Unlock()
				return []fault.Fault{fault.Before, fault.After, 0, 0, 0, 0}[luck.IntN(6)]
			})
		default:
			h.revive(names[rng.IntN(len(names))])
		}
		time.Sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
	}
	h.mu.Lock()
	clear(h.cut)
	h.work = 0
	h.mu.Unlock()
	for _, name := range names {
		if n := h.nodes[name]; n != nil && !n.dead() {
			n.door.Restore()
			n.door.Fail(nil)
		}
	}
	time.Sleep(25 * time.Second)
	for _, name := range names {
		h.revive(name)
		if err := h.nodes[name].Undrain(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if err := h.nodes["a"].SetRebalance(t.Context(), "auto"); err != nil {
		t.Error(err)
	}
	time.Sleep(15 * time.Second)
	if n, longest := h.unowned(); longest > 5*time.Second {
		// a key on its way to another is nobody's for a beat
		t.Errorf("15 s after all trouble ended %d keys have no owner, one for %v", n, longest)
	}
	time.Sleep(3 * time.Minute)
	if h.wantNothingUnowned("in the end"); h.spread() > 1 {
		t.Errorf("in the end: %v", h.owned())
	}
}

// revive starts a node again that is dead or has stopped because it was taken for dead.
func (h *house) revive(name string) {
	n := h.nodes[name]
	if n != nil && !n.dead() {
		select {
		case err := <-n.done:
			if !errors.Is(err, store.ErrBroken) {
				h.t.Errorf("run of %s: %v", name, err)
			}
		default:
			return
		}
	}
	if n != nil && n.dead() {
		<-n.done
	}
	h.mu.Lock()
	delete(h.nodes, name)
	maps.DeleteFunc(h.cut, func(pair [2]string, _ bool) bool { return pair[1] == name })
	h.mu.Unlock()
	h.startOne(name)
}

func TestWhateverGoesWrongNoKeyHasTwoOwnersAndAllComesToRest(t *testing.T) {
	for seed := range uint64(story.Often(30, 5)) {
		synctest.Test(t, func(t *testing.T) { walk(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
