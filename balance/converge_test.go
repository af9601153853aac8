package balance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// These tests play nodes against each other that all decide by Claims, each on its own beat and on
// a view that is stale by the time it acts, while nodes die, pause, join, drain and keys come and
// go. Each law of the package comment is checked from what happened to the leases, not from what
// Claims says of itself.

func TestClaimsConverge(t *testing.T) { rapid.Check(t, claimsConverge) }

func FuzzClaimsConverge(f *testing.F) { f.Fuzz(rapid.MakeFuzz(claimsConverge)) }

func claimsConverge(t *rapid.T) {
	p := newPlay(t)
	events := rapid.IntRange(0, 30).Draw(t, "events")
	for range events {
		p.disturb()
		p.run(rapid.IntRange(0, 8*beat).Draw(t, "ticks until the next event"))
	}
	p.calm()
	p.converges()
}

// play is a world in time. A node looks, and acts on that look up to delay ticks later; it looks
// again a beat after the look before, or when it has acted.
type play struct {
	*world
	t       *rapid.T
	players map[string]*player
	joined  int
	delay   int            // ticks between a look and what is done by it, at most
	due     map[int]func() // what else happens, by tick
	luck    uint64
	errors  int // moves by choice of a node that was not above its share, or by hand its cap
}

type player struct {
	look   int // tick of the next look
	act    int // tick at which plan is applied, if there is one
	plan   *Plan
	worked bool // at the look
	steady int  // the tick since which it has worked and kept its beat
}

func newPlay(t *rapid.T) *play {
	p := &play{
		world: newWorld(Limits{
			Rebalance: rapid.SampledFrom([]Rebalance{RebalanceAuto, RebalanceAuto,
				RebalanceManual}).Draw(t, "rebalance"),
			Claim:   rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "claims per beat"),
			Release: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "releases per beat"),
		}),
		t:       t,
		players: map[string]*player{},
		due:     map[int]func(){},
		delay:   rapid.SampledFrom([]int{0, beat / 2, 2 * beat}).Draw(t, "delay"),
		luck:    rapid.Uint64().Draw(t, "luck"),
	}
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		p.enter()
	}
	p.create(rapid.IntRange(0, 60).Draw(t, "keys"), "")
	return p
}

// upTo is a number from 0 to n.
func (p *play) upTo(n int) int {
	p.luck = mix(p.luck)
	return int(p.luck % uint64(n+1))
}

func (p *play) enter() {
	p.joined++
	n := Node{
		Name:      fmt.Sprintf("node-%d", p.joined),
		Weight:    rapid.SampledFrom([]int{0, 1, 1, 1, 2, 5}).Draw(p.t, "weight"),
		Tolerance: rapid.IntRange(0, 3).Draw(p.t, "n"),
	}
	p.join(n)
	p.players[n.Name] = &player{look: p.now + p.upTo(beat), steady: p.now}
}

// disturb does something that nodes must live with.
func (p *play) disturb() {
	acting := slices.DeleteFunc(p.names(), func(name string) bool { return !p.members[name].acts })
	kind := rapid.SampledFrom([]string{"die", "die", "pause", "join", "drain", "undrain", "create",
		"delete", "lose"}).Draw(p.t, "event")
	if kind == "join" || len(acting) == 0 {
		p.enter()
		return
	}
	name := rapid.SampledFrom(acting).Draw(p.t, "node")
	m, player := p.members[name], p.players[name]
	switch kind {
	case "die": // its keys and its membership end in any order, up to a lease of ten beats later
		m.acts = false
		p.later(p.upTo(10*beat), func() { p.free(name) })
		p.later(p.upTo(11*beat), func() { delete(p.members, name); p.free(name) })
	case "pause": // shorter than its lease; what it had decided before, it does afterwards
		m.acts = false
		p.later(p.upTo(9*beat), func() { m.acts, player.steady = true, p.now })
	case "drain":
		m.Working = false
	case "undrain":
		for _, name := range acting {
			if m := p.members[name]; !m.Working {
				m.Working, p.players[name].steady = true, p.now
			}
		}
	case "create":
		p.create(rapid.IntRange(1, 20).Draw(p.t, "new keys"), "")
	case "delete":
		for _, key := range slices.Sorted(maps.Keys(p.keys))[:len(p.keys)/3] {
			delete(p.keys, key)
		}
	case "lose": // its writes do not reach the store once
		player.plan, player.steady = nil, p.now
	}
}

func (p *play) later(ticks int, f func()) {
	at, before := p.now+1+ticks, func() {}
	if p.due[at] != nil {
		before = p.due[at]
	}
	p.due[at] = func() { before(); f() }
}

func (p *play) run(ticks int) {
	for range ticks {
		p.step()
	}
}

// step is a tick: what is due happens, then nodes act and look in an order that changes, then the
// laws are checked.
func (p *play) step() {
	p.now++
	if f := p.due[p.now]; f != nil {
		delete(p.due, p.now)
		f()
	}
	names := p.names()
	if first := p.upTo(len(names)); first > 0 {
		names = slices.Concat(names[first:], names[:first])
	}
	for _, name := range names {
		if m := p.members[name]; m.acts {
			p.play(m, p.players[name])
		}
	}
	p.check()
}

func (p *play) play(m *member, n *player) {
	if n.plan == nil && p.now >= n.look {
		plan := Claims(p.view(m.Name))
		n.plan, n.worked, n.act, n.look = &plan, m.Working, p.now+p.upTo(p.delay), p.now+beat
	}
	if n.plan != nil && p.now >= n.act {
		p.errors += p.moved(m.Name, n)
		n.plan = nil
	}
}

// moved applies a plan and counts what it moved by choice below the node's share.
func (p *play) moved(name string, n *player) (errors int) {
	c, owned := seated(p.view(name)), len(p.owned(name))
	at, working := c.at[name]
	p.apply(name, n.worked, *n.plan)
	if !working || !n.worked {
		return 0
	}
	keep := c.seats[at].share
	if p.limits.Rebalance == RebalanceManual {
		keep = c.seats[at].limit
	}
	return max(min(owned, keep)-len(p.owned(name)), 0)
}

// check looks for a key that was unowned too long while some node worked all the time, and for one
// that moved too often.
func (p *play) check() {
	// three beats, until that is seen, and until it is done
	limit := Orphaned*beat + max(beat, p.delay) + p.delay + 1
	for name, k := range p.keys {
		if k.owner == "" {
			for node, m := range p.members {
				if since := max(
					k.since, p.players[node].steady,
				); m.acts && m.Working && p.now-since > limit {
					p.t.Fatalf("%s is unowned since tick %d, and %s works since %d; now it is %d",
						name, k.since, node, p.players[node].steady, p.now)
				}
			}
		}
		if n := len(p.moves[name]); n > 1 && p.moves[name][n-1]-p.moves[name][n-2] < minute {
			p.t.Fatalf("%s moved by choice at ticks %v", name, p.moves[name])
		}
	}
}

// calm ends all disturbance: who was to die is dead and seen dead, and somebody works.
func (p *play) calm() {
	for len(p.due) > 0 {
		p.step()
	}
	for _, m := range p.members {
		if m.acts && m.Working {
			return
		}
	}
	p.enter()
}

// converges lets the world rest, which it must do in bounded time and then for good.
func (p *play) converges() {
	p.run(2*beat + p.delay) // by then all that was decided on an earlier world is done
	p.errors = 0
	p.run(p.bound())
	if n := p.unowned(); n > 0 {
		p.t.Fatalf("%d keys are unowned in the end", n)
	}
	c := seated(p.view(""))
	for _, n := range c.seats {
		switch {
		case p.limits.Rebalance == RebalanceManual && n.owned > n.limit:
			p.t.Fatalf("%s owns %d in the end, its cap is %d", n.Name, n.owned, n.limit)
		case p.limits.Rebalance == RebalanceAuto && n.owned != n.share:
			p.t.Fatalf("%s owns %d in the end, its share is %d", n.Name, n.owned, n.share)
		}
	}
	if p.errors > len(p.members) {
		// a stale view may err about who keeps what is over when shares are rounded down
		p.t.Fatalf("%d needless moves", p.errors)
	}
	before := p.changes
	if p.run(2 * minute); p.changes > before {
		p.t.Fatalf("%d changes of owners after it had come to rest", p.changes-before)
	}
}

// bound is how many ticks it may take to come to rest: a minute until whatever moved by choice may
// move again, then for each round of a busiest node as many keys as it may give back, or the others
// may claim.
func (p *play) bound() int {
	round := max(beat, p.delay) + p.delay
	rate := 4
	for _, limit := range []int{p.limits.Claim, p.limits.Release} {
		if limit > 0 {
			rate = min(rate, limit)
		}
	}
	return minute + (8+2*len(p.keys)/rate)*round
}

// TestJoinersGetTheirPartWithinAMinute: one node has all and others join. Within 60 beats nobody
// owns more than 1.25 times the mean and one, and nothing moves twice.
func TestJoinersGetTheirPartWithinAMinute(t *testing.T) {
	for _, test := range []struct{ keys, nodes int }{{90, 5}, {2000, 2}, {2000, 10}, {2000, 50}} {
		w := newWorld(Limits{})
		for i := range test.nodes {
			w.join(Node{Name: fmt.Sprintf("node-%02d", i)})
		}
		w.create(test.keys, "node-00")
		for range 60 {
			s := w.view("")
			for _, n := range s.Nodes {
				s.Self = n.Name
				w.apply(n.Name, true, Claims(s))
			}
			w.now += beat
		}
		for _, name := range w.names() {
			if owned := len(w.owned(name)); 4*owned*test.nodes > 5*test.keys+4*test.nodes {
				t.Errorf("%d keys on %d nodes: %s owns %d", test.keys, test.nodes, name, owned)
			}
		}
		if w.changes > 2*test.keys || w.refused > 0 {
			t.Errorf("%d keys on %d nodes: %d changes of owners, %d claims in vain", test.keys,
				test.nodes, w.changes, w.refused)
		}
	}
}
