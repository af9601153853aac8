package keeper

import (
	"math"
	"time"
)

// Rate is how fast something may happen: Count times in Per, and Burst times at once after a rest.
// In any window w it happens at most Burst + w·Count/Per times (and once more, for the window's
// edge). The zero Rate allows everything.
type Rate struct {
	Count int64
	Per   time.Duration
	Burst int64 // 0 = Count
}

// Most of what a Rate may say, so that its arithmetic never overflows.
const (
	MaxCount = 1_000_000
	MaxPer   = 24 * time.Hour
)

func (r *Rate) limits() bool { return r.Count > 0 }

// price is what one time costs: a bucket fills by Count in a microsecond, so numbers stay whole.
func (r *Rate) price() int64 { return r.Per.Microseconds() }

// full is what a bucket holds at most.
func (r *Rate) full() int64 {
	if r.Burst > 0 {
		return r.Burst * r.price()
	}
	return r.Count * r.price()
}

// fills is what comes into a bucket in a time, at most what it holds.
func (r *Rate) fills(passed int64) int64 {
	if passed <= 0 {
		return 0
	}
	if full := r.full(); passed > full/r.Count {
		return full
	}
	return passed * r.Count
}

// bucket is what a Rate has left.
type bucket struct {
	level int64 // so much was in it
	at    int64 // at that time, which only grows: a clock that goes back fills nothing twice
}

// look brings a bucket up to a time, and says what is in it.
func (b *bucket) look(r *Rate, now int64) int64 {
	if now > b.at {
		b.level = min(b.level+r.fills(now-b.at), r.full())
		b.at = now
	}
	return b.level
}

// next is the time at which a bucket has enough for once.
func (b *bucket) next(r *Rate, now int64) int64 {
	missing := r.price() - b.look(r, now)
	if missing <= 0 {
		return now
	}
	return b.at + (missing+r.Count-1)/r.Count
}

// times is for how often there is enough.
func (b *bucket) times(r *Rate, now int64) int {
	return int(min(b.look(r, now)/r.price(), math.MaxInt32))
}
