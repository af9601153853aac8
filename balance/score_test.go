package balance

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func ExampleBusyness_Score() {
	b := Busyness{CPU: Part{1.5, 2}, Executors: Part{3, 12}, Memory: Part{1 << 30, 4 << 30}}
	fmt.Println(b.Score(), Wait(b.Score()))
	// Output: 57 570ms
}

func TestScore(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		name string
		busy Busyness
		want float64
		wait time.Duration
	}{
		{"idle", Busyness{Part{0, 2}, Part{0, 8}, Part{0, 1 << 30}}, 0, 0},
		{"busy", Busyness{Part{2, 2}, Part{8, 8}, Part{1 << 30, 1 << 30}}, 100, time.Second},
		{"CPU alone", Busyness{Part{2, 2}, Part{0, 8}, Part{0, 9}}, 64, 640 * time.Millisecond},
		{"executors alone", Busyness{Part{0, 2}, Part{8, 8}, Part{0, 9}}, 32,
			320 * time.Millisecond},
		{"memory alone", Busyness{Part{0, 2}, Part{0, 8}, Part{9, 9}}, 4, 40 * time.Millisecond},
		{"executors weigh the same whatever their number", Busyness{Executors: Part{50, 100}}, 16,
			160 * time.Millisecond},
		{"of two executors", Busyness{Executors: Part{1, 2}}, 16, 160 * time.Millisecond},
		{"two decimals", Busyness{CPU: Part{1, 3}}, 21.33, 213300 * time.Microsecond},
		{"rounded up", Busyness{CPU: Part{2, 3}}, 42.67, 426700 * time.Microsecond},
		{"nothing measured", Busyness{}, 0, 0},
		{"no executors", Busyness{CPU: Part{1, 1}, Executors: Part{0, 0}}, 64,
			640 * time.Millisecond},
		{"above its maximum", Busyness{CPU: Part{9, 2}, Executors: Part{inf, 8}}, 96,
			960 * time.Millisecond},
		{"below nothing", Busyness{CPU: Part{-9, 2}, Executors: Part{-inf, 8}}, 0, 0},
		{"what cannot be told is busy", Busyness{Part{nan, 2}, Part{1, nan}, Part{1, -1}}, 100,
			time.Second},
		{"infinite of infinite", Busyness{CPU: Part{inf, inf}, Memory: Part{1, inf}}, 64,
			640 * time.Millisecond},
	} {
		got := test.busy.Score()
		if got != test.want {
			t.Errorf("%s: score %v, want %v", test.name, got, test.want)
		}
		if wait := Wait(got); wait != test.wait {
			t.Errorf("%s: waits %v, want %v", test.name, wait, test.wait)
		}
	}
}

func TestWaitIsBounded(t *testing.T) {
	for score, want := range map[float64]time.Duration{
		0.01: 100 * time.Microsecond, 99.99: 999900 * time.Microsecond, 100: time.Second,
		100.01: time.Second, 1e300: time.Second, -1: 0, math.Inf(-1): 0,
		math.Inf(1): time.Second,
	} {
		if got := Wait(score); got != want {
			t.Errorf("Wait(%v) = %v, want %v", score, got, want)
		}
	}
	if got := Wait(math.NaN()); got != time.Second {
		t.Errorf("Wait(NaN) = %v", got)
	}
}

// FuzzScore: the score is in range, has two decimals, and never falls when more is in use.
func FuzzScore(f *testing.F) {
	f.Add(1.5, 2.0, 3.0, 12.0, 1.0, 4.0, 0.5)
	f.Add(math.NaN(), math.Inf(1), 0.0, 0.0, -1.0, -1.0, 0.0)
	f.Fuzz(func(t *testing.T, cpu, cpus, busy, executors, memory, limit, more float64) {
		b := Busyness{Part{cpu, cpus}, Part{busy, executors}, Part{memory, limit}}
		score := b.Score()
		if !(score >= 0 && score <= 100) || math.Round(score*100)/100 != score {
			t.Fatalf("%+v scores %v", b, score)
		}
		if wait := Wait(score); wait < 0 || wait > MaxWait {
			t.Fatalf("waits %v", wait)
		}
		if more > 0 {
			if b.CPU.Used += more; b.Score() < score {
				t.Fatalf("%v more, and the score falls from %v to %v", more, score, b.Score())
			}
		}
	})
}
