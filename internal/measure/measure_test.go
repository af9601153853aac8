package measure

import (
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for p, want := range map[int]int{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := Percentile(hundred, p); got != want {
			t.Errorf("percentile(1…100, %d) = %d, want %d", p, got, want)
		}
	}
	if got := Percentile([]int{7}, 99); got != 7 {
		t.Errorf("percentile of one = %d", got)
	}
	if got := Percentile([]int(nil), 50); got != 0 {
		t.Errorf("percentile of none = %d", got)
	}
}
