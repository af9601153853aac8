package forecast

import "math"

// chance is how long a task waits by chance, when rates stay as they are: burst·U, U uniform from 0
// to 1, and with probability delayed an exponential time of that mean besides.
type chance struct {
	delayed float64
	mean    float64 // seconds
	burst   float64 // seconds that the last one of a burst waits for the others
}

// fullest is the share of slots in use beyond which chance is not computed: a queue that is as full
// takes hours to come to rest, and what piles up meanwhile is the fluid's part.
const fullest = 0.98

// chanceOf is the chance with c slots of which busy are in use on average. Tasks run for each
// seconds, and come in bursts of so many; spread is the variance of the work that comes over its
// mean, in seconds.
func chanceOf(c, busy, spread, burst, each float64) (w chance) {
	if busy <= 0 {
		return w
	}
	rho := math.Min(busy/c, fullest)
	free := c * (1 - rho)
	w.mean = spread / (2 * free)
	w.burst = math.Max(burst-1-free, 0) * each / c
	at := math.Max(c/burst, 1) // so many bursts run at a time
	w.delayed = erlangC(at, rho*at)
	return w
}

// beyond is the probability that the wait exceeds t seconds.
func (w chance) beyond(t float64) float64 {
	own := 0.0 // by the others of the burst alone
	if t < w.burst {
		own = 1 - t/w.burst
	}
	if w.delayed < 1e-6 {
		return own
	}
	both := math.Exp(-t / w.mean)
	switch {
	case w.burst > 0 && t < w.burst:
		both = 1 - t/w.burst + w.mean/w.burst*(1-math.Exp(-t/w.mean))
	case w.burst > 0:
		// e^(-t/mean) (e^(burst/mean) - 1), without a number that is too large
		both = w.mean / w.burst * (math.Exp((w.burst-t)/w.mean) - math.Exp(-t/w.mean))
	}
	return (1-w.delayed)*own + w.delayed*both
}

// exactly is up to how many slots Erlang's formula is added up term by term.
const exactly = 256

// erlangC is the probability that a task waits when a of c slots are in use on average, and tasks
// come independently of each other.
func erlangC(c, a float64) float64 {
	beta := (1 - a/c) * math.Sqrt(c)
	if beta > 5 { // less than one in a million
		return 0
	}
	if c > exactly {
		normal := math.Erfc(-beta/math.Sqrt2) / 2
		density := math.Exp(-beta*beta/2) / math.Sqrt(2*math.Pi)
		return 1 / (1 + beta*normal/density)
	}
	// between whole numbers of slots it is interpolated
	low := math.Max(math.Floor(c), 1)
	b := 1.0 // Erlang's B
	for k := 1.0; k <= low; k++ {
		b = a * b / (k + a*b)
	}
	p := math.Min(b/(1-math.Min(a/low, 1)*(1-b)), 1)
	if high := low + 1; c > low {
		b = a * b / (high + a*b)
		p += (c - low) * (b/(1-a/high*(1-b)) - p)
	}
	return p
}
