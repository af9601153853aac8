package pool

import (
	"fmt"
	"time"
)

// View is a pool at one moment.
type View struct {
	Runners []RunnerView // by number
	Waiting int          // callers that wait for room
	Closed  bool
}

// RunnerView is one runner at one moment.
type RunnerView struct {
	State   State
	Weight  float64
	Running int     // functions given to it that have not returned
	Left    int     // of these: those whose callers have gone, since the time was over
	Load    float64 // of those running
	Picks   uint64  // functions given to it in its life

	Faults int       // in a row
	Fault  error     // the last of them; nil when there is none
	Until  time.Time // when they end to speak against it; zero when they don't
}

// State says whether a runner is given functions.
type State uint8

const (
	Open State = iota // it has room
	Full              // it has as many functions, or as much load, as it takes at a time
	// functions whose time was over have not returned: nothing more until they do
	Stuck
	Ejected // too many faults in a row: nothing until View.Until
	Probing // it was ejected, and is given one function at a time until one succeeds
)

var states = [...]string{
	Open: "open", Full: "full", Stuck: "stuck", Ejected: "ejected", Probing: "probing",
}

func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Reason says in words what speaks against the runner; "" when nothing does.
func (v RunnerView) Reason() string {
	switch {
	case v.State == Stuck:
		return fmt.Sprintf("%d functions have not returned though their time is over", v.Left)
	case v.State == Full:
		return fmt.Sprintf("runs %d functions of load %v", v.Running, v.Load)
	case v.Faults == 0:
		return ""
	}
	reason := fmt.Sprintf("%d faults in a row, the last: %v", v.Faults, v.Fault)
	if !v.Until.IsZero() {
		reason += ", until " + v.Until.Format(time.TimeOnly)
	}
	return reason
}

// View looks at all runners. O(n), under the pool's lock.
func (p *Pool[R]) View() View {
	p.lock()
	defer p.mu.Unlock()
	v := View{Runners: make([]RunnerView, len(p.all)), Waiting: p.waiting.Len(), Closed: p.closed}
	for i, at := range p.all {
		v.Runners[i] = RunnerView{
			State: p.state(at), Weight: at.weight, Running: at.running, Left: at.left,
			Load: at.load, Picks: at.picks,
			Faults: at.faults, Fault: at.fault, Until: at.until,
		}
	}
	return v
}

func (p *places) state(at *place) State {
	switch takes := p.takes(at); {
	case at.left > 0:
		return Stuck
	case takes == 0:
		return Ejected
	case takes < at.slots:
		return Probing
	case at.running >= takes, at.load >= at.capacity:
		return Full
	}
	return Open
}
