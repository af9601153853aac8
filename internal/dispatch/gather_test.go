package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// airport is a gather of numbers whose flights take a while each, and the log of what left when.
type airport struct {
	t     *testing.T
	g     gather[int]
	begin time.Time
	left  []string // when and how much
	ways  []time.Duration
}

const usualWay = 10 * time.Millisecond

// newAirport has flights that take so long each, in their order, and then the usual time.
func newAirport(t *testing.T, flights int, ways ...time.Duration) *airport {
	a := &airport{t: t, begin: time.Now(), ways: ways}
	a.g = gather[int]{
		flights: flights, patience: 50 * time.Millisecond, company: 3 * time.Millisecond,
		limit: 10_000, room: 10_000, size: func(n *int) int { return *n },
	}
	a.g.fly = func(load []*int) {
		sum := 0
		for _, n := range load {
			sum += *n
		}
		a.g.mu.Lock()
		a.left = append(a.left, fmt.Sprintf("%v: %d", time.Since(a.begin), sum))
		way := usualWay
		if len(a.ways) > 0 {
			way, a.ways = a.ways[0], a.ways[1:]
		}
		a.g.mu.Unlock()
		time.Sleep(way)
	}
	return a
}

// at adds loads at a time since the beginning.
func (a *airport) at(when time.Duration, loads ...int) {
	a.t.Helper()
	time.Sleep(time.Until(a.begin.Add(when)))
	for _, n := range loads {
		if !a.g.add(&n) {
			a.t.Fatal("refused")
		}
	}
}

// want says when flights left, and with how much.
func (a *airport) want(list ...string) {
	a.t.Helper()
	time.Sleep(time.Second)
	a.g.close()
	if !slices.Equal(a.left, list) {
		a.t.Errorf("flights left at\n%q, want\n%q", a.left, list)
	}
}

const ms = time.Millisecond

// Under load a flight waits a little for company; who comes alone never waits.
func TestFlightAfterACrowdWaitsForCompany(t *testing.T) {
	for name, story := range map[string]func(*airport){
		"for as long as company is worth it": func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 100, 100)
			a.at(11*ms, 50)
			a.at(22*ms, 60)
			a.at(500*ms, 1)
			a.want("0s: 1", "10ms: 200", "23ms: 110", "500ms: 1")
		},
		"until it is as much as the last one": func(a *airport) {
			a.at(0, 100, 100)
			a.at(1*ms, 50)
			a.at(11*ms, 150)
			a.want("0s: 200", "11ms: 200")
		},
		"until there is more than that": func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 100, 100)
			a.at(11*ms, 50)
			a.at(21*ms, 160)
			a.want("0s: 1", "10ms: 200", "21ms: 210")
		},
		"after single ones for a third of that": func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 1, 1, 1, 1, 1, 1, 1, 1)
			a.at(11*ms, 1)
			a.want("0s: 1", "10ms: 8", "21ms: 1")
		},
		"not after one caller, however much it brought": func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 5000)
			a.at(11*ms, 10)
			a.want("0s: 1", "10ms: 5000", "20ms: 10")
		},
		"not after a few callers": func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 1, 1, 1)
			a.at(11*ms, 1)
			a.want("0s: 1", "10ms: 3", "20ms: 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { story(newAirport(t, 1)) })
		})
	}
}

// A flight waits for the one before it, but not for one that is late, as when its transaction waits
// for somebody's lock. Two that are late hold up the others.
func TestSecondFlightLeavesOnlyBesideALateOne(t *testing.T) {
	for name, story := range map[string]struct {
		ways []time.Duration
		tell func(*airport)
	}{
		"one in time": {nil, func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 2)
			a.at(2*ms, 3)
			a.want("0s: 1", "10ms: 5")
		}},
		"what waits when it is late": {[]time.Duration{200 * ms}, func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 2)
			a.want("0s: 1", "50ms: 2")
		}},
		"what comes when it is late": {[]time.Duration{200 * ms}, func(a *airport) {
			a.at(0, 1)
			a.at(100*ms, 2)
			a.at(101*ms, 3)
			a.at(195*ms, 4) // the late one lands, and leaves this to whoever flies
			a.at(199*ms, 5)
			a.want("0s: 1", "100ms: 2", "110ms: 3", "195ms: 4", "205ms: 5")
		}},
		"two late ones": {[]time.Duration{200 * ms, 200 * ms}, func(a *airport) {
			a.at(0, 1)
			a.at(1*ms, 2)
			a.at(60*ms, 3)
			a.at(120*ms, 4)
			a.want("0s: 1", "50ms: 2", "200ms: 7")
		}},
		"and one after the other again": {[]time.Duration{100 * ms}, func(a *airport) {
			a.at(0, 1)
			a.at(95*ms, 2)
			a.at(101*ms, 3)
			a.at(102*ms, 4)
			a.want("0s: 1", "95ms: 2", "105ms: 7")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { story.tell(newAirport(t, 2, story.ways...)) })
		})
	}
}
