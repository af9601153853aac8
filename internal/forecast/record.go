package forecast

import "math"

// recentMinutes is of how many minutes what is called the present is the mean.
const recentMinutes = 10

// Record is what is known of a queue's last hour.
type Record struct {
	// in each full minute since anything came, at least ten; the last is the newest
	Arrived []float64
	// as long as Arrived: in each of these minutes, the mean of the seconds that those that began
	// had waited, and how many slots took the queue's tasks at the least; below 0 = not known
	Waited, Slots []float64
	// as long as Arrived: in each of these minutes, the attempts that ended, but for those that
	// were lost; nil = not known
	Left []float64

	Runs   float64 // attempts that ended in it, the present minute included
	Mean   float64 // seconds that one ran
	Second float64 // the mean of the squares of that
}

// perMinute is how many arrived in a minute lately.
func (r *Record) perMinute() float64 {
	some := lately(r.Arrived)
	return sum(some) / float64(max(len(some), 1))
}

// lately are the last minutes of a list.
func lately(list []float64) []float64 { return list[max(len(list)-recentMinutes, 0):] }

func sum(list []float64) (all float64) {
	for _, x := range list {
		all += x
	}
	return all
}

// dispersion is the variance of the counts of minutes over their mean, and at least 1: nothing is
// taken to be steadier than chance. Each minute is held against the middle one of three, itself and
// its neighbours, so that a rate that rises, falls or jumps is not taken for bursts. No burst has
// more tasks than the fullest minute.
func dispersion(counts []float64) float64 {
	// the mean square of x less the median of it and two others like it, for a normal distribution
	// of variance 1: 1 - 2/3 + 0.449
	const expected = 0.782
	mean, most, squares := sum(counts)/float64(max(len(counts), 1)), 0.0, 0.0
	for i, n := range counts {
		most = max(most, n)
		if i > 0 && i < len(counts)-1 {
			d := n - middleOf(counts[i-1], n, counts[i+1])
			squares += d * d
		}
	}
	if mean == 0 || len(counts) < 3 {
		return 1
	}
	d := squares / expected / float64(len(counts)-2) / mean
	return math.Max(1, math.Min(d, most))
}

// middleOf is the median of three.
func middleOf(a, b, c float64) float64 {
	return math.Max(math.Min(a, b), math.Min(math.Max(a, b), c))
}

// calm is the share of its slots that a minute's work takes at most if what waits in it is to say
// something of bursts.
const calm = 0.8

// bursts is how large bursts must be that explain how long tasks waited while there was room for
// all of them: in minutes that had slots enough, tasks that wait do so for others that came at the
// same moment. It sees what the counts of minutes do not show, as tasks that come at each full
// minute. 1 = nothing has to be explained.
func (r *Record) bursts() float64 {
	weight, tasks := 0.0, 0.0
	for i, n := range r.Arrived {
		c := r.Slots[i]
		if n == 0 || c <= 0 || r.Waited[i] < 0 || n*r.Mean > calm*60*c {
			continue
		}
		b := 1.0
		luck := chanceOf(c, n*r.Mean/60, r.Second/r.Mean, 1, r.Mean)
		byChance := luck.delayed * luck.mean
		if waited := r.Waited[i]; waited > 3*byChance+r.Mean/10/c {
			// the last one of a burst waits (b - 1 - free) mean / c, the first ones do not
			b = math.Max(math.Min(1+c-n*r.Mean/60+2*(waited-byChance)*c/r.Mean, n), 1)
		}
		weight, tasks = weight+n*b, tasks+n
	}
	if tasks == 0 {
		return 1
	}
	return weight / tasks
}
