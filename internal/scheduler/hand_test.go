package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/balance"
	"github.com/rotahq/rota/internal/store"
)

// ownerOf is who looks after a key of the ledger, "" when nobody does.
func (h *house) ownerOf(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.owners[key]; n != nil {
		return n.name
	}
	return ""
}

// elsewhere is a key that a node does not have.
func (h *house) elsewhere(node string) string {
	for _, key := range h.keys {
		if owner := h.ownerOf(key); owner != "" && owner != node {
			return key
		}
	}
	h.t.Fatalf("%s has everything", node)
	return ""
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func handed(t *testing.T, keys int, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(keys)
		h.start("a", "b", "c")
		time.Sleep(90 * time.Second)
		h.told()
		test(h)
	})
}

func TestAssignedKeyMovesAfterItsWorkAndStays(t *testing.T) {
	handed(t, 9, func(h *house) {
		h.mu.Lock()
		h.work = 5 * time.Second
		h.mu.Unlock()
		key := h.elsewhere("b")
		from := h.ownerOf(key)
		h.must(h.nodes["a"].Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "b", By: "ada"}))
		time.Sleep(3 * time.Second)
		if got := h.ownerOf(key); got != from {
			t.Errorf("%s has it before %s is done with it", got, from)
		}
		time.Sleep(6 * time.Second)
		for range 10 { // whatever balance would do
			if got := h.ownerOf(key); got != "b" {
				t.Fatalf("%q has it", got)
			}
			time.Sleep(time.Minute)
		}
		if p := h.nodes["c"].Cluster().Pins["key/"+key]; p.Node != "b" || p.By != "ada" {
			t.Errorf("c says of it: %+v", p)
		}
		if s := h.spread(); s > 1 {
			t.Errorf("the others were not shared out evenly: %v", h.owned())
		}
		h.mu.Lock()
		h.ahead += time.Hour // now it is as any other
		h.mu.Unlock()
		time.Sleep(30 * time.Second)
		if pins := h.nodes["c"].Cluster().Pins; len(pins) > 0 {
			t.Errorf("after an hour: %v", pins)
		}
	})
}

func TestAssignedKeyIsOthersWhileItsNodeDoesNotWork(t *testing.T) {
	handed(t, 6, func(h *house) {
		key := h.elsewhere("c")
		h.must(h.nodes["a"].Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "c"}))
		time.Sleep(5 * time.Second)
		h.must(h.nodes["a"].Drain(h.t.Context(), "c", "ada", false))
		time.Sleep(5 * time.Second)
		if got := h.ownerOf(key); got == "c" || got == "" {
			t.Errorf("c is drained, and %q has it", got)
		}
		h.must(h.nodes["a"].Undrain(h.t.Context(), "c"))
		time.Sleep(5 * time.Second)
		if got := h.ownerOf(key); got != "c" {
			t.Errorf("c works again, and %q has it", got)
		}
		h.kill("c")
		time.Sleep(15 * time.Second)
		if got := h.ownerOf(key); got == "c" || got == "" {
			t.Errorf("c is dead, and %q has it", got)
		}
		h.revive("c")
		time.Sleep(30 * time.Second)
		if got := h.ownerOf(key); got != "c" {
			t.Errorf("c lives again, and %q has it", got)
		}
	})
}

func TestAssignmentEndsWhenTheKeyIsReleasedOrGivenToAnother(t *testing.T) {
	handed(t, 6, func(h *house) {
		a, key := h.nodes["a"], h.elsewhere("c")
		h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "c"}))
		time.Sleep(5 * time.Second)
		h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "b"}))
		time.Sleep(5 * time.Second)
		if got := h.ownerOf(key); got != "b" {
			t.Errorf("given to b after c, %q has it", got)
		}
		h.must(a.GiveBack(h.t.Context(), "key", key))
		time.Sleep(5 * time.Second)
		if got := h.ownerOf(key); got == "b" || got == "" || len(a.Cluster().Pins) > 0 {
			t.Errorf("released by b, %q has it; %v", got, a.Cluster().Pins)
		}
	})
}

func TestAssignmentIsRefusedWithItsReason(t *testing.T) {
	handed(t, 9, func(h *house) { // N = 1 + 9/2 = 5
		a := h.nodes["a"]
		for i := range 2 { // it owns 3
			h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: h.elsewhere("b"), Node: "b"}))
			time.Sleep(5 * time.Second)
			if n := h.owned()["b"]; n < 3 {
				t.Fatalf("after %d: %v", i, h.owned())
			}
		}
		for _, key := range h.keys { // all of b's own: 5 in the end
			if n := h.owned()["b"]; n < 5 && h.ownerOf(key) != "b" {
				for _, own := range h.keys {
					if h.ownerOf(own) == "b" {
						h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: own, Node: "b"}))
					}
				}
				h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "b"}))
				time.Sleep(5 * time.Second)
			}
		}
		key := h.elsewhere("b")
		h.must(a.Drain(h.t.Context(), "c", "ada", true))
		time.Sleep(5 * time.Second)
		h.must(a.Undrain(h.t.Context(), "c"))
		time.Sleep(3 * time.Second)
		err := a.Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "b"})
		refused := (*RefusedError)(nil)
		if !errors.As(err, &refused) || !refused.Forcible || !strings.Contains(err.Error(),
			"it owns 5 keys, and 5 is what it may own") {
			t.Errorf("above its cap: %v", err)
		}
		h.must(a.Assign(h.t.Context(), Assignment{Kind: "key", Key: key, Node: "b", Force: true}))
		time.Sleep(5 * time.Second)
		if got := h.ownerOf(key); got != "b" {
			t.Errorf("forced, and %q has it", got)
		}
		h.must(a.Drain(h.t.Context(), "c", "ada", true))
		h.kill("b")
		time.Sleep(15 * time.Second)
		for what, c := range map[string]struct{ key, node, want string }{
			"a drained node": {key, "c", "it is draining"},
			"a dead node":    {key, "b", "it is offline"},
		} {
			err := a.Assign(h.t.Context(), Assignment{Kind: "key", Key: c.key, Node: c.node})
			if !errors.As(err, &refused) || refused.Reason != c.want {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, c := range map[string][2]string{"no node": {key, "x"}, "no key": {"x", "a"}} {
			err := a.Assign(h.t.Context(), Assignment{Kind: "key", Key: c[0], Node: c[1]})
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestRebalanceIsTheClustersAndChangesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(12)
		h.startOne("a", func(c *Config) { c.Limits.Rebalance = balance.RebalanceManual })
		time.Sleep(5 * time.Second)
		h.start("b", "c") // whose own setting is another
		time.Sleep(3 * time.Minute)
		if got := h.owned(); got["a"] != 7 { // N = 1 + 12/2: only what is above it was given back
			t.Errorf("by hand: %v", got)
		}
		if got := h.nodes["c"].Cluster().Rebalance; got != "manual" {
			t.Errorf("c says %q", got)
		}
		h.must(h.nodes["b"].SetRebalance(h.t.Context(), "auto"))
		time.Sleep(3 * time.Minute)
		h.want("by itself", map[string]int{"a": 4, "b": 4, "c": 4})
		if err := h.nodes["b"].SetRebalance(h.t.Context(), "never"); err == nil {
			t.Error("never was taken")
		}
		h.must(h.nodes["c"].SetRebalance(h.t.Context(), "manual"))
		h.end(h.nodes["a"])
		time.Sleep(time.Minute)
		h.startOne("a") // auto, by its own setting: the cluster's holds
		time.Sleep(3 * time.Minute)
		if got := h.owned(); got["a"] != 0 {
			t.Errorf("by hand again: %v", got)
		}
	})
}

// What a node was told to finish, and did not before it works again, goes on under the same claim.
func TestDrainThatIsBrokenOffKeepsTheRest(t *testing.T) {
	handed(t, 9, func(h *house) {
		c := h.nodes["c"]
		tokens := func() map[string]int64 {
			c.Scheduler.mu.Lock()
			defer c.Scheduler.mu.Unlock()
			got := map[string]int64{}
			for name, p := range c.posts {
				got[name] = p.row.Token
			}
			return got
		}
		before := tokens()
		h.mu.Lock()
		h.work = 6 * time.Second // as what a schedule or a group is at
		h.mu.Unlock()
		h.must(c.Drain(h.t.Context(), "c", "ada", false))
		time.Sleep(2500 * time.Millisecond)
		h.must(c.Undrain(h.t.Context(), "c"))
		time.Sleep(10 * time.Second)
		if after := tokens(); !maps.Equal(before, after) || h.owned()["c"] != 3 {
			t.Errorf("it had %v, and has %v; %v look after keys", before, after, h.owned())
		}
		h.wantNothingUnowned("broken off")
	})
}

func TestNodeShedsSoManyAndNoMoreThanOthersMayOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		h.add(12)
		h.start("a", "b", "c")
		time.Sleep(3 * time.Minute) // 4 each; N = 1 + 12/2 = 7
		a := h.nodes["a"]
		h.must(a.SetRebalance(h.t.Context(), "manual"))
		time.Sleep(3 * time.Second)
		before := h.owned()["b"]
		keys, err := a.Shed(h.t.Context(), Shedding{Node: "b", Count: 2})
		time.Sleep(10 * time.Second)
		if err != nil || len(keys) != 2 || h.owned()["b"] != before-2 {
			t.Errorf("%v, %v: %v", keys, err, h.owned())
		}
		for _, key := range keys {
			if got := h.ownerOf(strings.TrimPrefix(key, "key/")); got == "b" || got == "" {
				t.Errorf("%q has %s", got, key)
			}
		}
		time.Sleep(3 * time.Minute)
		if got := h.owned()["b"]; got != before-2 {
			t.Errorf("by hand it has %d again", got)
		}
		h.end(h.nodes["c"])
		time.Sleep(15 * time.Second) // S = 2, N = 13: all the room there is
		_, err = a.Shed(h.t.Context(), Shedding{Node: "b", Count: 100})
		if err != nil {
			t.Errorf("more than it has: %v", err)
		}
		time.Sleep(10 * time.Second)
		if got := h.owned(); got["b"] != 0 || got["a"] != 12 {
			t.Errorf("all of them: %v", got)
		}
		h.end(h.nodes["b"])
		time.Sleep(5 * time.Second)
		refused := (*RefusedError)(nil)
		_, err = a.Shed(h.t.Context(), Shedding{Node: "a", Count: 1})
		if !errors.As(err, &refused) ||
			!refused.Forcible || !strings.Contains(err.Error(), "may own 0 more keys, and not 1") {
			t.Errorf("there is nobody else: %v", err)
		}
		if _, err = a.Shed(h.t.Context(), Shedding{Node: "x", Count: 1}); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("no such node: %v", err)
		}
	})
}

func TestSheddingTakesSoManyOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, Config{})
		other := newHouse(t, Config{})
		other.add(6)
		h.kinds = func(node string) []Kind {
			look := func(ctx context.Context, _ Claim) { <-ctx.Done() }
			return []Kind{{Name: "other", Keys: other.list, Look: look}}
		}
		h.add(6)
		h.start("a", "b")
		time.Sleep(3 * time.Minute)
		h.must(h.nodes["a"].SetRebalance(h.t.Context(), "manual"))
		time.Sleep(3 * time.Second)
		kinds := func(keys []string) map[string]int {
			n := map[string]int{}
			for _, key := range keys {
				kind, _, _ := strings.Cut(key, "/")
				n[kind]++
			}
			return n
		}
		keys, err := h.nodes["a"].Shed(h.t.Context(), Shedding{Node: "b", Count: 2, Each: true})
		if got := kinds(keys); err != nil || got["key"] > 2 || got["other"] > 2 || len(keys) < 3 {
			t.Errorf("of each kind: %v, %v", keys, err)
		}
		time.Sleep(10 * time.Second)
		keys, err = h.nodes["a"].Shed(h.t.Context(), Shedding{Node: "a", Count: 3, Kind: "other"})
		if got := kinds(keys); err != nil || got["key"] != 0 || got["other"] != 3 {
			t.Errorf("of one kind: %v, %v", keys, err)
		}
	})
}

func TestNodesThatAreGoneAreShownForADayWithTheTime(t *testing.T) {
	handed(t, 3, func(h *house) {
		const lease = 10 * time.Second
		start := time.Now()
		h.kill("b")
		time.Sleep(20 * time.Second)
		h.end(h.nodes["c"])
		left := time.Now()
		time.Sleep(20 * time.Second)
		look := func() string {
			var told []string
			for _, m := range h.nodes["a"].Cluster().Nodes {
				text := fmt.Sprintf("%s %s", m.Name, m.State)
				if m.Down != 0 {
					text += " joined " + fmt.Sprint(m.Joined > 0)
				}
				told = append(told, text)
			}
			return strings.Join(told, ", ")
		}
		if got := look(); got != "a working, b offline joined true, c left joined true" {
			t.Error(got)
		}
		for _, m := range h.nodes["a"].Cluster().Nodes {
			down := time.UnixMicro(m.Down)
			late := map[string]time.Duration{
				"b": down.Sub(start.Add(lease)), "c": down.Sub(left),
			}[m.Name]
			if m.Down != 0 && (late < -2*time.Second || late > 3*time.Second) {
				t.Errorf("%s is down since %v", m.Name, down)
			}
		}
		h.end(h.nodes["a"])
		h.startOne("a") // all nodes are other processes now
		time.Sleep(20 * time.Second)
		if got := look(); got != "a working, b offline joined true, c left joined true" {
			t.Errorf("after a restart: %s", got)
		}
		h.startOne("c")
		time.Sleep(5 * time.Second)
		if got := look(); got != "a working, b offline joined true, c working" {
			t.Errorf("c is back: %s", got)
		}
		h.end(h.nodes["c"])
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		h.ahead += 25 * time.Hour
		h.mu.Unlock()
		time.Sleep(time.Minute)
		if got := look(); got != "a working" {
			t.Errorf("a day later: %s", got)
		}
	})
}
