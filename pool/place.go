package pool

import (
	"time"

	"github.com/rotahq/rota/balance"
)

// place is what the pool knows of one runner. All that changes is guarded by places.mu.
type place struct {
	number   int
	weight   float64
	slots    int     // functions that it takes at a time
	capacity float64 // load that it takes at a time
	ranked   *balance.Member[*place]

	able    bool    // it is neither stuck nor ejected; counted in places.able
	open    bool    // it may be given one more function; counted in places.room
	claimed bool    // a call that needs several places has it already
	running int     // functions given to it that have not returned
	left    int     // of these: those whose callers have gone
	load    float64 // of those running; exactly 0 when there are none
	given   float64 // load of all time by weight
	picks   uint64
	turn    uint64 // of the last pick, among the picks of all places

	faults  int         // in a row
	fault   error       // the last of them
	penalty float64     // load of faulty functions that still counts
	until   time.Time   // how long; zero when no fault speaks against it any more
	timer   *time.Timer // calls forgive then; nil before the first fault
}

// has says whether there is room for a function of this load.
func (at *place) has(load float64) bool { return at.open && at.load+load <= at.capacity }

// order is where the place stands among the open ones, the smallest first.
func (at *place) order(c Choice) float64 {
	if c == Weighted {
		return at.given + at.penalty/at.weight
	}
	return (at.load + at.penalty) / at.weight
}

// before compares what choices that look at single places need.
func (at *place) before(other *place, c Choice) bool {
	a, b := at.order(c), other.order(c)
	return a < b || a == b && at.turn < other.turn
}

// suspect says whether it had so many faults in a row that it is to be ejected; counted in
// places.suspects.
func (p *places) suspect(at *place) bool { return at.faults >= p.conf.Eject }

// systemic says whether more than half of the runners are suspects: then the fault is not theirs,
// and none is ejected.
func (p *places) systemic() bool { return 2*p.suspects > len(p.all) }

// takes is how many functions may run there as things stand.
func (p *places) takes(at *place) int {
	switch {
	case at.left > 0:
		return 0
	case !p.suspect(at) || p.systemic():
		return at.slots
	case at.until.IsZero():
		return 1 // a probe
	}
	return 0
}

// blame counts a fault in: to be free again at once because a function failed must not attract
// work.
func (p *places) blame(at *place, load float64, fault error) {
	at.faults++
	at.fault = fault
	if at.faults == p.conf.Eject {
		p.count(+1)
	}
	if p.conf.Penalty < 0 {
		return
	}
	at.penalty += load
	d := p.conf.Penalty << min(at.faults-1, doublings)
	at.until = time.Now().Add(d)
	if at.timer == nil {
		at.timer = time.AfterFunc(d, func() { p.forgive(at) })
	} else {
		at.timer.Reset(d)
	}
}

// count counts suspects. When they become more than half, or no longer are, what that means for
// each begins.
func (p *places) count(change int) {
	before := p.systemic()
	p.suspects += change
	if p.systemic() == before {
		return
	}
	for _, at := range p.all {
		if p.suspect(at) {
			p.rank(at)
		}
	}
}

// forgive ends a penalty whose time is over.
func (p *places) forgive(at *place) {
	p.lock()
	defer p.mu.Unlock()
	if at.until.IsZero() || time.Now().Before(at.until) {
		return // a success came first, or another fault
	}
	p.acquit(at)
	p.rank(at)
	p.serve()
}

// acquit ends a penalty. What an ejected runner missed is not made up for.
func (p *places) acquit(at *place) {
	if first := p.ranking.Min(); p.conf.Choice == Weighted && p.suspect(at) && first.Value.open {
		at.given = max(at.given, first.Value.given)
	}
	at.penalty, at.until = 0, time.Time{}
}

// trust ends all that earlier faults brought: the runner has succeeded.
func (p *places) trust(at *place) {
	p.acquit(at)
	if at.timer != nil {
		at.timer.Stop()
	}
	suspect := p.suspect(at)
	at.faults, at.fault = 0, nil
	if suspect {
		p.count(-1)
	}
}
