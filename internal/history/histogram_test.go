package history

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However long they are, quantiles are those of the durations themselves, to within a 32nd.
func TestQuantilesAreWithinA32nd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(-10, 1<<rapid.IntRange(1, 62).Draw(t, "bits")),
			1, 200).Draw(t, "durations")
		var h Histogram
		for i := range list {
			h.Add(list[i])
			list[i] = min(max(list[i], 0), longest)
		}
		slices.Sort(list)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		want := list[min(max(int(q*float64(len(list))+0.999999999)-1, 0), len(list)-1)]
		got, known := h.Quantile(q)
		if !known || h.Count() != int64(len(list)) {
			t.Fatalf("%v of %d counted %d", known, len(list), h.Count())
		}
		// the rank of a quantile between two of them may be that of either
		near := slices.ContainsFunc(list, func(d int64) bool {
			return d == want && within(got.Microseconds(), d)
		})
		if !near {
			t.Fatalf("quantile %v of %v: %v, want %d µs", q, list, got, want)
		}
	})
}

// The sum and that of the squares are those of the durations, to within what a bucket is wide.
func TestMomentsAreThoseOfTheDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		n, sum, squares := 0.0, 0.0, 0.0
		for _, d := range rapid.SliceOf(rapid.Int64Range(0, 1e10)).Draw(t, "durations") {
			h.Add(d)
			s := float64(d) / 1e6
			n, sum, squares = n+1, sum+s, squares+s*s
		}
		gotN, gotSum, gotSquares := h.Moments()
		if gotN != n || math.Abs(gotSum-sum) > sum/31 || math.Abs(gotSquares-squares) > squares/15 {
			t.Fatalf("%v durations of %v s, squares %v; want %v, %v, %v", gotN, gotSum, gotSquares,
				n, sum, squares)
		}
	})
}

// Whatever the bounds are, each counts those that do not exceed it, to within a 32nd of it.
func TestWithinCountsWhatDoesNotExceedABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Int64Range(0, 1e9)).Draw(t, "durations")
		micros := rapid.SliceOf(rapid.Int64Range(0, 2e9)).Draw(t, "bounds")
		slices.Sort(micros)
		var bounds []time.Duration
		for _, m := range micros {
			bounds = append(bounds, time.Duration(m)*time.Microsecond)
		}
		var h Histogram
		sum := int64(0)
		for _, d := range list {
			h.Add(d)
			sum += d
		}
		got, within := h.Within(bounds)
		if off := int64(got*1e6) - sum; off > sum/32+1 || -off > sum/32+1 {
			t.Fatalf("the sum of %v: %v", list, got)
		}
		for i, m := range micros {
			least, most := int64(0), int64(0)
			for _, d := range list {
				if d+d/32+1 <= m {
					least++
				}
				if d-d/32-1 <= m {
					most++
				}
			}
			if within[i] < least || within[i] > most {
				t.Fatalf("%v within %v: %d, want %d to %d", list, bounds[i], within[i], least, most)
			}
		}
	})
}

// The sum of many long durations is more than a time.Duration holds.
func TestSumsOfMillionsDoNotOverflow(t *testing.T) {
	var h Histogram
	h.Add(time.Hour.Microseconds())
	for range 24 { // 16 million hours
		h.Merge(&h)
	}
	if got, _ := h.Within(nil); got < 1<<24*3600*0.96 || got > 1<<24*3600*1.04 {
		t.Errorf("%d hours are %v s", h.Count(), got)
	}
}

// within tells whether a number is another one to within a 32nd of that.
func within(got, want int64) bool {
	if want < 2*subBuckets {
		return got == want
	}
	return got-want <= want/32+1 && want-got <= want/32+1
}

func TestBucketsCoverEveryDurationOnce(t *testing.T) {
	last := uint16(0)
	for micros := int64(0); micros < 1<<20; micros++ {
		b := bucketOf(micros)
		if b != last && b != last+1 {
			t.Fatalf("%d is in bucket %d, the one before in %d", micros, b, last)
		}
		if !within(middle(b), micros) {
			t.Fatalf("%d is in bucket %d, whose middle is %d", micros, b, middle(b))
		}
		last = b
	}
	if b := bucketOf(1<<63 - 1); b != buckets-1 {
		t.Errorf("the last of all microseconds are in bucket %d of %d", b, buckets)
	}
	var none Histogram
	if _, known := none.Quantile(0.5); known {
		t.Error("half of nothing is known")
	}
}
