// Package bucket is the token bucket: so much at a time, and so much at once. It is pure: time is
// an argument.
package bucket

import "time"

// Bucket fills by Rate a second up to Burst. What is taken the caller subtracts from Left, which
// may get below 0.
type Bucket struct {
	Rate, Burst float64
	Left        float64
	At          time.Time // when Left was true
}

// Look is what is there at a time.
func (b *Bucket) Look(now time.Time) float64 {
	if passed := now.Sub(b.At).Seconds(); passed > 0 {
		b.Left, b.At = min(b.Left+passed*b.Rate, b.Burst), now
	}
	return b.Left
}

// After is how long until there are n, or as many as there can be.
func (b *Bucket) After(n float64, now time.Time) time.Duration {
	if missing := min(n, b.Burst) - b.Look(now); missing > 0 {
		return time.Duration(missing / b.Rate * float64(time.Second))
	}
	return 0
}
