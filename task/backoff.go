package task

import (
	"math"
	"time"
)

// Backoff is how long a queue waits between attempts. The zero value waits nothing.
type Backoff struct {
	Initial time.Duration // before the second attempt
	Max     time.Duration // no delay is longer, jitter aside
	Factor  float64       // from one delay to the next; 1 = a fixed interval
	Jitter  float64       // share of the delay, 0 to 1, by which it may be longer or shorter
}

// Delay is the wait after the failed attempt number attempt (from 1). Jitter is spread by seed, a
// hash of stored identities (see [ID.Seed]), so the same history always waits the same times.
func (r Backoff) Delay(attempt int, seed uint64) time.Duration {
	if r.Initial <= 0 {
		return 0
	}
	d := max(r.Max, 0)
	if grown := float64(r.Initial) * math.Pow(
		math.Max(r.Factor, 1), float64(max(attempt, 1)-1),
	); grown < float64(d) {
		d = time.Duration(grown)
	}
	if !(r.Jitter > 0) { // not a number included
		return d
	}
	spread := float64(d) * (1 + min(r.Jitter, 1)*(2*unit(seed)-1))
	if spread >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(spread)
}

// unit maps a hash to [0, 1).
func unit(seed uint64) float64 { return float64(mix(seed)>>11) / (1 << 53) }

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every
// output bit.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Seed is the hash that spreads what concerns hand-out seq of the task.
func (id ID) Seed(seq int32) uint64 {
	return mix(mix(uint64(id.Batch))^uint64(uint32(id.N))<<32) ^ uint64(uint32(seq))
}
