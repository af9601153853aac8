package history

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Histogram counts durations in log-spaced buckets: those below 32 µs by the microsecond, above
// 16 to each power of two. So a duration is known to within a 32nd of itself, from microseconds to
// centuries, and histograms of different times, workers and nodes add up to what one would have
// been. (The layout is that of HdrHistogram by Gil Tene, with four significant bits.)
//
// The zero value is empty.
type Histogram struct {
	bars []bar // sorted by bucket, none of them empty
}

type bar struct {
	bucket uint16
	n      int64
}

// subBuckets is how many buckets there are to a power of two.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	// microseconds that a duration counts at most: a time.Duration holds twice as many
	longest = 100 * 365 * 24 * int64(time.Hour/time.Microsecond)
	buckets = (64-subBits-1)*subBuckets + subBuckets // of all microseconds that an int64 holds
)

// bucketOf is the bucket of a number of microseconds.
func bucketOf(micros int64) uint16 {
	shift := max(bits.Len64(uint64(micros))-subBits-1, 0)
	return uint16(shift*subBuckets + int(micros>>shift))
}

// middle is the middle of a bucket, in microseconds.
func middle(bucket uint16) int64 {
	if bucket < 2*subBuckets {
		return int64(bucket)
	}
	shift := int(bucket)/subBuckets - 1
	low := int64(int(bucket)-shift*subBuckets) << shift
	return low + 1<<shift/2
}

// Add counts a duration of so many microseconds. One below zero, which a clock that was put back
// leaves, counts as zero, and one of more than a century as a century.
func (h *Histogram) Add(micros int64) { h.add(bucketOf(min(max(micros, 0), longest)), 1) }

func (h *Histogram) add(bucket uint16, n int64) {
	at := h.search(bucket)
	if at == len(h.bars) || h.bars[at].bucket != bucket {
		h.bars = slices.Insert(h.bars, at, bar{bucket: bucket})
	}
	h.bars[at].n += n
}

// search finds where a bucket stands, or belongs.
func (h *Histogram) search(bucket uint16) int {
	low, high := 0, len(h.bars)
	for low < high {
		if mid := (low + high) / 2; h.bars[mid].bucket < bucket {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// Merge adds what another one counted.
func (h *Histogram) Merge(other *Histogram) {
	mine, theirs := h.bars, other.bars
	switch {
	case len(theirs) == 0:
		return
	case len(mine) == 0:
		h.bars = slices.Clone(theirs)
		return
	}
	both := make([]bar, 0, len(mine)+len(theirs))
	for len(mine) > 0 && len(theirs) > 0 {
		switch a, b := mine[0], theirs[0]; {
		case a.bucket < b.bucket:
			both, mine = append(both, a), mine[1:]
		case b.bucket < a.bucket:
			both, theirs = append(both, b), theirs[1:]
		default:
			both = append(both, bar{a.bucket, a.n + b.n})
			mine, theirs = mine[1:], theirs[1:]
		}
	}
	h.bars = append(append(both, mine...), theirs...)
}

// Count is how many durations were counted.
func (h *Histogram) Count() (n int64) {
	for _, b := range h.bars {
		n += b.n
	}
	return n
}

// Quantile is the duration that a share q of all do not exceed, to within a 32nd of itself; known
// is false when none was counted. q is between 0 and 1.
func (h *Histogram) Quantile(q float64) (d time.Duration, known bool) {
	total := h.Count()
	rank := max(int64(math.Ceil(q*float64(total))), 1)
	for _, b := range h.bars {
		if rank -= b.n; rank <= 0 {
			return time.Duration(middle(b.bucket)) * time.Microsecond, true
		}
	}
	return 0, false
}

// Within is the sum of all durations in seconds, and how many do not exceed each of some bounds,
// which are sorted; both to within a 32nd. (A time.Duration holds the sum of some million.)
func (h *Histogram) Within(bounds []time.Duration) (seconds float64, within []int64) {
	within = make([]int64, len(bounds))
	n, at := int64(0), 0
	for _, b := range h.bars {
		d := middle(b.bucket)
		for ; at < len(bounds) && d > bounds[at].Microseconds(); at++ {
			within[at] = n
		}
		n += b.n
		seconds += float64(d) / 1e6 * float64(b.n)
	}
	for ; at < len(bounds); at++ {
		within[at] = n
	}
	return seconds, within
}

// Moments are how many durations there are, their sum in seconds, and the sum of their squares.
func (h *Histogram) Moments() (n, seconds, squares float64) {
	for _, b := range h.bars {
		d, k := float64(middle(b.bucket))/1e6, float64(b.n)
		n, seconds, squares = n+k, seconds+k*d, squares+k*d*d
	}
	return n, seconds, squares
}

// encode appends the buckets and their counts.
func (h *Histogram) encode(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(len(h.bars)))
	last := uint16(0)
	for _, b := range h.bars {
		to = binary.AppendUvarint(to, uint64(b.bucket-last))
		to = binary.AppendUvarint(to, uint64(b.n))
		last = b.bucket
	}
	return to
}
