package bucket

import (
	"testing"
	"time"
)

func TestBucketFillsByItsRateUpToItsBurst(t *testing.T) {
	at := time.Unix(1000, 0)
	b := Bucket{Rate: 10, Burst: 100, Left: 20, At: at}
	for _, c := range []struct {
		after time.Duration
		take  float64
		want  float64
	}{
		{0, 0, 20}, {time.Second, 0, 30}, {time.Second, 50, 30}, {3 * time.Second, 0, 0},
		{2 * time.Second, 0, 0}, {time.Hour, 0, 100},
	} {
		if got := b.Look(at.Add(c.after)); got != c.want {
			t.Errorf("after %v: %v, want %v", c.after, got, c.want)
		}
		b.Left -= c.take
	}
}

func TestAfterIsWhenThereIsEnoughOrAllThatThereCanBe(t *testing.T) {
	at := time.Unix(1000, 0)
	for n, want := range map[float64]time.Duration{5: 0, 30: time.Second, 100: 8 * time.Second,
		1e6: 8 * time.Second} {
		b := Bucket{Rate: 10, Burst: 100, Left: 20, At: at}
		if got := b.After(n, at); got != want {
			t.Errorf("%v: %v, want %v", n, got, want)
		}
	}
}
