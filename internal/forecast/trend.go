package forecast

import (
	"math"

	"github.com/rotahq/rota/place"
)

// Trend is the demand of groups as a node saw it, once a minute for an hour. No store keeps it: a
// node that has just begun knows none. Not for concurrent use.
type Trend struct{ by map[string]*samples }

// samples are what was seen in the last minutes, by the minute modulo their number.
type samples [Window]struct {
	minute int64
	demand float64
}

// NewTrend has seen nothing.
func NewTrend() *Trend { return &Trend{by: map[string]*samples{}} }

// Saw notes the demand of all groups at a minute since 1970. Groups that are not among them are
// forgotten.
func (t *Trend) Saw(minute int64, demands []place.Demand) {
	seen := make(map[string]*samples, len(demands))
	for i := range demands {
		s := t.by[demands[i].Group]
		if s == nil {
			s = new(samples)
		}
		at := &s[minute%Window]
		at.minute, at.demand = minute, demandOf(&demands[i])
		seen[demands[i].Group] = s
	}
	t.by = seen
}

// demandOf is the load of all replicas, or, where jobs have none, their number.
func demandOf(d *place.Demand) float64 {
	load, replicas := 0.0, 0.0
	for _, z := range d.Sizes {
		load += z.Load.Float() * float64(z.Replicas)
		replicas += float64(z.Jobs * z.Replicas)
	}
	if load == 0 {
		return replicas
	}
	return load
}

// Growth is how a demand grows.
type Growth struct {
	Now       float64
	PerMinute float64 // 0 = it does not, or not steadily
}

// factor is how many times as large the demand is in so many minutes.
func (g Growth) factor(minutes int) float64 {
	if g.PerMinute <= 0 || g.Now <= 0 {
		return 1
	}
	return 1 + g.PerMinute*float64(minutes)/g.Now
}

// What a growth must be like to be told: seen for so many minutes, and a straight line has to
// explain so much of the variance.
const (
	leastSeen     = 20
	leastStraight = 0.8
)

// Growths are those of all groups that grow steadily, at a minute: the straight line through what
// was seen in the last hour, by least squares.
func (t *Trend) Growths(now int64) map[string]Growth {
	growths := map[string]Growth{}
	for group, s := range t.by {
		var n, sx, sy, sxx, sxy, syy float64
		first := now
		for i := range s {
			if at := &s[i]; at.minute > now-Window && at.minute <= now {
				x, y := float64(at.minute-now), at.demand
				n, sx, sy = n+1, sx+x, sy+y
				sxx, sxy, syy = sxx+x*x, sxy+x*y, syy+y*y
				first = min(first, at.minute)
			}
		}
		if now-first < leastSeen || n < leastSeen/2 {
			continue
		}
		vx, vxy, vy := sxx-sx*sx/n, sxy-sx*sy/n, syy-sy*sy/n
		slope := vxy / vx
		if vy <= 0 || slope <= 0 || vxy*vxy/(vx*vy) < leastStraight {
			continue
		}
		growths[group] = Growth{Now: math.Max(sy/n-slope*sx/n, 0), PerMinute: slope}
	}
	return growths
}
