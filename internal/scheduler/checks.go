package scheduler

import (
	"context"
	"sync"
)

// strikes is how often in a row a node must be missed by an observer before that counts.
const strikes = 3

// probes are the checks that this node makes of the others, and what they say of it.
type probes struct {
	*core
	checks checks // owned by the round
}

// checks is what this node has found of the others.
type checks struct {
	misses  map[string]int // by start of a node: misses in a row
	suspect bool

	unreached bool // by the others, as the log knows
}

// probe asks every other node that is not known to be dead whether it serves, all at the same time.
// What it finds goes into this node's membership, where all read it with the next beat.
func (p *probes) probe(ctx context.Context, v *view) {
	if p.conf.Peers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.conf.Beat/2)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	reached := map[string]bool{}
	for _, m := range v.members {
		if m.Name == p.conf.Name || m.Address == "" || m.State == Offline {
			continue
		}
		group.Go(func() {
			err := p.conf.Peers.Probe(ctx, m.Name, m.Address)
			mu.Lock()
			defer mu.Unlock()
			reached[m.holder] = err == nil
		})
	}
	group.Wait()
	p.checks = p.checks.after(reached)
}

// after is what is known when this round's answers are. A node that reaches fewer than half of the
// others has a trouble of its own: it records nothing of them.
func (c checks) after(reached map[string]bool) checks {
	yes := 0
	for _, ok := range reached {
		if ok {
			yes++
		}
	}
	if 2*yes < len(reached) {
		return checks{suspect: true, unreached: c.unreached}
	}
	next := checks{misses: map[string]int{}, unreached: c.unreached}
	for start, ok := range reached {
		if !ok {
			next.misses[start] = min(c.misses[start]+1, 1000)
		}
	}
	return next
}

// unreachable tells whether a majority of the other fit nodes missed a node, each three times in a
// row. One who suspects itself is not fit to say, and nobody is convicted by a single other: of two
// nodes nobody knows which one has the trouble.
func unreachable(m *Member, all []*Member) bool {
	fit, missed := 0, 0
	for _, o := range all {
		if o.Name == m.Name || o.Suspect || o.State == Offline {
			continue
		}
		fit++
		if o.Misses[m.holder] >= strikes {
			missed++
		}
	}
	return 2*missed > fit && missed > 1
}

// unreached says so in the log, once, when the others can't reach this node, and when they can
// again.
func (p *probes) unreached(v *view) {
	m := v.find(p.conf.Name)
	switch is := m != nil && m.State == Unreachable; {
	case is && !p.checks.unreached:
		p.conf.Log.Warn("the other nodes can't reach this one: it gets no keys, and nothing is forwarded to it",
			"address", p.conf.Address, "mend",
			"see that they can connect to it, or advertise another address")
		p.checks.unreached = true
	case !is && p.checks.unreached:
		p.conf.Log.Info("the other nodes reach this one again", "address", p.conf.Address)
		p.checks.unreached = false
	}
}

// strikesOf are the observers that miss a node.
func strikesOf(m *Member, all []*Member) map[string]int {
	found := map[string]int{}
	for _, o := range all {
		if n := o.Misses[m.holder]; n > 0 && o.Name != m.Name {
			found[o.Name] = n
		}
	}
	return found
}
