package supervise

import "github.com/rotahq/rota/internal/store"

// Change is what a supervisor did with a replica.
type Change string

// What is done with replicas.
const (
	Started Change = "start" // it ran nowhere
	Stopped Change = "stop"
	Moved   Change = "move" // it starts elsewhere, and ends where it runs once it runs there
)

// Why is why a replica is stopped or moved, in one word: a place.Code, or one of those below. What
// is started has none: it runs nowhere.
type Why string

// Why replicas are stopped that no plan stops.
const (
	failed      Why = "failed"   // to where it was to move it failed
	quietRun    Why = "quiet"    // its handler gave no sign, and nobody else has room for it
	outdatedRun Why = "outdated" // its job has another load or spec
	// its successor runs: the end of a move, which was told of when it began
	arrived Why = "arrived"
)

// moved tells of what was written down of a plan, but for what was refused.
func (i *plan) moved(refused []store.Refused, tell func(Change, Why)) {
	not := map[replica]map[string]bool{}
	for _, r := range refused {
		at := replica{r.Job, r.Replica}
		if not[at] == nil {
			not[at] = map[string]bool{}
		}
		not[at][r.Worker] = true
	}
	each := func(change Change, list []store.Place) {
		for _, at := range list {
			if why := i.why[at]; why != arrived && !not[replica{at.Job, at.Replica}][at.Worker] {
				tell(change, why)
			}
		}
	}
	each(Stopped, i.Drop)
	each(Stopped, i.End)
	each(Moved, i.Move)
	each(Started, i.Start)
}
